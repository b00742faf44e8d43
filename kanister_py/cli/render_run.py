"""Renderer of XRs, which keeps functions open between renderings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from kanister_py import wiring
from kanister_py.core.blueprints.lint.pipelines import path_in_input
from kanister_py.core.compositions.dry_run import with_newer_versions
from kanister_py.core.compositions.endpoints import BUILTIN, scheme_of
from kanister_py.core.compositions.installed import (
    BUILT_IN_LEFT_OUT,
    built_in_not_listed,
    substitutes_used,
)
from kanister_py.core.compositions.naming import COMPOSITE, uid_of_rendered
from kanister_py.core.compositions.pipeline import PipelineFatal
from kanister_py.core.errors import InvalidDocument
from kanister_py.core.kube.openapi import schema_in, with_defaults
from kanister_py.core.kube.parts import controller_of, labels_of, metadata_of
from kanister_py.core.kube.schema_checks import unknown_fields, violations
from kanister_py.core.notices import Notice
from kanister_py.core.yaml.documents import Document
from kanister_py.executor.manifest_source import ManifestSource
from kanister_py.executor.python_functions import load_python_function
from kanister_py.executor.render_xr import RenderInput, render
from kanister_py.executor.run_pipeline import Engine, PipelineStepFailed, Record
from kanister_py.ports.function_runner import FunctionUnavailable

if TYPE_CHECKING:
    from kanister_py.cli.render_inputs import Inputs
    from kanister_py.core.compositions.dry_run import Rendered
    from kanister_py.core.compositions.messages import Data
    from kanister_py.core.errors import KanisterError
    from kanister_py.executor.response_cache import ResponseCache
    from kanister_py.executor.step_artifacts import StepArtifacts


class Rendering(NamedTuple):
    """Results of all XRs. `records` has the calls of their steps if these were recorded.

    `places` has the file and line of the input that a function refused, or an empty text.
    """

    inputs: Inputs
    results: list[Rendered]
    records: list[list[Record]]
    notices: list[Notice]
    places: list[str]


class Renderer:
    """Renderer that keeps functions open until a rendering uses other ones."""

    def __init__(self) -> None:
        self._functions: wiring.RenderFunctions | None = None
        self._opened_for: Any = None
        self._cache: ResponseCache | None = None
        self._artifacts: StepArtifacts | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._close()

    def _close(self) -> None:
        if self._functions is not None:
            self._functions.close()
            self._functions = None

    def _open(self, inputs: Inputs) -> wiring.RenderFunctions:
        values = (
            None if inputs.functions is None else [function.value for function in inputs.functions]
        )
        functions_key = (values, inputs.function_annotations, inputs.is_strict)
        if self._functions is None or self._opened_for != functions_key:
            self._close()
            self._functions = wiring.open_render_functions(
                inputs.functions, inputs.function_annotations, strict=inputs.is_strict
            )
            self._opened_for = functions_key
        return self._functions

    def render(self, inputs: Inputs, *, keeps_records: bool = False) -> Rendering:
        """Render all XRs, up to `max_concurrency` at a time."""
        functions = self._open(inputs)
        names = [step.function for step in inputs.composition.steps]
        problems = [problem for name, problem in functions.containers if name in names]
        if problems:
            raise InvalidDocument(problems)
        notices = [*inputs.notices]
        notices += [notice for notice in functions.notices if notice.facts.get("function") in names]
        if inputs.functions is None:
            notices += substitutes_used(names)
        else:
            registry = wiring.read_functions().registry
            notices += built_in_not_listed(names, functions.revisions, registry)
        if inputs.cache_folder is not None and self._cache is None:
            self._cache = wiring.response_cache(inputs.cache_folder)
        if self._artifacts is None and any(step.input_ref for step in inputs.composition.steps):
            self._artifacts = wiring.step_artifacts()
        records: list[list[Record]] = [[] for _ in inputs.xrs]

        def render_one(xr: Data, calls: list[Record]) -> Rendered:
            engine = Engine(
                functions.runner,
                functions.revisions,
                source_of(inputs),
                wiring.system_clock(),
                cache=self._cache,
                note=calls.append if keeps_records else None,
                artifacts=self._artifacts,
            )
            return render(_input_of(inputs, xr), engine)

        results = _render_in_parallel(render_one, inputs.xrs, records, inputs.max_concurrency)
        if inputs.schemas:
            results = [_checked(result, inputs) for result in results]
        unreached = set(map(_unreached_function, results))
        notices = [
            notice
            for notice in notices
            if notice.reason != BUILT_IN_LEFT_OUT or notice.facts["function"] in unreached
        ]
        places = [_place_of(result.error, inputs, functions) for result in results]
        return Rendering(inputs, results, records, notices, places)


def _checked(result: Rendered, inputs: Inputs) -> Rendered:
    """Check the composed resources of a result against the given schemas."""
    if result.error is not None:
        return result
    problems, unknown = [], []
    for resource in result.resources:
        obj = resource.object
        schema = schema_in(inputs.schemas, str(obj["apiVersion"]), str(obj["kind"]))
        if schema is not None:
            document = Document.of(obj, f"composed resource {resource.name}")
            problems += violations(document, with_defaults(obj, schema), schema)
            unknown += unknown_fields(document, schema)
    if inputs.validate == "strict":
        problems += unknown
    if problems:
        return result._replace(error=InvalidDocument(problems))
    if inputs.validate == "warn":
        notices = [Notice("UnknownField", str(problem)) for problem in unknown]
        return result._replace(notices=(*result.notices, *notices))
    return result


def _place_of(
    error: KanisterError | None, inputs: Inputs, functions: wiring.RenderFunctions
) -> str:
    """Return the file and line of the input that a built-in function refused, or an empty text."""
    if not isinstance(error, PipelineFatal):
        return ""
    family = functions.revisions.family(error.function)
    endpoint = next(
        (revision.endpoint for revision in family if revision.name == error.revision), ""
    )
    names = [step.name for step in inputs.composition.steps]
    document, index = inputs.composition_document, names.index(error.step)
    node = document.node_at(path_in_input(index, ""))
    if node is None or scheme_of(endpoint) != BUILTIN:
        return ""
    code = load_python_function(endpoint, wiring.read_functions().registry).code
    refusal_of = getattr(code, "refusal_of", None)
    refused = refusal_of(node.value) if refusal_of is not None else None
    if refused is None:
        return ""
    line = document.place_of(path_in_input(index, refused.path)).line
    return f"{document.file}:{line}" if line else ""


def _unreached_function(result: Rendered) -> str | None:
    error = result.error
    if isinstance(error, PipelineStepFailed) and isinstance(error.cause, FunctionUnavailable):
        return error.function
    return None


def source_of(inputs: Inputs) -> ManifestSource:
    """Return the objects, schemas and Secrets that functions may request."""
    objects = (*inputs.xrs, *inputs.observed, *inputs.required)
    return ManifestSource(with_newer_versions(objects), inputs.schemas, inputs.secrets)


def _input_of(inputs: Inputs, xr: Data) -> RenderInput:
    composition = inputs.composition
    steps = tuple(
        step if step.timeout_seconds else step._replace(timeout_seconds=inputs.timeout_seconds)
        for step in composition.steps
    )
    observed = inputs.observed
    if len(inputs.xrs) > 1:
        observed = tuple(resource for resource in observed if _belongs(resource, xr))
    return RenderInput(xr, composition._replace(steps=steps), observed, inputs.xrd, inputs.context)


def _belongs(obj: Data, xr: Data) -> bool:
    """Return whether an observed object belongs to this one of several XRs."""
    owner = controller_of(obj)
    if owner is not None:
        return bool(owner.get("uid") == (metadata_of(xr).get("uid") or uid_of_rendered(xr)))
    labels = labels_of(obj)
    name = metadata_of(xr).get("name")
    return bool(labels.get(COMPOSITE, name) == name)


def _render_in_parallel(
    render_one: Callable[[Data, list[Record]], Rendered],
    xrs: Sequence[Data],
    records: Sequence[list[Record]],
    limit: int,
) -> list[Rendered]:
    if len(xrs) == 1:
        return [render_one(xrs[0], records[0])]
    with ThreadPoolExecutor(min(limit, len(xrs))) as pool:
        return list(pool.map(render_one, xrs, records))

"""Renderer: one XR after the other, with what stays the same between two runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from kanister_py import wiring
from kanister_py.core.compositions.dry_run import with_newer_versions
from kanister_py.core.compositions.endpoints import BUILTIN, scheme_of
from kanister_py.core.compositions.installed import BUILT_IN_LEFT_OUT, substitutes_used
from kanister_py.core.compositions.naming import COMPOSITE, uid_of_rendered
from kanister_py.core.compositions.pipeline import PipelineFatal
from kanister_py.core.errors import InvalidDocument
from kanister_py.core.kube.parts import controller_of, labels_of, metadata_of
from kanister_py.core.notices import Notice
from kanister_py.executor.manifest_source import ManifestSource
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
    """Results of all XRs. `records` has the calls of their steps, if they were to be kept.

    `places` says of each result in which line stands what a function refused, if that is known.
    """

    inputs: Inputs
    results: list[Rendered]
    records: list[list[Record]]
    notices: list[Notice]
    places: list[str]


class Renderer:
    """Renderings whose functions stay open from one to the next, as long as they stay the same."""

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
        values = None if inputs.functions is None else [each.value for each in inputs.functions]
        wanted = (values, inputs.function_annotations, inputs.is_strict)
        if self._functions is None or self._opened_for != wanted:
            self._close()
            self._functions = wiring.open_render_functions(
                inputs.functions, inputs.function_annotations, strict=inputs.is_strict
            )
            self._opened_for = wanted
        return self._functions

    def render(self, inputs: Inputs, *, keeps_records: bool = False) -> Rendering:
        """Render every XR; of several, as many at a time as the inputs allow."""
        functions = self._open(inputs)
        names = [step.function for step in inputs.composition.steps]
        wrong = [problem for name, problem in functions.containers if name in names]
        if wrong:
            raise InvalidDocument(wrong)
        notices = [each for each in functions.notices if each.facts.get("function") in names]
        if inputs.functions is None:
            notices += substitutes_used(names)
        if inputs.cache_folder is not None and self._cache is None:
            self._cache = wiring.response_cache(inputs.cache_folder)
        if self._artifacts is None and any(each.input_ref for each in inputs.composition.steps):
            self._artifacts = wiring.step_artifacts()
        records: list[list[Record]] = [[] for _ in inputs.xrs]

        def one(xr: Data, calls: list[Record]) -> Rendered:
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

        results = _side_by_side(one, inputs.xrs, records, inputs.max_concurrency)
        unreached = set(map(_unreached_function, results))
        notices = [
            each
            for each in notices
            if each.reason != BUILT_IN_LEFT_OUT or each.facts["function"] in unreached
        ]
        places = [_place_of(each.error, inputs, functions) for each in results]
        return Rendering(inputs, results, records, notices, places)


def _place_of(
    error: KanisterError | None, inputs: Inputs, functions: wiring.RenderFunctions
) -> str:
    """Say where the input stands that a built-in function has refused; empty if nobody knows."""
    if not isinstance(error, PipelineFatal):
        return ""
    from kanister_py.core.blueprints.lint.pipelines import path_in_input
    from kanister_py.executor.python_functions import load_python_function

    family = functions.revisions.family(error.function)
    endpoint = next((each.endpoint for each in family if each.name == error.revision), "")
    names = [each.name for each in inputs.composition.steps]
    document, index = inputs.composition_document, names.index(error.step)
    given = document.node_at(path_in_input(index, ""))
    if given is None or scheme_of(endpoint) != BUILTIN:
        return ""
    code = load_python_function(endpoint, wiring.read_functions().registry).code
    refusal_of = getattr(code, "refusal_of", None)
    refused = refusal_of(given.value) if refusal_of is not None else None
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
    """Make what functions ask for findable: what was handed in for that, and what is there."""
    objects = (*inputs.required, *inputs.observed, *inputs.xrs)
    return ManifestSource(with_newer_versions(objects), inputs.schemas, inputs.secrets)


def _input_of(inputs: Inputs, xr: Data) -> RenderInput:
    composition = inputs.composition
    steps = tuple(
        step if step.timeout_seconds else step._replace(timeout_seconds=inputs.timeout_seconds)
        for step in composition.steps
    )
    observed = inputs.observed
    if len(inputs.xrs) > 1:
        observed = tuple(each for each in observed if _belongs(each, xr))
    return RenderInput(xr, composition._replace(steps=steps), observed, inputs.xrd, inputs.context)


def _belongs(obj: Data, xr: Data) -> bool:
    """Say whether, of several XRs, an observed object is this one's."""
    owner = controller_of(obj)
    if owner is not None:
        return bool(owner.get("uid") == (metadata_of(xr).get("uid") or uid_of_rendered(xr)))
    labels = labels_of(obj)
    name = metadata_of(xr).get("name")
    return bool(labels.get(COMPOSITE, name) == name)


def _side_by_side(
    one: Callable[[Data, list[Record]], Rendered],
    xrs: Sequence[Data],
    records: Sequence[list[Record]],
    most: int,
) -> list[Rendered]:
    if len(xrs) == 1:
        return [one(xrs[0], records[0])]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(min(most, len(xrs))) as pool:
        return list(pool.map(one, xrs, records))

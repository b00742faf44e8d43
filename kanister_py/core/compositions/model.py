"""Compositions and the steps of their pipelines, parsed from manifests.

Unknown fields become notices. API servers drop them silently, although a misspelt `when`, for
example, changes the composed resources.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from kanister_py.core.compositions.manifest import (
    DEFAULT_ITERATIONS,
    AllowedResourceSpec,
    CompositionObject,
    CompositionSpec,
    CredentialSpec,
    InputReference,
    ResourceRequirement,
    SchemaRequirement,
    StepSpec,
    selector_in,
)
from kanister_py.core.compositions.messages import Data
from kanister_py.core.compositions.resources_mode import (
    environment_configs_input,
    patch_and_transform_input,
)
from kanister_py.core.compositions.step_inputs import ArtifactRef, InputRef
from kanister_py.core.errors import InvalidDocument, Problem
from kanister_py.core.kube.durations import parse_seconds
from kanister_py.core.kube.objects import LocatedObject
from kanister_py.core.kube.parts import kind_and_version, mapping_of
from kanister_py.core.kube.selectors import LabelSelector
from kanister_py.core.models import UnknownKey, keys_of, read_model, read_partly, unknown_keys
from kanister_py.core.notices import Notice
from kanister_py.core.registry.choose import RevisionRequest
from kanister_py.core.retries import Retry
from kanister_py.core.revisions.identity import (
    COMPOSITION_NAME_LABEL,
)
from kanister_py.core.revisions.package import parse_package_reference
from kanister_py.core.yaml.documents import Document, Path, nearest, shown, text_of_path
from kanister_py.gotemplate.durations import SECOND, format_duration

GROUP = "apiextensions.crossplane.io"
PATCH_AND_TRANSFORM = "function-patch-and-transform"
ENVIRONMENT_CONFIGS = "function-environment-configs"

_NONE: Mapping[str, Any] = MappingProxyType({})


class Credential(NamedTuple):
    """Credential for a step's function: the data of a Secret, or no data if it names none."""

    name: str
    namespace: str = ""
    secret: str = ""


class AllowedResource(NamedTuple):
    """Rule for resources that a step's function may require. Patterns are anchored RE2."""

    api_version: str
    kind: str
    match_name: str | None = None
    match_labels: Mapping[str, str] | None = None
    namespace: str | None = None
    selector: LabelSelector = LabelSelector()
    """Further conditions for labels. A request matches only if it names all these labels."""

    def __str__(self) -> str:
        text = f"{self.kind} of {self.api_version}"
        if self.namespace is not None:
            text += f" in {self.namespace}"
        if self.match_name is not None:
            text += f" named {self.match_name}"
        if self.match_labels is not None:
            pairs = ", ".join(
                f"{key}={self.match_labels[key]}" for key in sorted(self.match_labels)
            )
            text += f" with labels {pairs}"
        if self.selector.requirements:
            text += f" selected by {self.selector}"
        return text


class Step(NamedTuple):
    """One step of a pipeline."""

    name: str
    function: str
    revision: RevisionRequest = RevisionRequest()
    input: Data | None = None
    credentials: tuple[Credential, ...] = ()
    required_resources: Mapping[str, Data] = _NONE
    """Selectors of the resources to include in the function's first call, by requirement name."""
    required_schemas: Mapping[str, Data] = _NONE
    when: str = ""
    timeout_seconds: float = 0.0
    retry: Retry | None = None
    ttl_seconds: float | None = None
    """Time for which a response may be cached; None if the function decides."""
    max_iterations: int = DEFAULT_ITERATIONS
    allowed: tuple[AllowedResource, ...] | None = None
    input_ref: InputRef | ArtifactRef | None = None

    @property
    def settings(self) -> Data:
        """Settings of the step that differ from the defaults."""
        changed: Data = {}
        if self.when:
            changed["when"] = self.when
        if self.timeout_seconds:
            changed["timeout"] = _duration(self.timeout_seconds)
        if self.retry is not None:
            changed["retry"] = self.retry.model_dump(mode="json", exclude_defaults=True)
        if self.ttl_seconds is not None:
            changed["ttl"] = _duration(self.ttl_seconds)
        if self.max_iterations != DEFAULT_ITERATIONS:
            changed["maxIterations"] = self.max_iterations
        return changed


def _duration(seconds: float) -> str:
    return format_duration(round(seconds * SECOND))


class Composition(NamedTuple):
    """The pipeline for a kind of composite resource."""

    name: str
    api_version: str
    kind: str
    steps: tuple[Step, ...]
    labels: Mapping[str, str] = _NONE
    annotations: Mapping[str, str] = _NONE
    connection_secrets_namespace: str = ""
    notices: tuple[Notice, ...] = ()


def parse_composition(document: Document) -> Composition:
    """Parse a Composition or CompositionRevision, or raise `InvalidDocument`."""
    value = document.value
    problems = [document.problem(*problem) for problem in _basic_problems(value)]
    if problems:
        partial = read_partly(CompositionObject, document)
        raise InvalidDocument([*problems, *partial.problems.values()])
    read = read_model(CompositionObject, document)
    return _composition(read, value, tuple(_notices(document)))


def _notices(document: Document) -> Iterator[Notice]:
    for unknown in _unknown_keys(document.value):
        problem = document.problem(unknown.path, f"Unknown field{unknown.suggestion}")
        facts = {"path": text_of_path(unknown.path)}
        yield Notice("UnknownField", str(problem), facts=facts)


def _unknown_keys(value: Any) -> Iterator[UnknownKey]:
    yield from unknown_keys(CompositionObject, value)
    spec = mapping_of(mapping_of(value).get("spec"))
    if _mode_of(spec) == "Pipeline":
        # Fields of the Resources mode have no effect in the Pipeline mode.
        supported = tuple(
            key for key in keys_of(CompositionSpec) if key not in _RESOURCES_MODE_FIELDS
        )
        yield from (
            UnknownKey(("spec", key), supported) for key in _RESOURCES_MODE_FIELDS if key in spec
        )


def is_composition(value: Any) -> bool:
    """Return whether a document is a Composition or a CompositionRevision."""
    if not isinstance(value, dict):
        return False
    api_version = str(value.get("apiVersion"))
    kinds = ("Composition", "CompositionRevision")
    return api_version.startswith(f"{GROUP}/") and value.get("kind") in kinds


def check_schema(located: LocatedObject) -> tuple[list[UnknownKey], list[Problem]]:
    """Return the unknown keys and the problems of a Composition."""
    partial = read_partly(CompositionObject, located.document, located.path)
    problems = [located.problem(*problem) for problem in _basic_problems(located.value)]
    return [*_unknown_keys(located.value)], [*problems, *partial.problems.values()]


_RESOURCES_MODE_FIELDS = ("resources", "patchSets", "environment")


def _mode_of(spec: Mapping[str, Any]) -> str:
    return str(spec.get("mode") or ("Pipeline" if "pipeline" in spec else "Resources"))


def called_functions(spec: Mapping[str, Any]) -> set[str]:
    """Return the names of the functions that a composition calls, implicit ones included."""
    if _mode_of(spec) == "Resources":
        has_environment = environment_configs_input(spec) is not None
        return {PATCH_AND_TRANSFORM, *((ENVIRONMENT_CONFIGS,) if has_environment else ())}
    named = ((step.get("functionRef") or {}).get("name") for step in spec.get("pipeline") or ())
    return {str(name) for name in named if name}


# The two older versions only exist for CompositionRevisions.
_API_VERSIONS = (f"{GROUP}/v1", f"{GROUP}/v1beta1", f"{GROUP}/v1alpha1")


def _basic_problems(value: Any) -> Iterator[tuple[Path, str]]:
    """Yield problems with the kind, API version or mode of a Composition."""
    data = mapping_of(value)
    if not is_composition(data):
        description = kind_and_version(data)
        yield ("kind",), f"Must be a Composition of {GROUP}/v1, found {description}"
    elif data["apiVersion"] not in _API_VERSIONS:
        yield ("apiVersion",), f"Must be {GROUP}/v1, found {data['apiVersion']!r}"
    spec = mapping_of(data.get("spec"))
    mode = _mode_of(spec)
    near = nearest("pipeline", [key for key in spec if key not in keys_of(CompositionSpec)])
    hint = f"; did you mean it by {near[0]}?" if near else ""
    if mode not in ("Pipeline", "Resources"):
        yield ("spec", "mode"), f"Must be Pipeline or Resources, found {shown(mode)}"
    elif mode == "Pipeline" and spec.get("pipeline") is None:
        yield ("spec", "pipeline"), f"Must be given{hint}"
    elif mode == "Resources" and spec.get("resources") is None:
        yield ("spec",), f"Must have a pipeline, or resources{hint}"


# Conversion of the models to the values of a pipeline


def _composition(
    read: CompositionObject, value: Mapping[str, Any], notices: tuple[Notice, ...]
) -> Composition:
    written = {key: part for key, part in value["spec"].items() if part is not None}
    name, labels = read.metadata.name, read.metadata.labels
    if read.kind == "CompositionRevision":
        name = labels.get(COMPOSITION_NAME_LABEL) or name
    target = read.spec.composite_type_ref
    is_resources_mode = _mode_of(written) == "Resources"
    return Composition(
        name,
        target.api_version,
        target.kind,
        _implicit_steps(written)
        if is_resources_mode
        else tuple(map(_step, read.spec.pipeline or ())),
        labels,
        read.metadata.annotations,
        read.spec.write_connection_secrets_to_namespace,
        notices,
    )


def _implicit_steps(spec: Mapping[str, Any]) -> tuple[Step, ...]:
    patching = Step(
        "patch-and-transform", PATCH_AND_TRANSFORM, input=patch_and_transform_input(spec)
    )
    environment = environment_configs_input(spec)
    if environment is None:
        return (patching,)
    return Step("environment-configs", ENVIRONMENT_CONFIGS, input=environment), patching


def _step(spec: StepSpec) -> Step:
    requirements, allowed = spec.requirements, spec.allowed_extra_resources
    return Step(
        spec.step,
        spec.function_ref.name,
        revision=_revision_request(spec),
        input=spec.input,
        credentials=tuple(map(_credential, spec.credentials)),
        required_resources={
            item.requirement_name: _resource_selector(item)
            for item in requirements.required_resources
        },
        required_schemas={
            item.requirement_name: _schema_selector(item) for item in requirements.required_schemas
        },
        when=spec.when,
        timeout_seconds=parse_seconds(spec.timeout) if spec.timeout else 0.0,
        retry=spec.retry,
        ttl_seconds=parse_seconds(spec.ttl) if spec.ttl else None,
        max_iterations=spec.max_iterations,
        allowed=None if allowed is None else tuple(map(_allowed, allowed)),
        input_ref=_input_ref(spec.input_ref),
    )


def _revision_request(spec: StepSpec) -> RevisionRequest:
    named, selector = spec.function_revision_ref, spec.function_revision_selector
    return RevisionRequest(
        named.name if named else "",
        (selector.match_labels or None) if selector else None,
        spec.function_ref.version,
        selector_in(selector.match_expressions) if selector else LabelSelector(),
    )


def _input_ref(spec: InputReference | None) -> InputRef | ArtifactRef | None:
    if spec is None:
        return None
    if spec.config_map_ref is not None:
        return InputRef(**spec.config_map_ref.model_dump())
    assert spec.oci_ref is not None  # or the reference would have been refused
    artifact = spec.oci_ref
    secrets = tuple(secret.name for secret in artifact.package_pull_secrets)
    return ArtifactRef(parse_package_reference(artifact.package), artifact.path, secrets)


def _credential(spec: CredentialSpec) -> Credential:
    if spec.source == "None" or spec.secret_ref is None:
        return Credential(spec.name)
    return Credential(spec.name, spec.secret_ref.namespace, spec.secret_ref.name)


def _schema_selector(spec: SchemaRequirement) -> Data:
    return {"apiVersion": spec.api_version, "kind": spec.kind}


def _resource_selector(spec: ResourceRequirement) -> Data:
    """Return the selector in the form of the protocol."""
    selector = _schema_selector(spec)
    if spec.name:
        selector["matchName"] = spec.name
    elif spec.match_labels:
        selector["matchLabels"] = {"labels": spec.match_labels}
    if spec.namespace:
        selector["namespace"] = spec.namespace
    return selector


def _allowed(spec: AllowedResourceSpec) -> AllowedResource:
    labels = spec.match_labels
    return AllowedResource(
        spec.api_version,
        spec.kind,
        _pattern(spec.name if spec.match_name is None else spec.match_name),
        None if labels is None else {key: _pattern(text) or "" for key, text in labels.items()},
        _pattern(spec.namespace),
        selector_in(spec.match_expressions or ()),
    )


def _pattern(text: str | None) -> str | None:
    return ".*" if text == "*" else text

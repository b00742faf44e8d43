"""Pydantic models of Compositions, as they are written in manifests."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final

import re2
from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from kanister_py.core.errors import InvalidVersion
from kanister_py.core.kube.cel.errors import CelError
from kanister_py.core.kube.cel.expression import compile_cel
from kanister_py.core.kube.durations import InvalidDuration, parse_seconds
from kanister_py.core.kube.objects import Metadata
from kanister_py.core.kube.request_paths import ApiVersionText, KindText, NamespaceText, NameText
from kanister_py.core.kube.selectors import InvalidSelector, LabelSelector, label_selector_of
from kanister_py.core.models import (
    NON_EMPTY,
    ApiModel,
    ClosedModel,
    DurationText,
    Items,
    NonEmptyText,
    TextMap,
    refusal,
)
from kanister_py.core.retries import Retry
from kanister_py.core.revisions.package import InvalidPackageReference, parse_package_reference
from kanister_py.core.versions.semver import parse_request
from kanister_py.core.yaml.documents import shown

DEFAULT_ITERATIONS: Final = 5
MOST_ITERATIONS: Final = 25
MAX_STEPS: Final = 99


# Types of fields


def _check_range(version: str) -> str:
    try:
        if version:
            parse_request(version)
    except InvalidVersion as error:
        raise refusal(error.message) from None
    return version


def _check_duration(text: str) -> str:
    try:
        seconds = parse_seconds(text) if text else 0.0
    except InvalidDuration as error:
        raise refusal(error.message) from None
    if seconds < 0:
        raise refusal(f"Must be a duration of zero or more, found {shown(text)}")
    return text


def _condition_as_text(value: Any) -> Any:
    return ("true" if value else "false") if isinstance(value, bool) else value


def _check_condition(text: str) -> str:
    if not text:
        return text
    try:
        if compile_cel(text).is_never_bool:
            raise refusal(f"Must be an expression that is true or false, found {shown(text)}")
    except CelError as error:
        raise refusal(error.message) from None
    return text


def _check_pattern(text: str) -> str:
    """Check a regular expression. A single star matches anything."""
    options = re2.Options()
    # The error is reported below. Without this option RE2 also logs it to stderr.
    options.log_errors = False
    try:
        re2.compile(".*" if text == "*" else text, options)
    except re2.error as error:
        why = error.args[0].decode() if isinstance(error.args[0], bytes) else error
        raise refusal(f"{text!r} is not a regular expression: {why}") from None
    return text


RangeText = Annotated[str, AfterValidator(_check_range)]
SpanText = Annotated[DurationText, AfterValidator(_check_duration)]
Condition = Annotated[str, BeforeValidator(_condition_as_text), AfterValidator(_check_condition)]
Pattern = Annotated[str, AfterValidator(_check_pattern)]


# Steps


class FunctionReference(ApiModel):
    """Reference to an installed function."""

    name: NonEmptyText = Field(description="Name of the Function.")
    version: RangeText = Field(
        "", description="Version of the function, or a range of versions such as ~0.2."
    )


class RevisionReference(ClosedModel):
    """Reference to one FunctionRevision."""

    name: str = Field("", description="Name of the FunctionRevision.")


class Expression(ClosedModel):
    """One condition on a label."""

    key: str = Field(description="Key of the label.")
    operator: str = Field(
        description="How the label is compared: In, NotIn, Exists or DoesNotExist."
    )
    values: Items[str] = Field((), description="Values for In and NotIn.")


def selector_in(expressions: tuple[Expression, ...]) -> LabelSelector:
    """Return the selector of `matchExpressions`, or raise an error for pydantic."""
    try:
        return label_selector_of(
            {"matchExpressions": [expression.model_dump() for expression in expressions]}
        )
    except InvalidSelector as error:
        raise refusal(error.message) from None


def _check_expressions(expressions: tuple[Expression, ...]) -> tuple[Expression, ...]:
    selector_in(expressions)
    return expressions


Expressions = Annotated[Items[Expression], AfterValidator(_check_expressions)]


class RevisionSelector(ClosedModel):
    """Selection of FunctionRevisions by their labels."""

    match_labels: TextMap = Field(
        default_factory=dict, description="Labels and values that a revision must have."
    )
    match_expressions: Expressions = Field(
        (), description="Conditions that the labels of a revision must meet."
    )


class SecretReference(ApiModel):
    """Reference to a Secret."""

    namespace: NonEmptyText = Field(description="Namespace of the Secret.")
    name: NonEmptyText = Field(description="Name of the Secret.")


class CredentialSpec(ApiModel):
    """Credential for a step's function."""

    name: NonEmptyText = Field(description="Name of the credential, as the function knows it.")
    source: str = Field(
        "",
        description="Source of the credential: Secret (the default) or None.",
        json_schema_extra={"enum": ["Secret", "None"]},
    )
    secret_ref: SecretReference | None = Field(
        None, description="Secret with the credential; required if the source is Secret."
    )

    @field_validator("source")
    @classmethod
    def _check_source(cls, source: str) -> str:
        if source not in ("", "Secret", "None"):
            raise refusal(f"Must be Secret or None, found {shown(source)}")
        return source

    @model_validator(mode="after")
    def _require_secret(self) -> CredentialSpec:
        if self.source != "None" and self.secret_ref is None:
            raise refusal("Must be given", ("secretRef",))
        return self


class SchemaRequirement(ApiModel):
    """Schema of a kind that is passed to the function in its first call."""

    requirement_name: NonEmptyText = Field(
        description="Name of the schema, as the function knows it."
    )
    api_version: Annotated[ApiVersionText, NON_EMPTY] = Field(description="apiVersion of the kind.")
    kind: Annotated[KindText, NON_EMPTY] = Field(description="The kind.")


class ResourceRequirement(SchemaRequirement):
    """Resources that are passed to the function in its first call."""

    requirement_name: NonEmptyText = Field(
        description="Name of the resources, as the function knows them."
    )
    namespace: NamespaceText = Field("", description="Namespace of the resources.")
    name: NameText = Field("", description="Name of the one resource. Excludes matchLabels.")
    match_labels: TextMap = Field(
        default_factory=dict, description="Labels that the resources have. Excludes name."
    )

    @model_validator(mode="after")
    def _check_selection(self) -> ResourceRequirement:
        if self.name and self.match_labels:
            raise refusal("Must have name or matchLabels, not both")
        return self


class Requirements(ApiModel):
    """Resources and schemas that are passed to the function in its first call."""

    required_resources: Items[ResourceRequirement] = Field(
        (), description="Resources of the cluster."
    )
    required_schemas: Items[SchemaRequirement] = Field((), description="Schemas of kinds.")

    @field_validator("required_resources", "required_schemas")
    @classmethod
    def _check_names(cls, items: tuple[SchemaRequirement, ...]) -> tuple[SchemaRequirement, ...]:
        _check_different(
            [item.requirement_name for item in items], "requirementName", "Another requirement"
        )
        return items


def _check_different(names: list[str], key: str, title: str, why: str = "") -> None:
    for index, name in enumerate(names):
        if name in names[:index]:
            raise refusal(f"{title} has the name {name}{why}", (index, key))


class StepRetry(Retry):
    """Retry rule of a step."""

    backoff: SpanText = Field("", description="Pause before the first retry, such as 10s.")
    max_backoff: SpanText = Field("", description="Longest pause.")


class AllowedResourceSpec(ClosedModel):
    """Rule for resources that a step's function may request. Patterns are RE2, anchored."""

    api_version: NonEmptyText = Field(description="apiVersion of the resources.")
    kind: NonEmptyText = Field(description="Kind of the resources.")
    namespace: Pattern | None = Field(None, description="Pattern for the namespace; * matches any.")
    name: Pattern | None = Field(None, description="The same as matchName.")
    match_name: Pattern | None = Field(None, description="Pattern for the name; * matches any.")
    match_labels: dict[str, Pattern] | None = Field(
        None, description="Patterns for the values of labels that a request must name."
    )
    match_expressions: Expressions | None = Field(
        None, description="Conditions that a request must guarantee for what it selects."
    )

    @field_validator("match_expressions")
    @classmethod
    def _refuse_absence(
        cls, expressions: tuple[Expression, ...] | None
    ) -> tuple[Expression, ...] | None:
        for index, expression in enumerate(expressions or ()):
            if expression.operator == "DoesNotExist":
                why = "DoesNotExist refuses every request: none can require a label to be absent"
                raise refusal(why, (index,))
        return expressions

    @model_validator(mode="after")
    def _check_one_of(self) -> AllowedResourceSpec:
        names = [name for name in (self.name, self.match_name) if name is not None]
        labels = (self.match_labels, self.match_expressions)
        if len(names) > 1 or (names and any(label is not None for label in labels)):
            kinds = "matchName (or name) and matchLabels or matchExpressions"
            raise refusal(f"Must have one of {kinds}")
        return self


class ConfigMapReference(ApiModel):
    """Reference to a key of a ConfigMap."""

    name: NonEmptyText = Field(description="Name of the ConfigMap.")
    namespace: str = Field(
        "", description="Namespace of the ConfigMap; that of the composite resource if left out."
    )
    key: str = Field("", description="Key with the input; may be left out if there is one key.")


class PullSecret(ApiModel):
    """Reference to a Secret with the credentials of a registry."""

    name: NonEmptyText = Field(description="Name of the Secret.")


def _check_package(text: str) -> str:
    try:
        package = parse_package_reference(text)
    except InvalidPackageReference as error:
        raise refusal(error.message) from None
    if not package.digest:
        # A tag may be moved to other content, but the content of a revision must not change.
        raise refusal(f"Must name a digest, as {text}@sha256:…")
    return text


class ArtifactReference(ApiModel):
    """Reference to a file of an artifact in a registry."""

    package: Annotated[NonEmptyText, AfterValidator(_check_package)] = Field(
        description="Artifact with its digest, such as ghcr.io/team/inputs@sha256:…"
    )
    path: str = Field("", description="Path of the file in the artifact.")
    package_pull_secrets: Items[PullSecret] = Field(
        (), description="Secrets with credentials of the registry."
    )


class InputReference(ApiModel):
    """Reference to the input of a step outside the Composition."""

    config_map_ref: ConfigMapReference | None = Field(
        None, description="ConfigMap that holds the input."
    )
    oci_ref: ArtifactReference | None = Field(
        None, description="Artifact in a registry that holds the input."
    )

    @model_validator(mode="after")
    def _check_one_of(self) -> InputReference:
        if self.config_map_ref is not None and self.oci_ref is not None:
            raise refusal("Must have one of configMapRef and ociRef")
        if self.config_map_ref is None and self.oci_ref is None:
            raise refusal("Must be given", ("configMapRef",))
        return self


class StepSpec(ApiModel):
    """One step of a pipeline: the call of a function."""

    step: NonEmptyText = Field(description="Name of the step. It must be unique in the pipeline.")
    function_ref: FunctionReference = Field(description="Function to call.")
    function_revision_ref: RevisionReference | None = Field(
        None, description="FunctionRevision to call, in place of a version."
    )
    function_revision_selector: RevisionSelector | None = Field(
        None, description="Labels of the FunctionRevision to call, in place of a version."
    )
    input: dict[str, Any] | None = Field(None, description="Input of the function.")
    input_ref: InputReference | None = Field(
        None, description="Reference to the input of the function. Excludes input."
    )
    credentials: Items[CredentialSpec] = Field((), description="Credentials for the function.")
    requirements: Requirements = Field(
        default_factory=Requirements, description="Resources and schemas for the first call."
    )
    when: Condition = Field(
        "", description="Condition in CEL; the step is skipped unless it is true."
    )
    timeout: SpanText = Field("", description="Longest time that a call may take, such as 30s.")
    retry: StepRetry | None = Field(
        None, description="When and how often a failed call is retried."
    )
    ttl: SpanText = Field(
        "", description="Time for which a response stays valid; the function decides if left out."
    )
    max_iterations: int = Field(
        DEFAULT_ITERATIONS,
        ge=0,
        le=MOST_ITERATIONS,
        description="Most calls that the function may need to request resources.",
    )
    allowed_extra_resources: Items[AllowedResourceSpec] | None = Field(
        None, description="Resources that the function may request; any if left out."
    )

    @field_validator("credentials")
    @classmethod
    def _check_credentials(cls, items: tuple[CredentialSpec, ...]) -> tuple[CredentialSpec, ...]:
        _check_different([item.name for item in items], "name", "Another credential")
        return items

    @model_validator(mode="after")
    def _check_input(self) -> StepSpec:
        if self.input is not None and self.input_ref is not None:
            raise refusal("input and inputRef exclude each other", ("inputRef",))
        return self


class CompositeTypeReference(ApiModel):
    """Kind of composite resources."""

    api_version: NonEmptyText = Field(description="apiVersion of the composite resources.")
    kind: NonEmptyText = Field(description="Kind of the composite resources.")


class CompositionSpec(ApiModel):
    """How a kind of composite resource is composed."""

    composite_type_ref: CompositeTypeReference = Field(
        description="Kind of the composite resources."
    )
    mode: str = Field(
        "",
        description="Pipeline, or Resources for the fields of older Compositions.",
        json_schema_extra={"enum": ["Pipeline", "Resources"]},
    )
    pipeline: Items[StepSpec] | None = Field(
        None, min_length=1, max_length=MAX_STEPS, description="Steps, in the order they run."
    )
    write_connection_secrets_to_namespace: str = Field(
        "", description="Namespace for the connection secrets of composite resources."
    )
    resources: list[Any] | None = Field(None, description="Resources of an older Composition.")

    other_keys: ClassVar = (
        "revision",
        "publishConnectionDetailsWithStoreConfigRef",
        "patchSets",
        "environment",
    )

    @field_validator("pipeline")
    @classmethod
    def _check_names(cls, steps: tuple[StepSpec, ...] | None) -> tuple[StepSpec, ...] | None:
        names = [step.step for step in steps or ()]
        _check_different(names, "step", "Another step", "; names must differ")
        return steps


class CompositionObject(ApiModel):
    """How a kind of composite resource is composed, as a pipeline of functions."""

    api_version: str = ""
    kind: str = ""
    metadata: Metadata = Field(default_factory=Metadata)
    spec: CompositionSpec = Field(description="The pipeline, and the kind that it is for.")

    other_keys: ClassVar = ("status",)

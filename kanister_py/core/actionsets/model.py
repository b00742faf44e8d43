"""Pydantic models of ActionSets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from kanister_py.core.actionsets.rules import ExecutionMode
from kanister_py.core.blueprints.model import Artifact, ObjectReference, TargetReference
from kanister_py.core.errors import InvalidDocument, Problem
from kanister_py.core.kube.objects import LocatedObject, Metadata
from kanister_py.core.kube.request_paths import BlueprintText, NameText
from kanister_py.core.models import (
    ApiModel,
    Choice,
    Items,
    NamedMap,
    TextMap,
    UnknownKey,
    read_model,
    read_partly,
)
from kanister_py.core.yaml.documents import Document, Path


class ActionSpec(ApiModel):
    """One action to run: its Blueprint, the object it acts on, and its inputs."""

    name: str = Field("", description="Name of the action in the Blueprint.")
    object: TargetReference = Field(
        default_factory=TargetReference, description="Object that the action acts on."
    )
    blueprint: BlueprintText = Field(
        "",
        description="Name of a Blueprint in the same namespace, or NAMESPACE/NAME where the "
        "controller allows Blueprints of other namespaces.",
    )
    artifacts: NamedMap[Artifact] = Field(
        default_factory=dict, description="Artifacts of earlier actions, by name."
    )
    config_maps: NamedMap[TargetReference] = Field(
        default_factory=dict, description="ConfigMaps that templates can use, by name."
    )
    secrets: NamedMap[TargetReference] = Field(
        default_factory=dict, description="Secrets that templates can use, by name."
    )
    profile: TargetReference | None = Field(
        None, description="Profile with the object store to use."
    )
    pod_override: dict[str, Any] | None = Field(
        None, description="Pod spec that is merged into the pods that functions create."
    )
    options: TextMap | None = Field(
        None, description="Options of the action, which templates can use."
    )
    preferred_version: str = Field(
        "",
        description="Version of the functions in phases that name none.",
    )
    pod_labels: TextMap | None = Field(
        None, description="Labels that are added to the pods that functions create."
    )
    pod_annotations: TextMap | None = Field(
        None, description="Annotations that are added to the pods that functions create."
    )


class ActionSetSpec(ApiModel):
    """Actions to run, and options of the run. Both TTLs count from the end of the run."""

    actions: Items[ActionSpec] = Field((), description="Actions to run.")
    execution_mode: Choice[ExecutionMode] = Field(
        ExecutionMode.PARALLEL,
        description="Whether the actions run at the same time or one after the other.",
    )
    service_account_name: NameText = Field(
        "",
        description="ServiceAccount of the same namespace that the run and its pods act as. "
        "The controller must be allowed to impersonate it.",
    )
    cancel: bool = Field(False, description="Stops the run. Deferred phases still run.")
    suspend: bool = Field(False, description="While true, no further phase starts.")
    ttl_seconds_after_finished: int | None = Field(
        None, ge=0, description="Seconds after its end at which the ActionSet is deleted."
    )
    ttl_seconds_after_failure: int | None = Field(
        None, ge=0, description="Seconds after its end at which a failed ActionSet is deleted."
    )


def _kind_or_default(value: Any) -> Any:
    return "ActionSet" if value == "" else value


class ActionSet(ApiModel):
    """Run of actions of Blueprints. `status` is the unparsed status of the API server."""

    api_version: str = ""
    kind: Annotated[str, BeforeValidator(_kind_or_default)] = "ActionSet"
    metadata: Metadata = Field(default_factory=Metadata)
    spec: ActionSetSpec = Field(
        default_factory=ActionSetSpec, description="The run that is requested."
    )
    status: dict[str, Any] | None = Field(None, description="State of the run.")

    @property
    def name(self) -> str:
        return self.metadata.name


def parse_actionset(document: Document, path: Path = ()) -> ActionSet:
    """Parse a part of a document as an ActionSet. Raises InvalidDocument with all problems."""
    if document.node_at(path) is None:
        raise InvalidDocument([document.problem(path, "Is required")])
    return read_model(ActionSet, document, path)


def parse_action_spec(document: Document) -> ActionSpec:
    """Parse a document as one action of an ActionSet. Raises InvalidDocument with all problems."""
    return read_model(ActionSpec, document)


def check_schema(manifest: LocatedObject) -> tuple[list[UnknownKey], list[Problem]]:
    """Return the unknown keys and the problems of an ActionSet."""
    partial = read_partly(ActionSet, manifest.document, manifest.path)
    return [*partial.unknown_keys], [*partial.problems.values()]


def reference_as_dict(reference: ObjectReference) -> dict[str, str]:
    """Return a reference as Kanister's clients write it: all fields, but no empty namespace."""
    data = reference.as_dict()
    if not reference.namespace:
        del data["namespace"]
    return data


def artifacts_as_dict(artifacts: Mapping[str, Artifact]) -> dict[str, Any]:
    """Return artifacts by name, without empty fields."""
    return {
        name: {key: value for key, value in artifact.as_dict().items() if value}
        for name, artifact in artifacts.items()
    }

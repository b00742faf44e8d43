"""What do an ActionSet and a Profile say?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field, model_validator

from kanister_py.core.actionsets.transitions import ExecutionMode
from kanister_py.core.blueprints.model import Artifact, ObjectReference
from kanister_py.core.objects.documents import Document
from kanister_py.core.objects.model import ApiObject, parse_model


class _Part(ApiObject):
    """A part of a resource: a field that is null is one that is left out."""

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        return {key: value for key, value in data.items() if value is not None}


class ActionSpec(_Part):
    """One action to run: which, on which object, and with what."""

    name: str = ""
    object: ObjectReference = Field(default_factory=ObjectReference)
    blueprint: str = ""
    artifacts: dict[str, Artifact] = Field(default_factory=dict)
    config_maps: dict[str, ObjectReference] = Field(default_factory=dict)
    secrets: dict[str, ObjectReference] = Field(default_factory=dict)
    profile: ObjectReference | None = None
    pod_override: dict[str, Any] | None = None
    options: dict[str, str] | None = None
    preferred_version: str = ""
    pod_labels: dict[str, str] | None = None
    pod_annotations: dict[str, str] | None = None


class ActionSetSpec(_Part):
    """Actions to run, and how. The times to live count from the end."""

    actions: list[ActionSpec] = Field(default_factory=list)
    execution_mode: ExecutionMode = ExecutionMode.PARALLEL
    cancel: bool = False
    suspend: bool = False
    ttl_seconds_after_finished: int | None = Field(default=None, ge=0)
    ttl_seconds_after_failure: int | None = Field(default=None, ge=0)


class ActionSetMetadata(_Part):
    """What an ActionSet is called, and which one of that name it is."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)


class ActionSet(_Part):
    """Actions of blueprints, to be run once. `status` is as the resource holds it."""

    api_version: str = ""
    kind: str = "ActionSet"
    metadata: ActionSetMetadata = Field(default_factory=ActionSetMetadata)
    spec: ActionSetSpec = Field(default_factory=ActionSetSpec)
    status: dict[str, Any] | None = None

    @property
    def name(self) -> str:
        return self.metadata.name


class Location(_Part):
    """Where a Profile's data lies. Which types there are is for what opens it to say."""

    type: str = ""
    bucket: str = ""
    endpoint: str = ""
    prefix: str = ""
    region: str = ""


class KeyPairReference(_Part):
    """Under which keys of which Secret an identity and its secret stand."""

    id_field: str = ""
    secret_field: str = ""
    secret: ObjectReference = Field(default_factory=ObjectReference)


class SecretKeyReference(_Part):
    """One key of one Secret."""

    key: str = ""
    secret: ObjectReference = Field(default_factory=ObjectReference)


class KopiaServerSecret(_Part):
    """How to log in to a Kopia server."""

    username: str = ""
    hostname: str = ""
    user_passphrase: SecretKeyReference = Field(default_factory=SecretKeyReference)
    tls_cert: SecretKeyReference = Field(default_factory=SecretKeyReference)
    connect_options: dict[str, int] = Field(default_factory=dict)


class Credential(_Part):
    """What a Profile's location is opened with; `type` says which of the others counts."""

    type: str = ""
    key_pair: KeyPairReference | None = None
    secret: ObjectReference | None = None
    kopia_server_secret: KopiaServerSecret | None = None


class ProfileMetadata(_Part):
    """What a Profile is called."""

    name: str = ""
    namespace: str = ""


class Profile(_Part):
    """A place for data, and what opens it."""

    api_version: str = ""
    kind: str = "Profile"
    metadata: ProfileMetadata = Field(default_factory=ProfileMetadata)
    location: Location = Field(default_factory=Location)
    credential: Credential = Field(default_factory=Credential)
    # Not camel case as everything else: the first letters are an acronym.
    skip_ssl_verify: bool = Field(default=False, alias="skipSSLVerify")


def parse_actionset(document: Document, path: Sequence[str | int] = ()) -> ActionSet:
    """Read a part of a document as an ActionSet, or refuse it with every problem in it."""
    return parse_model(ActionSet, document, path)


def parse_profile(document: Document, path: Sequence[str | int] = ()) -> Profile:
    """Read a part of a document as a Profile, or refuse it with every problem in it."""
    return parse_model(Profile, document, path)


def reference_as_dict(reference: ObjectReference) -> dict[str, str]:
    """Write a reference as clients of the original do: every field, but an empty namespace."""
    data = {
        "apiVersion": reference.api_version,
        "group": reference.group,
        "resource": reference.resource,
        "kind": reference.kind,
        "name": reference.name,
    }
    if reference.namespace:
        data["namespace"] = reference.namespace
    return data


def artifact_as_dict(artifact: Artifact) -> dict[str, Any]:
    """Write an artifact without what it leaves empty."""
    data: dict[str, Any] = {}
    if artifact.key_value:
        data["keyValue"] = dict(artifact.key_value)
    if artifact.kopia_snapshot:
        data["kopiaSnapshot"] = artifact.kopia_snapshot
    return data


def artifacts_as_dict(artifacts: Mapping[str, Artifact]) -> dict[str, Any]:
    """Write artifacts by name."""
    return {name: artifact_as_dict(each) for name, each in artifacts.items()}

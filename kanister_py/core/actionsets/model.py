"""Models of ActionSets, as they are written in YAML."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from kanister_py.core.actionsets.rules import ExecutionMode
from kanister_py.core.blueprints.model import (
    Artifact,
    Found,
    Metadata,
    ObjectReference,
    ResourceReader,
)
from kanister_py.core.errors import InvalidDocument, Problem
from kanister_py.core.kube.request_paths import problem_with, problems_with
from kanister_py.core.yaml.documents import Document, Path
from kanister_py.core.yaml.reading import UnknownKey

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class ActionSpec(NamedTuple):
    """One action to run: which, on which object, and with what."""

    name: str = ""
    object: ObjectReference = ObjectReference()
    blueprint: str = ""
    artifacts: Mapping[str, Artifact] = _NOTHING
    config_maps: Mapping[str, ObjectReference] = _NOTHING
    secrets: Mapping[str, ObjectReference] = _NOTHING
    profile: ObjectReference | None = None
    pod_override: Mapping[str, Any] | None = None
    options: Mapping[str, str] | None = None
    preferred_version: str = ""
    pod_labels: Mapping[str, str] | None = None
    pod_annotations: Mapping[str, str] | None = None


class ActionSetSpec(NamedTuple):
    """Actions to run, and how. The times to live count from the end."""

    actions: tuple[ActionSpec, ...] = ()
    execution_mode: ExecutionMode = ExecutionMode.PARALLEL
    cancel: bool = False
    suspend: bool = False
    ttl_seconds_after_finished: int | None = None
    ttl_seconds_after_failure: int | None = None


class ActionSet(NamedTuple):
    """Actions of blueprints, to be run once. `status` is as the resource holds it."""

    api_version: str = ""
    kind: str = "ActionSet"
    metadata: Metadata = Metadata()
    spec: ActionSetSpec = ActionSetSpec()
    status: Mapping[str, Any] | None = None

    @property
    def name(self) -> str:
        return self.metadata.name


def parse_actionset(document: Document, path: Path = ()) -> ActionSet:
    """Read a part of a document as an ActionSet, or refuse it with every problem in it."""
    node = document.node_at(path)
    if node is None:
        raise InvalidDocument([document.problem(path, "Is required")])
    reader = _Reader()
    read = reader.actionset(node.value, ())
    reader.refuse_problems(document, path)
    return read


def parse_action_spec(document: Document) -> ActionSpec:
    """Read a document as one action of an ActionSet, or refuse it likewise."""
    reader = _Reader()
    read = reader.action(document.value, ())
    reader.refuse_problems(document)
    return read


def read_what_can_be_read(found: Found) -> tuple[list[UnknownKey], list[Problem]]:
    """Read a found object as an ActionSet: the keys that nothing reads, and what is none."""
    reader = _Reader()
    reader.actionset(found.value, ())
    return reader.unknown, reader.problems_in(found.document, found.path)


_SET_KEYS = ("apiVersion", "kind", "metadata", "spec", "status")
_SPEC_KEYS = (
    *("actions", "executionMode", "cancel", "suspend"),
    *("ttlSecondsAfterFinished", "ttlSecondsAfterFailure"),
)
_ACTION_KEYS = (
    *("name", "object", "blueprint", "artifacts", "configMaps", "secrets", "profile"),
    *("podOverride", "options", "preferredVersion", "podLabels", "podAnnotations"),
)


class _Reader(ResourceReader):
    """Reader of ActionSets."""

    def actionset(self, value: Any, path: Path) -> ActionSet:
        data = self.mapping(value, path, _SET_KEYS)
        status = data.get("status")
        api_version, kind = self.all_texts(data, ("apiVersion", "kind"), path)
        return ActionSet(
            api_version,
            kind or "ActionSet",
            self.metadata(data.get("metadata"), (*path, "metadata")),
            self._spec(data.get("spec"), (*path, "spec")),
            None if status is None else self.mapping(status, (*path, "status"), keeps_nulls=True),
        )

    def _spec(self, value: Any, path: Path) -> ActionSetSpec:
        data = self.mapping(value, path, _SPEC_KEYS)
        actions = self.items(data, "actions", path)
        return ActionSetSpec(
            tuple([self.action(each, (*path, "actions", at)) for at, each in enumerate(actions)]),
            self._mode(data, path),
            self.flag(data, "cancel", path),
            self.flag(data, "suspend", path),
            self._seconds(data, "ttlSecondsAfterFinished", path),
            self._seconds(data, "ttlSecondsAfterFailure", path),
        )

    def _mode(self, data: Mapping[str, Any], path: Path) -> ExecutionMode:
        value = data.get("executionMode", ExecutionMode.PARALLEL)
        if value in tuple(ExecutionMode):
            return ExecutionMode(value)
        known = " or ".join(repr(str(each)) for each in ExecutionMode)
        self.refuse((*path, "executionMode"), known, value)
        return ExecutionMode.PARALLEL

    def _seconds(self, data: Mapping[str, Any], key: str, path: Path) -> int | None:
        if data.get(key) is None:
            return None
        return int(self.number(data, key, path, 0, least=0, whole=True))

    def action(self, value: Any, path: Path) -> ActionSpec:
        data = self.mapping(value, path, _ACTION_KEYS)
        profile, override = data.get("profile"), data.get("podOverride")
        own = self.all_texts(data, ("name", "blueprint", "preferredVersion"), path)
        name, blueprint, preferred_version = own
        if blueprint and (problem := problem_with("name", blueprint)):
            self.note((*path, "blueprint"), problem)
        return ActionSpec(
            name,
            self.reference(data.get("object"), (*path, "object")),
            blueprint,
            self.each(self.artifact, data, "artifacts", path),
            self.each(self.reference, data, "configMaps", path),
            self.each(self.reference, data, "secrets", path),
            None if profile is None else self.reference(profile, (*path, "profile")),
            None
            if override is None
            else self.mapping(override, (*path, "podOverride"), keeps_nulls=True),
            self._some_texts(data, "options", path),
            preferred_version,
            self._some_texts(data, "podLabels", path),
            self._some_texts(data, "podAnnotations", path),
        )

    def reference(self, value: Any, path: Path) -> ObjectReference:
        """Read a reference and check its fields, which become parts of request paths."""
        reference = super().reference(value, path)
        for field, problem in problems_with(reference.as_dict()):
            self.note((*path, field), problem)
        return reference

    def _some_texts(self, data: Mapping[str, Any], key: str, path: Path) -> dict[str, str] | None:
        return None if data.get(key) is None else self.texts(data, key, path)


def reference_as_dict(reference: ObjectReference) -> dict[str, str]:
    """Write a reference as clients of the original do: every field, but an empty namespace."""
    data = reference.as_dict()
    if not reference.namespace:
        del data["namespace"]
    return data


def artifacts_as_dict(artifacts: Mapping[str, Artifact]) -> dict[str, Any]:
    """Write artifacts by name, without what they leave empty."""
    return {
        name: {key: value for key, value in each.as_dict().items() if value}
        for name, each in artifacts.items()
    }

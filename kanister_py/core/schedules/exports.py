"""Exports: what has to be known elsewhere, should a cluster be lost, to restore what it ran.

Blueprints, Profiles, Schedules, and the ActionSets that lead to what backups have left. An
export is one object of a kind that no cluster knows: applied as it stands, its ActionSets
would run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Final, NamedTuple

from kanister_py.core.actionsets.status import text_of_time
from kanister_py.core.actionsets.stored_status import (
    STATUS_ANNOTATION,
    holds_artifacts,
    read_status_data,
)
from kanister_py.core.errors import InvalidDocument
from kanister_py.core.kube.copies import copy_json
from kanister_py.core.kube.parts import mapping_of, metadata_of, namespace_of, spec_of
from kanister_py.core.kube.request_paths import ApiVersionText, KindText, NamespaceText, NameText
from kanister_py.core.models import NON_EMPTY, ApiModel, Items, read_model
from kanister_py.core.schedules.runs import TIME_ANNOTATION
from kanister_py.core.yaml.documents import Document

API_VERSION: Final = "kanister-py.io/v1alpha1"
KIND: Final = "Export"

_LEFT_OUT: Final = (STATUS_ANNOTATION, "kubectl.kubernetes.io/last-applied-configuration")
_KEPT: Final = ("name", "namespace", "labels", "annotations")


class Exported(NamedTuple):
    """The objects of an export, in the order in which they are made."""

    secrets: Sequence[Mapping[str, Any]] = ()
    profiles: Sequence[Mapping[str, Any]] = ()
    blueprints: Sequence[Mapping[str, Any]] = ()
    schedules: Sequence[Mapping[str, Any]] = ()
    backups: Sequence[Mapping[str, Any]] = ()

    @property
    def namespaces(self) -> list[str]:
        return sorted({namespace_of(each) for part in self for each in part})


def written(obj: Mapping[str, Any]) -> dict[str, Any]:
    """Give an object as its author would write it: without what its cluster knows of it."""
    made: dict[str, Any] = copy_json({key: each for key, each in obj.items() if key != "status"})
    metadata = {key: made["metadata"][key] for key in _KEPT if made["metadata"].get(key)}
    notes = {
        key: each
        for key, each in (metadata.pop("annotations", None) or {}).items()
        if key not in _LEFT_OUT
    }
    if notes:
        metadata["annotations"] = notes
    made["metadata"] = metadata
    return made


def record_of(actionset: Mapping[str, Any]) -> dict[str, Any] | None:
    """Give the record of a backup, with its status and its time; None for what is none."""
    if not holds_artifacts(actionset) or metadata_of(actionset).get("deletionTimestamp"):
        return None
    made = written(actionset)
    created = metadata_of(actionset).get("creationTimestamp")
    if created:
        made["metadata"].setdefault("annotations", {}).setdefault(TIME_ANNOTATION, created)
    made["status"] = read_status_data(dict(actionset))
    return made


def export_of(exported: Exported, now: datetime, release: str) -> dict[str, Any]:
    """Write an export."""
    parts = {key: list(part) for key, part in exported._asdict().items() if part}
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "exportedAt": text_of_time(now),
        "release": release,
        **parts,
    }


class _ObjectMetadata(ApiModel):
    name: Annotated[NameText, NON_EMPTY]
    namespace: Annotated[NamespaceText, NON_EMPTY]


class _Object(ApiModel):
    """Address of an object in an export, which becomes part of request paths."""

    api_version: ApiVersionText = ""
    kind: Annotated[KindText, NON_EMPTY]
    metadata: _ObjectMetadata


class _Export(ApiModel):
    secrets: Items[_Object] = ()
    profiles: Items[_Object] = ()
    blueprints: Items[_Object] = ()
    schedules: Items[_Object] = ()
    backups: Items[_Object] = ()


def parse_export(document: Document) -> Exported:
    """Read an export, or refuse it with every problem in it."""
    data = mapping_of(document.value)
    if (data.get("apiVersion"), data.get("kind")) != (API_VERSION, KIND):
        raise InvalidDocument([document.problem((), f"Must be an {KIND} of {API_VERSION}")])
    read_model(_Export, document)
    return Exported(**{key: data.get(key) or [] for key in Exported._fields})


def secrets_named(exported: Exported) -> list[tuple[str, str]]:
    """Name the Secrets that restores need, by namespace and name, as far as they are known."""
    found: set[tuple[str, str]] = set()
    for profile in exported.profiles:
        found |= set(_references(profile.get("credential"), namespace_of(profile)))
    of_blueprint: dict[tuple[str, str], set[str]] = {}
    for where, action in _actions(exported):
        for each in mapping_of(action.get("secrets")).values():
            found |= set(_place(each, where))
        about = str(mapping_of(action.get("object")).get("namespace") or where)
        of_blueprint.setdefault((where, str(action.get("blueprint"))), set()).add(about)
    for blueprint in exported.blueprints:
        where = namespace_of(blueprint)
        objects = of_blueprint.get((where, metadata_of(blueprint)["name"]), set())
        for reference in _objects_of(blueprint):
            is_secret = str(reference.get("kind") or "").lower() == "secret"
            if is_secret or reference.get("resource") == "secrets":
                given = str(reference.get("namespace") or "")
                # A template says: the namespace of the object, as a rule.
                for namespace in objects if "{" in given or not given else {given}:
                    found |= set(_place({**reference, "namespace": namespace}, where))
    return sorted(found)


def _actions(exported: Exported) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for schedule in exported.schedules:
        template = mapping_of(spec_of(schedule).get("template"))
        for action in spec_of(template).get("actions") or ():
            yield namespace_of(schedule), action
    for backup in exported.backups:
        for action in spec_of(backup).get("actions") or ():
            yield namespace_of(backup), action


def _objects_of(blueprint: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for action in mapping_of(blueprint.get("actions")).values():
        content = mapping_of(action)
        for phase in (*(content.get("phases") or ()), content.get("deferPhase")):
            for reference in mapping_of(mapping_of(phase).get("objects")).values():
                yield mapping_of(reference)


def _references(value: Any, namespace: str) -> Iterator[tuple[str, str]]:
    for key, each in mapping_of(value).items():
        if key in ("secret", "userPassphrase", "tlsCert"):
            yield from _place(each, namespace)
        yield from _references(each, namespace)


def _place(reference: Any, namespace: str) -> Iterable[tuple[str, str]]:
    data = mapping_of(reference)
    name, where = str(data.get("name") or ""), str(data.get("namespace") or namespace)
    return [(where, name)] if name and "{" not in name + where else []

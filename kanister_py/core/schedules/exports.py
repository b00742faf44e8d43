"""Exports: the objects that are needed to restore the backups of a lost cluster.

These are Blueprints, Profiles, Schedules, and ActionSets with artifacts. An export is one object of
a kind without a CRD, so that it cannot be applied by mistake: the ActionSets would run.
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

_OMITTED_ANNOTATIONS: Final = (
    STATUS_ANNOTATION,
    "kubectl.kubernetes.io/last-applied-configuration",
)
_KEPT_METADATA: Final = ("name", "namespace", "labels", "annotations")


class Exported(NamedTuple):
    """Objects of an export, in the order of their creation."""

    secrets: Sequence[Mapping[str, Any]] = ()
    profiles: Sequence[Mapping[str, Any]] = ()
    blueprints: Sequence[Mapping[str, Any]] = ()
    schedules: Sequence[Mapping[str, Any]] = ()
    backups: Sequence[Mapping[str, Any]] = ()

    @property
    def namespaces(self) -> list[str]:
        return sorted({namespace_of(obj) for part in self for obj in part})


def without_cluster_fields(obj: Mapping[str, Any]) -> dict[str, Any]:
    """Return an object as its author would write it, without fields that the cluster sets."""
    copy: dict[str, Any] = copy_json({key: value for key, value in obj.items() if key != "status"})
    metadata = {key: copy["metadata"][key] for key in _KEPT_METADATA if copy["metadata"].get(key)}
    annotations_kept = {
        key: value
        for key, value in (metadata.pop("annotations", None) or {}).items()
        if key not in _OMITTED_ANNOTATIONS
    }
    if annotations_kept:
        metadata["annotations"] = annotations_kept
    copy["metadata"] = metadata
    return copy


def record_of(actionset: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the record of a backup with its status and time, or None for other ActionSets."""
    if not holds_artifacts(actionset) or metadata_of(actionset).get("deletionTimestamp"):
        return None
    record = without_cluster_fields(actionset)
    created = metadata_of(actionset).get("creationTimestamp")
    if created:
        record["metadata"].setdefault("annotations", {}).setdefault(TIME_ANNOTATION, created)
    record["status"] = read_status_data(dict(actionset))
    return record


def export_of(exported: Exported, now: datetime, release: str) -> dict[str, Any]:
    """Build an export."""
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
    """Address of an object in an export. Its parts are used in request paths."""

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
    """Parse an export. Raises InvalidDocument with all problems."""
    data = mapping_of(document.value)
    if (data.get("apiVersion"), data.get("kind")) != (API_VERSION, KIND):
        raise InvalidDocument([document.problem((), f"Must be an {KIND} of {API_VERSION}")])
    read_model(_Export, document)
    return Exported(**{key: data.get(key) or [] for key in Exported._fields})


def referenced_secrets(exported: Exported) -> list[tuple[str, str]]:
    """List the Secrets that restores need, by namespace and name, as far as they are known."""
    secrets: set[tuple[str, str]] = set()
    for profile in exported.profiles:
        secrets |= set(_references(profile.get("credential"), namespace_of(profile)))
    namespaces_of: dict[tuple[str, str], set[str]] = {}
    for where, action in _actions(exported):
        for secret_reference in mapping_of(action.get("secrets")).values():
            secrets |= set(_place(secret_reference, where))
        object_namespace = str(mapping_of(action.get("object")).get("namespace") or where)
        namespaces_of.setdefault((where, str(action.get("blueprint"))), set()).add(object_namespace)
    for blueprint in exported.blueprints:
        where = namespace_of(blueprint)
        objects = namespaces_of.get((where, metadata_of(blueprint)["name"]), set())
        for reference in _objects_of(blueprint):
            is_secret = str(reference.get("kind") or "").lower() == "secret"
            if is_secret or reference.get("resource") == "secrets":
                namespace_text = str(reference.get("namespace") or "")
                # A template usually stands for the namespace of the object.
                for namespace in (
                    objects if "{" in namespace_text or not namespace_text else {namespace_text}
                ):
                    secrets |= set(_place({**reference, "namespace": namespace}, where))
    return sorted(secrets)


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
    for key, child in mapping_of(value).items():
        if key in ("secret", "userPassphrase", "tlsCert"):
            yield from _place(child, namespace)
        yield from _references(child, namespace)


def _place(reference: Any, namespace: str) -> Iterable[tuple[str, str]]:
    data = mapping_of(reference)
    name, where = str(data.get("name") or ""), str(data.get("namespace") or namespace)
    return [(where, name)] if name and "{" not in name + where else []

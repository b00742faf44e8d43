"""Import of an export: creates missing objects without starting any run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from kanister_py.core.actionsets.stored_status import (
    STATUS_ANNOTATION,
    annotation_of,
    read_status_data,
    split_status,
)
from kanister_py.core.errors import AlreadyExists
from kanister_py.core.kube.parts import annotations_of, name_of, namespace_of, spec_of
from kanister_py.core.kube.resources import ACTION_SETS, NAMESPACES
from kanister_py.core.retries import retry_on_conflict
from kanister_py.core.schedules.exports import Exported
from kanister_py.ports.cluster import Cluster, find

IMPORTED: Final = "kanister-py.io/imported"
"""Annotation of an imported ActionSet whose status is not written yet."""
# Retries of conflicts: the controller may change the same ActionSet.
_RETRIES: Final = 19
_ENDS: Final = ("complete", "failed")


class ImportedObject(NamedTuple):
    """One object of an export. `is_new` is set if it did not exist before."""

    kind: str
    namespace: str
    name: str
    is_new: bool


def import_objects(
    cluster: Cluster, exported: Exported, *, suspends: bool, dry_run: bool = False
) -> Iterator[ImportedObject]:
    """Create the missing objects, and yield the result for each one. Idempotent."""
    for name in exported.namespaces:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        if find(cluster, NAMESPACES, name) is None:
            yield _create(cluster, namespace, dry_run=dry_run)
    for obj in (*exported.secrets, *exported.profiles, *exported.blueprints):
        yield _create(cluster, obj, dry_run=dry_run)
    for schedule in exported.schedules:
        manifest = dict(schedule)
        if suspends:
            # There is nothing to back up until the applications are restored.
            manifest["spec"] = {**spec_of(schedule), "suspend": True}
        yield _create(cluster, manifest, dry_run=dry_run)
    for backup in exported.backups:
        yield _create_record(cluster, backup, dry_run=dry_run)


def _create(cluster: Cluster, obj: Mapping[str, Any], *, dry_run: bool) -> ImportedObject:
    is_new = True
    try:
        if not dry_run:
            cluster.create(obj)
        else:
            resource = cluster.resource_for(obj["apiVersion"], obj["kind"]).gvr
            is_new = find(cluster, resource, name_of(obj), namespace_of(obj)) is None
    except AlreadyExists:
        is_new = False
    return ImportedObject(str(obj["kind"]), namespace_of(obj), name_of(obj), is_new)


def _create_record(cluster: Cluster, backup: Mapping[str, Any], *, dry_run: bool) -> ImportedObject:
    """Create the record of a backup, which is an ActionSet that has already ended."""
    record = ImportedObject("ActionSet", namespace_of(backup), name_of(backup), is_new=True)
    if dry_run:
        existing = find(cluster, ACTION_SETS, record.name, record.namespace)
        return record._replace(is_new=existing is None)
    has_subresource = cluster.describe(ACTION_SETS).has_status
    if has_subresource:
        # Created without its status, and suspended, so that no controller starts it.
        content = {key: value for key, value in backup.items() if key != "status"}
        spec = {**spec_of(backup), "suspend": True}
        manifest = {**content, "metadata": _annotated(backup, IMPORTED, "true"), "spec": spec}
    else:
        status, other_fields = split_status(backup["status"])
        metadata = _annotated(backup, STATUS_ANNOTATION, annotation_of(other_fields))
        manifest = {**backup, "metadata": metadata, "status": status}
    try:
        cluster.create(manifest)
    except AlreadyExists:
        record = record._replace(is_new=False)
    if has_subresource:
        _write_status(cluster, backup)
    return record


def _annotated(obj: Mapping[str, Any], key: str, note: str) -> dict[str, Any]:
    return {**obj["metadata"], "annotations": {**annotations_of(obj), key: note}}


def _write_status(cluster: Cluster, backup: Mapping[str, Any]) -> None:
    """Write the status of a record and end its suspension, unless an earlier import has done so."""

    def write() -> None:
        actionset = cluster.get(ACTION_SETS, name_of(backup), namespace=namespace_of(backup))
        if IMPORTED not in annotations_of(actionset):
            return
        status = read_status_data(actionset) or {}
        if status.get("state") not in _ENDS:
            actionset = cluster.replace_status({**actionset, "status": backup["status"]})
        notes = {key: value for key, value in annotations_of(actionset).items() if key != IMPORTED}
        metadata = {**actionset["metadata"], "annotations": notes}
        cluster.replace({**actionset, "metadata": metadata, "spec": dict(spec_of(backup))})

    retry_on_conflict(write, _RETRIES)

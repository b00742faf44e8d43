"""Import of an export: missing objects are made, and nothing of it runs."""

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
"""Marks, on an ActionSet that is being taken in, that it is to get its status yet."""
# A controller may look at a record while it is written.
_RETRIES: Final = 19
_ENDS: Final = ("complete", "failed")


class Taken(NamedTuple):
    """One object of an export, and whether it was made or was there already."""

    kind: str
    namespace: str
    name: str
    is_new: bool


def take_in(
    cluster: Cluster, exported: Exported, *, suspends: bool, dry_run: bool = False
) -> Iterator[Taken]:
    """Make what is missing, and give what was done about each object. Safe to repeat."""
    for name in exported.namespaces:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        if find(cluster, NAMESPACES, name) is None:
            yield from _made(cluster, namespace, dry_run=dry_run)
    for part in (exported.secrets, exported.profiles, exported.blueprints):
        for each in part:
            yield from _made(cluster, each, dry_run=dry_run)
    for schedule in exported.schedules:
        made = dict(schedule)
        if suspends:
            # Until the applications are back, there is nothing to back up.
            made["spec"] = {**spec_of(schedule), "suspend": True}
        yield from _made(cluster, made, dry_run=dry_run)
    for backup in exported.backups:
        yield _recorded(cluster, backup, dry_run=dry_run)


def _made(cluster: Cluster, obj: Mapping[str, Any], *, dry_run: bool) -> Iterator[Taken]:
    is_new = True
    try:
        if not dry_run:
            cluster.create(obj)
        else:
            resource = cluster.resource_for(obj["apiVersion"], obj["kind"]).gvr
            is_new = find(cluster, resource, name_of(obj), namespace_of(obj)) is None
    except AlreadyExists:
        is_new = False
    yield Taken(str(obj["kind"]), namespace_of(obj), name_of(obj), is_new)


def _recorded(cluster: Cluster, backup: Mapping[str, Any], *, dry_run: bool) -> Taken:
    """Make the record of a backup: an ActionSet that has ended before it could begin."""
    taken = Taken("ActionSet", namespace_of(backup), name_of(backup), is_new=True)
    if dry_run:
        found = find(cluster, ACTION_SETS, taken.name, taken.namespace)
        return taken._replace(is_new=found is None)
    has_subresource = cluster.describe(ACTION_SETS).has_status
    if has_subresource:
        # Without its status, and so that no controller begins what it says.
        waiting = {key: each for key, each in backup.items() if key != "status"}
        spec = {**spec_of(backup), "suspend": True}
        made = {**waiting, "metadata": _noted(backup, IMPORTED, "true"), "spec": spec}
    else:
        kept, rest = split_status(backup["status"])
        metadata = _noted(backup, STATUS_ANNOTATION, annotation_of(rest))
        made = {**backup, "metadata": metadata, "status": kept}
    try:
        cluster.create(made)
    except AlreadyExists:
        taken = taken._replace(is_new=False)
    if has_subresource:
        _end(cluster, backup)
    return taken


def _noted(obj: Mapping[str, Any], key: str, note: str) -> dict[str, Any]:
    return {**obj["metadata"], "annotations": {**annotations_of(obj), key: note}}


def _end(cluster: Cluster, backup: Mapping[str, Any]) -> None:
    """Give a record its status, and let it go on from there, unless that is done."""

    def end() -> None:
        found = cluster.get(ACTION_SETS, name_of(backup), namespace=namespace_of(backup))
        if IMPORTED not in annotations_of(found):
            return
        status = read_status_data(found) or {}
        if status.get("state") not in _ENDS:
            found = cluster.replace_status({**found, "status": backup["status"]})
        notes = {key: each for key, each in annotations_of(found).items() if key != IMPORTED}
        metadata = {**found["metadata"], "annotations": notes}
        cluster.replace({**found, "metadata": metadata, "spec": dict(spec_of(backup))})

    retry_on_conflict(end, _RETRIES)

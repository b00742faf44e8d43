"""Retention on a cluster: starts deletions of backups, and records their ends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Final

from kanister_py.controller.machine.events import NORMAL, PostEvent, Subject
from kanister_py.core.actionsets.stored_status import ARTIFACTS_ANNOTATION, DELETED
from kanister_py.core.errors import AlreadyExists, NotFound
from kanister_py.core.kube.parts import labels_of
from kanister_py.core.kube.resources import ACTION_SETS
from kanister_py.core.schedules.deletions import Deletion, Plan, deletion_of, uses_backup
from kanister_py.core.schedules.runs import RETENTION_LABEL
from kanister_py.executor.read_blueprints import read_blueprints
from kanister_py.ports.cluster import Cluster, KubeObject

_READER_PAUSE: Final = timedelta(minutes=1)


def delete_backups(
    cluster: Cluster, plan: Plan, subject: Subject, post_event: PostEvent
) -> timedelta | None:
    """Carry out a plan; return when to try again if a backup is being read now."""
    for done in plan.done:
        # With this annotation the backup's ActionSet and its deletion may be deleted.
        note = {"metadata": {"annotations": {ARTIFACTS_ANNOTATION: DELETED}}}
        try:
            cluster.patch(ACTION_SETS, done.name, note, namespace=done.namespace)
        except NotFound:
            continue
        post_event(subject, NORMAL, "Deleted", f"Deleted the artifacts of backup {done.name}")
    if not plan.begin and not plan.suspended:
        return None
    backups = _backups(cluster, plan)
    created = [
        *plan.suspended,
        *(
            deletion
            for deletion in _unread(cluster, plan.begin, backups)
            if _begin(cluster, deletion, backups[deletion.backup.name])
        ),
    ]
    free = _unread(cluster, created, backups)
    for deletion in created:
        with suppress(NotFound):
            if deletion in free:
                resume = {"spec": {"suspend": False}}
                cluster.patch(ACTION_SETS, deletion.name, resume, namespace=subject.namespace)
            else:
                cluster.delete(ACTION_SETS, deletion.name, namespace=subject.namespace)
    planned = [
        deletion for deletion in (*plan.begin, *plan.suspended) if deletion.backup.name in backups
    ]
    return None if len(free) == len(planned) else _READER_PAUSE


def _backups(cluster: Cluster, plan: Plan) -> dict[str, KubeObject]:
    backups = {}
    for deletion in (*plan.begin, *plan.suspended):
        with suppress(NotFound):
            backup = deletion.backup
            obj = cluster.get(ACTION_SETS, backup.name, namespace=backup.namespace)
            if obj["metadata"]["uid"] == backup.uid:
                backups[backup.name] = obj
    return backups


def _unread(
    cluster: Cluster, deletions: Iterable[Deletion], backups: Mapping[str, KubeObject]
) -> list[Deletion]:
    """Return the deletions whose backups no ActionSet reads.

    A deletion that is retried is always returned, because its backup is incomplete already.
    """
    existing = [deletion for deletion in deletions if deletion.backup.name in backups]
    if not existing:
        return []
    actionsets = [
        obj
        for obj in cluster.list(ACTION_SETS, namespace=existing[0].backup.namespace)
        if RETENTION_LABEL not in labels_of(obj)
    ]
    return [
        deletion
        for deletion in existing
        if deletion.after
        or not any(uses_backup(obj, backups[deletion.backup.name]) for obj in actionsets)
    ]


def _begin(cluster: Cluster, deletion: Deletion, backup: KubeObject) -> bool:
    try:
        cluster.create(deletion_of(deletion, backup, read_blueprints(cluster, backup)))
    except AlreadyExists:
        # The watch reports it soon, and the replica that created it continues with it.
        return False
    return True

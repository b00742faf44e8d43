"""Retention on a cluster: deletions are begun, and what they deleted is noted."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from kanister_py.controller.machine.events import NORMAL, Subject, Tell
from kanister_py.core.actionsets.artifacts import ARTIFACTS_ANNOTATION, DELETED
from kanister_py.core.errors import AlreadyExists, NotFound
from kanister_py.core.objects.resources import ACTION_SETS
from kanister_py.core.schedules.deletions import Plan, deletion_of, reads
from kanister_py.executor.read_blueprints import read_blueprints
from kanister_py.ports.cluster import Cluster

_READER_PAUSE: Final = timedelta(minutes=1)


def delete_backups(cluster: Cluster, plan: Plan, subject: Subject, tell: Tell) -> timedelta | None:
    """Carry out a plan; say when to look again if a backup is being read right now."""
    for done in plan.done:
        # From here on its record may go, and the deletion with it.
        note = {"metadata": {"annotations": {ARTIFACTS_ANNOTATION: DELETED}}}
        try:
            cluster.patch(ACTION_SETS, done.name, note, namespace=done.namespace)
        except NotFound:
            continue
        tell(subject, NORMAL, "Deleted", f"Deleted what backup {done.name} had left")
    if not plan.begin:
        return None
    others = cluster.list(ACTION_SETS, namespace=subject.namespace).items
    waits = None
    for deletion in plan.begin:
        try:
            backup = cluster.get(ACTION_SETS, deletion.backup.name, namespace=subject.namespace)
        except NotFound:
            continue
        if backup["metadata"]["uid"] != deletion.backup.uid:
            continue
        if not deletion.after and any(reads(each, backup) for each in others):
            waits = _READER_PAUSE
            continue
        try:
            cluster.create(deletion_of(deletion, backup, read_blueprints(cluster, backup)))
        except AlreadyExists:
            continue
    return waits

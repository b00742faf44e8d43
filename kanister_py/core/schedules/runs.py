"""Runs of a Schedule: their ActionSets, history and backups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from sys import intern
from typing import Any, Final, NamedTuple

from kanister_py.core.actionsets.creation import API_VERSION, PARENT, SCHEDULE_LABEL
from kanister_py.core.actionsets.partitions import PARTITION_LABEL, partition_label_of
from kanister_py.core.actionsets.status import LONG_AGO, parse_time, text_of_time
from kanister_py.core.actionsets.stored_status import ended_at, holds_artifacts, read_status_data
from kanister_py.core.errors import UsageError
from kanister_py.core.kube.copies import copy_json
from kanister_py.core.kube.names import MAX_LABEL, short_hash
from kanister_py.core.kube.parts import (
    annotations_of,
    labels_of,
    mapping_of,
    maps_in,
    metadata_of,
    spec_of,
)
from kanister_py.core.schedules.model import HistoryLimits

RETENTION_LABEL: Final = "kanister-py.io/retention-of"
"""Label of an ActionSet that deletes a backup, with the name of the Schedule."""
TIME_ANNOTATION: Final = "kanister-py.io/scheduled-at"
"""Annotation of an ActionSet that a Schedule created, with the scheduled time."""

_HASH: Final = 8
_MAX_ERROR_CHARACTERS: Final = 200


def name_of_run(name: str, uid: str, time: datetime) -> str:
    """Return the name of the ActionSet for a time. Deterministic, so that creating it is a lock."""
    moment = f"{time.astimezone(UTC):%Y%m%d%H%M%S}"
    end = f"-{moment}-{short_hash(uid, moment, length=_HASH)}"
    return f"{name[: MAX_LABEL - len(end)]}{end}"


def run_of(schedule: Mapping[str, Any], name: str, time: datetime | None = None) -> dict[str, Any]:
    """Build an ActionSet of a Schedule for a scheduled time, or for a manual run."""
    metadata = metadata_of(schedule)
    template = spec_of(schedule).get("template") or {}
    annotations = {**annotations_of(template)}
    if time is not None:
        annotations[TIME_ANNOTATION] = text_of_time(time)
    labels = {**labels_of(template), SCHEDULE_LABEL: metadata["name"]}
    labels.pop(PARTITION_LABEL, None)
    new_metadata: dict[str, Any] = {
        "name": name,
        "namespace": metadata["namespace"],
        "labels": labels | partition_label_of(schedule),
    }
    if annotations:
        new_metadata["annotations"] = annotations
    return {
        "apiVersion": API_VERSION,
        "kind": "ActionSet",
        "metadata": new_metadata,
        "spec": copy_json(spec_of(template)),
    }


class Run(NamedTuple):
    """Run of a Schedule, as read from its ActionSet."""

    namespace: str
    name: str
    uid: str
    schedule: str
    state: str
    created: datetime
    time: datetime | None = None
    ended: datetime | None = None
    is_cancelled: bool = False
    is_suspended: bool = False
    """Whether the run is suspended and has not started."""
    is_deleted: bool = False
    holds_artifacts: bool = False
    group: str = ""
    """Group for retention: runs of the same Blueprints on the same objects."""
    parent: str = ""
    error: str = ""
    reason: str = ""

    @property
    def is_active(self) -> bool:
        return self.ended is None

    @property
    def taken_at(self) -> datetime:
        """Time of the backup: the scheduled time, or the creation of the ActionSet."""
        return self.time or self.created

    @property
    def is_complete(self) -> bool:
        return self.state == "complete"


def read_run(actionset: Mapping[str, Any]) -> Run:
    """Read the fields of an ActionSet that its Schedule needs."""
    metadata, status = metadata_of(actionset), read_status_data(dict(actionset)) or {}
    created = parse_time(metadata.get("creationTimestamp")) or LONG_AGO
    state = str(status.get("state") or "pending")
    labels, has_artifacts = labels_of(actionset), holds_artifacts(actionset)
    error = mapping_of(status.get("error"))
    return Run(
        intern(str(metadata.get("namespace") or "")),
        str(metadata["name"]),
        str(metadata.get("uid") or ""),
        intern(str(labels.get(SCHEDULE_LABEL) or labels.get(RETENTION_LABEL) or "")),
        intern(state),
        created,
        parse_time(annotations_of(actionset).get(TIME_ANNOTATION)),
        (ended_at(status) or created) if state in ("complete", "failed") else None,
        spec_of(actionset).get("cancel") is True,
        spec_of(actionset).get("suspend") is True and state == "pending",
        bool(metadata.get("deletionTimestamp")),
        has_artifacts,
        _group_of(actionset) if has_artifacts else "",
        str(annotations_of(actionset).get(PARENT) or ""),
        " ".join(str(error.get("message") or "").split())[:_MAX_ERROR_CHARACTERS],
        str(error.get("reason") or ""),
    )


def _group_of(actionset: Mapping[str, Any]) -> str:
    hashes = [
        short_hash(
            str(entry.get("blueprint")),
            str(entry.get("name")),
            *(f"{key}={value}" for key, value in sorted(mapping_of(entry.get("object")).items())),
        )
        for entry in maps_in(spec_of(actionset), "actions")
    ]
    return intern(short_hash(*sorted(hashes)))


def surplus_runs(runs: Iterable[Run], limits: HistoryLimits) -> list[Run]:
    """Return the ended runs beyond the history limits, oldest first.

    Runs with artifacts are never included: they are the only record of the artifacts.
    """
    ended = sorted(
        (
            run
            for run in runs
            if run.ended is not None and not (run.is_deleted or run.holds_artifacts)
        ),
        key=lambda run: (run.created, run.name),
        reverse=True,
    )
    complete = [run for run in ended if run.is_complete]
    failed = [run for run in ended if not run.is_complete]
    return [*reversed(complete[limits.complete :]), *reversed(failed[limits.failed :])]


# Backups


class NoBackup(UsageError, reason="NoBackup"):
    """There is no backup that can be restored."""


def backups_among(runs: Iterable[Run]) -> list[Run]:
    """Return the runs that are backups: complete, with existing artifacts."""
    return [run for run in runs if run.holds_artifacts and not run.is_deleted]


def choose_backup(
    subject: str, runs: Iterable[Run], deletions: Iterable[Run], at: datetime | None
) -> Run:
    """Return the newest backup, or the newest one that was taken before or at a moment.

    Backups whose deletion has started are ignored.
    """
    deleted = {deletion.parent for deletion in deletions}
    backups = sorted(
        (run for run in backups_among(runs) if run.name not in deleted),
        key=lambda run: (run.taken_at, run.name),
        reverse=True,
    )
    backup = next((run for run in backups if at is None or run.taken_at <= at), None)
    if backup is None:
        raise NoBackup(_describe_backups(subject, backups, at))
    return backup


def _describe_backups(subject: str, backups: Sequence[Run], at: datetime | None) -> str:
    if not backups or at is None:
        return f"{subject} has no backup: none of its runs is complete and has artifacts"
    oldest = backups[-1]
    return (
        f"{subject} has no backup from {text_of_time(at)} or before; the oldest is {oldest.name}, "
        f"of {text_of_time(oldest.taken_at)}"
    )

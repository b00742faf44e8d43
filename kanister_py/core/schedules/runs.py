"""Runs of a schedule: the ActionSet of a time, what is seen of those made, and their backups."""

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
"""Names, on an ActionSet that deletes a backup of a schedule, that schedule."""
TIME_ANNOTATION: Final = "kanister-py.io/scheduled-at"
"""Names, on an ActionSet that a schedule made by itself, the time it was made for."""

_HASH: Final = 8
_LONGEST_ERROR: Final = 200


def name_of_run(name: str, uid: str, time: datetime) -> str:
    """Name the ActionSet of a time: the same for every maker, and at any time."""
    moment = f"{time.astimezone(UTC):%Y%m%d%H%M%S}"
    end = f"-{moment}-{short_hash(uid, moment, length=_HASH)}"
    return f"{name[: MAX_LABEL - len(end)]}{end}"


def run_of(schedule: Mapping[str, Any], name: str, time: datetime | None = None) -> dict[str, Any]:
    """Write an ActionSet of a schedule, for one of its times or for now."""
    metadata = metadata_of(schedule)
    template = spec_of(schedule).get("template") or {}
    annotations = {**annotations_of(template)}
    if time is not None:
        annotations[TIME_ANNOTATION] = text_of_time(time)
    labels = {**labels_of(template), SCHEDULE_LABEL: metadata["name"]}
    labels.pop(PARTITION_LABEL, None)
    made: dict[str, Any] = {
        "name": name,
        "namespace": metadata["namespace"],
        "labels": labels | partition_label_of(schedule),
    }
    if annotations:
        made["annotations"] = annotations
    return {
        "apiVersion": API_VERSION,
        "kind": "ActionSet",
        "metadata": made,
        "spec": copy_json(spec_of(template)),
    }


class Run(NamedTuple):
    """Run of a schedule, as its ActionSet shows it."""

    namespace: str
    name: str
    uid: str
    schedule: str
    state: str
    created: datetime
    time: datetime | None = None
    ended: datetime | None = None
    is_cancelled: bool = False
    is_held: bool = False
    """Whether it is suspended, and has not begun."""
    is_deleted: bool = False
    holds_artifacts: bool = False
    group: str = ""
    """Which runs it competes with: those of the same Blueprints on the same objects."""
    parent: str = ""
    error: str = ""
    reason: str = ""

    @property
    def is_active(self) -> bool:
        return self.ended is None

    @property
    def taken_at(self) -> datetime:
        """Say of when a backup is: its time on the schedule, or when it was begun."""
        return self.time or self.created

    @property
    def is_complete(self) -> bool:
        return self.state == "complete"


def read_run(actionset: Mapping[str, Any]) -> Run:
    """Keep of an ActionSet what its schedule needs of it."""
    metadata, status = metadata_of(actionset), read_status_data(dict(actionset)) or {}
    created = parse_time(metadata.get("creationTimestamp")) or LONG_AGO
    state = str(status.get("state") or "pending")
    labels, holds = labels_of(actionset), holds_artifacts(actionset)
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
        holds,
        _group_of(actionset) if holds else "",
        str(annotations_of(actionset).get(PARENT) or ""),
        " ".join(str(error.get("message") or "").split())[:_LONGEST_ERROR],
        str(error.get("reason") or ""),
    )


def _group_of(actionset: Mapping[str, Any]) -> str:
    about = [
        short_hash(
            str(each.get("blueprint")),
            str(each.get("name")),
            *(f"{key}={value}" for key, value in sorted(mapping_of(each.get("object")).items())),
        )
        for each in maps_in(spec_of(actionset), "actions")
    ]
    return intern(short_hash(*sorted(about)))


def surplus_runs(runs: Iterable[Run], limits: HistoryLimits) -> list[Run]:
    """Say which runs that ended are more than the history holds, the oldest first.

    One whose artifacts exist is the only record of them: it stays.
    """
    ended = sorted(
        (
            each
            for each in runs
            if each.ended is not None and not (each.is_deleted or each.holds_artifacts)
        ),
        key=lambda each: (each.created, each.name),
        reverse=True,
    )
    complete = [each for each in ended if each.is_complete]
    failed = [each for each in ended if not each.is_complete]
    return [*reversed(complete[limits.complete :]), *reversed(failed[limits.failed :])]


# Backups


class NoBackup(UsageError, reason="NoBackup"):
    """There is no backup that could be restored."""


def backups_among(runs: Iterable[Run]) -> list[Run]:
    """Give the runs that are backups: complete, and their artifacts exist."""
    return [each for each in runs if each.holds_artifacts and not each.is_deleted]


def choose_backup(
    what: str, runs: Iterable[Run], deletions: Iterable[Run], at: datetime | None
) -> Run:
    """Give the newest backup, or the newest that is no younger than a moment.

    A backup whose deletion has begun is none any more.
    """
    leaving = {each.parent for each in deletions}
    backups = sorted(
        (each for each in backups_among(runs) if each.name not in leaving),
        key=lambda each: (each.taken_at, each.name),
        reverse=True,
    )
    found = next((each for each in backups if at is None or each.taken_at <= at), None)
    if found is None:
        raise NoBackup(_account(what, backups, at))
    return found


def _account(what: str, backups: Sequence[Run], at: datetime | None) -> str:
    if not backups or at is None:
        return f"{what} has no backup: no run of it is complete and has left artifacts that exist"
    oldest = backups[-1]
    return (
        f"{what} has no backup from {text_of_time(at)} or before; the oldest is {oldest.name}, "
        f"of {text_of_time(oldest.taken_at)}"
    )

"""Runs of a schedule: the ActionSet of a time, and what is seen of those that were made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from sys import intern
from typing import Any, Final, NamedTuple

from kanister_py.core.actionsets.artifacts import holds_artifacts
from kanister_py.core.actionsets.creation import API_VERSION, PARENT, SCHEDULE_LABEL
from kanister_py.core.actionsets.status import parse_time, text_of_time
from kanister_py.core.actionsets.stored_status import read_status_data
from kanister_py.core.objects.copies import copy_json
from kanister_py.core.objects.names import MAX_LABEL, short_hash
from kanister_py.core.objects.parts import annotations_of, labels_of, metadata_of, spec_of
from kanister_py.core.objects.reading import mapping_of
from kanister_py.core.schedules.model import HistoryLimits

RETENTION_LABEL: Final = "kanister-py.io/retention-of"
"""Names, on an ActionSet that deletes a backup of a schedule, that schedule."""
TIME_ANNOTATION: Final = "kanister-py.io/scheduled-at"
"""Names, on an ActionSet that a schedule made by itself, the time it was made for."""

_HASH: Final = 8
_LONGEST_ERROR: Final = 200
_LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)


def name_of_run(name: str, uid: str, time: datetime) -> str:
    """Name the ActionSet of a time: the same whoever makes it, and whenever."""
    moment = f"{time.astimezone(UTC):%Y%m%d%H%M%S}"
    end = f"-{moment}-{short_hash(uid, moment, length=_HASH)}"
    return f"{name[: MAX_LABEL - len(end)]}{end}"


def run_of(schedule: Mapping[str, Any], name: str, time: datetime | None = None) -> dict[str, Any]:
    """Write an ActionSet of a schedule, for one of its times or for now."""
    metadata = metadata_of(schedule)
    template = spec_of(schedule).get("template") or {}
    said = template.get("metadata") or {}
    annotations = {**(said.get("annotations") or {})}
    if time is not None:
        annotations[TIME_ANNOTATION] = text_of_time(time)
    made: dict[str, Any] = {
        "name": name,
        "namespace": metadata["namespace"],
        "labels": {**(said.get("labels") or {}), SCHEDULE_LABEL: metadata["name"]},
    }
    if annotations:
        made["annotations"] = annotations
    return {
        "apiVersion": API_VERSION,
        "kind": "ActionSet",
        "metadata": made,
        "spec": copy_json(template.get("spec") or {}),
    }


class Run(NamedTuple):
    """What is seen of an ActionSet of a schedule."""

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

    @property
    def is_active(self) -> bool:
        return self.ended is None

    @property
    def is_complete(self) -> bool:
        return self.state == "complete"


def read_run(actionset: Mapping[str, Any]) -> Run:
    """Keep of an ActionSet what its schedule needs of it."""
    metadata, status = metadata_of(actionset), read_status_data(dict(actionset)) or {}
    created = parse_time(metadata.get("creationTimestamp")) or _LONG_AGO
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
        _ended_at(status, created) if state in ("complete", "failed") else None,
        spec_of(actionset).get("cancel") is True,
        spec_of(actionset).get("suspend") is True and state == "pending",
        bool(metadata.get("deletionTimestamp")),
        holds,
        _group_of(actionset) if holds else "",
        str(annotations_of(actionset).get(PARENT) or ""),
        " ".join(str(error.get("message") or "").split())[:_LONGEST_ERROR],
    )


def _group_of(actionset: Mapping[str, Any]) -> str:
    actions = spec_of(actionset).get("actions")
    about = [
        short_hash(
            *(str(each.get("blueprint")), str(each.get("name"))),
            *(f"{key}={value}" for key, value in sorted(mapping_of(each.get("object")).items())),
        )
        for each in map(mapping_of, actions if isinstance(actions, list) else ())
    ]
    return intern(short_hash(*sorted(about)))


def _ended_at(status: Mapping[str, Any], created: datetime) -> datetime:
    conditions = status.get("conditions")
    for each in map(mapping_of, conditions if isinstance(conditions, list) else ()):
        if each.get("type") in ("Complete", "Failed"):
            return parse_time(each.get("lastTransitionTime")) or created
    progress = mapping_of(status.get("progress"))
    return parse_time(progress.get("lastTransitionTime")) or created


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

"""ActionSets in the cache: active ones completely, ended ones reduced to a few fields.

Clusters contain thousands of ActionSets that ended long ago. Of these, the cache keeps only the
fields that their deletion depends on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from sys import intern
from typing import Any, Final, NamedTuple, TypeAlias

from kanister_py.controller.actionsets.status import FINALIZER
from kanister_py.controller.machine.metrics import CANCELLED as CANCELLED_OUTCOME
from kanister_py.controller.machine.metrics import COMPLETE, FAILED, ActionLabels, ControllerMetrics
from kanister_py.core.actionsets.creation import PARENT, RETRY_OF, SCHEDULE_LABEL
from kanister_py.core.actionsets.status import CANCELLED, LONG_AGO, parse_time
from kanister_py.core.actionsets.stored_status import ended_at, holds_artifacts, read_status_data
from kanister_py.core.kube.parts import annotations_of, labels_of, namespace_of
from kanister_py.core.schedules.runs import RETENTION_LABEL, TIME_ANNOTATION
from kanister_py.ports.clock import Clock
from kanister_py.ports.cluster import KubeObject

CONCURRENCY_KEY: Final = "kanister-py.io/concurrency-key"

_ENDS: Final = ("complete", "failed")


class ScheduledTime(NamedTuple):
    """A due time of a schedule of the same namespace."""

    schedule: str
    time: datetime


class Ended(NamedTuple):
    """An ActionSet that has ended, reduced to the fields that the cleanup needs."""

    uid: str
    is_complete: bool
    ended_at: datetime
    blueprints: tuple[str, ...] = ()
    ttl_seconds: int | None = None
    parents: tuple[str, ...] = ()
    has_finalizer: bool = False
    is_deleted: bool = False
    is_record: bool = False
    """Whether it is the record of a schedule's backup whose artifacts still exist."""
    made_for: ScheduledTime | None = None
    """The schedule that created it, and the due time."""


class Live(NamedTuple):
    """An ActionSet that has not ended, with the complete object."""

    uid: str
    obj: KubeObject
    created_at: datetime = LONG_AGO
    concurrency_key: str = ""
    is_pending: bool = True
    is_suspended: bool = False
    parents: tuple[str, ...] = ()
    seen_at: float = float("-inf")
    """Monotonic time at which this version was read."""

    @property
    def is_deleted(self) -> bool:
        return bool(self.obj["metadata"].get("deletionTimestamp"))


CachedActionSet: TypeAlias = Live | Ended


def cached_form(obj: KubeObject, clock: Clock | None = None) -> CachedActionSet:
    """Return the form of an ActionSet in the cache.

    With a `clock`, `seen_at` is the current time. The managed fields are removed from `obj`.
    """
    status = obj.get("status")
    state = status.get("state") if isinstance(status, dict) else None
    if state in _ENDS:
        return _ended(obj, state == "complete")
    metadata = obj["metadata"]
    metadata.pop("managedFields", None)
    spec, notes = obj.get("spec"), _notes_in(metadata)
    concurrency_key = notes.get(CONCURRENCY_KEY)
    return Live(
        uid=metadata["uid"],
        obj=obj,
        created_at=_created_at(metadata),
        concurrency_key=concurrency_key if isinstance(concurrency_key, str) else "",
        is_pending=state != "running",
        is_suspended=isinstance(spec, dict) and spec.get("suspend") is True,
        parents=_parents_in(notes),
        seen_at=float("-inf") if clock is None else clock.monotonic(),
    )


def actions_of(live: Live) -> Iterator[tuple[str, str, str]]:
    """Yield the Blueprint's namespace, its name, and the name of each action."""
    for act in action_labels_of(live.obj):
        namespace, _, name = act.blueprint.rpartition("/")
        yield namespace or act.namespace, name, act.action


def action_labels_of(obj: KubeObject) -> tuple[ActionLabels, ...]:
    """Return the metric labels of each action."""
    spec, namespace = obj.get("spec"), namespace_of(obj)
    labels = labels_of(obj)
    schedule = str(labels.get(SCHEDULE_LABEL) or labels.get(RETENTION_LABEL) or "")
    actions = spec.get("actions") if isinstance(spec, dict) else None
    action_labels = []
    for entry in actions if isinstance(actions, list) else ():
        action = entry if isinstance(entry, dict) else {}
        blueprint, name = str(action.get("blueprint") or ""), str(action.get("name") or "")
        action_labels.append(
            ActionLabels(namespace, schedule, blueprint, name, _name_of(action.get("object")))
        )
    return tuple(action_labels)


def _name_of(reference: Any) -> str:
    if not isinstance(reference, dict):
        return ""
    kind = reference.get("kind") or reference.get("resource")
    parts = (kind, reference.get("namespace"), reference.get("name"))
    return "/".join(map(str, filter(None, parts)))


def reason_of_end(obj: KubeObject) -> tuple[str, str]:
    """Return the reason of an ActionSet's failure and the failed phase; empty if unknown."""
    error = (read_status_data(obj) or {}).get("error")
    failure = error if isinstance(error, dict) else {}
    return str(failure.get("reason") or ""), str(failure.get("phase") or "")


def record_end(obj: KubeObject, ended: Ended, metrics: ControllerMetrics) -> bool:
    """Record the end of an ActionSet's actions in the metrics.

    Returns whether this end is new and the run of an action before it had failed.
    """
    outcome = COMPLETE
    if not ended.is_complete:
        outcome = CANCELLED_OUTCOME if reason_of_end(obj)[0] == CANCELLED else FAILED
    had_failed = False
    for act in action_labels_of(obj):
        had_failed = metrics.record_end(act, outcome, ended.ended_at) or had_failed
    return had_failed


def _ended(obj: KubeObject, is_complete: bool) -> Ended:
    metadata, spec = obj["metadata"], obj.get("spec")
    spec = spec if isinstance(spec, dict) else {}
    actions = spec.get("actions")
    blueprints = [
        intern(name)
        for action in (actions if isinstance(actions, list) else ())
        if isinstance(action, dict) and isinstance(name := action.get("blueprint"), str)
    ]
    holds = is_complete and holds_artifacts(obj)
    return Ended(
        uid=metadata["uid"],
        is_complete=is_complete,
        ended_at=ended_at(read_status_data(obj) or {}) or _created_at(metadata),
        blueprints=tuple(dict.fromkeys(blueprints)),
        # While its artifacts exist, the ActionSet is the only reference to them.
        ttl_seconds=None if holds else _ttl_of(spec, is_complete),
        parents=_parents_in(_notes_in(metadata)),
        has_finalizer=FINALIZER in (metadata.get("finalizers") or ()),
        is_deleted=bool(metadata.get("deletionTimestamp")),
        is_record=holds and SCHEDULE_LABEL in labels_of(obj),
        made_for=_made_for(obj),
    )


def _made_for(obj: KubeObject) -> ScheduledTime | None:
    schedule = labels_of(obj).get(SCHEDULE_LABEL)
    time = parse_time(annotations_of(obj).get(TIME_ANNOTATION)) if schedule else None
    return None if time is None else ScheduledTime(intern(str(schedule)), time)


def _ttl_of(spec: Mapping[str, Any], is_complete: bool) -> int | None:
    """Return the TTL of an ended ActionSet in seconds, or None. Failures may have another TTL."""
    seconds = spec.get("ttlSecondsAfterFinished")
    if not is_complete and spec.get("ttlSecondsAfterFailure") is not None:
        seconds = spec["ttlSecondsAfterFailure"]
    is_number = isinstance(seconds, int) and not isinstance(seconds, bool) and seconds >= 0
    return seconds if is_number else None


def _created_at(metadata: Mapping[str, Any]) -> datetime:
    return parse_time(metadata.get("creationTimestamp")) or LONG_AGO


def _notes_in(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the annotations of an object, and its labels for keys without an annotation."""
    annotations, labels = metadata.get("annotations"), metadata.get("labels")
    if not annotations or not labels:
        return annotations or labels or {}
    return {**labels, **{key: value for key, value in annotations.items() if value}}


def _parents_in(notes: Mapping[str, Any]) -> tuple[str, ...]:
    if not notes:
        return ()
    parents = (notes.get(PARENT), notes.get(RETRY_OF))
    return tuple(intern(name) for name in dict.fromkeys(parents) if name and isinstance(name, str))

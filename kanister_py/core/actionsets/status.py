"""Status of an ActionSet: the complete state of a run.

It has the fields of Kanister's `status` and a few more; `stored_status` stores both in the object.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from kanister_py.core.notices import Notice

DEFER: Final = -1
"""Phase index of the deferPhase of an action."""

# Types of conditions. The type is also the default reason.
CANCEL_ASKED: Final = "CancelAsked"
SUSPENDED: Final = "Suspended"
COMPLETE: Final = "Complete"
FAILED: Final = "Failed"

CANCELLED: Final = "Cancelled"
"""Reason of cancelled phases and actions."""

AFTER_THAT: Final = "; after that: "
"""Separates the cause in the message of a failed run from a later failure of the deferPhase."""

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class State(StrEnum):
    """State of an ActionSet or a phase."""

    PENDING = "pending"
    RUNNING = "running"
    FAILED = "failed"
    COMPLETE = "complete"


FINAL: Final = frozenset({State.FAILED, State.COMPLETE})
"""States in which an ActionSet has ended. They never change."""


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Place of a phase: index of its action and index of the phase, or `DEFER`."""

    action: int
    phase: int

    @property
    def is_deferred(self) -> bool:
        return self.phase == DEFER

    @property
    def phase_index(self) -> int | None:
        """Index of the phase, or None for the deferred phase."""
        return None if self.phase == DEFER else self.phase

    def __str__(self) -> str:
        return f"{self.action}/{'defer' if self.is_deferred else self.phase}"


class PhaseOutput(NamedTuple):
    """Output of a phase for later phases, with its size as JSON in bytes."""

    values: Mapping[str, Any]
    size_bytes: int


class PhaseError(NamedTuple):
    """Failure of an attempt of a phase. Secrets have been masked.

    `is_transient` is set if a later attempt may succeed, at the earliest after `delay_seconds`.
    `problems` is set if there are several problems; each names its place.
    """

    message: str
    reason: str = "Error"
    exit_code: int | None = None
    log_tail: tuple[str, ...] = ()
    is_transient: bool = False
    delay_seconds: float = 0.0
    problems: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        data = {"message": self.message, "reason": self.reason, **_details_of(self)}
        if self.is_transient:
            data["transient"] = True
        if self.delay_seconds:
            data["delaySeconds"] = self.delay_seconds
        return data


def parse_phase_error(data: Mapping[str, Any]) -> PhaseError:
    """Parse the result of `PhaseError.as_dict`."""
    return PhaseError(
        message=str(data.get("message", "")),
        reason=str(data.get("reason", "Error")),
        is_transient=bool(data.get("transient", False)),
        delay_seconds=float(data.get("delaySeconds", 0.0)),
        **_details_in(data),
    )


def _details_of(error: PhaseError | RunError) -> dict[str, Any]:
    data: dict[str, Any] = {}
    if error.exit_code is not None:
        data["exitCode"] = error.exit_code
    if error.log_tail:
        data["logTail"] = list(error.log_tail)
    if error.problems:
        data["problems"] = list(error.problems)
    return data


def _details_in(data: Mapping[str, Any]) -> dict[str, Any]:
    """Parse the result of `_details_of`."""
    log_tail, problems = (tuple(data.get(key, ())) for key in ("logTail", "problems"))
    return {"exit_code": data.get("exitCode"), "log_tail": log_tail, "problems": problems}


class RunError(NamedTuple):
    """Failure of an ActionSet, with its place."""

    message: str
    reason: str = ""
    action: str = ""
    phase: str = ""
    attempt: int = 0
    exit_code: int | None = None
    log_tail: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        keys = ("reason", "action", "phase", "attempt")
        fields = {key: value for key in keys if (value := getattr(self, key))}
        return {"message": self.message, **fields, **_details_of(self)}


class Moved(NamedTuple):
    """Bytes and files that a phase has transferred so far, and their expected totals."""

    done_bytes: int = 0
    all_bytes: int = 0
    done_files: int = 0
    all_files: int = 0

    def as_dict(self) -> dict[str, int]:
        return {key: number for key, number in zip(_MOVED, self, strict=True) if number}


def total_of(parts: Iterable[Moved]) -> Moved:
    """Return the sum of all transfers."""
    moved = [*filter(any, parts)]
    return Moved(*map(sum, zip(*moved, strict=True))) if moved else NOT_MOVED


NOT_MOVED: Final = Moved()
_MOVED: Final = ("sizeUploadedB", "estimatedUploadSizeB", "filesUploaded", "estimatedFiles")


class PhaseStatus(NamedTuple):
    """Status of a phase.

    `attempt` is the number of the last attempt that was started, or zero before the first one. A
    pending phase with a `retry_time` has failed and will be retried at that time.
    """

    name: str
    state: State = State.PENDING
    output: PhaseOutput | None = None
    percent: int | None = None
    moved: Moved = NOT_MOVED
    progress_time: datetime | None = None
    func_version: str = ""
    attempt: int = 0
    start_time: datetime | None = None
    completion_time: datetime | None = None
    retry_time: datetime | None = None
    is_skipped: bool = False
    error: PhaseError | None = None

    def as_dict(self) -> dict[str, Any]:
        data: dict[str, Any] = {"name": self.name, "state": str(self.state)}
        if self.output is not None and self.output.values:
            data["output"] = dict(self.output.values)
        progress: dict[str, Any] = {}
        if self.percent is not None:
            progress["progressPercent"] = str(self.percent)
        if any(self.moved):
            progress |= self.moved.as_dict()
        if self.progress_time is not None:
            progress["lastTransitionTime"] = text_of_time(self.progress_time)
        data["progress"] = progress
        if self.func_version:
            data["funcVersion"] = self.func_version
        if self.attempt:
            data["attempt"] = self.attempt
        for key, time in (
            ("startTime", self.start_time),
            ("completionTime", self.completion_time),
            ("retryTime", self.retry_time),
        ):
            if time is not None:
                data[key] = text_of_moment(time)
        if self.is_skipped:
            data["skipped"] = True
        if self.error is not None:
            data["error"] = {"message": self.error.message, "reason": self.error.reason}
        return data


class ActionStatus(NamedTuple):
    """Status of an action. `start_time` is the launch time, which templates read as `.Time`.

    `artifacts` are set when the action has succeeded. `facts` are data about the object at launch,
    which phases may change later.
    """

    name: str
    object: Mapping[str, Any] = _NOTHING
    blueprint: str = ""
    artifacts: Mapping[str, Any] = _NOTHING
    phases: tuple[PhaseStatus, ...] = ()
    deferred: PhaseStatus | None = None
    start_time: datetime | None = None
    completion_time: datetime | None = None
    facts: Mapping[str, Any] = _NOTHING

    def phase(self, index: int) -> PhaseStatus:
        if index == DEFER:
            assert self.deferred is not None
            return self.deferred
        return self.phases[index]

    def every_phase(self) -> tuple[PhaseStatus, ...]:
        """Return all phases, the deferred phase last."""
        return self.phases if self.deferred is None else (*self.phases, self.deferred)

    def as_dict(self) -> dict[str, Any]:
        data: dict[str, Any] = {
            "name": self.name,
            "object": dict(self.object),
            "blueprint": self.blueprint,
        }
        if self.artifacts:
            data["artifacts"] = dict(self.artifacts)
        if self.phases:
            data["phases"] = [phase.as_dict() for phase in self.phases]
        if self.deferred is None:
            # Kanister's clients expect the field even if there is no deferPhase.
            data["deferPhase"] = {"name": "", "state": "", "progress": {}}
        else:
            data["deferPhase"] = self.deferred.as_dict()
        if self.start_time is not None:
            data["startTime"] = text_of_moment(self.start_time)
        if self.completion_time is not None:
            data["completionTime"] = text_of_moment(self.completion_time)
        if self.facts:
            data["facts"] = dict(self.facts)
        return data


_WARNED_KEYS: Final = ("reason", "action", "phase", "function", "version", "message")


class Warned(NamedTuple):
    """Warning in the status, with the action and phase that it concerns."""

    reason: str
    message: str
    action: str = ""
    phase: str = ""
    function: str = ""
    version: str = ""

    def as_dict(self) -> dict[str, Any]:
        return {key: value for key in _WARNED_KEYS if (value := getattr(self, key))}


def warned_of(notice: Notice, action: str = "", phase: str = "") -> Warned:
    """Convert a notice into a warning."""
    return Warned(notice.reason, notice.message, action, phase, notice.function, notice.version)


class Condition(NamedTuple):
    """Condition of an ActionSet."""

    type: str
    is_true: bool
    reason: str
    message: str = ""
    last_transition_time: datetime | None = None

    def as_dict(self) -> dict[str, Any]:
        data: dict[str, Any] = {
            "type": self.type,
            "status": "True" if self.is_true else "False",
            "reason": self.reason,
            "message": self.message,
        }
        if self.last_transition_time is not None:
            data["lastTransitionTime"] = text_of_time(self.last_transition_time)
        return data


class Totals(NamedTuple):
    """Sums over all actions, updated incrementally so that no step reads every phase.

    `phases` and `percents` do not include deferred phases. `running` is in order of start.
    """

    phases: int = 0
    percents: int = 0
    output_bytes: int = 0
    open_actions: int = 0
    unlaunched: int = 0
    running: tuple[Place, ...] = ()


class Status(NamedTuple):
    """Status of an ActionSet. Immutable: every change creates a new value."""

    state: State = State.PENDING
    actions: tuple[ActionStatus, ...] = ()
    error: RunError | None = None
    percent: int | None = None
    progress_time: datetime | None = None
    warnings: tuple[Warned, ...] = ()
    conditions: tuple[Condition, ...] = ()
    totals: Totals = Totals()
    partition: str = ""
    """Partition of the controller that started the run."""

    @property
    def is_final(self) -> bool:
        return self.state in FINAL

    @property
    def running_phase(self) -> str:
        """Name of the running phase that was started last."""
        if not self.totals.running:
            return ""
        return self.phase_at(self.totals.running[-1]).name

    def phase_at(self, place: Place) -> PhaseStatus:
        action = self.actions[place.action]
        return action.phase(DEFER) if place.phase == DEFER else action.phases[place.phase]

    def condition(self, kind: str) -> Condition | None:
        for condition in self.conditions:
            if condition.type == kind:
                return condition
        return None

    @property
    def output_artifacts(self) -> dict[str, dict[str, Any]]:
        """Artifacts of all actions by name, if the ActionSet is complete."""
        artifacts: dict[str, dict[str, Any]] = {}
        for action in self.actions:
            if action.completion_time is not None and self.state is State.COMPLETE:
                artifacts.update(
                    {name: dict(artifact) for name, artifact in action.artifacts.items()}
                )
        return artifacts

    @property
    def moved(self) -> Moved:
        """Sum of the transfers of all phases except deferred ones."""
        return total_of([phase.moved for action in self.actions for phase in action.phases])

    def as_dict(self) -> dict[str, Any]:
        """Return the status as JSON data, with Kanister's fields and ours."""
        progress: dict[str, Any] = {}
        running_phase = self.running_phase
        if running_phase:
            progress["runningPhase"] = running_phase
        if self.percent is not None:
            progress["percentCompleted"] = str(self.percent)
        moved = self.moved
        if any(moved):
            progress |= moved.as_dict()
        if self.progress_time is not None:
            progress["lastTransitionTime"] = text_of_time(self.progress_time)
        data: dict[str, Any] = {
            "state": str(self.state),
            "error": self.error.as_dict() if self.error is not None else {"message": ""},
            "progress": progress,
        }
        if self.partition:
            data["partition"] = self.partition
        if self.actions:
            data["actions"] = [action.as_dict() for action in self.actions]
        if self.warnings:
            data["warnings"] = [warning.as_dict() for warning in self.warnings]
        if self.conditions:
            data["conditions"] = [condition.as_dict() for condition in self.conditions]
        return data


# Parsing


def parse_status(data: Mapping[str, Any]) -> Status:
    """Parse the `status` of an ActionSet. Also parses a status that Kanister wrote."""
    actions = tuple(_parse_action(entry) for entry in data.get("actions") or ())
    progress = data.get("progress") or {}
    percent = progress.get("percentCompleted")
    status = Status(
        state=_state_of(data.get("state")),
        actions=actions,
        error=_parse_error(data.get("error") or {}),
        percent=_percent_of(percent),
        progress_time=parse_time(progress.get("lastTransitionTime")),
        warnings=tuple(
            Warned(**{key: str(entry.get(key, "")) for key in _WARNED_KEYS})
            for entry in data.get("warnings") or ()
        ),
        conditions=tuple(
            Condition(
                str(entry.get("type", "")),
                entry.get("status") == "True",
                str(entry.get("reason", "")),
                str(entry.get("message", "")),
                parse_time(entry.get("lastTransitionTime")),
            )
            for entry in data.get("conditions") or ()
        ),
        partition=str(data.get("partition") or ""),
    )
    return with_totals(status)


def with_totals(status: Status) -> Status:
    """Recompute the totals of a status."""
    running: list[tuple[datetime, Place]] = []
    percents = outputs = phases = open_actions = unlaunched = 0
    for at, action in enumerate(status.actions):
        phases += len(action.phases)
        open_actions += action.completion_time is None
        unlaunched += action.start_time is None
        phase_list = [*enumerate(action.phases)]
        if action.deferred is not None:
            phase_list.append((DEFER, action.deferred))
        for index, phase in phase_list:
            if index != DEFER:
                percents += phase.percent or 0
            if phase.output is not None:
                outputs += phase.output.size_bytes
            if phase.state is State.RUNNING:
                running.append((phase.start_time or LONG_AGO, Place(at, index)))
    totals = Totals(
        phases=phases,
        percents=percents,
        output_bytes=outputs,
        open_actions=open_actions,
        unlaunched=unlaunched,
        running=tuple([place for _, place in sorted(running)]),
    )
    return status._replace(totals=totals)


LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)


def _parse_action(data: Mapping[str, Any]) -> ActionStatus:
    deferred = data.get("deferPhase") or {}
    has_deferred = bool(deferred.get("name") or deferred.get("state"))
    return ActionStatus(
        name=str(data.get("name", "")),
        object=MappingProxyType(dict(data.get("object") or {})),
        blueprint=str(data.get("blueprint", "")),
        artifacts=MappingProxyType(dict(data.get("artifacts") or {})),
        phases=tuple(_parse_phase(phase) for phase in data.get("phases") or ()),
        deferred=_parse_phase(deferred) if has_deferred else None,
        start_time=parse_time(data.get("startTime")),
        completion_time=parse_time(data.get("completionTime")),
        facts=MappingProxyType(dict(data.get("facts") or {})),
    )


def _parse_phase(data: Mapping[str, Any]) -> PhaseStatus:
    progress = data.get("progress") or {}
    state = _state_of(data.get("state"))
    output = data.get("output")
    error = data.get("error")
    if output is None and state is State.COMPLETE:
        output = {}
    return PhaseStatus(
        name=str(data.get("name", "")),
        state=state,
        output=measure_output(output) if output is not None else None,
        percent=_percent_of(progress.get("progressPercent")),
        moved=Moved(*(n if isinstance(n := progress.get(key), int) else 0 for key in _MOVED)),
        progress_time=parse_time(progress.get("lastTransitionTime")),
        func_version=str(data.get("funcVersion", "")),
        attempt=int(data.get("attempt", 0)),
        start_time=parse_time(data.get("startTime")),
        completion_time=parse_time(data.get("completionTime")),
        retry_time=parse_time(data.get("retryTime")),
        is_skipped=bool(data.get("skipped", False)),
        error=parse_phase_error(error) if error else None,
    )


def _parse_error(data: Mapping[str, Any]) -> RunError | None:
    if not data.get("message"):
        return None
    return RunError(
        message=str(data["message"]),
        reason=str(data.get("reason", "")),
        action=str(data.get("action", "")),
        phase=str(data.get("phase", "")),
        attempt=int(data.get("attempt", 0)),
        **_details_in(data),
    )


def _state_of(text: object) -> State:
    return State(str(text)) if text in _STATES else State.PENDING


_STATES: Final = frozenset(str(state) for state in State)


def _percent_of(text: object) -> int | None:
    try:
        return max(0, min(100, int(str(text)))) if text not in (None, "") else None
    except ValueError:
        return None


def measure_output(values: Mapping[str, Any]) -> PhaseOutput:
    """Return outputs with the size that they have in a status."""
    return PhaseOutput(MappingProxyType(dict(values)), size_of(values))


def size_of(value: object) -> int:
    """Return the size of a value as compact JSON in UTF-8."""
    text = _ENCODER.encode(value)
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def _plain(value: object) -> object:
    return dict(value) if isinstance(value, Mapping) else str(value)


# Created once, for speed: every status and every output is measured.
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=_plain)


# Times


def text_of_time(time: datetime) -> str:
    """Format a time in whole seconds, as Kubernetes does."""
    return f"{(time if time.tzinfo is UTC else time.astimezone(UTC)).isoformat()[:19]}Z"


def text_of_moment(time: datetime) -> str:
    """Format a time with microseconds, without trailing zeros."""
    text = (time if time.tzinfo is UTC else time.astimezone(UTC)).isoformat()[:-6]
    return f"{text.rstrip('0')}Z" if time.microsecond else f"{text}Z"


def parse_time(text: object) -> datetime | None:
    """Parse a time of either format; return None for other values."""
    if not isinstance(text, str):
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def sort_key_of_time(text: object) -> datetime:
    """Return a sort key for times in text form; unreadable times sort first.

    Sorting the texts would be wrong: `12:00:00.5Z` is less than `12:00:00Z`.
    """
    return parse_time(text) or _EARLIEST


_EARLIEST: Final = datetime.min.replace(tzinfo=UTC)


def new_status(actions: Iterable[ActionStatus]) -> Status:
    """Return the initial status of an ActionSet."""
    return with_totals(Status(actions=tuple(actions)))

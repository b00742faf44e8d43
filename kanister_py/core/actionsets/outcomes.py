"""Outcomes: the events that change the status of a run. They are stored in its journal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, TypeAlias, get_args

from kanister_py.core.actionsets.status import (
    NOT_MOVED,
    Moved,
    PhaseError,
    Place,
    Warned,
    parse_phase_error,
    parse_time,
    text_of_moment,
)


def _no_values() -> Mapping[str, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Begun:
    """The run began: all function versions have been chosen.

    `versions` has a tuple per action with a version per phase; that of the deferPhase is last.
    """

    time: datetime
    versions: tuple[tuple[str, ...], ...]
    warnings: tuple[Warned, ...] = ()


@dataclass(frozen=True, slots=True)
class Launched:
    """The data for the templates of an action was read, and the action can start.

    `facts` is the part that must survive a restart, because phases may change it.
    """

    time: datetime
    action: int
    facts: Mapping[str, Any] = field(default_factory=_no_values)
    warnings: tuple[Warned, ...] = ()


@dataclass(frozen=True, slots=True)
class LaunchFailed:
    """An action cannot start. `phase` is the index of the phase that caused it, if any."""

    time: datetime
    action: int
    error: PhaseError
    phase: int | None = None


@dataclass(frozen=True, slots=True)
class PhaseStarted:
    """An attempt of a phase is about to start. Recorded before the function is called."""

    time: datetime
    place: Place
    attempt: int


@dataclass(frozen=True, slots=True)
class PhaseProgressed:
    """A phase reported its progress in percent and in transferred bytes and files."""

    time: datetime
    place: Place
    percent: int
    moved: Moved = NOT_MOVED


@dataclass(frozen=True, slots=True)
class PhaseCompleted:
    """A phase succeeded. Later phases can read its output."""

    time: datetime
    place: Place
    output: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PhaseSkipped:
    """A phase was skipped because of its `if`."""

    time: datetime
    place: Place


@dataclass(frozen=True, slots=True)
class PhaseFailed:
    """An attempt of a phase failed, or the phase was not allowed to start.

    Later phases can read the `output` of a failed attempt.
    """

    time: datetime
    place: Place
    error: PhaseError
    output: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ArtifactsRendered:
    """The artifacts of an action have been rendered, which completes the action."""

    time: datetime
    action: int
    artifacts: Mapping[str, Any] = field(default_factory=_no_values)


@dataclass(frozen=True, slots=True)
class ArtifactsFailed:
    """The artifacts of an action could not be rendered."""

    time: datetime
    action: int
    error: PhaseError


@dataclass(frozen=True, slots=True)
class CancelAsked:
    """Cancellation of the ActionSet was requested. It cannot be undone."""

    time: datetime
    reason: str = "Cancelled"
    message: str = ""


@dataclass(frozen=True, slots=True)
class Suspended:
    """No further phase may start until the run is resumed."""

    time: datetime


@dataclass(frozen=True, slots=True)
class Resumed:
    """Phases may start again."""

    time: datetime


@dataclass(frozen=True, slots=True)
class Abandoned:
    """The run ends at once. Running phases are not stopped, and deferred phases do not run."""

    time: datetime
    error: PhaseError


Outcome: TypeAlias = (
    Begun
    | Launched
    | LaunchFailed
    | PhaseStarted
    | PhaseProgressed
    | PhaseCompleted
    | PhaseSkipped
    | PhaseFailed
    | ArtifactsRendered
    | ArtifactsFailed
    | CancelAsked
    | Suspended
    | Resumed
    | Abandoned
)


def outcome_as_dict(outcome: Outcome) -> dict[str, Any]:
    """Return an outcome as JSON data, without fields that have their default values."""
    data: dict[str, Any] = {"what": type(outcome).__name__}
    for outcome_field in fields(outcome):
        value = getattr(outcome, outcome_field.name)
        if value != _default_of(outcome_field):
            data[outcome_field.name] = (
                _ENCODERS[outcome_field.name](value) if outcome_field.name in _ENCODERS else value
            )
    return data


def _default_of(outcome_field: Field[Any]) -> Any:
    return (
        outcome_field.default
        if outcome_field.default_factory is MISSING
        else outcome_field.default_factory()
    )


def parse_outcome(data: Mapping[str, Any]) -> Outcome:
    """Parse the result of `outcome_as_dict`. Raises ValueError for other data."""
    try:
        kind = _KINDS[data["what"]]
        values = {
            outcome_field.name: _DECODERS[outcome_field.name](data[outcome_field.name])
            for outcome_field in fields(kind)
            if outcome_field.name in data
        }
        if values["time"] is None:
            raise ValueError("no time")
        outcome: Outcome = kind(**values)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not an outcome: {error}") from error
    return outcome


def _map_of(data: Any) -> Mapping[str, Any]:
    return MappingProxyType(dict(data or {}))


_ENCODERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "time": text_of_moment,
    "versions": lambda versions: [list(versions_of_action) for versions_of_action in versions],
    "warnings": lambda warnings: [warning.as_dict() for warning in warnings],
    "place": lambda place: [place.action, place.phase],
    "error": PhaseError.as_dict,
    "facts": dict,
    "output": dict,
    "artifacts": dict,
}
_DECODERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "time": parse_time,
    "versions": lambda data: tuple(tuple(map(str, versions)) for versions in data),
    "warnings": lambda data: tuple(Warned(**warning) for warning in data),
    "place": lambda data: Place(*map(int, data)),
    "error": parse_phase_error,
    "facts": _map_of,
    "output": _map_of,
    "artifacts": _map_of,
    "action": int,
    "phase": int,
    "attempt": int,
    "percent": int,
    "moved": lambda data: Moved(*map(int, data)),
    "reason": str,
    "message": str,
}
_KINDS: Final[Mapping[str, Any]] = {kind.__name__: kind for kind in get_args(Outcome)}

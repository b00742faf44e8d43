"""Outcomes: the events of a run as data, and as lines of its journal."""

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
    """Every function's version has been chosen: for each action, one for each phase.

    The version of an action's deferPhase, if there is one, comes last.
    """

    time: datetime
    versions: tuple[tuple[str, ...], ...]
    warnings: tuple[Warned, ...] = ()


@dataclass(frozen=True, slots=True)
class Launched:
    """The facts for an action's templates were found; `facts` must outlive a restart."""

    time: datetime
    action: int
    facts: Mapping[str, Any] = field(default_factory=_no_values)
    warnings: tuple[Warned, ...] = ()


@dataclass(frozen=True, slots=True)
class LaunchFailed:
    """An action cannot even start. `phase` is the one to blame, if it is for one of them."""

    time: datetime
    action: int
    error: PhaseError
    phase: int | None = None


@dataclass(frozen=True, slots=True)
class PhaseStarted:
    """An attempt at a phase is about to act. Recorded before it does."""

    time: datetime
    place: Place
    attempt: int


@dataclass(frozen=True, slots=True)
class PhaseProgressed:
    """A phase says how far it is, in percent, and what it has moved."""

    time: datetime
    place: Place
    percent: int
    moved: Moved = NOT_MOVED


@dataclass(frozen=True, slots=True)
class PhaseCompleted:
    """A phase did what it should, and gives outputs to later ones."""

    time: datetime
    place: Place
    output: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class PhaseSkipped:
    """A phase's `if` says no."""

    time: datetime
    place: Place


@dataclass(frozen=True, slots=True)
class PhaseFailed:
    """An attempt at a phase failed, or a phase was refused its start.

    An `output` is what the failed attempt gives to later phases all the same.
    """

    time: datetime
    place: Place
    error: PhaseError
    output: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ArtifactsRendered:
    """The artifacts of an action are known, and with them it ends."""

    time: datetime
    action: int
    artifacts: Mapping[str, Any] = field(default_factory=_no_values)


@dataclass(frozen=True, slots=True)
class ArtifactsFailed:
    """The artifacts of an action cannot be rendered."""

    time: datetime
    action: int
    error: PhaseError


@dataclass(frozen=True, slots=True)
class CancelAsked:
    """The ActionSet is to end early. There is no way back from that."""

    time: datetime
    reason: str = "Cancelled"
    message: str = ""


@dataclass(frozen=True, slots=True)
class Suspended:
    """No new phase shall start for now."""

    time: datetime


@dataclass(frozen=True, slots=True)
class Resumed:
    """Phases may start again."""

    time: datetime


@dataclass(frozen=True, slots=True)
class Abandoned:
    """No more is done for the ActionSet: what is at work is left as it is, nothing is tidied up."""

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
    """Return an outcome as JSON data, without the fields that have their default value."""
    data: dict[str, Any] = {"what": type(outcome).__name__}
    for part in fields(outcome):
        value = getattr(outcome, part.name)
        if value != _default_of(part):
            data[part.name] = _WRITTEN[part.name](value) if part.name in _WRITTEN else value
    return data


def _default_of(part: Field[Any]) -> Any:
    return part.default if part.default_factory is MISSING else part.default_factory()


def parse_outcome(data: Mapping[str, Any]) -> Outcome:
    """Read what `outcome_as_dict` wrote; anything else raises `ValueError`."""
    try:
        kind = _KINDS[data["what"]]
        found = {
            part.name: _READ[part.name](data[part.name])
            for part in fields(kind)
            if part.name in data
        }
        if found["time"] is None:
            raise ValueError("no time")
        outcome: Outcome = kind(**found)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not an outcome: {error}") from error
    return outcome


def _map_of(data: Any) -> Mapping[str, Any]:
    return MappingProxyType(dict(data or {}))


_WRITTEN: Final[Mapping[str, Callable[[Any], Any]]] = {
    "time": text_of_moment,
    "versions": lambda versions: [list(each) for each in versions],
    "warnings": lambda warnings: [each.as_dict() for each in warnings],
    "place": lambda place: [place.action, place.phase],
    "error": PhaseError.as_dict,
    "facts": dict,
    "output": dict,
    "artifacts": dict,
}
_READ: Final[Mapping[str, Callable[[Any], Any]]] = {
    "time": parse_time,
    "versions": lambda data: tuple(tuple(map(str, each)) for each in data),
    "warnings": lambda data: tuple(Warned(**each) for each in data),
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

"""What can happen to an ActionSet, as data: the lines of its journal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias

from kanister_py.core.actionsets.status import (
    PhaseError,
    Place,
    Warned,
    parse_phase_error,
    parse_time,
    text_of_moment,
)
from kanister_py.core.objects.distinct import distinct

_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


@distinct
class Begun(NamedTuple):
    """Every function's version has been chosen: for each action, one for each phase.

    The version of an action's deferPhase, if there is one, comes last.
    """

    time: datetime
    versions: tuple[tuple[str, ...], ...]
    warnings: tuple[Warned, ...] = ()


@distinct
class Launched(NamedTuple):
    """What an action's templates see has been found; `facts` of it must outlive a restart."""

    time: datetime
    action: int
    facts: Mapping[str, Any] = _NOTHING


@distinct
class LaunchFailed(NamedTuple):
    """An action cannot even start."""

    time: datetime
    action: int
    error: PhaseError


@distinct
class PhaseStarted(NamedTuple):
    """An attempt at a phase is about to act. Recorded before it does."""

    time: datetime
    place: Place
    attempt: int


@distinct
class PhaseProgressed(NamedTuple):
    """A phase says how far it is, in percent."""

    time: datetime
    place: Place
    percent: int


@distinct
class PhaseCompleted(NamedTuple):
    """A phase did what it should, and gives outputs to later ones."""

    time: datetime
    place: Place
    output: Mapping[str, Any] = _NOTHING


@distinct
class PhaseSkipped(NamedTuple):
    """A phase's `if` says no."""

    time: datetime
    place: Place


@distinct
class PhaseFailed(NamedTuple):
    """An attempt at a phase failed, or a phase was refused its start.

    An `output` is what the failed attempt gives to later phases all the same.
    """

    time: datetime
    place: Place
    error: PhaseError
    output: Mapping[str, Any] | None = None


@distinct
class ArtifactsRendered(NamedTuple):
    """The artifacts of an action are known, and with them it ends."""

    time: datetime
    action: int
    artifacts: Mapping[str, Any] = _NOTHING


@distinct
class ArtifactsFailed(NamedTuple):
    """The artifacts of an action cannot be rendered."""

    time: datetime
    action: int
    error: PhaseError


@distinct
class CancelAsked(NamedTuple):
    """Somebody wants the ActionSet to end early. There is no way back from that."""

    time: datetime
    reason: str = "Cancelled"
    message: str = ""


@distinct
class Suspended(NamedTuple):
    """No new phase shall start for now."""

    time: datetime


@distinct
class Resumed(NamedTuple):
    """Phases may start again."""

    time: datetime


@distinct
class Abandoned(NamedTuple):
    """Nobody carries the ActionSet on: what is at work is left as it is, nothing is tidied up."""

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
    """Write an outcome as JSON knows it."""
    data: dict[str, Any] = {
        "what": type(outcome).__name__,
        "time": text_of_moment(outcome.time),
    }
    if isinstance(outcome, Begun):
        data["versions"] = [list(each) for each in outcome.versions]
        if outcome.warnings:
            data["warnings"] = [each.as_dict() for each in outcome.warnings]
    elif isinstance(outcome, Launched):
        data["action"] = outcome.action
        if outcome.facts:
            data["facts"] = dict(outcome.facts)
    elif isinstance(outcome, LaunchFailed | ArtifactsFailed):
        data["action"] = outcome.action
        data["error"] = outcome.error.as_dict()
    elif isinstance(outcome, ArtifactsRendered):
        data["action"] = outcome.action
        data["artifacts"] = dict(outcome.artifacts)
    elif isinstance(outcome, CancelAsked):
        data["reason"] = outcome.reason
        data["message"] = outcome.message
    elif isinstance(outcome, Abandoned):
        data["error"] = outcome.error.as_dict()
    elif not isinstance(outcome, Suspended | Resumed):
        data["place"] = list(outcome.place)
        _add_phase_fields(outcome, data)
    return data


def _add_phase_fields(
    outcome: PhaseStarted | PhaseProgressed | PhaseCompleted | PhaseSkipped | PhaseFailed,
    data: dict[str, Any],
) -> None:
    if isinstance(outcome, PhaseStarted):
        data["attempt"] = outcome.attempt
    elif isinstance(outcome, PhaseProgressed):
        data["percent"] = outcome.percent
    elif isinstance(outcome, PhaseCompleted):
        data["output"] = dict(outcome.output)
    elif isinstance(outcome, PhaseFailed):
        data["error"] = outcome.error.as_dict()


def parse_outcome(data: Mapping[str, Any]) -> Outcome:
    """Read what `outcome_as_dict` wrote; anything else raises `ValueError`."""
    try:
        time = parse_time(data["time"])
        parse = _PARSERS[data["what"]]
        if time is None:
            raise ValueError("no time")
        return parse(time, data)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not an outcome: {error}") from error


def _place_of(data: Mapping[str, Any]) -> Place:
    action, phase = data["place"]
    return Place(int(action), int(phase))


def _map_of(data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    return MappingProxyType(dict(data.get(key) or {}))


def _parse_begun(time: datetime, data: Mapping[str, Any]) -> Begun:
    return Begun(
        time,
        tuple(tuple(str(each) for each in versions) for versions in data["versions"]),
        tuple(Warned(**each) for each in data.get("warnings", ())),
    )


_PARSERS: Final[Mapping[str, Callable[[datetime, Mapping[str, Any]], Outcome]]] = {
    "Begun": _parse_begun,
    "Launched": lambda time, data: Launched(time, int(data["action"]), _map_of(data, "facts")),
    "LaunchFailed": lambda time, data: LaunchFailed(
        time, int(data["action"]), parse_phase_error(data["error"])
    ),
    "PhaseStarted": lambda time, data: PhaseStarted(time, _place_of(data), int(data["attempt"])),
    "PhaseProgressed": lambda time, data: PhaseProgressed(
        time, _place_of(data), int(data["percent"])
    ),
    "PhaseCompleted": lambda time, data: PhaseCompleted(
        time, _place_of(data), _map_of(data, "output")
    ),
    "PhaseSkipped": lambda time, data: PhaseSkipped(time, _place_of(data)),
    "PhaseFailed": lambda time, data: PhaseFailed(
        time, _place_of(data), parse_phase_error(data["error"])
    ),
    "ArtifactsRendered": lambda time, data: ArtifactsRendered(
        time, int(data["action"]), _map_of(data, "artifacts")
    ),
    "ArtifactsFailed": lambda time, data: ArtifactsFailed(
        time, int(data["action"]), parse_phase_error(data["error"])
    ),
    "CancelAsked": lambda time, data: CancelAsked(time, str(data["reason"]), str(data["message"])),
    "Suspended": lambda time, _: Suspended(time),
    "Resumed": lambda time, _: Resumed(time),
    "Abandoned": lambda time, data: Abandoned(time, parse_phase_error(data["error"])),
}

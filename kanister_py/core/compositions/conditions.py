"""Conditions of an XR after a run of its pipeline."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kanister_py.core.compositions.results import COMPOSE, SYSTEM_CONDITIONS, CustomCondition, Event
from kanister_py.core.notices import Notice

FATAL_MESSAGE = "A fatal error occurred before the status of this condition could be determined."
RECONCILE_ERROR = "ReconcileError"
"""Why an object is not synced, in one word: the message says the rest."""
DEPRECATED_FUNCTIONS = "DeprecatedFunctions"
"""The condition that names the deprecated versions which a resource is composed with."""
DEPRECATED = "FunctionVersionDeprecated"
FUNCTION_UNAVAILABLE = "FunctionUnavailable"
"""Why it is not known whether an object is synced: a function that would say so does not answer."""
_SHOWN = 3


class Conditions:
    """The conditions of one object: each type once, in the place where it first stood.

    A condition that says what it said before keeps the time at which it began to.
    """

    def __init__(self, before: Iterable[Any], now: str, generation: int = 0) -> None:
        self._all: dict[str, dict[str, Any]] = {
            str(each.get("type")): dict(each) for each in before if isinstance(each, dict)
        }
        self._now = now
        self._generation = generation
        self._said: set[str] = set()
        """The types that were set here; the others are as they were."""

    def note_generation(self, generation: int) -> None:
        """Say all that is said here of another generation: writing makes a new one."""
        self._generation = generation
        for type_ in self._said & self._all.keys():
            self._all[type_]["observedGeneration"] = generation

    def set(self, type_: str, status: str, reason: str, message: str = "") -> None:
        made: dict[str, Any] = {
            "type": type_,
            "status": status,
            "reason": reason,
            "lastTransitionTime": self._now,
        }
        if message:
            made["message"] = message
        if self._generation:
            made["observedGeneration"] = self._generation
        self._said.add(type_)
        before = self._all.get(type_)
        if before is not None and all(
            before.get(key, "") == made.get(key, "") for key in ("status", "reason", "message")
        ):
            made["lastTransitionTime"] = before.get("lastTransitionTime", self._now)
        self._all[type_] = made

    def set_custom(self, conditions: Iterable[CustomCondition]) -> None:
        """Set what functions said; of what the engine itself says, they have no say."""
        for each in conditions:
            if each.type not in SYSTEM_CONDITIONS:
                self.set(each.type, each.status, each.reason, each.message)

    def set_deprecations(self, notices: Sequence[Notice]) -> list[Notice]:
        """Say which functions are deprecated, and give those of which that was not said yet."""
        told = [each for each in notices if each.reason == DEPRECATED] if notices else []
        if not told:
            self._all.pop(DEPRECATED_FUNCTIONS, None)
            return []
        before = str(self._all.get(DEPRECATED_FUNCTIONS, {}).get("message", ""))
        message = "; ".join(dict.fromkeys(each.message for each in told))
        self.set(DEPRECATED_FUNCTIONS, "True", DEPRECATED, message)
        return [each for each in told if each.message not in before]

    def set_after_failure(
        self, message: str, told: Iterable[CustomCondition], *, is_judged: bool = True
    ) -> None:
        """Say that a run failed: what no function spoke of in it is not known any more.

        Where a function did not answer, it is not known how the object is.
        """
        spoken = {each.type for each in told}
        for type_ in list(self._all):
            if type_ not in SYSTEM_CONDITIONS | {DEPRECATED_FUNCTIONS} | spoken:
                self.set(type_, "Unknown", "FatalError", FATAL_MESSAGE)
        if is_judged:
            self.set("Synced", "False", RECONCILE_ERROR, message)
        else:
            self.set("Synced", "Unknown", FUNCTION_UNAVAILABLE, message)

    def set_outcome(
        self, unsynced: Sequence[str], unready: Sequence[str], composite_ready: bool | None
    ) -> None:
        """Say whether everything was applied, and whether everything is ready."""
        if unsynced:
            message = f"Unsynced resources: {several(unsynced)}"
            self.set("Synced", "False", RECONCILE_ERROR, message)
        else:
            self.set("Synced", "True", "ReconcileSuccess")
        if composite_ready is True or (composite_ready is None and not unready):
            self.set("Ready", "True", "Available")
        elif composite_ready is False:
            self.set("Ready", "False", "Creating")
        else:
            self.set("Ready", "False", "Creating", f"Unready resources: {several(unready)}")

    def as_list(self) -> list[dict[str, Any]]:
        return list(self._all.values())


def several(names: Iterable[str]) -> str:
    """List names for people, a few of them and how many more there are."""
    ordered = sorted(names)
    if len(ordered) < _SHOWN:
        return ", ".join(ordered)
    if len(ordered) == _SHOWN:
        return f"{', '.join(ordered[:-1])}, and {ordered[-1]}"
    return f"{', '.join(ordered[:_SHOWN])}, and {len(ordered) - _SHOWN} more"


def events_of_outcome(unsynced: Iterable[str], unready: Iterable[str]) -> list[Event]:
    """Tell of each resource that is not there yet."""
    return [
        *(
            Event("Normal", COMPOSE, f'Composed resource "{each}" is not yet valid')
            for each in unsynced
        ),
        *(
            Event("Normal", COMPOSE, f'Composed resource "{each}" is not yet ready')
            for each in unready
        ),
    ]

"""Conditions of an XR after a run of its pipeline."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kanister_py.core.compositions.results import COMPOSE, SYSTEM_CONDITIONS, CustomCondition, Event
from kanister_py.core.notices import Notice

FATAL_MESSAGE = "A fatal error occurred before the status of this condition could be determined."
RECONCILE_ERROR = "ReconcileError"
"""The reason of an object that is not synced; the message has the details."""
DEPRECATED_FUNCTIONS = "DeprecatedFunctions"
"""The condition that names the deprecated versions which a resource is composed with."""
DEPRECATED = "FunctionVersionDeprecated"
FUNCTION_UNAVAILABLE = "FunctionUnavailable"
"""The reason why it is unknown whether an object is synced: a function does not answer."""
_SHOWN = 3


class Conditions:
    """The conditions of one object: each type once, in the place where it first stood.

    A condition that is set as it was before keeps the time of its last change.
    """

    def __init__(self, before: Iterable[Any], now: str, generation: int = 0) -> None:
        self._all: dict[str, dict[str, Any]] = {
            str(each.get("type")): dict(each) for each in before if isinstance(each, dict)
        }
        self._now = now
        self._generation = generation
        self._set_here: set[str] = set()
        """The types that were set in this pass; the others are as they were."""

    def note_generation(self, generation: int) -> None:
        """Date what was set here by another generation: writing the object makes a new one."""
        self._generation = generation
        for type_ in self._set_here & self._all.keys():
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
        self._set_here.add(type_)
        before = self._all.get(type_)
        if before is not None and all(
            before.get(key, "") == made.get(key, "") for key in ("status", "reason", "message")
        ):
            made["lastTransitionTime"] = before.get("lastTransitionTime", self._now)
        self._all[type_] = made

    def set_custom(self, conditions: Iterable[CustomCondition]) -> None:
        """Set the conditions of functions, but for those that the engine alone sets."""
        for each in conditions:
            if each.type not in SYSTEM_CONDITIONS:
                self.set(each.type, each.status, each.reason, each.message)

    def set_deprecations(self, notices: Sequence[Notice]) -> list[Notice]:
        """Name the deprecated functions, and give the notices that are new."""
        found = [each for each in notices if each.reason == DEPRECATED]
        if not found:
            self._all.pop(DEPRECATED_FUNCTIONS, None)
            return []
        before = str(self._all.get(DEPRECATED_FUNCTIONS, {}).get("message", ""))
        message = "; ".join(dict.fromkeys(each.message for each in found))
        self.set(DEPRECATED_FUNCTIONS, "True", DEPRECATED, message)
        return [each for each in found if each.message not in before]

    def set_after_failure(
        self, message: str, given: Iterable[CustomCondition], *, is_judged: bool = True
    ) -> None:
        """Note that a run failed: conditions that no function set in it are unknown now.

        Without `is_judged` a function did not answer: whether the object is synced is unknown.
        """
        known = {each.type for each in given}
        for type_ in list(self._all):
            if type_ not in SYSTEM_CONDITIONS | {DEPRECATED_FUNCTIONS} | known:
                self.set(type_, "Unknown", "FatalError", FATAL_MESSAGE)
        status = ("False", RECONCILE_ERROR) if is_judged else ("Unknown", FUNCTION_UNAVAILABLE)
        self.set("Synced", *status, message)

    def set_outcome(
        self, unsynced: Sequence[str], unready: Sequence[str], composite_ready: bool | None
    ) -> None:
        """Set whether everything was applied, and whether everything is ready."""
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
    """Make an event of each resource that is not there yet."""
    return [
        Event("Normal", COMPOSE, f'Composed resource "{name}" is not yet {state}')
        for names, state in ((unsynced, "valid"), (unready, "ready"))
        for name in names
    ]

"""Results of a pipeline run: events and conditions of the XR."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from kanister_py.core.compositions.messages import Data, FunctionResponse
from kanister_py.core.kube.parts import STATUS_AND_REASON_FIELDS, merge_condition
from kanister_py.core.notices import Notice

COMPOSE = "ComposeResources"
_CLAIM_TOO = "TARGET_COMPOSITE_AND_CLAIM"

SYSTEM_CONDITIONS = frozenset({"Ready", "Synced", "Healthy", "UpToDate", "Responsive"})
_STATUSES = {"STATUS_CONDITION_TRUE": "True", "STATUS_CONDITION_FALSE": "False"}
_SEVERITIES = ("Normal", "Warning", "Fatal")


class Event(NamedTuple):
    """An event of an XR. `claim_message` is the message for the claim, if it gets one."""

    type: str
    reason: str
    message: str
    claim_message: str = ""

    @property
    def is_for_claim(self) -> bool:
        return bool(self.claim_message)

    def as_dict(self) -> dict[str, str]:
        return {"severity": self.type, "reason": self.reason, "message": self.message}


class CustomCondition(NamedTuple):
    """A condition that a function sets on an XR."""

    type: str
    status: str
    reason: str
    message: str = ""
    is_for_claim: bool = False


class Results(NamedTuple):
    """Events, conditions and severity of one response."""

    events: tuple[Event, ...]
    conditions: tuple[CustomCondition, ...]
    fatal: str | None = None
    worst: str = "Normal"


def results_of(step: str, response: FunctionResponse) -> Results:
    """Return the results of a response up to the first fatal one, and all its conditions."""
    events: list[Event] = []
    worst = 0
    fatal = None
    for result in response.results:
        severity = result.get("severity", "SEVERITY_UNSPECIFIED")
        message = str(result.get("message", ""))
        if severity == "SEVERITY_FATAL":
            worst, fatal = 2, message
            break
        worst = max(worst, 0 if severity == "SEVERITY_NORMAL" else 1)
        events.append(_event(step, str(severity), message, result))
    conditions = tuple(_condition(condition) for condition in response.conditions)
    return Results(tuple(events), conditions, fatal, _SEVERITIES[worst])


def _event(step: str, severity: str, message: str, result: Data) -> Event:
    reason = result.get("reason") or COMPOSE
    if severity not in ("SEVERITY_NORMAL", "SEVERITY_WARNING"):
        # This event is not sent to the claim, since its owner cannot fix the function.
        text = f'Pipeline step "{step}" returned a result of unknown severity (assuming warning): '
        return Event("Warning", reason, text + message)
    kind = "Normal" if severity == "SEVERITY_NORMAL" else "Warning"
    for_claim = message if result.get("target") == _CLAIM_TOO else ""
    return Event(kind, reason, f'Pipeline step "{step}": {message}', for_claim)


def _condition(data: Data) -> CustomCondition:
    def text(key: str) -> str:
        value: Any = data.get(key)
        return str(value) if value is not None else ""

    status = _STATUSES.get(text("status"), "Unknown")
    is_for_claim = data.get("target") == _CLAIM_TOO
    return CustomCondition(text("type"), status, text("reason"), text("message"), is_for_claim)


FATAL_MESSAGE = "A fatal error occurred before the status of this condition could be determined."
RECONCILE_ERROR = "ReconcileError"
"""Reason of a Synced condition that is False."""
DEPRECATED_FUNCTIONS = "DeprecatedFunctions"
"""Type of the condition that lists the deprecated function versions in use."""
DEPRECATED = "FunctionVersionDeprecated"
FUNCTION_UNAVAILABLE = "FunctionUnavailable"
"""Reason of a Synced condition that is Unknown because a function did not respond."""
_SHOWN = 3


class Conditions:
    """Conditions of one object by type, in their original order.

    An unchanged condition keeps its `lastTransitionTime`.
    """

    def __init__(self, before: Iterable[Any], now: str, generation: int = 0) -> None:
        self._all: dict[str, dict[str, Any]] = {
            str(entry.get("type")): dict(entry) for entry in before if isinstance(entry, dict)
        }
        self._now = now
        self._generation = generation
        self._set_here: set[str] = set()
        """Types of the conditions that were set since the object was read."""

    def note_generation(self, generation: int) -> None:
        """Set the `observedGeneration` of the conditions that were set since the object was read.

        For objects whose spec was written in between, which increased their generation.
        """
        self._generation = generation
        for type_ in self._set_here & self._all.keys():
            self._all[type_]["observedGeneration"] = generation

    def set(self, type_: str, status: str, reason: str, message: str = "") -> None:
        condition: dict[str, Any] = {
            "type": type_,
            "status": status,
            "reason": reason,
            "lastTransitionTime": self._now,
        }
        if message:
            condition["message"] = message
        if self._generation:
            condition["observedGeneration"] = self._generation
        self._set_here.add(type_)
        merge_condition(self._all, condition, kept_by=STATUS_AND_REASON_FIELDS)

    def set_custom(self, conditions: Iterable[CustomCondition]) -> None:
        """Set the conditions that functions returned, except system conditions."""
        for condition in conditions:
            if condition.type not in SYSTEM_CONDITIONS:
                self.set(condition.type, condition.status, condition.reason, condition.message)

    def set_deprecations(self, notices: Sequence[Notice]) -> list[Notice]:
        """Set or remove the condition for deprecated functions.

        Returns the notices that the condition did not contain before.
        """
        deprecations = [notice for notice in notices if notice.reason == DEPRECATED]
        if not deprecations:
            self._all.pop(DEPRECATED_FUNCTIONS, None)
            return []
        before = str(self._all.get(DEPRECATED_FUNCTIONS, {}).get("message", ""))
        message = "; ".join(dict.fromkeys(notice.message for notice in deprecations))
        self.set(DEPRECATED_FUNCTIONS, "True", DEPRECATED, message)
        return [notice for notice in deprecations if notice.message not in before]

    def set_after_failure(
        self, message: str, conditions: Iterable[CustomCondition], *, is_judged: bool = True
    ) -> None:
        """Set the conditions after a failed run. Conditions that no function set become Unknown.

        `is_judged` is False if a function did not respond. Synced is Unknown then, not False.
        """
        reported = {condition.type for condition in conditions}
        for type_ in list(self._all):
            if type_ not in SYSTEM_CONDITIONS | {DEPRECATED_FUNCTIONS} | reported:
                self.set(type_, "Unknown", "FatalError", FATAL_MESSAGE)
        status = ("False", RECONCILE_ERROR) if is_judged else ("Unknown", FUNCTION_UNAVAILABLE)
        self.set("Synced", *status, message)

    def set_outcome(
        self, unsynced: Sequence[str], unready: Sequence[str], composite_ready: bool | None
    ) -> None:
        """Set the Synced and Ready conditions."""
        if unsynced:
            message = f"Unsynced resources: {join_names(unsynced)}"
            self.set("Synced", "False", RECONCILE_ERROR, message)
        else:
            self.set("Synced", "True", "ReconcileSuccess")
        if composite_ready is True or (composite_ready is None and not unready):
            self.set("Ready", "True", "Available")
        elif composite_ready is False:
            self.set("Ready", "False", "Creating")
        else:
            self.set("Ready", "False", "Creating", f"Unready resources: {join_names(unready)}")

    def as_list(self) -> list[dict[str, Any]]:
        return list(self._all.values())


def join_names(names: Iterable[str]) -> str:
    """Join names for a message: the first few, and the number of others."""
    ordered = sorted(names)
    if len(ordered) < _SHOWN:
        return ", ".join(ordered)
    if len(ordered) == _SHOWN:
        return f"{', '.join(ordered[:-1])}, and {ordered[-1]}"
    return f"{', '.join(ordered[:_SHOWN])}, and {len(ordered) - _SHOWN} more"


def events_of_outcome(unsynced: Iterable[str], unready: Iterable[str]) -> list[Event]:
    """Build an event for each composed resource that is not yet valid or not yet ready."""
    return [
        Event("Normal", COMPOSE, f'Composed resource "{name}" is not yet {state}')
        for names, state in ((unsynced, "valid"), (unready, "ready"))
        for name in names
    ]

"""Results of a run for the owner of an XR: events, and conditions of the XR."""

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
    """Something that happened to an XR; `claim_message` is the text of it on its claim."""

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
    """Events, conditions and severity of one answer."""

    events: tuple[Event, ...]
    conditions: tuple[CustomCondition, ...]
    fatal: str | None = None
    worst: str = "Normal"


def results_of(step: str, response: FunctionResponse) -> Results:
    """Read an answer's results, up to the first fatal one, and all of its conditions."""
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
    conditions = tuple(_condition(each) for each in response.conditions)
    return Results(tuple(events), conditions, fatal, _SEVERITIES[worst])


def _event(step: str, severity: str, message: str, result: Data) -> Event:
    reason = result.get("reason") or COMPOSE
    if severity not in ("SEVERITY_NORMAL", "SEVERITY_WARNING"):
        # For the XR's owner alone: the claim's owner could do nothing.
        text = f'Pipeline step "{step}" returned a result of unknown severity (assuming warning): '
        return Event("Warning", reason, text + message)
    kind = "Normal" if severity == "SEVERITY_NORMAL" else "Warning"
    for_claim = message if result.get("target") == _CLAIM_TOO else ""
    return Event(kind, reason, f'Pipeline step "{step}": {message}', for_claim)


def _condition(given: Data) -> CustomCondition:
    def text(key: str) -> str:
        value: Any = given.get(key)
        return str(value) if value is not None else ""

    status = _STATUSES.get(text("status"), "Unknown")
    is_for_claim = given.get("target") == _CLAIM_TOO
    return CustomCondition(text("type"), status, text("reason"), text("message"), is_for_claim)


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
        merge_condition(self._all, made, kept_by=STATUS_AND_REASON_FIELDS)

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

"""Results and conditions of a function, in the words that the owner of an XR reads."""

from __future__ import annotations

from typing import Any

from kanister_py.core.compositions.messages import Data, FunctionResponse
from kanister_py.values import NamedTuple

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

"""What do the conditions of an object say after a pass?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from kanister_py.core.actionsets.status import text_of_time


def condition(kind: str, status: str, reason: str, message: str = "") -> dict[str, Any]:
    """Say one thing; when it began to be so is added where it is written."""
    made = {"type": kind, "status": status, "reason": reason}
    return {**made, "message": message} if message else made


def with_conditions(
    status: Mapping[str, Any],
    conditions: Iterable[Mapping[str, Any]],
    *,
    now: datetime,
    generation: int,
) -> dict[str, Any]:
    """Put conditions into a status. Its time is that of the last change of its status."""
    found = {each["type"]: each for each in status.get("conditions") or ()}
    for each in conditions:
        before = found.get(each["type"])
        made = {**each, "observedGeneration": generation}
        has_changed = before is None or before.get("status") != each["status"]
        time = text_of_time(now) if has_changed else (before or {}).get("lastTransitionTime")
        found[each["type"]] = {**made, "lastTransitionTime": time}
    return {**status, "conditions": list(found.values())}

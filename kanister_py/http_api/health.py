"""Is the process alive, and may it be asked?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kanister_py.http_api.answers import Answer, json_answer

# A check says what is wrong, or nothing.
Check = Callable[[], str]

_KEEP_NOTHING = {"cache-control": "no-store"}
ALIVE = json_answer(200, {"status": "alive"}, _KEEP_NOTHING)


def readiness_of(checks: Mapping[str, Check], facts: Mapping[str, Any] | None = None) -> Answer:
    """Say whether every check passes, what is wrong where one does not, and what else is known."""
    found = {name: check() for name, check in sorted(checks.items())}
    told = {name: wrong or "fine" for name, wrong in found.items()}
    is_ready = not any(found.values())
    document = {"status": "ready" if is_ready else "not ready", "checks": told, **(facts or {})}
    return json_answer(200 if is_ready else 503, document, _KEEP_NOTHING)

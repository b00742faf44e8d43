"""Journal: persistent record of a run, from which it is resumed after its process died."""

from __future__ import annotations

from typing import Protocol

from kanister_py.core.actionsets.outcomes import Outcome
from kanister_py.core.actionsets.status import Status


class Journal(Protocol):
    """Record of a run, as its outcomes or as the status they led to; both are equivalent.

    A write returns only once it is stored, so the next step may rely on it. Calls are sequential,
    but may come from any thread.
    """

    def write(
        self, outcome: Outcome, status: Status, *, must_last: bool, is_followed: bool = False
    ) -> None:
        """Store an outcome and the resulting status.

        `must_last` requires that it survives a power failure, because the next step cannot be
        repeated. `is_followed` means that the next write follows immediately, with no action in
        between, so that a journal of statuses may skip this one. Raises `JournalUnwritable`, and
        then the run performs no further action.
        """

    def catch_up(self) -> None:
        """Store a skipped status: no other write will follow."""

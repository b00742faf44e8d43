"""Journal: where a run is remembered, so that it can be taken up after its process died."""

from __future__ import annotations

from typing import Protocol

from kanister_py.core.actionsets.outcomes import Outcome
from kanister_py.core.actionsets.status import Status


class Journal(Protocol):
    """Record of what happened, or of how things stand after it: both say the same.

    A write comes back only when it is kept: what is to be done next may
    rely on it. Calls come one after the other, from any thread.
    """

    def write(
        self, outcome: Outcome, status: Status, *, must_last: bool, is_followed: bool = False
    ) -> None:
        """Keep an outcome, and the status it led to.

        `must_last` asks for it to outlive even a loss of power: what follows cannot
        be done twice. `is_followed` says that the next write follows at once, with nothing
        done in between: what keeps how things stand may leave this one out.
        Raises `JournalUnwritable`, and then nothing is done.
        """

    def catch_up(self) -> None:
        """Keep what was left out: no other write will follow."""

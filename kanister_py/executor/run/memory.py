"""Memory of a run: its status, and the journal in which every outcome stands before it counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from kanister_py.core.actionsets.outcomes import Outcome
from kanister_py.core.actionsets.rules import Rules
from kanister_py.core.actionsets.status import FINAL, Status
from kanister_py.core.actionsets.transitions import record
from kanister_py.core.errors import JournalUnwritable
from kanister_py.ports.journal import Journal


class Onlooker(Protocol):
    """An observer of a run while it runs. Called from any thread, one at a time."""

    def on_outcome(self, outcome: Outcome, status: Status) -> None: ...

    def on_log(self, action: str, phase: str, line: str) -> None: ...


class Memory:
    """Status of a run, with its journal and its onlooker."""

    def __init__(
        self, rules: Rules, status: Status, journal: Journal | None, onlooker: Onlooker | None
    ) -> None:
        self.status = status
        self.onlooker = onlooker
        self._rules = rules
        self._journal = journal

    def record(
        self,
        outcome: Outcome,
        *,
        must_last: bool,
        is_followed: Callable[[Status], bool] | None = None,
    ) -> bool:
        """Write an outcome down and let it count; say whether it changed anything.

        `is_followed` says of the new status whether another write follows at once.
        """
        status = record(self._rules, self.status, outcome)
        if status is self.status:
            return False
        if self._journal is not None:
            self._journal.write(
                outcome,
                status,
                must_last=must_last or status.state in FINAL,
                is_followed=is_followed is not None and is_followed(status),
            )
        self._take(outcome, status)
        return True

    def record_end(self, outcome: Outcome) -> bool:
        """Let an end count even where it cannot be written down; say whether it was."""
        status = record(self._rules, self.status, outcome)
        is_kept = True
        if self._journal is not None:
            try:
                self._journal.write(outcome, status, must_last=True)
            except JournalUnwritable:
                is_kept = False
        self._take(outcome, status)
        return is_kept

    def catch_up(self) -> None:
        """Write what was left for a write that does not come."""
        if self._journal is not None:
            self._journal.catch_up()

    def _take(self, outcome: Outcome, status: Status) -> None:
        self.status = status
        if self.onlooker is not None:
            self.onlooker.on_outcome(outcome, status)

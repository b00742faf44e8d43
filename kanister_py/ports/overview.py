"""Overview: what a page shows of the runs of a cluster, and what it may have done."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from kanister_py.core.actionsets.overview import RunRow

ACTION_VERBS: Final[Mapping[str, str]] = {"cancel": "patch", "retry": "create"}
"""Verbs for a run, each with the right on ActionSets that it takes."""
SCHEDULE_VERBS: Final[Mapping[str, str]] = {"suspend": "patch", "resume": "patch", "run-now": ""}
"""Verbs for a Schedule, with the right on Schedules; a run takes one on runs."""


class Runs(NamedTuple):
    """All runs, the newest first. `version` grows whenever one of them changes.

    `trouble` says why they may not be all, or not be so any more.
    """

    version: int
    rows: Sequence[RunRow]
    trouble: str = ""


class Listeners:
    """Listeners to each run that changes or prints, called from any thread."""

    def __init__(self) -> None:
        self._calls: dict[object, Callable[[str, str], None]] = {}

    def add(self, call: Callable[[str, str], None]) -> Callable[[], None]:
        """Call one more from now on, and give the way to end it."""
        mark = object()
        self._calls[mark] = call

        def end() -> None:
            self._calls.pop(mark, None)

        return end

    def tell(self, namespace: str, name: str) -> None:
        for call in tuple(self._calls.values()):
            call(namespace, name)


class Overview(Protocol):
    """Contents of the pages, and the actions that they offer."""

    def runs(self) -> Runs:
        """Give all runs that are seen."""

    def read(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        """Give one ActionSet as it is; None if there is none."""

    def lines(self, namespace: str, name: str, after: int) -> Sequence[Mapping[str, Any]]:
        """Give what its phases have printed, from behind a number on."""

    def is_elsewhere(self, namespace: str, name: str) -> bool:
        """Say whether a run prints where no event comes of it, so that one has to look."""

    def listen(self, call: Callable[[str, str], None]) -> Callable[[], None]:
        """Say of each run that changes or prints its namespace and name; gives the way to end it.

        Called from any thread, and never to wait.
        """

    def schedules(self, namespace: str) -> Sequence[Mapping[str, Any]]:
        """Give the Schedules of a namespace, or of all."""

    def schedule(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        """Give one Schedule as it is; None if there is none."""

    def ask(self, verb: str, namespace: str, name: str) -> str:
        """Have something done to a run or a Schedule, and name the run to look at then, if any."""

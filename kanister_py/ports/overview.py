"""Overview: data and actions of the web pages about runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from kanister_py.core.actionsets.overview import RunRow

ACTION_VERBS: Final[Mapping[str, str]] = {"cancel": "patch", "retry": "create"}
"""Verbs for a run, with the permissions on ActionSets that they need."""
SCHEDULE_VERBS: Final[Mapping[str, str]] = {"suspend": "patch", "resume": "patch", "run-now": ""}
"""Verbs for a Schedule, with the permissions on Schedules; on runs for those that create one."""


class Runs(NamedTuple):
    """All runs, newest first. `version` increases with every change.

    `trouble` explains why the list may be incomplete or outdated.
    """

    version: int
    rows: Sequence[RunRow]
    trouble: str = ""


class Listeners:
    """Callbacks for changes and output of runs. Thread-safe."""

    def __init__(self) -> None:
        self._calls: dict[object, Callable[[str, str], None]] = {}

    def add(self, call: Callable[[str, str], None]) -> Callable[[], None]:
        """Register a callback, and return a function that removes it."""
        mark = object()
        self._calls[mark] = call

        def end() -> None:
            self._calls.pop(mark, None)

        return end

    def tell(self, namespace: str, name: str) -> None:
        for call in tuple(self._calls.values()):
            call(namespace, name)


class Overview(Protocol):
    """Data of the pages, and the actions that they offer."""

    def runs(self) -> Runs:
        """Return all runs that are watched."""

    def read(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        """Return one ActionSet; None if it does not exist."""

    def lines(self, namespace: str, name: str, after: int) -> Sequence[Mapping[str, Any]]:
        """Return the output of an ActionSet's phases after a line number."""

    def must_be_polled(self, namespace: str, name: str) -> bool:
        """Return True if no events report the output of a run, so that it must be polled."""

    def listen(self, call: Callable[[str, str], None]) -> Callable[[], None]:
        """Register a callback for changes and output of runs; returns a function that removes it.

        It is called with a namespace and a name from any thread, and must not block.
        """

    def schedules(self, namespace: str) -> Sequence[Mapping[str, Any]]:
        """Return the Schedules of a namespace, or of all."""

    def schedule(self, namespace: str, name: str) -> Mapping[str, Any] | None:
        """Return one Schedule; None if it does not exist."""

    def ask(self, verb: str, namespace: str, name: str) -> str:
        """Perform an action on a run or Schedule; returns the name of the run to show next."""

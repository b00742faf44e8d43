"""Lines that the phases of an ActionSet have printed, and where they are read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

from kanister_py.ports.cluster import KubeObject


class PrintedLine(NamedTuple):
    """One line that a phase printed.

    `time` is a timestamp as RFC 3339 writes it. `number` counts from one within the run of an
    ActionSet; it is zero where lines are not numbered.
    """

    time: str
    action: str
    phase: str
    text: str
    function: str = ""
    version: str = ""
    attempt: int = 0
    number: int = 0

    def as_dict(self) -> dict[str, Any]:
        data = self._asdict()
        number, data["line"] = data.pop("number"), data.pop("text")
        return {"number": number, **data} if number else data


class LineSource(Protocol):
    """Source of log lines that remembers what it has given out already."""

    def new_lines(self, actionset: KubeObject) -> Iterator[PrintedLine]:
        """Give the lines of an ActionSet that have come since the last time, all at first."""

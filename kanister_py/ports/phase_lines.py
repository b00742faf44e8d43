"""Output lines of the phases of an ActionSet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

from kanister_py.ports.cluster import KubeObject


class PrintedLine(NamedTuple):
    """One line that a phase printed.

    `time` is an RFC 3339 timestamp. `number` starts at one for every run of an ActionSet; it is
    zero if lines are not numbered.
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
    """Source of log lines that returns every line once."""

    def new_lines(self, actionset: KubeObject) -> Iterator[PrintedLine]:
        """Return the lines of an ActionSet since the last call, or all lines at the first call."""

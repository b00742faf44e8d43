"""Findings of lint: a rule, a place, and how bad it is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from pydantic.alias_generators import to_camel

from kanister_py.core.errors import Problem, did_you_mean
from kanister_py.core.kube.objects import Found
from kanister_py.core.yaml.documents import nearest, text_of_path


class Severity(StrEnum):
    """Severity of a finding: it fails, may surprise, or is only worth knowing."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Rule(NamedTuple):
    """One thing that lint looks for.

    `summary` is one sentence; `explanation` says why it matters and what to do.
    """

    id: str
    severity: Severity
    summary: str
    explanation: str


class Finding(NamedTuple):
    """One rule that found something in one place, with the facts a program wants."""

    file: str
    line: int
    column: int
    path: str
    rule: str
    severity: Severity
    message: str
    action: str = ""
    phase: str = ""
    function: str = ""
    version: str = ""
    replacement: str = ""
    deprecated_in: str = ""
    removed_in: str = ""
    since: str = ""
    """Since when it is on the cluster where it was found."""
    last_run: str = ""
    """When it last ran there."""

    def as_dict(self) -> dict[str, object]:
        data = {to_camel(key): value for key, value in self._asdict().items()}
        if not self.since:
            del data["since"], data["lastRun"]
        return data | {"severity": str(self.severity)}


class Spot(NamedTuple):
    """Place of a finding: an object of a file, and the phase that it belongs to."""

    found: Found
    path: tuple[str | int, ...] = ()
    action: str = ""
    phase: str = ""
    function: str = ""

    def at(self, *more: str | int) -> Spot:
        """Give a spot below this one."""
        return self._replace(path=(*self.path, *more))

    def finding(self, rule: Rule, message: str, **facts: str) -> Finding:
        """Say what a rule found here; `facts` fill the fields of a finding."""
        place = self.found.place_of(self.path)
        own = {"action": self.action, "phase": self.phase, "function": self.function}
        return Finding(
            file=self.found.document.file,
            line=place.line,
            column=place.column,
            path=text_of_path((*self.found.path, *self.path)),
            rule=rule.id,
            severity=rule.severity,
            message=message,
            **{**own, **facts},
        )


class Hints:
    """Names that may have been meant.

    To look for them takes longer than all else. A file with so many mistakes that
    the hints go unread is not kept waiting for them.
    """

    def __init__(self, most: float = 500) -> None:
        self._left = most

    def did_you_mean(self, word: str, known: Sequence[str], mark: str = "") -> str:
        """Ask whether one of the names like this one is meant; nothing if none is like it."""
        return did_you_mean([f"{mark}{each}" for each in self.nearest(word, known)])

    def nearest(self, word: str, known: Sequence[str], likeness: float = 0.6) -> tuple[str, ...]:
        if self._left <= 0:
            return ()
        self._left -= 1
        return nearest(word, known[:_MOST_COMPARED], likeness=likeness)


_MOST_COMPARED = 1000


def finding_of(problem: Problem, rule: Rule) -> Finding:
    """Take over what kept a file from being read."""
    place = (problem.file, problem.line, problem.column, problem.path)
    return Finding(*place, rule.id, rule.severity, problem.message)


def in_order(findings: Iterable[Finding], files: Sequence[str]) -> list[Finding]:
    """Sort by file, as they were given, then by place; each finding once."""
    rank = {file: index for index, file in enumerate(files)}
    return sorted(
        dict.fromkeys(findings),
        key=lambda each: (
            rank.get(each.file, len(rank)),
            each.line,
            each.column,
            each.rule,
            each.path,
            each.message,
        ),
    )

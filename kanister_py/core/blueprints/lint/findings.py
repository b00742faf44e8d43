"""Findings of lint: rule, place and severity."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from pydantic.alias_generators import to_camel

from kanister_py.core.errors import Problem, did_you_mean
from kanister_py.core.kube.objects import LocatedObject
from kanister_py.core.yaml.documents import nearest, text_of_path


class Severity(StrEnum):
    """Severity of a finding: an error fails, a warning may surprise, an info is advice."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Rule(NamedTuple):
    """Lint rule.

    `summary` is one sentence; `explanation` gives the consequences and the fix.
    """

    id: str
    severity: Severity
    summary: str
    explanation: str


class Finding(NamedTuple):
    """Violation of a rule in one place."""

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
    """Creation time of the object in its cluster."""
    last_run: str = ""
    """Time of its last run in its cluster."""

    def as_dict(self) -> dict[str, object]:
        data = {to_camel(key): value for key, value in self._asdict().items()}
        if not self.since:
            del data["since"], data["lastRun"]
        return data | {"severity": str(self.severity)}


class Spot(NamedTuple):
    """Place of a finding: an object in a file, and the phase that it belongs to."""

    manifest: LocatedObject
    path: tuple[str | int, ...] = ()
    action: str = ""
    phase: str = ""
    function: str = ""

    def at(self, *more: str | int) -> Spot:
        """Return a spot below this one."""
        return self._replace(path=(*self.path, *more))

    def finding(self, rule: Rule, message: str, **facts: str) -> Finding:
        """Build a finding at this spot; `facts` are further fields of the finding."""
        place = self.manifest.place_of(self.path)
        own = {"action": self.action, "phase": self.phase, "function": self.function}
        return Finding(
            file=self.manifest.document.file,
            line=place.line,
            column=place.column,
            path=text_of_path((*self.manifest.path, *self.path)),
            rule=rule.id,
            severity=rule.severity,
            message=message,
            **{**own, **facts},
        )


class Hints:
    """Similar names for misspelt words.

    The search is expensive, so it stops after `most` words: in a file with that many mistakes the
    hints would not be read.
    """

    def __init__(self, limit: float = 500) -> None:
        self._remaining = limit

    def did_you_mean(self, word: str, known: Sequence[str], mark: str = "") -> str:
        """Return a "did you mean" question, or an empty string if no name is similar."""
        return did_you_mean([f"{mark}{name}" for name in self.nearest(word, known)])

    def nearest(self, word: str, known: Sequence[str], likeness: float = 0.6) -> tuple[str, ...]:
        if self._remaining <= 0:
            return ()
        self._remaining -= 1
        return nearest(word, known[:_MOST_COMPARED], cutoff=likeness)


_MOST_COMPARED = 1000


def finding_of(problem: Problem, rule: Rule) -> Finding:
    """Convert a problem of reading a file into a finding."""
    place = (problem.file, problem.line, problem.column, problem.path)
    return Finding(*place, rule.id, rule.severity, problem.message)


def in_order(findings: Iterable[Finding], files: Sequence[str]) -> list[Finding]:
    """Sort findings by file, in the given order, and by place; remove duplicates."""
    rank = {file: index for index, file in enumerate(files)}
    return sorted(
        dict.fromkeys(findings),
        key=lambda finding: (
            rank.get(finding.file, len(rank)),
            finding.line,
            finding.column,
            finding.rule,
            finding.path,
            finding.message,
        ),
    )

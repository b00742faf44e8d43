"""Comments that silence rules (`# kanister-py: ignore=RULE`)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from kanister_py.core.blueprints.lint.findings import Finding, Hints, Rule, Severity, finding_of
from kanister_py.core.errors import Problem
from kanister_py.patterns import pattern_of

_COMMENT = pattern_of(
    r"(?P<before>.*?)(?:^|(?<=\s))#\s*kanister-py:\s*ignore(?:\s*=\s*(?P<rules>[\w-]+(?:\s*,\s*[\w-]+)*))?\s*$"
)
UNKNOWN_IGNORED = Rule(
    "ignore-unknown",
    Severity.WARNING,
    "A comment silences a rule that does not exist.",
    "A misspelt rule silences nothing. `kanister-py lint --explain all` lists the rules.",
)
RULES = (UNKNOWN_IGNORED,)
EVERY_RULE = frozenset({"*"})


def suppressions_in(text: str) -> Mapping[int, frozenset[str]]:
    """Find the comments `# kanister-py: ignore` and `# kanister-py: ignore=RULE,RULE`.

    Gives the rules for each line. A comment on a line of its own speaks of the line below.
    """
    if "kanister-py:" not in text:
        return {}
    by_line: dict[int, frozenset[str]] = {}
    for number, match in _comments_in(text):
        target = number if match["before"].strip() else number + 1
        by_line[target] = by_line.get(target, frozenset()) | _rules_of(match)
    return by_line


def check_suppressions(
    text: str, file: str, known: Collection[str], hints: Hints
) -> Iterator[Finding]:
    """Find the comments that silence a rule which does not exist."""
    for number, match in _comments_in(text):
        for name in sorted(_rules_of(match) - EVERY_RULE - {*known}):
            meant = hints.did_you_mean(name, [*known])
            column = match.start("rules") + 1
            message = f"No rule {name!r} to ignore{meant}"
            yield finding_of(Problem(file, number, column, "", message), UNKNOWN_IGNORED)


def _comments_in(text: str) -> Iterator[tuple[int, re.Match[str]]]:
    for number, line in enumerate(text.splitlines(), 1):
        match = _COMMENT.match(line)
        if match is not None:
            yield number, match


def _rules_of(match: re.Match[str]) -> frozenset[str]:
    rules = match["rules"]
    return frozenset(re.split(r"\s*,\s*", rules)) if rules else EVERY_RULE

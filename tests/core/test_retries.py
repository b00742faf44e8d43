"""Retry rules: limits, reasons and waits."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kanister_py.core.retries import NO_LIMIT, REASONS, Retry, RetryRule
from kanister_py.core.yaml.documents import nearest

RULE = RetryRule(2, backoff_seconds=4, factor=3, max_backoff_seconds=20)


@pytest.mark.parametrize(
    ("attempt", "least", "want"),
    [
        pytest.param(1, 0, 4, id="the first wait"),
        pytest.param(2, 0, 12, id="each is a multiple of the one before"),
        pytest.param(3, 0, 20, id="none is longer than the longest"),
        pytest.param(5000, 0, 20, id="a power that no float holds is too long as well"),
        pytest.param(1, 60, 60, id="an error may ask for more"),
    ],
)
def test_pauses_grow_up_to_a_maximum(attempt: int, least: float, want: float) -> None:
    assert RULE.delay_after(attempt, least) == want


@pytest.mark.parametrize(
    ("rule", "attempt", "reason", "is_transient", "want"),
    [
        pytest.param(RULE, 2, "Any", True, True, id="the last retry"),
        pytest.param(RULE, 3, "Any", True, False, id="none after it"),
        pytest.param(RULE, 1, "Any", False, False, id="what does not pass by itself"),
        pytest.param(RULE._replace(on=frozenset({"A"})), 1, "A", False, True, id="a named reason"),
        pytest.param(RULE._replace(on=frozenset({"A"})), 1, "B", True, False, id="another reason"),
        pytest.param(RULE._replace(limit=NO_LIMIT), 10**6, "Any", True, True, id="without end"),
    ],
)
def test_rule_decides_on_another_attempt(
    rule: RetryRule, attempt: int, reason: str, is_transient: bool, want: bool
) -> None:
    assert rule.allows(attempt, reason, is_transient=is_transient) is want


def test_defaults_come_from_the_standard_rule() -> None:
    written = Retry(limit=7, max_backoff="1m", on=("A",))
    assert RULE.overridden_by(written) == RetryRule(7, 4, 2.0, 60, frozenset({"A"}))


def test_reasons_are_documented_and_distinct(repository: Path) -> None:
    written: set[str] = set()
    for file in (repository / "kanister_py").rglob("*.py"):
        written |= set(re.findall(r'reason ?= ?"([A-Za-z]+)"', file.read_text(encoding="utf-8")))
    assert written.issuperset(REASONS)
    # A reason that is not listed must not be taken for a misspelt one.
    unlisted = written - set(REASONS)
    near = {reason: nearest(reason, REASONS, cutoff=0.85) for reason in unlisted}
    assert {reason: similar for reason, similar in near.items() if similar} == {}
    docs = (repository / "docs" / "blueprints.md").read_text(encoding="utf-8")
    assert [reason for reason in REASONS if f"`{reason}`" not in docs] == []

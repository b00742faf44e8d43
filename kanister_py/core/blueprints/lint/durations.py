"""Durations of a phase: its timeout, and the waits between its attempts."""

from __future__ import annotations

from collections.abc import Iterator

from kanister_py.core.blueprints.lint.findings import Finding, Rule, Severity, Spot
from kanister_py.core.blueprints.model import Phase
from kanister_py.core.errors import UsageError
from kanister_py.core.objects.documents import Path
from kanister_py.core.objects.durations import InvalidDuration, parse_seconds

DURATION = Rule(
    "duration-invalid",
    Severity.ERROR,
    "A time of a phase cannot be read.",
    "Times are written as Go writes them: 90s, 5m, 1h30m. They need a unit.",
)
RULES = (DURATION,)


def check_durations(spot: Spot, phase: Phase) -> Iterator[Finding]:
    """Read the timeout of a phase and the pauses between its tries."""
    for path, error in wrong_durations(phase):
        yield spot.at(*path).finding(DURATION, error.message)


def wrong_durations(phase: Phase) -> Iterator[tuple[Path, UsageError]]:
    """Give the times of a phase that cannot be read, each with its place in the phase."""
    written: dict[Path, str] = {("timeout",): phase.timeout}
    if phase.retry is not None:
        written["retry", "backoff"] = phase.retry.backoff
        written["retry", "maxBackoff"] = phase.retry.max_backoff
    for path, text in written.items():
        if not text:
            continue
        try:
            parse_seconds(text)
        except InvalidDuration as error:
            told = f"{text!r} is no time: {error.message}"
            yield path, UsageError(told, reason=error.reason)

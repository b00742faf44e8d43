"""Durations in Go's format."""

from __future__ import annotations

from kanister_py.core.errors import Unusable
from kanister_py.gotemplate.durations import SECOND, nanoseconds_of


class InvalidDuration(Unusable, reason="InvalidDuration"):
    """A string is not a valid duration. The message is Go's."""

    wording = "time: {why}"


def parse_duration(text: str) -> int:
    """Parse a duration such as `1h30m` or `-1.5s` to nanoseconds, as Go's ParseDuration."""
    try:
        return nanoseconds_of(text)
    except ValueError as error:
        raise InvalidDuration(text, str(error)) from None


def parse_seconds(text: str) -> float:
    """Parse a duration to seconds."""
    return parse_duration(text) / SECOND


def whole_seconds(seconds: float) -> str:
    """Format the duration of something in progress, such as 3s or 1m05s."""
    total = max(0, int(seconds))
    if total < 60:
        return f"{total}s"
    if total < 3600:
        return f"{total // 60}m{total % 60:02d}s"
    return f"{total // 3600}h{total // 60 % 60:02d}m"


def exact_seconds(seconds: float) -> str:
    """Format the duration of something that has ended, such as 0.4s or 1m05s."""
    return f"{max(0.0, seconds):.1f}s" if seconds < 59.95 else whole_seconds(round(seconds))

"""Durations, as Go reads and writes them."""

from __future__ import annotations

from kanister_py.core.errors import Unusable
from kanister_py.gotemplate.durations import SECOND, nanoseconds_of


class InvalidDuration(Unusable, reason="InvalidDuration"):
    """A text that should be a duration is none; the message is Go's."""

    wording = "time: {why}"


def parse_duration(text: str) -> int:
    """Read a duration such as `1h30m` or `-1.5s` as nanoseconds, as Go's ParseDuration does."""
    try:
        return nanoseconds_of(text)
    except ValueError as error:
        raise InvalidDuration(text, str(error)) from None


def parse_seconds(text: str) -> float:
    """Read a duration as seconds."""
    return parse_duration(text) / SECOND


def whole_seconds(seconds: float) -> str:
    """Write a duration that still grows, such as 3s or 1m05s."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole // 60 % 60:02d}m"


def exact_seconds(seconds: float) -> str:
    """Write a duration that is over, such as 0.4s or 1m05s."""
    return f"{max(0.0, seconds):.1f}s" if seconds < 59.95 else whole_seconds(round(seconds))

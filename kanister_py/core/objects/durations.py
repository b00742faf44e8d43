"""Durations, as Go reads and writes them."""

from __future__ import annotations

from typing import Final

from kanister_py.core.errors import Unusable
from kanister_py.patterns import pattern_of


class InvalidDuration(Unusable, reason="InvalidDuration"):
    """A text that should be a duration is none; the message is Go's."""

    wording = "time: {why}"


NANOSECOND: Final = 1
MICROSECOND: Final = 1000
MILLISECOND: Final = 1_000_000
SECOND: Final = 1_000_000_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE

_UNITS: Final = {
    "ns": NANOSECOND,
    "us": MICROSECOND,
    "µs": MICROSECOND,
    "μs": MICROSECOND,
    "ms": MILLISECOND,
    "s": SECOND,
    "m": MINUTE,
    "h": HOUR,
}
# The digits before and behind a point, and everything up to the next number.
_PART: Final = pattern_of(r"([0-9]*)(\.[0-9]*)?([^.0-9]*)")
_LIMIT: Final = 1 << 63
_DIGITS: Final = 19
"""More before the point are out of range, more behind it say nothing."""


def parse_duration(text: str) -> int:
    """Read a duration such as `1h30m` or `-1.5s` as nanoseconds, as Go's ParseDuration does."""
    rest = text
    is_negative = rest.startswith("-")
    if rest[:1] in {"-", "+"}:
        rest = rest[1:]
    if rest == "0":
        return 0
    if not rest:
        raise InvalidDuration(text, f"invalid duration {_quoted(text)}")
    total, at = 0, 0
    while at < len(rest):
        found = _PART.match(rest, at)
        assert found is not None  # each of its groups may be empty
        whole, fraction, unit = found.groups("")
        whole, fraction = whole.lstrip("0") or whole[:1], fraction[1 : _DIGITS + 1]
        if len(whole) > _DIGITS or not (whole or fraction):
            raise InvalidDuration(text, f"invalid duration {_quoted(text)}")
        if not unit:
            raise InvalidDuration(text, f"missing unit in duration {_quoted(text)}")
        if unit not in _UNITS:
            raise InvalidDuration(text, f"unknown unit {_quoted(unit)} in duration {_quoted(text)}")
        total += int(whole or "0") * _UNITS[unit]
        if fraction:
            total += int(fraction) * _UNITS[unit] // 10 ** len(fraction)
        if total > _LIMIT:
            raise InvalidDuration(text, f"invalid duration {_quoted(text)}")
        at = found.end()
    if not is_negative and total == _LIMIT:
        raise InvalidDuration(text, f"invalid duration {_quoted(text)}")
    return -total if is_negative else total


def parse_seconds(text: str) -> float:
    """Read a duration as seconds."""
    return parse_duration(text) / SECOND


def format_duration(nanoseconds: int) -> str:
    """Write a duration as Go does: `1h30m0s`, `1.5s`, `100ms`, `0s`."""
    sign = "-" if nanoseconds < 0 else ""
    left = abs(nanoseconds)
    if left == 0:
        return "0s"
    if left < MICROSECOND:
        return f"{sign}{left}ns"
    if left < MILLISECOND:
        return f"{sign}{_decimal(left, MICROSECOND)}µs"
    if left < SECOND:
        return f"{sign}{_decimal(left, MILLISECOND)}ms"
    minutes, rest = divmod(left, MINUTE)
    seconds = f"{_decimal(rest, SECOND)}s"
    if not minutes:
        return f"{sign}{seconds}"
    hours, minutes = divmod(minutes, 60)
    if not hours:
        return f"{sign}{minutes}m{seconds}"
    return f"{sign}{hours}h{minutes}m{seconds}"


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


def _decimal(value: int, unit: int) -> str:
    whole, fraction = divmod(value, unit)
    if not fraction:
        return str(whole)
    digits = len(str(unit)) - 1
    return f"{whole}.{fraction:0{digits}d}".rstrip("0")


def _quoted(text: str) -> str:
    escaped = "".join(
        f"\\{sign}" if sign in '"\\'
        else sign if " " <= sign <= "~"
        else "".join(f"\\x{byte:02x}" for byte in sign.encode("utf-8", "surrogatepass"))
        for sign in text
    )  # fmt: skip
    return f'"{escaped}"'

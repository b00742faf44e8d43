"""Durations in Go's notation."""

from __future__ import annotations

import re
from typing import Final

MICROSECOND: Final = 1000
MILLISECOND: Final = 1_000_000
SECOND: Final = 1_000_000_000
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
LIMIT: Final = 1 << 63

_UNITS: Final = {
    "ns": 1,
    **dict.fromkeys(("us", "µs", "μs"), MICROSECOND),
    "ms": MILLISECOND,
    "s": SECOND,
    "m": MINUTE,
    "h": HOUR,
}
# The digits before and after a decimal point, and the text up to the next number. The pattern
# is compiled on first use because most processes parse no duration.
_PART: Final = r"([0-9]*)(?:\.([0-9]*))?([^.0-9]*)"
_MOST_DIGITS: Final = 19


def nanoseconds_of(text: str) -> int:
    """Parse a duration such as `1h30m` or `-1.5s`. Raises ValueError with Go's message."""
    unsigned = text[1:] if text[:1] in ("-", "+") else text
    is_negative = text.startswith("-")
    if unsigned == "0":
        return 0
    if not unsigned:
        raise _refusal("invalid duration", text)
    part_of = re.compile(_PART)
    total = at = 0
    while at < len(unsigned):
        match = part_of.match(unsigned, at)
        assert match is not None  # all groups may be empty
        digits, part, name = match.groups("")
        # Python converts no integer of more than 4,300 digits; leading zeros must not count.
        digits = digits.lstrip("0") or digits[:1]
        if not (digits or part) or len(digits) > _MOST_DIGITS or int(digits or "0") > LIMIT:
            raise _refusal("invalid duration", text)
        if not name:
            raise _refusal("missing unit in duration", text)
        if name not in _UNITS:
            raise _refusal(f"unknown unit {quote(name)} in duration", text)
        unit = _UNITS[name]
        total += int(digits or "0") * unit
        # Go counts in 64 bits and floats: excess digits are ignored, and the last may be inexact.
        count, scale = 0, 1.0
        for digit in part:
            if (more := count * 10 + int(digit)) > LIMIT:
                break
            count, scale = more, scale * 10
        total += int(float(count) * (unit / scale))
        if total > LIMIT:
            raise _refusal("invalid duration", text)
        at = match.end()
    if not is_negative and total == LIMIT:
        raise _refusal("invalid duration", text)
    return -total if is_negative else total


def _refusal(why: str, text: str) -> ValueError:
    return ValueError(f"{why} {quote(text)}")


def format_duration(nanoseconds: int) -> str:
    """Format a duration as Go does: `1h30m0s`, `1.5s`, `100ms`, `0s`."""
    sign = "-" if nanoseconds < 0 else ""
    remaining = abs(int(nanoseconds))
    if remaining < SECOND:
        if remaining == 0:
            return "0s"
        units = (("ms", MILLISECOND), ("µs", MICROSECOND), ("ns", 1))
        unit, size = next(entry for entry in units if remaining >= entry[1])
        return f"{sign}{_decimal(remaining, size)}{unit}"
    hours, remaining = divmod(remaining, HOUR)
    minutes, remaining = divmod(remaining, MINUTE)
    text = f"{_decimal(remaining, SECOND)}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{text}"
    return f"{sign}{minutes}m{text}" if minutes else f"{sign}{text}"


def _decimal(amount: int, unit: int) -> str:
    integer, part = divmod(amount, unit)
    if not part:
        return str(integer)
    return f"{integer}.{str(part).rjust(len(str(unit)) - 1, '0').rstrip('0')}"


def quote(text: str) -> str:
    """Quote a text as Go's time package does: all non-ASCII characters are escaped."""
    shown = []
    for char in text:
        if char in '"\\':
            shown.append("\\" + char)
        elif " " <= char <= "~" or char == "\x7f":
            shown.append(char)
        else:
            # Lone surrogates in this range are bytes that are not UTF-8.
            is_byte = "\udc80" <= char <= "\udcff"
            data = char.encode("utf-8", "surrogateescape" if is_byte else "surrogatepass")
            shown.extend(f"\\x{byte:02x}" for byte in data)
    return '"' + "".join(shown) + '"'

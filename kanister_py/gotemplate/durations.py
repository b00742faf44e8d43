"""Durations, as Go reads and writes them."""

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
# The digits before and behind a point, and everything up to the next number. Compiled by
# the first text: most processes read no duration.
_PART: Final = r"([0-9]*)(?:\.([0-9]*))?([^.0-9]*)"
_MOST_DIGITS: Final = 19


def nanoseconds_of(text: str) -> int:
    """Read a duration such as `1h30m` or `-1.5s`; ValueError with Go's words."""
    rest = text[1:] if text[:1] in ("-", "+") else text
    is_negative = text.startswith("-")
    if rest == "0":
        return 0
    if not rest:
        raise _refusal("invalid duration", text)
    part_of = re.compile(_PART)
    total = at = 0
    while at < len(rest):
        found = part_of.match(rest, at)
        assert found is not None  # each of its groups may be empty
        whole, part, name = found.groups("")
        # Python reads no number of more than 4,300 digits, of which noughts in front are none.
        whole = whole.lstrip("0") or whole[:1]
        if not (whole or part) or len(whole) > _MOST_DIGITS or int(whole or "0") > LIMIT:
            raise _refusal("invalid duration", text)
        if not name:
            raise _refusal("missing unit in duration", text)
        if name not in _UNITS:
            raise _refusal(f"unknown unit {quote(name)} in duration", text)
        unit = _UNITS[name]
        total += int(whole or "0") * unit
        # Go counts in 64 bits and floats: a digit too many is not read, and the last may be off.
        count, scale = 0, 1.0
        for digit in part:
            if (more := count * 10 + int(digit)) > LIMIT:
                break
            count, scale = more, scale * 10
        total += int(float(count) * (unit / scale))
        if total > LIMIT:
            raise _refusal("invalid duration", text)
        at = found.end()
    if not is_negative and total == LIMIT:
        raise _refusal("invalid duration", text)
    return -total if is_negative else total


def _refusal(why: str, text: str) -> ValueError:
    return ValueError(f"{why} {quote(text)}")


def format_duration(nanoseconds: int) -> str:
    """Write a duration as Go does: `1h30m0s`, `1.5s`, `100ms`, `0s`."""
    sign = "-" if nanoseconds < 0 else ""
    rest = abs(int(nanoseconds))
    if rest < SECOND:
        if rest == 0:
            return "0s"
        units = (("ms", MILLISECOND), ("µs", MICROSECOND), ("ns", 1))
        unit, size = next(each for each in units if rest >= each[1])
        return f"{sign}{_decimal(rest, size)}{unit}"
    hours, rest = divmod(rest, HOUR)
    minutes, rest = divmod(rest, MINUTE)
    text = f"{_decimal(rest, SECOND)}s"
    if hours:
        return f"{sign}{hours}h{minutes}m{text}"
    return f"{sign}{minutes}m{text}" if minutes else f"{sign}{text}"


def _decimal(amount: int, unit: int) -> str:
    whole, part = divmod(amount, unit)
    if not part:
        return str(whole)
    return f"{whole}.{str(part).rjust(len(str(unit)) - 1, '0').rstrip('0')}"


def quote(text: str) -> str:
    """A text in quotes as Go's time package does it: everything beyond ASCII escaped."""
    shown = []
    for char in text:
        if char in '"\\':
            shown.append("\\" + char)
        elif " " <= char <= "~" or char == "\x7f":
            shown.append(char)
        else:
            # Lone halves up there are bytes that are no UTF-8; others can only be text.
            is_byte = "\udc80" <= char <= "\udcff"
            data = char.encode("utf-8", "surrogateescape" if is_byte else "surrogatepass")
            shown.extend(f"\\x{byte:02x}" for byte in data)
    return '"' + "".join(shown) + '"'

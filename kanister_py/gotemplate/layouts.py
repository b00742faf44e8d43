"""Layouts of times: formatting and parsing as Go's time.Format and time.Parse do."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from kanister_py.gotemplate.durations import SECOND, quote
from kanister_py.gotemplate.functions import GoError
from kanister_py.gotemplate.times import (
    MONTHS,
    TIME,
    UTC,
    WEEKDAYS,
    Civil,
    Location,
    Time,
    days_in,
    fixed_zone,
    make_time,
    method,
    numeric_offset,
)

# All elements of Go's reference time.
_PIECE = re.compile(
    r"January|Jan(?![a-z])|Monday|Mon(?![a-z])|MST"
    r"|0[1-6]|002|15|1|2006|2|__2|_2(?!006)|3|4|5|PM|pm"
    r"|-07(?:0000|:00:00|00|:00)?|Z07(?:0000|:00:00|00|:00)"
    r"|Z07|[.,](?:0+|9+)(?![0-9])"
)
_SHORT_MONTHS = tuple(name[:3] for name in MONTHS)
_SHORT_WEEKDAYS = tuple(name[:3] for name in WEEKDAYS)


@lru_cache(maxsize=256)
def _pieces(layout: str) -> tuple[tuple[tuple[str, str], ...], str]:
    """Split a layout into (literal text, element) pairs and the text after the last element."""
    pairs = []
    at = 0
    for match in _PIECE.finditer(layout):
        pairs.append((layout[at : match.start()], match.group()))
        at = match.end()
    return tuple(pairs), layout[at:]


# Formatting

_Writer = Callable[[Civil], str]


def _padded(number: int, width: int) -> str:
    return f"-{-number:0{width}d}" if number < 0 else f"{number:0{width}d}"


def _twelve(civil: Civil) -> int:
    return civil.hour % 12 or 12


_WRITERS: dict[str, _Writer] = {
    "2006": lambda c: _padded(c.year, 4),
    "06": lambda c: f"{abs(c.year) % 100:02d}",
    "January": lambda c: MONTHS[c.month - 1],
    "Jan": lambda c: _SHORT_MONTHS[c.month - 1],
    "1": lambda c: str(c.month),
    "01": lambda c: f"{c.month:02d}",
    "Monday": lambda c: WEEKDAYS[c.weekday],
    "Mon": lambda c: _SHORT_WEEKDAYS[c.weekday],
    "2": lambda c: str(c.day),
    "_2": lambda c: f"{c.day:2d}",
    "02": lambda c: f"{c.day:02d}",
    "__2": lambda c: f"{c.year_day:3d}",
    "002": lambda c: f"{c.year_day:03d}",
    "15": lambda c: f"{c.hour:02d}",
    "3": lambda c: str(_twelve(c)),
    "03": lambda c: f"{_twelve(c):02d}",
    "4": lambda c: str(c.minute),
    "04": lambda c: f"{c.minute:02d}",
    "5": lambda c: str(c.second),
    "05": lambda c: f"{c.second:02d}",
    "PM": lambda c: "PM" if c.hour >= 12 else "AM",
    "pm": lambda c: "pm" if c.hour >= 12 else "am",
    "MST": lambda c: c.abbreviation or _offset(c.offset, "-0700"),
}


def _offset(seconds: int, piece: str) -> str:
    if piece[0] == "Z" and seconds == 0:
        return "Z"
    shape = piece[1:]
    if shape == "07":
        return numeric_offset(seconds)[:3]
    colon = ":" if ":" in shape else ""
    text = numeric_offset(seconds, colon)
    return f"{text}{colon}{abs(seconds) % 60:02d}" if len(shape) > 5 else text


def _writer(piece: str) -> _Writer:
    writer = _WRITERS.get(piece)
    if writer is not None:
        return writer
    if piece[0] in ".,":
        digits = len(piece) - 1
        if piece[1] == "0":
            return lambda c: piece[0] + f"{c.nanosecond:09d}".ljust(digits, "0")[:digits]
        return lambda c: (piece[0] + f"{c.nanosecond:09d}"[:digits]).rstrip("0").rstrip(".,")
    return lambda c: _offset(c.offset, piece)


@lru_cache(maxsize=256)
def _plan(layout: str) -> tuple[str, tuple[_Writer, ...]]:
    pairs, tail = _pieces(layout)
    text = "".join(before.replace("%", "%%") + "%s" for before, _ in pairs)
    return text + tail.replace("%", "%%"), tuple(_writer(piece) for _, piece in pairs)


# Longer texts are not valid times and would only fill the cache.
_LONGEST_KEPT = 128


def format_time(moment: Time, layout: str) -> str:
    """Format a time by a layout."""
    if len(layout) > _LONGEST_KEPT:
        return _format_time(moment, layout)
    return _format_time_once(moment, layout)


def _format_time(moment: Time, layout: str) -> str:
    text, writers = _plan(layout)
    civil = moment.civil()
    return text % tuple([write(civil) for write in writers])


# An action formats and parses the same few times repeatedly.
_format_time_once = lru_cache(maxsize=256)(_format_time)

method(TIME, "Format", "func(string) string")(format_time)


# Parsing


# For each part of an offset: its maximum, its name, and its length in seconds.
_OFFSETS = ((24, "hour", 3600), (60, "minute", 60), (60, "second", 1))


class _Mismatch(Exception):
    """The text does not match the layout."""


class _InvalidDate(Exception):
    """The parsed elements contradict each other or form no valid date."""


class _OutOfRange(Exception):
    """A parsed number is outside the range of its element, such as a month 13."""


def parse_time(
    layout: str, text: str, default: Location = UTC, local: Location | None = None
) -> Time:
    """Parse a time. Raises GoError with Go's message.

    `default` is the zone of a text without one. `local` is the zone whose offsets
    and abbreviations are recognised.
    """
    local = default if local is None else local
    if len(layout) + len(text) > _LONGEST_KEPT:
        return _parse_time(layout, text, default, local)
    return _parse_time_once(layout, text, default, local)


def _parse_time(layout: str, text: str, default: Location, local: Location) -> Time:
    return _Reader(layout, text).read(default, local)


_parse_time_once = lru_cache(maxsize=256)(_parse_time)


def _with_offset(shown: Time, offset: int, name: str, local: Location) -> Time:
    """Return the time with the wall clock of `shown` in a zone `offset` seconds ahead of UTC."""
    moment = Time(shown.unix_nanoseconds - offset * SECOND)
    here, called = local.at(moment.unix_nanoseconds // SECOND)
    if here == offset and name in ("", called):
        return moment.in_zone(local)
    return moment.in_zone(fixed_zone(name, offset))


class _Elements:
    """Elements of a time that have been parsed so far."""

    def __init__(self) -> None:
        self.year = 0
        self.month = -1
        self.day = -1
        self.year_day = -1
        self.hour = 0
        self.minute = 0
        self.second = 0
        self.nanosecond = 0
        self.half = ""
        self.is_utc = False
        self.offset: int | None = None
        self.zone_name = ""

    def moment(self, default: Location, local: Location) -> Time:
        if self.half == "pm" and self.hour < 12:
            self.hour += 12
        elif self.half == "am" and self.hour == 12:
            self.hour = 0
        self._settle_date()
        shown = self._at(UTC)
        if self.is_utc:
            return shown
        # Go represents "no offset" by -1, so an offset of minus one second is treated as none.
        if self.offset is not None and self.offset != -1:
            return _with_offset(shown, self.offset, self.zone_name, local)
        if self.zone_name:
            return self._in_named_zone(shown, local)
        return self._at(default)

    def _in_named_zone(self, shown: Time, local: Location) -> Time:
        offset = local.offset_of(self.zone_name, shown.unix_nanoseconds // SECOND)
        if offset is not None:
            return Time(shown.unix_nanoseconds - offset * SECOND, local)
        offset = 0
        if len(self.zone_name) > 3 and self.zone_name.startswith("GMT"):
            offset = int(self.zone_name[3:]) * 3600
        # As in Go, an unknown zone name is kept and does not shift the time.
        return shown.in_zone(fixed_zone(self.zone_name, offset))

    def _at(self, location: Location) -> Time:
        return make_time(
            self.year,
            self.month,
            self.day,
            hour=self.hour,
            minute=self.minute,
            second=self.second,
            nanosecond=self.nanosecond,
            location=location,
        )

    def _settle_date(self) -> None:
        if self.year_day >= 0:
            month, day = self._from_year_day()
            if self.month not in (-1, month):
                raise _InvalidDate("day-of-year does not match month")
            if self.day not in (-1, day):
                raise _InvalidDate("day-of-year does not match day")
            self.month, self.day = month, day
        self.month = 1 if self.month < 0 else self.month
        self.day = 1 if self.day < 0 else self.day
        if not 1 <= self.day <= days_in(self.year, self.month):
            raise _InvalidDate("day out of range")

    def _from_year_day(self) -> tuple[int, int]:
        day = self.year_day
        if not 1 <= day <= (366 if days_in(self.year, 2) == 29 else 365):
            raise _InvalidDate("day-of-year out of range")
        month = 1
        while day > days_in(self.year, month):
            day -= days_in(self.year, month)
            month += 1
        return month, day


class _Reader:
    """Parser of one text by one layout."""

    def __init__(self, layout: str, text: str) -> None:
        self.layout = layout
        self.text = text
        self.rest = text
        self.elements = _Elements()

    def read(self, default: Location, local: Location) -> Time:
        pairs, tail = _pieces(self.layout)
        for position, (before, piece) in enumerate(pairs):
            following = pairs[position + 1][1] if position + 1 < len(pairs) else ""
            self._skip(before)
            hold = self.rest
            try:
                self._read_piece(piece, following)
            except _Mismatch:
                raise self._error(piece, hold) from None
            except _OutOfRange as error:
                raise self._complaint(f": {error} out of range") from None
        self._skip(tail)
        if self.rest:
            raise self._complaint(f": extra text: {quote(self.rest)}")
        try:
            return self.elements.moment(default, local)
        except _InvalidDate as error:
            raise self._complaint(f": {error}") from None

    def _error(self, piece: str, value: str) -> GoError:
        return GoError(
            f"parsing time {quote(self.text)} as {quote(self.layout)}: "
            f"cannot parse {quote(value)} as {quote(piece)}"
        )

    def _complaint(self, why: str) -> GoError:
        return GoError(f"parsing time {quote(self.text)}{why}")

    def _skip(self, prefix: str) -> None:
        """Skip literal text of the layout; any number of spaces matches any other number."""
        literal, left = prefix, prefix
        while left:
            if left[0] == " ":
                if self.rest and self.rest[0] != " ":
                    raise self._error(literal, self.rest)
                left = left.lstrip(" ")
                self.rest = self.rest.lstrip(" ")
                continue
            if not self.rest or self.rest[0] != left[0]:
                raise self._error(literal, self.rest)
            left = left[1:]
            self.rest = self.rest[1:]

    def _read_piece(self, piece: str, following: str) -> None:
        reader = _READERS.get(piece)
        if reader is not None:
            reader(self)
        elif piece in ("5", "05"):
            self._read_second(is_fixed=piece == "05", following=following)
        elif piece[0] in ".,":
            self._read_fraction(piece)
        else:
            self._read_offset(piece)

    def _take(self, length: int) -> str:
        if len(self.rest) < length:
            raise _Mismatch
        text, self.rest = self.rest[:length], self.rest[length:]
        return text

    def _number(self, *, is_fixed: bool, widest: int = 2) -> int:
        length = 0
        while length < widest and "0" <= self.rest[length : length + 1] <= "9":
            length += 1
        if length == 0 or (is_fixed and length != widest):
            raise _Mismatch
        return int(self._take(length))

    def _digits(self, length: int) -> int:
        text = self._take(length)
        if not (text.isascii() and text.isdigit()):
            raise _Mismatch
        return int(text)

    def read_name(self, names: tuple[str, ...]) -> int:
        for position, name in enumerate(names):
            if self.rest[: len(name)].lower() == name.lower():
                self.rest = self.rest[len(name) :]
                return position
        raise _Mismatch

    def read_year(self) -> None:
        if len(self.rest) < 4 or not "0" <= self.rest[0] <= "9":
            raise _Mismatch
        self.elements.year = self._digits(4)

    def read_short_year(self) -> None:
        year = self._digits(2)
        self.elements.year = year + (1900 if year >= 69 else 2000)

    def read_number(self, name: str, first: int, last: int, *, is_fixed: bool) -> None:
        """Parse a number into the field `name`, which is also its name in error messages."""
        number = self._number(is_fixed=is_fixed)
        if not first <= number <= last:
            raise _OutOfRange(name)
        setattr(self.elements, name, number)

    def read_month_name(self, names: tuple[str, ...]) -> None:
        self.elements.month = self.read_name(names) + 1

    def read_day(self, *, is_fixed: bool = False, may_space: bool = False) -> None:
        if may_space and self.rest[:1] == " ":
            self.rest = self.rest[1:]
        self.elements.day = self._number(is_fixed=is_fixed)

    def read_year_day(self, *, is_fixed: bool) -> None:
        if not is_fixed:
            for _ in range(2):
                self.rest = self.rest.removeprefix(" ")
        self.elements.year_day = self._number(is_fixed=is_fixed, widest=3)

    def _read_second(self, *, is_fixed: bool, following: str) -> None:
        self.read_number("second", 0, 59, is_fixed=is_fixed)
        # A fraction is accepted even if the layout has none.
        if following[:1] not in (".", ",") and re.match(r"[.,][0-9]", self.rest):
            self._read_fraction(".9")

    def _read_fraction(self, piece: str) -> None:
        if piece[1] == "0":
            fraction = self._take(len(piece))
            if fraction[0] not in ".," or not (fraction[1:].isascii() and fraction[1:].isdigit()):
                raise _Mismatch
        else:
            match = re.match(r"[.,][0-9]+", self.rest)
            if match is None:
                return
            fraction = self._take(match.end())
        self.elements.nanosecond = int(fraction[1:10].ljust(9, "0"))

    def read_half(self, words: tuple[str, str]) -> None:
        half = self._take(2)
        if half not in words:
            raise _Mismatch
        self.elements.half = half.lower()

    def _read_offset(self, piece: str) -> None:
        if piece[0] == "Z" and self.rest[:1] == "Z":
            self.rest = self.rest[1:]
            self.elements.is_utc = True
            return
        match = re.match("(.)" + re.sub("[0-9]{2}", "([0-9]{2})", piece[1:]), self.rest, re.DOTALL)
        if match is None:
            raise _Mismatch
        self.rest = self.rest[match.end() :]
        sign, *numbers = match.groups()
        offset = 0
        for number, (most, unit, seconds) in zip(map(int, numbers), _OFFSETS, strict=False):
            if number > most:
                raise _OutOfRange(f"time zone offset {unit}")
            offset += number * seconds
        if sign not in "+-":
            raise _Mismatch
        self.elements.offset = offset if sign == "+" else -offset

    def read_zone_name(self) -> None:
        if self.rest[:3] == "UTC":
            self.elements.is_utc = True
            self.rest = self.rest[3:]
            return
        length = _zone_name_length(self.rest)
        if not length:
            raise _Mismatch
        self.elements.zone_name = self._take(length)


_READERS: dict[str, Callable[[_Reader], object]] = {
    "2006": _Reader.read_year,
    "06": _Reader.read_short_year,
    "January": lambda r: r.read_month_name(MONTHS),
    "Jan": lambda r: r.read_month_name(_SHORT_MONTHS),
    "1": lambda r: r.read_number("month", 1, 12, is_fixed=False),
    "01": lambda r: r.read_number("month", 1, 12, is_fixed=True),
    "Monday": lambda r: r.read_name(WEEKDAYS),
    "Mon": lambda r: r.read_name(_SHORT_WEEKDAYS),
    "2": _Reader.read_day,
    "_2": lambda r: r.read_day(may_space=True),
    "02": lambda r: r.read_day(is_fixed=True),
    "__2": lambda r: r.read_year_day(is_fixed=False),
    "002": lambda r: r.read_year_day(is_fixed=True),
    "15": lambda r: r.read_number("hour", 0, 23, is_fixed=False),
    "3": lambda r: r.read_number("hour", 0, 12, is_fixed=False),
    "03": lambda r: r.read_number("hour", 0, 12, is_fixed=True),
    "4": lambda r: r.read_number("minute", 0, 59, is_fixed=False),
    "04": lambda r: r.read_number("minute", 0, 59, is_fixed=True),
    "PM": lambda r: r.read_half(("PM", "AM")),
    "pm": lambda r: r.read_half(("pm", "am")),
    "MST": _Reader.read_zone_name,
}

_SIGNED_OFFSET = re.compile(r"[+-]([0-9]+)")


def _zone_name_length(text: str) -> int:
    """Return the length of a zone abbreviation at the start of a text; 0 if there is none."""
    if len(text) < 3:
        return 0
    if text[:4] in ("ChST", "MeST"):
        return 4
    if text[:3] == "GMT":
        return 3 + _signed_length(text[3:])
    if text[0] in "+-":
        return _signed_length(text)
    upper = 0
    while upper < 6 and "A" <= text[upper : upper + 1] <= "Z":
        upper += 1
    if upper == 5 and text[4] == "T":
        return 5
    if upper == 4 and (text[3] == "T" or text[:4] == "WITA"):
        return 4
    return 3 if upper == 3 else 0


def _signed_length(text: str) -> int:
    match = _SIGNED_OFFSET.match(text)
    return match.end() if match is not None and int(match.group(1)) <= 23 else 0

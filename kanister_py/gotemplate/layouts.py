"""Layouts of moments: writing and reading times as Go's time.Format and time.Parse do."""

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

# Every piece of Go's reference time that means something in a layout.
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
    """The layout as (text before, piece) pairs and the text after the last."""
    pairs = []
    at = 0
    for found in _PIECE.finditer(layout):
        pairs.append((layout[at : found.start()], found.group()))
        at = found.end()
    return tuple(pairs), layout[at:]


# Writing

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
    found = _WRITERS.get(piece)
    if found is not None:
        return found
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


# Longer texts are no times, only a way to fill our memory.
_LONGEST_KEPT = 128


def format_time(moment: Time, layout: str) -> str:
    """The moment, written as the layout writes the reference time."""
    if len(layout) > _LONGEST_KEPT:
        return _format_time(moment, layout)
    return _format_time_once(moment, layout)


def _format_time(moment: Time, layout: str) -> str:
    text, writers = _plan(layout)
    civil = moment.civil()
    return text % tuple([write(civil) for write in writers])


# An action formats and reads the same few moments over and over.
_format_time_once = lru_cache(maxsize=256)(_format_time)

method(TIME, "Format", "func(string) string")(format_time)


# Reading


# Of each part of an offset the most, its name, and its seconds.
_OFFSETS = ((24, "hour", 3600), (60, "minute", 60), (60, "second", 1))


class _Bad(Exception):
    """The text does not go on as the layout does."""


class _Doubt(Exception):
    """Pieces that were read one by one, and are no moment together."""


class _Range(Exception):
    """The text goes on with a number that no clock or calendar shows."""


def parse_time(
    layout: str, text: str, default: Location = UTC, local: Location | None = None
) -> Time:
    """Read the moment that a text names. Raises GoError with Go's text.

    `default` is the zone of a text that names none; `local` the one whose offsets
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
    """The moment whose wall clock, `offset` seconds ahead of UTC, shows what `shown` does."""
    moment = Time(shown.unix_nanoseconds - offset * SECOND)
    here, called = local.at(moment.unix_nanoseconds // SECOND)
    if here == offset and name in ("", called):
        return moment.in_zone(local)
    return moment.in_zone(fixed_zone(name, offset))


class _Found:
    """Parts of a moment, as far as they were read."""

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
        # Go keeps -1 for "no offset", so an offset of minus one second is none.
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
        # Go shifts neither the moment nor its doubts: the name is kept, that is all.
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
                raise _Doubt("day-of-year does not match month")
            if self.day not in (-1, day):
                raise _Doubt("day-of-year does not match day")
            self.month, self.day = month, day
        self.month = 1 if self.month < 0 else self.month
        self.day = 1 if self.day < 0 else self.day
        if not 1 <= self.day <= days_in(self.year, self.month):
            raise _Doubt("day out of range")

    def _from_year_day(self) -> tuple[int, int]:
        day = self.year_day
        if not 1 <= day <= (366 if days_in(self.year, 2) == 29 else 365):
            raise _Doubt("day-of-year out of range")
        month = 1
        while day > days_in(self.year, month):
            day -= days_in(self.year, month)
            month += 1
        return month, day


class _Reader:
    """One text being read along one layout."""

    def __init__(self, layout: str, text: str) -> None:
        self.layout = layout
        self.text = text
        self.rest = text
        self.found = _Found()

    def read(self, default: Location, local: Location) -> Time:
        pairs, tail = _pieces(self.layout)
        for position, (before, piece) in enumerate(pairs):
            following = pairs[position + 1][1] if position + 1 < len(pairs) else ""
            self._skip(before)
            hold = self.rest
            try:
                self._read_piece(piece, following)
            except _Bad:
                raise self._error(piece, hold) from None
            except _Range as out:
                raise self._complaint(f": {out} out of range") from None
        self._skip(tail)
        if self.rest:
            raise self._complaint(f": extra text: {quote(self.rest)}")
        try:
            return self.found.moment(default, local)
        except _Doubt as doubt:
            raise self._complaint(f": {doubt}") from None

    def _error(self, piece: str, value: str) -> GoError:
        return GoError(
            f"parsing time {quote(self.text)} as {quote(self.layout)}: "
            f"cannot parse {quote(value)} as {quote(piece)}"
        )

    def _complaint(self, why: str) -> GoError:
        return GoError(f"parsing time {quote(self.text)}{why}")

    def _skip(self, prefix: str) -> None:
        """Step over what the layout says literally; any run of spaces matches any other."""
        whole, left = prefix, prefix
        while left:
            if left[0] == " ":
                if self.rest and self.rest[0] != " ":
                    raise self._error(whole, self.rest)
                left = left.lstrip(" ")
                self.rest = self.rest.lstrip(" ")
                continue
            if not self.rest or self.rest[0] != left[0]:
                raise self._error(whole, self.rest)
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
            raise _Bad
        taken, self.rest = self.rest[:length], self.rest[length:]
        return taken

    def _number(self, *, is_fixed: bool, widest: int = 2) -> int:
        length = 0
        while length < widest and "0" <= self.rest[length : length + 1] <= "9":
            length += 1
        if length == 0 or (is_fixed and length != widest):
            raise _Bad
        return int(self._take(length))

    def _digits(self, length: int) -> int:
        taken = self._take(length)
        if not (taken.isascii() and taken.isdigit()):
            raise _Bad
        return int(taken)

    def read_name(self, names: tuple[str, ...]) -> int:
        for position, name in enumerate(names):
            if self.rest[: len(name)].lower() == name.lower():
                self.rest = self.rest[len(name) :]
                return position
        raise _Bad

    def read_year(self) -> None:
        if len(self.rest) < 4 or not "0" <= self.rest[0] <= "9":
            raise _Bad
        self.found.year = self._digits(4)

    def read_short_year(self) -> None:
        year = self._digits(2)
        self.found.year = year + (1900 if year >= 69 else 2000)

    def read_number(self, name: str, first: int, last: int, *, is_fixed: bool) -> None:
        """Read what a clock or calendar shows, of which `name` is also what we call it."""
        number = self._number(is_fixed=is_fixed)
        if not first <= number <= last:
            raise _Range(name)
        setattr(self.found, name, number)

    def read_month_name(self, names: tuple[str, ...]) -> None:
        self.found.month = self.read_name(names) + 1

    def read_day(self, *, is_fixed: bool = False, may_space: bool = False) -> None:
        if may_space and self.rest[:1] == " ":
            self.rest = self.rest[1:]
        self.found.day = self._number(is_fixed=is_fixed)

    def read_year_day(self, *, is_fixed: bool) -> None:
        if not is_fixed:
            for _ in range(2):
                self.rest = self.rest.removeprefix(" ")
        self.found.year_day = self._number(is_fixed=is_fixed, widest=3)

    def _read_second(self, *, is_fixed: bool, following: str) -> None:
        self.read_number("second", 0, 59, is_fixed=is_fixed)
        # A fraction is read even where the layout has none.
        if following[:1] not in (".", ",") and re.match(r"[.,][0-9]", self.rest):
            self._read_fraction(".9")

    def _read_fraction(self, piece: str) -> None:
        if piece[1] == "0":
            taken = self._take(len(piece))
            if taken[0] not in ".," or not (taken[1:].isascii() and taken[1:].isdigit()):
                raise _Bad
        else:
            found = re.match(r"[.,][0-9]+", self.rest)
            if found is None:
                return
            taken = self._take(found.end())
        self.found.nanosecond = int(taken[1:10].ljust(9, "0"))

    def read_half(self, words: tuple[str, str]) -> None:
        taken = self._take(2)
        if taken not in words:
            raise _Bad
        self.found.half = taken.lower()

    def _read_offset(self, piece: str) -> None:
        if piece[0] == "Z" and self.rest[:1] == "Z":
            self.rest = self.rest[1:]
            self.found.is_utc = True
            return
        found = re.match("(.)" + re.sub("[0-9]{2}", "([0-9]{2})", piece[1:]), self.rest, re.DOTALL)
        if found is None:
            raise _Bad
        self.rest = self.rest[found.end() :]
        sign, *numbers = found.groups()
        offset = 0
        for number, (most, unit, seconds) in zip(map(int, numbers), _OFFSETS, strict=False):
            if number > most:
                raise _Range(f"time zone offset {unit}")
            offset += number * seconds
        if sign not in "+-":
            raise _Bad
        self.found.offset = offset if sign == "+" else -offset

    def read_zone_name(self) -> None:
        if self.rest[:3] == "UTC":
            self.found.is_utc = True
            self.rest = self.rest[3:]
            return
        length = _zone_name_length(self.rest)
        if not length:
            raise _Bad
        self.found.zone_name = self._take(length)


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
    """Give how many characters of a text look like a zone's abbreviation."""
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
    found = _SIGNED_OFFSET.match(text)
    return found.end() if found is not None and int(found.group(1)) <= 23 else 0

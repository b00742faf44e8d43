"""Moments and spans of time: showing, reading, moving."""

from __future__ import annotations

from kanister_py.gotemplate.functions import Function, GoError, go_function
from kanister_py.gotemplate.layouts import format_time, parse_time
from kanister_py.gotemplate.limits import Context
from kanister_py.gotemplate.sprig.conversions import parse_decimal, wrapped
from kanister_py.gotemplate.times import (
    DAY_SECONDS,
    HOUR,
    MINUTE,
    SECOND,
    UTC,
    ZERO_TIME,
    Duration,
    Location,
    Time,
    difference,
    format_duration,
    from_unix,
    parse_duration,
    round_to,
)
from kanister_py.gotemplate.values import Int32, Int64, Value

_LOCAL = "Local"
_HTML_DATE = "2006-01-02"


def _moment_of(value: Value, context: Context) -> Time:
    """A time, or seconds since 1970; whatever else a value is, it means now."""
    if isinstance(value, Time):
        return value
    if type(value) in (int, Int64, Int32):
        return from_unix(int(value), 0, context.effects.zone)
    return context.effects.now()


def _zone_of(name: str, context: Context) -> Location:
    if name in ("", "UTC"):
        return UTC
    if name == _LOCAL:
        return context.effects.zone
    if ".." in name or name[0] in "/\\" or "\\" in name:
        return UTC
    try:
        return context.effects.load_zone(name)
    except GoError:
        return UTC


def _shown(context: Context, layout: str, value: Value, zone: str) -> str:
    moment = _moment_of(value, context).in_zone(_zone_of(zone, context))
    return format_time(moment, layout)


@go_function("func(string, interface{}) string", context=True)
def date(context: Context, layout: str, value: Value) -> str:
    return _shown(context, layout, value, _LOCAL)


@go_function("func(string, interface{}, string) string", context=True)
def date_in_zone(context: Context, layout: str, value: Value, zone: str) -> str:
    return _shown(context, layout, value, zone)


@go_function("func(interface{}) string", context=True)
def html_date(context: Context, value: Value) -> str:
    return _shown(context, _HTML_DATE, value, _LOCAL)


@go_function("func(interface{}, string) string", context=True)
def html_date_in_zone(context: Context, value: Value, zone: str) -> str:
    return _shown(context, _HTML_DATE, value, zone)


@go_function("func(string, time.Time) time.Time")
def date_modify(span: str, moment: Time) -> Time:
    """A span that cannot be read moves nothing."""
    try:
        return _moved(moment, parse_duration(span))
    except GoError:
        return moment


@go_function("func(string, time.Time) (time.Time, error)")
def must_date_modify(span: str, moment: Time) -> Time:
    return _moved(moment, parse_duration(span))


def _moved(moment: Time, span: Duration) -> Time:
    return Time(moment.unix_nanoseconds + span, moment.location)


@go_function("func(interface{}) string", context=True)
def ago(context: Context, value: Value) -> str:
    now = context.effects.now()
    moment = now if type(value) is Int32 else _moment_of(value, context)
    return format_duration(round_to(difference(now, moment), SECOND))


def _read(context: Context, layout: str, text: str) -> Time:
    return parse_time(layout, text, default=context.effects.zone, local=context.effects.zone)


@go_function("func(string, string) time.Time", context=True)
def to_date(context: Context, layout: str, text: str) -> Time:
    """A text that does not follow the layout is the zero time."""
    try:
        return _read(context, layout, text)
    except GoError:
        return ZERO_TIME


@go_function("func(string, string) (time.Time, error)", context=True)
def must_to_date(context: Context, layout: str, text: str) -> Time:
    return _read(context, layout, text)


@go_function("func(time.Time) string")
def unix_epoch(moment: Time) -> str:
    return str(moment.unix_nanoseconds // SECOND)


@go_function("func() time.Time", context=True)
def now(context: Context) -> Time:
    return context.effects.now()


@go_function("func(interface{}) string")
def duration(value: Value) -> str:
    """Seconds as a span, if they are a text or an int64."""
    if type(value) is str:
        seconds = _bounded_decimal(value)
    else:
        seconds = int(value) if type(value) is Int64 else 0
    return format_duration(wrapped(seconds * SECOND))


def _bounded_decimal(text: str) -> int:
    """What is too large for an int64 is read as the largest of them."""
    number = parse_decimal(text)
    if number is not None:
        return number
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()):
        return 0
    return -(1 << 63) if text.startswith("-") else (1 << 63) - 1


_DAY = DAY_SECONDS * SECOND
_ROUGH_UNITS = (
    (365 * _DAY, "y"),
    (30 * _DAY, "mo"),
    (_DAY, "d"),
    (HOUR, "h"),
    (MINUTE, "m"),
    (SECOND, "s"),
)


@go_function("func(interface{}) string", context=True)
def duration_round(context: Context, value: Value) -> str:
    """A span in its largest unit, cut; a time means the span since then."""
    span = 0
    if type(value) is str:
        try:
            span = parse_duration(value)
        except GoError:
            span = 0
    elif type(value) is Int64:
        span = int(value)
    elif isinstance(value, Time):
        span = difference(context.effects.now(), value)
    size = abs(int(span))
    return next((f"{size // unit}{name}" for unit, name in _ROUGH_UNITS if size > unit), "0s")


OF_BLUEPRINTS: dict[str, Function] = {
    "ago": ago,
    "date": date,
    "dateInZone": date_in_zone,
    "dateModify": date_modify,
    "date_in_zone": date_in_zone,
    "date_modify": date_modify,
    "htmlDate": html_date,
    "htmlDateInZone": html_date_in_zone,
    "now": now,
    "toDate": to_date,
    "unixEpoch": unix_epoch,
}
NEWER: dict[str, Function] = {
    "duration": duration,
    "durationRound": duration_round,
    "mustDateModify": must_date_modify,
    "mustToDate": must_to_date,
    "must_date_modify": must_date_modify,
}
OF_COMPOSITIONS = OF_BLUEPRINTS

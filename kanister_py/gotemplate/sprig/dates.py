"""Times and durations: formatting, parsing, arithmetic."""

from __future__ import annotations

from contextlib import suppress

from kanister_py.gotemplate.durations import HOUR, MINUTE, SECOND, format_duration
from kanister_py.gotemplate.functions import Function, GoError, go_function
from kanister_py.gotemplate.layouts import format_time, parse_time
from kanister_py.gotemplate.limits import Context
from kanister_py.gotemplate.sprig.conversions import bounded_decimal, wrapped
from kanister_py.gotemplate.times import (
    DAY_SECONDS,
    UTC,
    ZERO_TIME,
    Location,
    Time,
    difference,
    from_unix,
    parse_duration,
    round_to,
)
from kanister_py.gotemplate.values import Int32, Int64, Value

_LOCAL = "Local"
_HTML_DATE = "2006-01-02"


def _moment_of(value: Value, context: Context) -> Time:
    """Convert a time or seconds since 1970; any other value means now."""
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


def _format_date(context: Context, layout: str, value: Value, zone: str = _LOCAL) -> str:
    moment = _moment_of(value, context).in_zone(_zone_of(zone, context))
    return format_time(moment, layout)


def _html_date(context: Context, value: Value, zone: str = _LOCAL) -> str:
    return _format_date(context, _HTML_DATE, value, zone)


@go_function("func(string, time.Time) (time.Time, error)")
def must_date_modify(span: str, moment: Time) -> Time:
    return Time(moment.unix_nanoseconds + parse_duration(span), moment.location)


@go_function("func(string, time.Time) time.Time")
def date_modify(span: str, moment: Time) -> Time:
    """Add a duration to a time; an invalid duration changes nothing."""
    with suppress(GoError):
        moment = must_date_modify(span, moment)
    return moment


@go_function("func(interface{}) string", context=True)
def ago(context: Context, value: Value) -> str:
    now = context.effects.now()
    moment = now if type(value) is Int32 else _moment_of(value, context)
    return format_duration(round_to(difference(now, moment), SECOND))


@go_function("func(string, string) (time.Time, error)", context=True)
def must_to_date(context: Context, layout: str, text: str) -> Time:
    return parse_time(layout, text, default=context.effects.zone)


@go_function("func(string, string) time.Time", context=True)
def to_date(context: Context, layout: str, text: str) -> Time:
    """Parse a time; a text that does not match the layout is the zero time."""
    moment = ZERO_TIME
    with suppress(GoError):
        moment = must_to_date(context, layout, text)
    return moment


@go_function("func(time.Time) string")
def unix_epoch(moment: Time) -> str:
    return str(moment.unix_nanoseconds // SECOND)


@go_function("func() time.Time", context=True)
def now(context: Context) -> Time:
    return context.effects.now()


@go_function("func(interface{}) string")
def duration(value: Value) -> str:
    """Convert seconds (a text or an int64) to a duration."""
    if type(value) is str:
        seconds = bounded_decimal(value)
    else:
        seconds = int(value) if type(value) is Int64 else 0
    return format_duration(wrapped(seconds * SECOND))


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
    """Round a duration down to its largest unit; a time means the duration since then."""
    span = 0
    if type(value) is str:
        with suppress(GoError):
            span = parse_duration(value)
    elif type(value) is Int64:
        span = int(value)
    elif isinstance(value, Time):
        span = difference(context.effects.now(), value)
    size = abs(int(span))
    return next((f"{size // unit}{name}" for unit, name in _ROUGH_UNITS if size > unit), "0s")


_DATE_IN_ZONE = go_function("func(string, interface{}, string) string", context=True)(_format_date)
OF_BLUEPRINTS: dict[str, Function] = {
    "ago": ago,
    "date": go_function("func(string, interface{}) string", context=True)(_format_date),
    "dateInZone": _DATE_IN_ZONE,
    "dateModify": date_modify,
    "date_in_zone": _DATE_IN_ZONE,
    "date_modify": date_modify,
    "htmlDate": go_function("func(interface{}) string", context=True)(_html_date),
    "htmlDateInZone": go_function("func(interface{}, string) string", context=True)(_html_date),
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

"""Timetables: cron lines, intervals, windows and jitter, including clock changes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanister_py.core.schedules.times import (
    Cron,
    InvalidTimetable,
    Window,
    check_windows,
    jitter_of,
    last_until,
    parse_timetable,
    unblocked_at,
    zone_of,
)

_ANCHOR = datetime(2026, 1, 1, tzinfo=UTC)
_MINUTE = timedelta(minutes=1)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def times(line: str, zone: str, begin: str, count: int) -> list[str]:
    """List times in the local time of a zone."""
    table = parse_timetable(line, zone_of(zone))
    moment, times = at(begin), []
    for _ in range(count):
        after = table.next_after(moment, _ANCHOR)
        assert after is not None
        moment = after
        times.append(moment.astimezone(ZoneInfo(zone)).isoformat()[:25])
    return times


@pytest.mark.parametrize(
    ("line", "begin", "expected"),
    [
        pytest.param(
            "30 2 * * *",
            "2026-03-28T12:00+01:00",
            ["2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"],
            id="a time inside the gap in spring fires after the gap",
        ),
        pytest.param(
            "15,45 2 * * *",
            "2026-03-28T12:00+01:00",
            ["2026-03-29T03:00:00+02:00", "2026-03-30T02:15:00+02:00"],
            id="two times inside the gap in spring fire once",
        ),
        pytest.param(
            "30 2 * * *",
            "2026-10-24T12:00+02:00",
            ["2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"],
            id="a repeated time in autumn fires once, the first time",
        ),
        pytest.param(
            "30 2 * * *",
            "2026-10-25T02:15+01:00",
            ["2026-10-26T02:30:00+01:00"],
            id="a repeated time does not fire again in the repeated hour",
        ),
        pytest.param(
            "*/30 * * * *",
            "2026-03-29T01:15+01:00",
            ["2026-03-29T01:30:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-29T03:30:00+02:00"],
            id="every half hour in spring",
        ),
        pytest.param(
            "*/30 * * * *",
            "2026-10-25T02:15+02:00",
            [
                "2026-10-25T02:30:00+02:00",
                "2026-10-25T02:00:00+01:00",
                "2026-10-25T02:30:00+01:00",
                "2026-10-25T03:00:00+01:00",
            ],
            id="every half hour in autumn",
        ),
        pytest.param(
            "0 */2 * * *",
            "2026-10-25T01:00+02:00",
            [
                "2026-10-25T02:00:00+02:00",
                "2026-10-25T02:00:00+01:00",
                "2026-10-25T04:00:00+01:00",
            ],
            id="every even hour follows local time",
        ),
        pytest.param(
            "0 3 * * *",
            "2026-03-28T12:00+01:00",
            ["2026-03-29T03:00:00+02:00", "2026-03-30T03:00:00+02:00"],
            id="the first hour after the gap fires once",
        ),
    ],
)
def test_daylight_saving_is_handled_like_in_debians_cron(
    line: str, begin: str, expected: list[str]
) -> None:
    assert times(line, "Europe/Berlin", begin, len(expected)) == expected


class Fields(NamedTuple):
    """Fields of a cron line."""

    minute: str
    hour: str
    weekday: str

    @property
    def line(self) -> str:
        return f"{self.minute} {self.hour} * * {self.weekday}"

    @property
    def is_wild(self) -> bool:
        return self.minute.startswith("*") or self.hour.startswith("*")

    def fits(self, wall: datetime) -> bool:
        day = str(wall.isoweekday() % 7)
        return (
            wall.minute in _numbers(self.minute, 60)
            and wall.hour in _numbers(self.hour, 24)
            and self.weekday in ("*", day)
        )


def _numbers(field: str, end: int) -> set[int]:
    times: set[int] = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        low, _, high = span.partition("-")
        numbers = range(end) if span == "*" else range(int(low), int(high or low) + 1)
        times |= set(numbers[:: int(step or 1)])
    return times


def as_debians_cron(fields: Fields, zone: str, begin: datetime, minutes: int) -> list[datetime]:
    """Iterate over the minutes like Debian's cron, with its virtual time."""
    times = []
    virtual = begin.astimezone(ZoneInfo(zone)).replace(tzinfo=None)
    for passed in range(1, minutes + 1):
        moment = begin + passed * _MINUTE
        wall = moment.astimezone(ZoneInfo(zone)).replace(tzinfo=None)
        ahead = (wall - virtual) // _MINUTE
        if ahead == 1:
            virtual, runs = wall, fields.fits(wall)
        elif ahead > 1:
            skipped = [virtual + number * _MINUTE for number in range(1, ahead + 1)]
            runs = any(map(fields.fits, [wall] if fields.is_wild else skipped))
            virtual = wall
        else:
            runs = fields.is_wild and fields.fits(wall)
        if runs:
            times.append(moment)
    return times


MINUTES = st.one_of(
    st.integers(0, 59).map(str),
    st.sampled_from(["*", "*/7", "*/15", "*/20", "0,30", "15-20", "5,45"]),
)
HOURS = st.one_of(
    st.integers(0, 23).map(str),
    st.sampled_from(["*", "*/2", "*/3", "0-4", "1,2,3", "23,0"]),
)
CHANGES = st.sampled_from(
    [
        ("Europe/Berlin", "2026-03-29T01:00+00:00"),
        ("Europe/Berlin", "2026-10-25T01:00+00:00"),
        ("America/New_York", "2026-03-08T07:00+00:00"),
        ("America/New_York", "2026-11-01T06:00+00:00"),
        ("Australia/Lord_Howe", "2026-04-04T15:00+00:00"),
        ("Australia/Lord_Howe", "2026-10-03T15:30+00:00"),
        ("Antarctica/Troll", "2026-03-29T01:00+00:00"),
        ("Antarctica/Troll", "2026-10-25T01:00+00:00"),
        ("Africa/Casablanca", "2026-02-15T02:00+00:00"),
        ("Africa/Cairo", "2026-04-23T22:00+00:00"),
        ("America/Havana", "2026-03-08T05:00+00:00"),
        ("America/Havana", "2026-11-01T05:00+00:00"),
        ("Asia/Kolkata", "2026-10-25T01:00+00:00"),
    ]
)


@settings(derandomize=True)
@given(MINUTES, HOURS, st.sampled_from(["*", "0", "6"]), CHANGES)
def test_line_fires_at_the_times_of_debians_cron(
    minute: str, hour: str, weekday: str, change: tuple[str, str]
) -> None:
    fields, (zone, text) = Fields(minute, hour, weekday), change
    begin, minutes = at(text) - timedelta(hours=6), 14 * 60
    table = Cron(fields.line, ZoneInfo(zone))
    times: list[datetime] = []
    moment = begin
    while (following := table.next_after(moment, begin)) is not None:
        if following > begin + minutes * _MINUTE:
            break
        times.append(following)
        moment = following
    assert times == as_debians_cron(fields, zone, begin, minutes)


@settings(derandomize=True)
@given(
    MINUTES,
    HOURS,
    CHANGES,
    st.integers(-600, 600),
    st.integers(1, 2000),
)
def test_last_time_equals_the_end_of_an_iteration(
    minute: str, hour: str, change: tuple[str, str], begin: int, span: int
) -> None:
    zone, text = change
    table = Cron(f"{minute} {hour} * * *", ZoneInfo(zone))
    after = at(text) + begin * _MINUTE
    until = after + span * _MINUTE
    expected, moment = None, after
    while (following := table.next_after(moment, after)) is not None and following <= until:
        expected = moment = following
    assert last_until(table, after, until, after) == expected


def test_last_time_is_found_quickly_after_a_long_pause() -> None:
    table = parse_timetable("* * * * *", zone_of("Europe/Berlin"))
    now = at("2026-11-19T05:00:30+00:00")
    assert last_until(table, at("1990-01-01T00:00+00:00"), now, _ANCHOR) == now.replace(second=0)


def test_interval_counts_from_its_anchor() -> None:
    table = parse_timetable("@every 1h30m")
    assert table.next_after(_ANCHOR, _ANCHOR) == _ANCHOR + timedelta(minutes=90)
    assert table.next_after(_ANCHOR + timedelta(minutes=90), _ANCHOR) == _ANCHOR + timedelta(
        hours=3
    )
    assert table.next_after(_ANCHOR - timedelta(days=1), _ANCHOR) == _ANCHOR + timedelta(minutes=90)
    assert last_until(table, _ANCHOR, _ANCHOR + timedelta(hours=4), _ANCHOR) == _ANCHOR + timedelta(
        hours=3
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0 0 30 2 *", "never fires: none of its months has such a day"),
        ("0 0 31 4,6 *", "never fires"),
        ("61 * * * *", "its minute is invalid"),
        ("* * * *", "is not a valid schedule; write five fields"),
        ("0 * * * * *", "is not a valid schedule; write five fields"),
        ("@reboot", "is not a valid schedule"),
        ("@every", "is not an interval"),
        ("@every 1.5s", "whole seconds"),
        ("@every -1h", "whole seconds"),
        ("@every 1 fortnight", "is not an interval: unknown unit"),
        ("CRON_TZ=Europe/Berlin 0 2 * * *", "set timeZone instead"),
        ("", "is not a valid schedule"),
    ],
)
def test_timetable_that_is_invalid_or_never_fires_is_refused(text: str, expected: str) -> None:
    with pytest.raises(InvalidTimetable) as refused:
        parse_timetable(text)
    assert expected in refused.value.message


@pytest.mark.parametrize("name", ["Europe/Berlim", "/etc/passwd", "../etc", "Europe", "CEST5"])
def test_unknown_time_zone_is_refused(name: str) -> None:
    with pytest.raises(InvalidTimetable):
        zone_of(name)


def test_overlapping_windows_end_with_the_last_one() -> None:
    office = Window(Cron("0 8 * * 1-5"), 10 * 3600)
    evening = Window(Cron("30 17 * * *"), 3600)
    monday = at("2026-11-16T09:00+00:00")
    assert unblocked_at([office], monday) == at("2026-11-16T18:00+00:00")
    assert unblocked_at([office, evening], monday) == at("2026-11-16T18:30+00:00")
    assert unblocked_at([office], at("2026-11-16T18:00+00:00")) == at("2026-11-16T18:00+00:00")
    assert unblocked_at([office], at("2026-11-15T09:00+00:00")) == at("2026-11-15T09:00+00:00")
    assert unblocked_at([], monday) == monday


def test_windows_that_block_every_moment_are_refused() -> None:
    check_windows([Window(Cron("0 0 * * *"), 86_399)])
    with pytest.raises(InvalidTimetable):
        check_windows([Window(Cron("0 0 * * *"), 86_400)])


def test_jitter_is_constant_and_spread_evenly() -> None:
    spread = {jitter_of(f"uid-{number}", 600) for number in range(200)}
    assert all(timedelta() <= entry <= timedelta(seconds=600) for entry in spread)
    assert len(spread) > 100
    assert jitter_of("uid-1", 600) == jitter_of("uid-1", 600)
    assert jitter_of("uid-1", 0) == timedelta()

"""Times and durations are formatted and parsed as in Go 1.26, whose answers are in `times.json`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanister_py.gotemplate.durations import HOUR, SECOND, format_duration
from kanister_py.gotemplate.functions import GoError
from kanister_py.gotemplate.layouts import format_time, parse_time
from kanister_py.gotemplate.template import compile_template
from kanister_py.gotemplate.times import (
    ZERO_TIME,
    Duration,
    Time,
    add_date,
    fixed_zone,
    make_time,
    parse_duration,
    zone_of,
)

ROWS: list[dict[str, str]] = json.loads(
    Path(__file__).with_name("times.json").read_text(encoding="utf-8")
)
MOMENT = make_time(
    2024,
    2,
    9,
    hour=15,
    minute=4,
    second=5,
    nanosecond=120_000_000,
    location=fixed_zone("CET", 3600),
)
NANO = "2006-01-02T15:04:05.999999999Z07:00"


def _rows(kind: str) -> list[Any]:
    return [
        pytest.param(row, id=f"{row.get('layout', '')} {row.get('text', '')}".strip() or "nothing")
        for row in ROWS
        if row["kind"] == kind
    ]


@pytest.mark.parametrize("row", _rows("format"))
def test_a_time_is_formatted_by_its_layout(row: dict[str, str]) -> None:
    assert format_time(MOMENT, row["layout"]) == row["want"]


@pytest.mark.parametrize("row", _rows("parse"))
def test_a_time_is_parsed_or_refused_as_in_go(row: dict[str, str]) -> None:
    try:
        parsed = parse_time(row["layout"], row["text"]).go_string()
    except GoError as error:
        parsed = str(error)
    assert parsed == row["want"]


@pytest.mark.parametrize("row", _rows("duration"))
def test_a_duration_is_parsed_and_formatted_as_in_go(row: dict[str, str]) -> None:
    try:
        formatted = format_duration(parse_duration(row["text"]))
    except GoError as error:
        formatted = str(error)
    assert formatted == row["want"]


def test_a_duration_with_thousands_of_digits_is_parsed_or_refused() -> None:
    assert parse_duration("0" * 5000 + "1h") == HOUR
    with pytest.raises(GoError, match="invalid duration"):
        parse_duration("9" * 5000 + "h")


def test_a_zone_has_daylight_saving_time() -> None:
    berlin = zone_of("Europe/Berlin", ZoneInfo("Europe/Berlin"))
    winter = make_time(2024, 1, 15, hour=12, location=berlin)
    summer = make_time(2024, 7, 15, hour=12, location=berlin)
    assert format_time(winter, "15:04 -0700 MST") == "12:00 +0100 CET"
    assert format_time(summer, "15:04 -0700 MST") == "12:00 +0200 CEST"


def test_months_and_days_beyond_their_range_overflow() -> None:
    assert format_time(add_date(MOMENT, 0, 0, 30), "2006-01-02") == "2024-03-10"
    assert format_time(add_date(MOMENT, 1, -2, 20), "2006-01-02") == "2024-12-29"


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("{{ .d.Hours }}", "-1.5", id="hours"),
        pytest.param("{{ .d.Minutes }}", "-90", id="minutes"),
        pytest.param("{{ .d.Milliseconds }}", "-5400000", id="milliseconds"),
        pytest.param("{{ .d.Abs }}", "1h30m0s", id="without its sign"),
        pytest.param("{{ .z.IsZero }} {{ .z }}", "true 0001-01-01 00:00:00 +0000 UTC", id="zero"),
        pytest.param("{{ (.t.Sub .z).Hours }}", "2.5620477880152157e+06", id="further than it can"),
        pytest.param("{{ .t.After .z }} {{ .t.Equal .t }}", "true true", id="before and after"),
        pytest.param(
            "{{ (.t.Truncate 3600000000000).UTC }}", "2024-02-09 14:00:00 +0000 UTC", id="cut"
        ),
        pytest.param("{{ .t.YearDay }} {{ .t.Location }}", "40 CET", id="day of the year"),
    ],
)
def test_methods_can_be_called_in_templates(text: str, want: str) -> None:
    data = {"d": Duration(-HOUR - HOUR // 2), "t": MOMENT, "z": ZERO_TIME}
    assert compile_template(text).execute(data) == want


@given(st.integers(min_value=-62_135_596_800 * SECOND, max_value=253_402_300_799 * SECOND))
def test_a_formatted_time_is_parsed_to_the_same_time(nanoseconds: int) -> None:
    moment = Time(nanoseconds)
    assert parse_time(NANO, format_time(moment, NANO)) == moment


@given(st.integers(min_value=-(1 << 63), max_value=(1 << 63) - 1))
def test_a_formatted_duration_is_parsed_to_the_same_duration(nanoseconds: int) -> None:
    assert parse_duration(format_duration(nanoseconds)) == nanoseconds

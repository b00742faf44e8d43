"""Calendar of a Schedule."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

from kanister_py.core.actionsets.overview import RunRow
from kanister_py.core.schedules.calendar import calendar_of

NOW = datetime(2026, 3, 25, 12, 0, tzinfo=UTC)


def schedule(line: str, zone: str = "Europe/Berlin", **more: Any) -> dict[str, Any]:
    action = {"name": "backup", "blueprint": "pg"}
    metadata = {"name": "nightly", "uid": "u", "creationTimestamp": "2026-03-01T00:00:00Z"}
    template = {"spec": {"actions": [action]}}
    spec = {"schedule": line, "timeZone": zone, "template": template, **more}
    return {"metadata": metadata, "spec": spec}


def test_weeks_begin_on_monday_around_today() -> None:
    weeks = calendar_of(schedule("0 2 * * *"), (), NOW)
    assert all(week[0].day.weekday() == 0 and len(week) == 7 for week in weeks)
    assert [day.day for week in weeks for day in week if day.is_today] == [date(2026, 3, 25)]


def test_planned_starts_are_on_the_days_of_the_time_zone() -> None:
    days = {
        day.day: [time.strftime("%H:%M") for time in day.times]
        for week in calendar_of(schedule("30 2 * * *"), (), NOW)
        for day in week
    }
    assert days[date(2026, 3, 25)] == []
    assert days[date(2026, 3, 26)] == ["02:30"]
    # The clock went forward that night: half past two fires at three.
    assert days[date(2026, 3, 29)] == ["03:00"]
    assert days[max(days)] == ["02:30"]


def test_past_runs_are_on_their_days_in_order() -> None:
    late = datetime(2026, 3, 23, 23, 30, tzinfo=UTC)
    rows = [
        RunRow("shop", "second", "failed", late.replace(minute=45)),
        RunRow("shop", "first", "complete", late),
    ]
    weeks = calendar_of(schedule("0 2 * * *"), rows, NOW)
    runs_by_day = {day.day: [run.name for run in day.runs] for week in weeks for day in week}
    assert runs_by_day[date(2026, 3, 24)] == ["first", "second"]
    assert runs_by_day[date(2026, 3, 23)] == []


def test_suspended_schedule_has_no_planned_starts() -> None:
    weeks = calendar_of(schedule("0 2 * * *", suspend=True), (), NOW)
    assert not any(day.times for week in weeks for day in week)

"""Retention of backups."""

from __future__ import annotations

import json
import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanister_py.core.schedules.retention import Backup, Keep, apply_retention, parse_within
from tests.core.schedules.schedules import at


def backups(*times: datetime, group: str = "") -> list[Backup]:
    return [Backup(f"b-{time:%Y%m%d%H%M%S}", time, group) for time in times]


def stays(taken: list[Backup], keep: Keep, zone: str = "UTC") -> list[str]:
    verdicts = apply_retention(taken, keep, ZoneInfo(zone))
    return [f"{entry.backup.time:%m-%d %H:%M}" for entry in verdicts if entry.stays]


NIGHTS = backups(*(at("2026-10-01T02:00") + timedelta(days=day) for day in range(40)))


def test_daily_and_weekly_backups_are_kept_with_their_reasons() -> None:
    verdicts = apply_retention(NIGHTS, Keep(daily=3, weekly=2))
    kept = {f"{entry.backup.time:%m-%d}": entry.reasons for entry in verdicts if entry.stays}
    assert kept == {
        "11-09": ("daily", "weekly"),
        "11-08": ("daily", "weekly"),
        "11-07": ("daily",),
    }


def test_days_depend_on_the_time_zone() -> None:
    taken = backups(at("2026-11-18T22:30"), at("2026-11-18T23:30"), at("2026-11-19T01:00"))
    keep = Keep(daily=2)
    assert stays(taken, keep) == ["11-19 01:00", "11-18 23:30"]
    assert stays(taken, keep, "Europe/Berlin") == ["11-19 01:00", "11-18 22:30"]


def test_within_counts_back_from_the_newest() -> None:
    assert stays(NIGHTS, Keep(within=timedelta(days=2))) == [
        "11-09 02:00",
        "11-08 02:00",
        "11-07 02:00",
    ]


def test_newest_backup_of_every_object_is_kept() -> None:
    one = backups(at("2026-11-01T02:00"), group="db")
    two = backups(at("2026-11-18T02:00"), at("2026-11-19T02:00"), group="files")
    assert stays([*one, *two], Keep(last=1)) == ["11-19 02:00", "11-01 02:00"]


def test_without_a_rule_all_backups_are_kept() -> None:
    assert len(stays(NIGHTS, Keep())) == len(NIGHTS)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30d", timedelta(days=30)),
        ("2w", timedelta(weeks=2)),
        ("1d12h", timedelta(days=1, hours=12)),
        ("1m", None),
        ("", None),
        ("d", None),
        ("-1d", None),
    ],
)
def test_within_is_weeks_days_and_hours(text: str, expected: timedelta | None) -> None:
    assert parse_within(text) == expected


BEGIN = datetime(2025, 11, 1, tzinfo=UTC)
TIMES = st.lists(
    st.integers(0, 3 * 365 * 24 * 60).map(lambda minutes: BEGIN + timedelta(minutes=minutes)),
    max_size=30,
    unique=True,
)
KEEPS = st.builds(
    Keep,
    last=st.integers(0, 3),
    hourly=st.integers(0, 3),
    daily=st.integers(0, 4),
    weekly=st.integers(0, 4),
    monthly=st.integers(0, 4),
    yearly=st.integers(0, 3),
    within=st.integers(0, 60 * 24).map(lambda hours: timedelta(hours=hours)),
)


@settings(derandomize=True)
@given(TIMES, KEEPS)
def test_expired_backup_always_has_a_newer_kept_one(times: list[datetime], keep: Keep) -> None:
    verdicts = apply_retention(backups(*times), keep)
    assert sorted(entry.backup.time for entry in verdicts) == sorted(times)
    if times:
        assert verdicts[0].stays
    if keep.last:
        assert all(entry.stays for entry in verdicts[: keep.last])
    room = keep.last + keep.hourly + keep.daily + keep.weekly + keep.monthly + keep.yearly
    counted = [entry for entry in verdicts if set(entry.reasons) - {"within", "no rule"}]
    assert len(counted) <= room


@settings(derandomize=True)
@given(TIMES, KEEPS)
def test_retention_is_idempotent(times: list[datetime], keep: Keep) -> None:
    kept = [verdict.backup for verdict in apply_retention(backups(*times), keep) if verdict.stays]
    assert [verdict.backup for verdict in apply_retention(kept, keep) if verdict.stays] == kept


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[str], list[datetime]]:
    """Create a restic repository with snapshots of many times."""
    if shutil.which("restic") is None:
        pytest.skip("restic is not installed: nothing says what it would forget")
    folder = tmp_path_factory.mktemp("restic")
    key = folder / "key"
    key.write_text("key")
    restic = ["restic", f"--password-file={key}", "--no-cache", "--repo", str(folder / "repo")]
    subprocess.run([*restic, "init"], capture_output=True, check=True)
    kept = folder / "kept"
    kept.write_text("x")
    hours = [0, 1, 23, 24, 47, 80, 200, 720, 2000, 9000, 17000]
    times = [datetime(2026, 11, 9, 12, 30, tzinfo=UTC) - timedelta(hours=hour) for hour in hours]
    for time in times:
        words = ["backup", str(kept), "--host", "h", "--time", f"{time:%Y-%m-%d %H:%M:%S}"]
        subprocess.run([*restic, *words], capture_output=True, check=True, env=_utc())
    return restic, times


def _utc() -> dict[str, str]:
    return {"TZ": "UTC", "PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(Path.home())}


@pytest.mark.parametrize(
    "keep",
    [
        Keep(hourly=4, yearly=2),
        Keep(daily=5),
        Keep(weekly=4),
        Keep(monthly=20),
        Keep(last=1, hourly=2, daily=3, weekly=2, monthly=2, yearly=1),
        Keep(daily=2, within=timedelta(hours=30)),
    ],
    ids=str,
)
def test_same_backups_are_kept_as_with_restic(
    repository: tuple[list[str], list[datetime]], keep: Keep
) -> None:
    restic, times = repository
    words = [
        f"--keep-{rule}={count}"
        for rule, count in keep.model_dump().items()
        if count and rule != "within"
    ]
    if keep.within:
        words.append(f"--keep-within={keep.within // timedelta(hours=1)}h")
    done = subprocess.run(
        [*restic, "forget", "--dry-run", "--json", *words],
        capture_output=True,
        check=True,
        env=_utc(),
    )
    (group,) = json.loads(done.stdout)
    expected = {datetime.fromisoformat(entry["time"]) for entry in group["keep"]}
    verdicts = apply_retention(backups(*times), keep)
    assert {entry.backup.time for entry in verdicts if entry.stays} == expected

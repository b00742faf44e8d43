"""Time and time zones in the templates of real runs."""

from __future__ import annotations

import time
import zoneinfo
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from kanister_py.adapters.effects_system import load_zone, system_effects
from kanister_py.gotemplate.functions import GoError
from kanister_py.gotemplate.sprig import BLUEPRINT_FUNCTIONS
from kanister_py.gotemplate.template import compile_template
from tests.fake_clock import FakeClock

WINTER = datetime(2026, 1, 15, 12, 30, tzinfo=UTC)
SUMMER = datetime(2026, 7, 15, 12, 30, tzinfo=UTC)


def rendered(template: str, now: datetime) -> str:
    effects = system_effects(FakeClock(now))
    return compile_template(template, BLUEPRINT_FUNCTIONS).execute({}, effects)


def test_now_uses_the_clock() -> None:
    clock = FakeClock(WINTER)
    effects = system_effects(clock)
    template = compile_template('{{ now | date "15:04:05" }}', BLUEPRINT_FUNCTIONS)
    assert template.execute({}, effects) == "12:30:00"
    clock.advance(90)
    assert template.execute({}, effects) == "12:31:30"


@pytest.fixture
def machine_in_tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as changed:
        changed.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        assert time.strftime("%H", time.localtime(0)) == "09"
        yield
    time.tzset()


@pytest.mark.usefixtures("machine_in_tokyo")
def test_times_are_shown_in_utc_on_every_machine() -> None:
    assert rendered('{{ now | date "15:04 MST" }}', WINTER) == "12:30 UTC"


@pytest.mark.parametrize(
    ("now", "zone", "want"),
    [
        pytest.param(WINTER, "Europe/Berlin", "13:30 CET +0100", id="Berlin in winter"),
        pytest.param(SUMMER, "Europe/Berlin", "14:30 CEST +0200", id="Berlin in summer"),
        pytest.param(SUMMER, "America/St_Johns", "10:00 NDT -0230", id="half an hour off"),
        pytest.param(SUMMER, "Etc/GMT+3", "09:30 -03 -0300", id="a name with a sign"),
        pytest.param(SUMMER, "UTC", "12:30 UTC +0000", id="UTC"),
        pytest.param(SUMMER, "Mars/Base", "12:30 UTC +0000", id="unknown, which Go shows in UTC"),
    ],
)
def test_time_is_converted_to_another_zone(now: datetime, zone: str, want: str) -> None:
    assert rendered(f'{{{{ dateInZone "15:04 MST -0700" now "{zone}" }}}}', now) == want


@pytest.fixture
def machine_without_zones() -> Iterator[None]:
    search_path = zoneinfo.TZPATH
    zoneinfo.reset_tzpath(to=[])
    zoneinfo.ZoneInfo.clear_cache()
    yield
    zoneinfo.reset_tzpath(to=search_path)


@pytest.mark.usefixtures("machine_without_zones")
def test_time_zones_on_a_machine_without_zone_files() -> None:
    assert load_zone("Asia/Kathmandu").at(0) == (19800, "+0530")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("Mars/Base", id="no such place"),
        pytest.param("Europe", id="a folder"),
        pytest.param("zone.tab", id="a file that is no zone"),
        pytest.param("tzdata.zi", id="a list of zones"),
        pytest.param("../../etc/passwd", id="a way out"),
        pytest.param("/etc/localtime", id="an absolute path"),
        pytest.param("Europe/Berlin\0", id="a NUL"),
        pytest.param("\udcff", id="no UTF-8"),
        pytest.param("x" * 5000, id="longer than any file name"),
        pytest.param("", id="no name"),
    ],
)
def test_unknown_time_zone_is_named(name: str) -> None:
    with pytest.raises(GoError, match="unknown time zone") as refused:
        load_zone(name)
    assert str(refused.value).endswith(name)


def test_random_values_differ() -> None:
    effects = system_effects(FakeClock())
    drawn = {effects.random_bytes(16) for _ in range(100)}
    assert len(drawn) == 100
    assert {len(text) for text in drawn} == {16}

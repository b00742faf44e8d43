"""Clock of a stage: identical times in every run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from threading import Condition, Thread
from time import perf_counter

from kanister_py.testing.stage_clock import StageClock

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_time_advances_only_when_a_wait_times_out() -> None:
    clock, condition = StageClock(speed=1000), Condition()
    assert (clock.now(), clock.monotonic()) == (START, 0.0)
    with condition:
        assert not clock.wait(condition, 60)
    assert (clock.now(), clock.monotonic()) == (START + timedelta(seconds=60), 60.0)
    clock.sleep(30)
    assert clock.monotonic() == 90.0


def test_time_does_not_advance_for_a_woken_wait() -> None:
    clock, condition = StageClock(), Condition()

    def wake() -> None:
        with condition:
            condition.notify_all()

    with condition:
        Thread(target=wake).start()
        assert clock.wait(condition, 60)
    assert clock.monotonic() == 0.0


def test_a_clock_at_real_speed_waits_in_real_time() -> None:
    clock, began = StageClock(), perf_counter()
    clock.sleep(0.05)
    assert perf_counter() - began >= 0.05

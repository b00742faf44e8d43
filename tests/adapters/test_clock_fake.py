"""Fake clock: time stands still until a test moves it."""

from __future__ import annotations

import threading

from tests.fake_clock import FakeClock


def test_a_sleeper_wakes_when_its_time_has_come_and_not_before() -> None:
    clock = FakeClock()
    woken = threading.Event()

    def sleep() -> None:
        clock.sleep(10)
        woken.set()

    sleeper = threading.Thread(target=sleep)
    sleeper.start()
    assert clock.wait_for_sleepers(1)
    clock.advance(9)
    assert clock.sleepers == 1
    assert not woken.is_set()
    clock.advance(1)
    sleeper.join(180)
    assert woken.is_set()
    assert clock.monotonic() == 10


def test_a_clock_that_jumps_never_blocks() -> None:
    clock = FakeClock(jumps=True)
    start = clock.now()
    clock.sleep(3600)
    assert (clock.now() - start).total_seconds() == 3600
    condition = threading.Condition()
    with condition:
        assert clock.wait(condition, 5) is False
    assert clock.monotonic() == 3605

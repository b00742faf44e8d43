"""Fake clock: time passes only when a test advances it."""

from __future__ import annotations

import threading

from tests.fake_clock import FakeClock


def test_sleep_ends_when_the_clock_is_advanced() -> None:
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


def test_jumping_clock_never_blocks() -> None:
    clock = FakeClock(jumps=True)
    start = clock.now()
    clock.sleep(3600)
    assert (clock.now() - start).total_seconds() == 3600
    condition = threading.Condition()
    with condition:
        assert clock.wait(condition, 5) is False
    assert clock.monotonic() == 3605

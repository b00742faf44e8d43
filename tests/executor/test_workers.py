"""Worker threads: the bound on them, and their order."""

from __future__ import annotations

import time
from threading import Event, Lock

from kanister_py.executor.workers import Workers

PATIENCE_SECONDS = 180.0


def until_one_wakes(workers: Workers) -> None:
    """Wait until a thread is queued for a slot."""
    until = time.monotonic() + PATIENCE_SECONDS
    while not workers.waking:
        assert time.monotonic() < until
        time.sleep(0.001)


def assert_set(event: Event) -> None:
    assert event.wait(PATIENCE_SECONDS)


def test_no_more_jobs_work_than_there_are_slots() -> None:
    workers, lock, done = Workers(3), Lock(), Event()
    state = {"now": 0, "most": 0, "ended": 0}

    def job() -> None:
        with lock:
            state["now"] += 1
            state["most"] = max(state["most"], state["now"])
        with lock:
            state["now"] -= 1
            state["ended"] += 1
            if state["ended"] == 200:
                done.set()

    for _ in range(200):
        workers.submit(job)
    assert done.wait(PATIENCE_SECONDS)
    assert state["most"] <= 3


def test_a_waiting_job_releases_its_slot() -> None:
    workers, gate, done = Workers(1), Event(), Event()

    def waits() -> None:
        with workers.idle():
            gate.wait(PATIENCE_SECONDS)
        done.set()

    workers.submit(waits)
    workers.submit(gate.set)
    assert done.wait(PATIENCE_SECONDS)


def test_resumed_jobs_have_priority_over_new_ones() -> None:
    workers, order = Workers(1), list[str]()
    is_idle, wakes, busy, done = Event(), Event(), Event(), Event()

    def sleeper() -> None:
        with workers.idle():
            is_idle.set()
            wakes.wait(PATIENCE_SECONDS)
        order.append("woken")

    def worker() -> None:
        busy.wait(PATIENCE_SECONDS)

    def newcomer() -> None:
        order.append("new")
        done.set()

    workers.submit(sleeper)
    assert is_idle.wait(PATIENCE_SECONDS)
    workers.submit(worker)
    workers.submit(newcomer)
    wakes.set()
    until_one_wakes(workers)
    busy.set()
    assert done.wait(PATIENCE_SECONDS)
    assert order == ["woken", "new"]


def test_giving_up_a_job_releases_its_slot() -> None:
    workers, never, done = Workers(1), Event(), Event()

    def endless() -> None:
        never.wait(PATIENCE_SECONDS)

    ticket = workers.submit(endless)
    workers.submit(done.set)
    workers.give_up(ticket)
    assert done.wait(PATIENCE_SECONDS)
    never.set()


def test_a_job_given_up_while_queued_continues_without_a_slot() -> None:
    workers, is_idle, wakes, busy, done = Workers(1), Event(), Event(), Event(), Event()

    def sleeper() -> None:
        with workers.idle():
            is_idle.set()
            wakes.wait(PATIENCE_SECONDS)
        done.set()

    ticket = workers.submit(sleeper)
    assert is_idle.wait(PATIENCE_SECONDS)
    workers.submit(lambda: assert_set(busy))
    wakes.set()
    until_one_wakes(workers)
    workers.give_up(ticket)
    assert done.wait(PATIENCE_SECONDS)
    assert not workers.waking
    busy.set()

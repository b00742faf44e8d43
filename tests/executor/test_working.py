"""How many work at once, and who goes next."""

from __future__ import annotations

from threading import Event, Lock

from kanister_py.executor.working import Workers


def test_never_more_work_at_once_than_there_are_slots() -> None:
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
    assert done.wait(20)
    assert state["most"] <= 3


def test_who_only_waits_lets_others_work() -> None:
    workers, gate, done = Workers(1), Event(), Event()

    def waits() -> None:
        with workers.idle():
            gate.wait(20)
        done.set()

    workers.submit(waits)
    workers.submit(gate.set)
    assert done.wait(20)


def test_who_woke_up_goes_before_who_has_not_begun() -> None:
    workers, order = Workers(1), list[str]()
    is_idle, wakes, busy, done = Event(), Event(), Event(), Event()

    def sleeper() -> None:
        with workers.idle():
            is_idle.set()
            wakes.wait(20)
        order.append("woken")

    def worker() -> None:
        busy.wait(20)

    def newcomer() -> None:
        order.append("new")
        done.set()

    workers.submit(sleeper)
    assert is_idle.wait(20)
    workers.submit(worker)
    workers.submit(newcomer)
    wakes.set()
    while not workers.waking:
        pass
    busy.set()
    assert done.wait(20)
    assert order == ["woken", "new"]


def test_a_job_that_never_ends_can_be_given_up_without_losing_its_slot() -> None:
    workers, never, done = Workers(1), Event(), Event()

    def endless() -> None:
        never.wait(20)

    ticket = workers.submit(endless)
    workers.submit(done.set)
    workers.give_up(ticket)
    assert done.wait(20)
    never.set()

"""Workers: what is submitted is done, whatever became of what was before it."""

from __future__ import annotations

import threading
from queue import Empty, SimpleQueue
from threading import Event, Thread

import pytest

from kanister_py.grpc_api.workers import Workers

PATIENCE_SECONDS = 60.0


def fail(error: type[BaseException] = ValueError) -> None:
    raise error("oops")


@pytest.mark.parametrize("error", [ValueError, SystemExit])
def test_a_call_that_fails_is_logged_and_the_next_one_is_answered(
    caplog: pytest.LogCaptureFixture, error: type[BaseException]
) -> None:
    workers, done = Workers(1, "one"), SimpleQueue[int]()
    workers.submit(fail, error)
    workers.submit(done.put, 1)
    assert done.get(timeout=PATIENCE_SECONDS) == 1
    workers.close()
    assert "A call could not be answered" in caplog.text


@pytest.mark.parametrize("waiting", [2, 3, 15])
def test_there_are_more_threads_as_soon_as_all_of_them_wait(waiting: int) -> None:
    workers, done = Workers(16, "few"), SimpleQueue[str]()
    may_end = Event()
    for _ in range(waiting):
        workers.submit(lambda: done.put("waited" if may_end.wait(PATIENCE_SECONDS) else ""))
    workers.submit(done.put, "last")
    assert done.get(timeout=PATIENCE_SECONDS) == "last"
    may_end.set()
    assert {done.get(timeout=PATIENCE_SECONDS) for _ in range(waiting)} == {"waited"}
    workers.close()
    for thread in threads_of("few"):
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()


def test_there_are_never_more_than_there_may_be() -> None:
    workers, done = Workers(3, "most"), SimpleQueue[str]()
    may_end = Event()
    for _ in range(3):
        workers.submit(lambda: may_end.wait(PATIENCE_SECONDS))
    workers.submit(done.put, "last")
    with pytest.raises(Empty):
        done.get(timeout=0.2)
    assert len([each for each in threads_of("most") if "watch" not in each.name]) == 3
    may_end.set()
    assert done.get(timeout=PATIENCE_SECONDS) == "last"
    workers.close()


def threads_of(beginning: str) -> list[Thread]:
    return [each for each in threading.enumerate() if each.name.startswith(beginning)]


def test_the_server_hears_at_once_of_a_call_that_it_need_not_count() -> None:
    workers = Workers(0, "none")
    heard: list[object] = []
    workers.submit(fail).add_done_callback(heard.append)
    assert len(heard) == 1


def test_at_the_end_what_waits_is_dropped_and_what_is_done_is_finished() -> None:
    workers, done = Workers(1, "ending"), SimpleQueue[str]()
    begun, may_end = Event(), Event()

    def work() -> None:
        begun.set()
        may_end.wait(PATIENCE_SECONDS)
        done.put("worked")

    workers.submit(work)
    workers.submit(done.put, "too late")
    assert begun.wait(PATIENCE_SECONDS)
    workers.close()
    may_end.set()
    for thread in threads_of("ending"):
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()
    assert [done.get_nowait() for _ in range(done.qsize())] == ["worked"]

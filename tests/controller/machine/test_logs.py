"""Logs: written in order and completely, by a thread of their own."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from threading import Event, Thread

import pytest

from kanister_py.controller.machine.logs import set_up_logging

LOG = logging.getLogger("kanister_py.test")


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    root = logging.getLogger()
    ours = logging.getLogger("kanister_py")
    handlers, level, our_level = root.handlers[:], root.level, ours.level
    root.handlers[:] = []
    yield
    for handler in root.handlers:
        handler.close()
    root.handlers[:] = handlers
    root.setLevel(level)
    ours.setLevel(our_level)


def flush() -> None:
    """Flush and close all handlers, as Python does at the end of a process."""
    for handler in logging.getLogger().handlers:
        handler.flush()


class Stuck(io.StringIO):
    """A stream whose writes block until the test releases them."""

    def __init__(self) -> None:
        super().__init__()
        self.goes_on = Event()

    def write(self, text: str) -> int:
        self.goes_on.wait(180)
        return super().write(text)


def test_all_records_are_written_in_order_at_the_end() -> None:
    stream = io.StringIO()
    set_up_logging("json", stream)
    for number in range(1000):
        LOG.info("line %d", number)
    flush()
    lines = [json.loads(line)["message"] for line in stream.getvalue().splitlines()]
    assert lines == [f"line {number}" for number in range(1000)]


def test_logging_does_not_block_when_the_reader_hangs() -> None:
    stream = Stuck()
    set_up_logging("text", stream)
    for number in range(30_000):
        LOG.info("line %d", number)
    LOG.warning("trouble")
    stream.goes_on.set()
    flush()
    written = stream.getvalue()
    assert "trouble" in written
    assert written.count("line ") < 30_000
    assert "lines of the log were dropped" in written


def test_arguments_are_formatted_when_the_record_is_logged() -> None:
    stream = Stuck()
    set_up_logging("text", stream)
    seen = ["before"]
    LOG.info("it is %s", seen)
    seen[0] = "after"
    stream.goes_on.set()
    flush()
    assert "before" in stream.getvalue()


def test_a_traceback_is_written_with_its_record() -> None:
    stream = io.StringIO()
    set_up_logging("text", stream)
    try:
        raise ValueError("no luck")
    except ValueError:
        LOG.exception("it fell over")
    flush()
    assert "ValueError: no luck" in stream.getvalue()


def test_logging_takes_no_lock() -> None:
    set_up_logging("text", io.StringIO())
    (handler,) = logging.getLogger().handlers
    assert handler.lock is not None
    with handler.lock:
        logs = Thread(target=LOG.info, args=("past it",), daemon=True)
        logs.start()
        logs.join(30)
        assert not logs.is_alive()

"""Stop signals reach what waits for them, whichever thread is given them."""

from __future__ import annotations

import os
import signal
from queue import Queue
from threading import Thread, get_ident

from kanister_py.cli.stop_signals import StopSignals


def test_a_signal_that_another_thread_takes_ends_a_wait_without_a_limit() -> None:
    with StopSignals() as signals:
        Thread(target=lambda: signal.pthread_kill(get_ident(), signal.SIGTERM)).start()
        assert signals.wait() == "SIGTERM"


def test_a_signal_that_came_before_the_wait_ends_it_too() -> None:
    with StopSignals() as signals:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)
        assert [signals.wait(), signals.wait()] == ["SIGINT", "SIGTERM"]


def test_a_wait_ends_with_its_time_or_with_what_can_be_read_besides() -> None:
    reader, writer = os.pipe()
    with StopSignals() as signals:
        assert signals.wait(0, reader) == ""
        os.write(writer, b"x")
        assert signals.wait(None, reader) is None
    os.close(reader)
    os.close(writer)


def test_what_is_to_be_called_is_called_on_a_thread_with_the_name_of_the_signal() -> None:
    called: Queue[str] = Queue()
    before = signal.getsignal(signal.SIGTERM)
    with StopSignals() as signals:
        signals.call(called.put)
        os.kill(os.getpid(), signal.SIGTERM)
        assert called.get(timeout=180) == "SIGTERM"
    assert signal.getsignal(signal.SIGTERM) is before

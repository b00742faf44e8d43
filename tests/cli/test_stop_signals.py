"""Stop signals reach the waiting thread, even if another thread receives them."""

from __future__ import annotations

import os
import signal
from queue import Queue
from threading import Thread, get_ident

from kanister_py.cli.stop_signals import StopSignals


def test_signal_of_another_thread_ends_an_unlimited_wait() -> None:
    with StopSignals() as signals:
        Thread(target=lambda: signal.pthread_kill(get_ident(), signal.SIGTERM)).start()
        assert signals.wait() == "SIGTERM"


def test_earlier_signal_ends_the_wait() -> None:
    with StopSignals() as signals:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)
        assert [signals.wait(), signals.wait()] == ["SIGINT", "SIGTERM"]


def test_wait_ends_after_its_timeout_or_with_a_readable_descriptor() -> None:
    reader, writer = os.pipe()
    with StopSignals() as signals:
        assert signals.wait(0, reader) == ""
        os.write(writer, b"x")
        assert signals.wait(None, reader) is None
    os.close(reader)
    os.close(writer)


def test_callback_gets_the_name_of_the_signal() -> None:
    called: Queue[str] = Queue()
    before = signal.getsignal(signal.SIGTERM)
    with StopSignals() as signals:
        signals.call(called.put)
        os.kill(os.getpid(), signal.SIGTERM)
        assert called.get(timeout=180) == "SIGTERM"
    assert signal.getsignal(signal.SIGTERM) is before

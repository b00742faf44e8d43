"""Stop signals, SIGTERM and Ctrl-C, read from a pipe.

Python runs signal handlers on the main thread only, and only after it wakes up. A main thread
that waits without a timeout does not wake up if the system delivers the signal to another
thread, and a handler that takes a lock can deadlock with the thread that it interrupts. So
handlers do nothing here; Python writes signal numbers to a pipe, and waiting threads read it.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable
from threading import Thread
from typing import Any, Final, Self

_STOPS: Final = (signal.SIGINT, signal.SIGTERM)


class StopSignals:
    """Receiver of stop signals. Enter it on the main thread."""

    def __init__(self, *more: signal.Signals) -> None:
        self._watched = (*_STOPS, *more)
        self._before: dict[signal.Signals, Any] = {}
        self._is_followed = False

    def __enter__(self) -> Self:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        self._wakeup_before = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        for number in self._watched:
            self._before[number] = signal.signal(number, lambda *_: None)
        return self

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup_before)
        # A thread that still reads the pipe ends at its end.
        os.close(self._writer)
        if not self._is_followed:
            os.close(self._reader)

    def wait(self, seconds: float | None = None, *descriptors: int) -> str | None:
        """Return the name of the next signal, or "" after `seconds`.

        Returns None when one of the descriptors becomes readable.
        """
        ready, _, _ = select.select([self._reader, *descriptors], [], [], seconds)
        if self._reader in ready:
            data = os.read(self._reader, 1)
            return signal.Signals(data[0]).name if data else None
        return None if ready else ""

    def call(self, stop: Callable[[str], object]) -> None:
        """Start a thread that calls `stop` with the name of each signal, until exit."""

        def follow() -> None:
            while name := self.wait():
                stop(name)
            os.close(self._reader)

        self._is_followed = True
        Thread(target=follow, name="stop signals", daemon=True).start()

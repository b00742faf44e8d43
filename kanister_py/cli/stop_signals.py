"""Stop signals: SIGTERM and Ctrl-C, whichever thread the system hands them to.

Python runs a handler on the main thread alone, and only once that wakes up. A main thread
that waits without a limit does not, if another thread was given the signal; and a handler
that takes a lock may meet the very thread that holds it. So handlers do nothing here, and
what waits reads the numbers of signals from a pipe that Python writes at once.
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
    """Stop signals of this process, taken while this is entered, on the main thread."""

    def __init__(self, *others: signal.Signals) -> None:
        self._watched = (*_STOPS, *others)
        self._before: dict[signal.Signals, Any] = {}
        self._is_followed = False

    def __enter__(self) -> Self:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        self._wakeup_before = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        for each in self._watched:
            self._before[each] = signal.signal(each, lambda *_: None)
        return self

    def __exit__(self, *exc: object) -> None:
        for each, handler in self._before.items():
            signal.signal(each, handler)
        signal.set_wakeup_fd(self._wakeup_before)
        # The end of the pipe ends a thread that still reads it.
        os.close(self._writer)
        if not self._is_followed:
            os.close(self._reader)

    def wait(self, seconds: float | None = None, *besides: int) -> str | None:
        """Wait for a signal and give its name; "" if the time is over.

        Of descriptors given besides, what can be read from one of them ends the wait, too: None.
        """
        ready, _, _ = select.select([self._reader, *besides], [], [], seconds)
        if self._reader in ready:
            read = os.read(self._reader, 1)
            return signal.Signals(read[0]).name if read else None
        return None if ready else ""

    def call(self, stop: Callable[[str], object]) -> None:
        """Have a thread call `stop` with the name of each signal, until this is left."""

        def follow() -> None:
            while name := self.wait():
                stop(name)
            os.close(self._reader)

        self._is_followed = True
        Thread(target=follow, name="stop signals", daemon=True).start()

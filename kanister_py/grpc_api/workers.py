"""Workers: the threads on which a gRPC server answers its calls.

Of an executor, the server asks no more than this. The futures of a `ThreadPoolExecutor`,
each with a lock that nobody waits for, take a tenth of the processor time of a small call,
and sixteen threads that compute, in turn, take a quarter more than two:
`python -m tests.bench serving` with one in place of this.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import Any, Final

_FEW: Final = 2
_PATIENCE_SECONDS: Final = 0.01
"""How long nobody takes up what waits before there are more threads."""
_LOG = logging.getLogger(__name__)


class _Submitted:
    """What stands for a call with the server, which counts those under way, and limits none."""

    def add_done_callback(self, callback: Callable[[Any], object]) -> None:
        callback(self)


_SUBMITTED = _Submitted()


class Workers:
    """Threads that take up what is submitted, in its order; nobody waits for them at the end.

    There are few, as only one computes at a time, until none of them takes up what waits:
    then functions wait for something themselves, and there are as many as there may be.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._waiting: SimpleQueue[tuple[Any, ...] | None] = SimpleQueue()
        self._taken_up = 0
        self._threads: list[Thread] = []
        self._has_come = Event()
        self._is_closed = Event()
        self._watch = Thread(target=self._add_when_stuck, name=f"{name}, watch", daemon=True)

    def submit(self, *call: Any) -> _Submitted:
        """Have a function called with the arguments that follow it."""
        self._waiting.put(call)
        if len(self._threads) < self._most:
            if not self._threads:
                self._start(min(_FEW, self._most))
                self._watch.start()
            self._has_come.set()
        return _SUBMITTED

    def _start(self, number: int) -> None:
        for _ in range(number):
            thread = Thread(
                target=self._work, name=f"{self._name} {len(self._threads)}", daemon=True
            )
            self._threads.append(thread)
            thread.start()

    def _add_when_stuck(self) -> None:
        while len(self._threads) < self._most:
            self._has_come.wait()
            self._has_come.clear()
            if self._is_closed.is_set():
                return
            while not self._waiting.empty() and len(self._threads) < self._most:
                taken_up = self._taken_up
                if self._is_closed.wait(_PATIENCE_SECONDS):
                    return
                if self._taken_up == taken_up:
                    self._start(min(self._waiting.qsize(), self._most - len(self._threads)))

    def close(self) -> None:
        """Drop what waits, and end each thread once it has done what it is at."""
        self._is_closed.set()
        self._has_come.set()
        if self._watch.ident is not None:
            self._watch.join()
        self._most = 0
        try:
            while True:
                self._waiting.get_nowait()
        except Empty:
            pass
        for _ in self._threads:
            self._waiting.put(None)

    def _work(self) -> None:
        while (call := self._waiting.get()) is not None:
            self._taken_up += 1
            function, *given = call
            try:
                function(*given)
            except BaseException as error:  # noqa: BLE001 - whatever it is, the next call is answered
                _LOG.error("A call could not be answered", exc_info=error)
            # What a call held must not stay until the next one comes.
            del call, function, given

"""PeriodicTask work: what is done now and then, from a thread of its own."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Condition, Thread
from typing import Final

from kanister_py.core.errors import KanisterError, LeadershipLost
from kanister_py.ports.clock import Clock, pause

_LOG: Final = logging.getLogger(__name__)


class PeriodicTask:
    """Work that is done again and again; what goes wrong is tried the next time.

    `what` says for the log what is done, and `level` how bad it is if that must wait. At first
    it waits for `first_seconds`: a process that starts has more urgent things to do. The work
    may say itself when it is due again.
    """

    def __init__(
        self,
        clock: Clock,
        what: str,
        act: Callable[[], float | None],
        *,
        first_seconds: float = 0.0,
        every_seconds: float,
        retry_seconds: float | None = None,
        on_error: Callable[[KanisterError], None] = lambda _error: None,
        level: int = logging.INFO,
    ) -> None:
        self._clock = clock
        self._what = what
        self._act = act
        self._first_seconds = first_seconds
        self._every_seconds = every_seconds
        self._retry_seconds = every_seconds if retry_seconds is None else retry_seconds
        self._on_error = on_error
        self._level = level
        self._changed = Condition()
        self._is_closed = False

    def start(self, *, at_once: bool = False) -> None:
        """Begin; with `at_once` it is done for the first time before this comes back."""
        first = self.do() if at_once else self._first_seconds
        Thread(target=self._keep, args=(first,), name=self._what, daemon=True).start()

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _keep(self, first_seconds: float) -> None:
        self._wait(first_seconds)
        while not self._is_closed:
            self._wait(self.do())

    def do(self) -> float:
        """Do it now; say after how many seconds it is due again."""
        try:
            again = self._act()
        except LeadershipLost:
            return self._retry_seconds
        except KanisterError as error:
            self._on_error(error)
            _LOG.log(self._level, "%s must wait: %s", self._what.capitalize(), error.message)
            return self._retry_seconds
        except Exception:  # noqa: BLE001 # what a user wrote into an object must not end it
            _LOG.exception("%s fell over", self._what.capitalize())
            return self._retry_seconds
        return self._every_seconds if again is None else again

    def _wait(self, seconds: float) -> None:
        pause(self._clock, self._changed, seconds, lambda: self._is_closed)

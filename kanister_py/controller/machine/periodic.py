"""Periodic tasks: work that is repeated in its own thread."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Condition, Thread
from typing import Final

from kanister_py.core.errors import KanisterError, LeadershipLost
from kanister_py.ports.clock import Clock, pause

_LOG: Final = logging.getLogger(__name__)


class PeriodicTask:
    """Task that is repeated until it is closed, even after errors.

    `name` describes the task in the log, and `level` is the level of its errors there. The first
    run can be delayed by `first_seconds`, because a starting process has more urgent work. `act`
    may return the seconds until the next run. It runs in its own thread instead of a timer,
    because calls by timers must be quick and `act` may send requests.
    """

    def __init__(
        self,
        clock: Clock,
        name: str,
        act: Callable[[], float | None],
        *,
        first_seconds: float = 0.0,
        every_seconds: float,
        retry_seconds: float | None = None,
        on_error: Callable[[KanisterError], None] = lambda _error: None,
        level: int = logging.INFO,
    ) -> None:
        self._clock = clock
        self._name = name
        self._act = act
        self._first_seconds = first_seconds
        self._every_seconds = every_seconds
        self._retry_seconds = every_seconds if retry_seconds is None else retry_seconds
        self._on_error = on_error
        self._level = level
        self._changed = Condition()
        self._is_closed = False

    def start(self, *, at_once: bool = False) -> None:
        """Start the thread. With `at_once`, this waits for the first run to end."""
        first = self.run_once() if at_once else self._first_seconds
        Thread(target=self._repeat, args=(first,), name=self._name, daemon=True).start()

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _repeat(self, first_seconds: float) -> None:
        self._wait(first_seconds)
        while not self._is_closed:
            self._wait(self.run_once())

    def run_once(self) -> float:
        """Run the task. Returns the seconds until the next run. Errors are logged."""
        try:
            again = self._act()
        except LeadershipLost:
            return self._retry_seconds
        except KanisterError as error:
            self._on_error(error)
            _LOG.log(self._level, "Cannot complete %s: %s", self._name, error.message)
            return self._retry_seconds
        except Exception:  # noqa: BLE001 # an unexpected object must not end the task
            _LOG.exception("Cannot complete %s because of a bug", self._name)
            return self._retry_seconds
        return self._every_seconds if again is None else again

    def _wait(self, seconds: float) -> None:
        pause(self._clock, self._changed, seconds, lambda: self._is_closed)

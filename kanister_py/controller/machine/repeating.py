"""Who looks at the whole cluster now and then, and in nobody's way?"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from threading import Condition, Thread
from typing import ClassVar, Final

from kanister_py.core.errors import KanisterError
from kanister_py.ports.clock import Clock

_LOG: Final = logging.getLogger(__name__)


class Repeating(ABC):
    """Counts again and again, from a thread of its own; what goes wrong is tried the next time."""

    what: ClassVar[str]
    """What is counted, for the log."""
    first_seconds: ClassVar[float]
    """How long it waits at first: whoever starts has more urgent things to read."""
    every_seconds: ClassVar[float]

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._changed = Condition()
        self._is_closed = False

    @abstractmethod
    def count(self) -> None:
        """Count once."""

    def start(self) -> None:
        Thread(target=self._keep, name=self.what, daemon=True).start()

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _keep(self) -> None:
        self._wait(self.first_seconds)
        while not self._is_closed:
            try:
                self.count()
            except KanisterError as error:
                _LOG.info("The %s are not counted this time: %s", self.what, error.message)
            except Exception:  # noqa: BLE001 # what somebody wrote into an object must not end it
                _LOG.exception("Counting the %s fell over", self.what)
            self._wait(self.every_seconds)

    def _wait(self, seconds: float) -> None:
        until = self._clock.monotonic() + seconds
        with self._changed:
            while not self._is_closed and (left := until - self._clock.monotonic()) > 0:
                self._clock.wait(self._changed, left)

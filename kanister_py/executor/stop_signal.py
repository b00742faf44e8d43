"""Stop signal of a phase: whether it is to stop, why, and its listeners."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import Lock, Thread
from typing import Final

from kanister_py.core.errors import KanisterError

_LOG: Final = logging.getLogger(__name__)


class StopSignal:
    """Whether a phase is to stop, why, and the listeners to that."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.why: KanisterError | None = None
        self._listeners: list[Callable[[], None]] = []

    def check(self) -> None:
        """Raise why, if the phase is to stop."""
        if self.why is not None:
            raise self.why

    def set(self, why: KanisterError) -> None:
        """Stop the phase. The first reason counts."""
        with self._lock:
            if self.why is not None:
                return
            self.why = why
            listeners = [*self._listeners]
        if listeners:
            # They may take their time, and the caller has other phases to stop.
            Thread(target=_call_each, args=(listeners,), name="stop", daemon=True).start()

    @contextmanager
    def listening(self, listener: Callable[[], None]) -> Iterator[None]:
        """Have a listener called when it is set inside the block, or at once if it is already."""
        with self._lock:
            self._listeners.append(listener)
            is_set = self.why is not None
        if is_set:
            listener()
        try:
            yield
        finally:
            with self._lock:
                self._listeners.remove(listener)


def _call_each(listeners: Iterable[Callable[[], None]]) -> None:
    for listener in listeners:
        try:
            listener()
        except Exception:  # noqa: BLE001 # the other listeners are called all the same
            _LOG.exception("A listener to the stop signal of a phase failed")

"""Work loop: a queue, the threads that look at what comes out of it, and what becomes of a look."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from threading import Thread
from typing import Final, Generic, TypeVar

from kanister_py.controller.machine.metrics import ControllerMetrics
from kanister_py.controller.machine.queue import GroupsOf, WorkQueue
from kanister_py.core.errors import KanisterError, LeadershipLost, TransientError
from kanister_py.executor.alarms import Alarms
from kanister_py.ports.clock import Clock
from kanister_py.values import NamedTuple

_LOG: Final = logging.getLogger(__name__)

Key = TypeVar("Key", bound=Hashable)


class Look(NamedTuple):
    """What came of a look at an object.

    It came to rest, if only until `again_seconds` have passed; or it failed, and is looked
    at again after a while that grows.
    """

    again_seconds: float | None = None
    has_failed: bool = False


DONE: Final = Look()
FAILED: Final = Look(has_failed=True)


class WorkLoop(Generic[Key]):
    """Looks at whatever is in its queue, from a number of threads.

    A look gives what came of it, or None if it has seen to the next look by itself.
    """

    def __init__(
        self,
        name: str,
        clock: Clock,
        alarms: Alarms,
        metrics: ControllerMetrics,
        *,
        threads: int = 1,
        kind_of: Callable[[Key], str] | None = None,
        groups_of: GroupsOf[Key] | None = None,
    ) -> None:
        self._name = name
        self._clock = clock
        self._metrics = metrics
        self._threads = max(1, threads)
        self._kind_of = kind_of
        self.queue: WorkQueue[Key] = WorkQueue(clock, alarms, groups_of=groups_of)
        metrics.watch_queue(
            name, lambda: float(self.queue.depth), lambda: self.queue.oldest_seconds
        )

    def start(self, look: Callable[[Key], Look | None]) -> None:
        """Begin to look."""
        for _ in range(self._threads):
            Thread(target=self._work, args=(look,), name=self._name, daemon=True).start()

    def close(self) -> None:
        self.queue.close()

    def _work(self, look: Callable[[Key], Look | None]) -> None:
        kind_of, passes, seconds = self._kind_of, self._metrics.passes, self._metrics.pass_seconds
        while (key := self.queue.take()) is not None:
            kind = self._name if kind_of is None else kind_of(key)
            began = self._clock.monotonic()
            outcome = "done"
            try:
                found = look(key)
                if found is not None:
                    outcome = self._settle(key, found)
            except LeadershipLost:
                outcome = "not the leader"
            except KanisterError as error:
                outcome = error.reason
                self.queue.add_failed(key)
                level = logging.INFO if isinstance(error, TransientError) else logging.WARNING
                _LOG.log(level, "%s %s is looked at again: %s", kind, key, error.message)
            except Exception:  # noqa: BLE001 # one object that nobody can look at must not keep others waiting
                outcome = "Fault"
                self.queue.add_failed(key)
                _LOG.exception("Looking at %s %s fell over", kind, key)
            finally:
                self.queue.done(key)
                passes.labels(kind, outcome).inc()
                seconds.labels(kind).observe(self._clock.monotonic() - began)

    def _settle(self, key: Key, found: Look) -> str:
        if found.has_failed:
            self.queue.add_failed(key)
            return "failed"
        self.queue.forget(key)
        if found.again_seconds is not None:
            self.queue.add_later(key, found.again_seconds)
        return "done"

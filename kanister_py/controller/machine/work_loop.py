"""Work queue of object keys, and the threads that reconcile them.

A key is in the queue once and is reconciled by one thread at a time. Groups of keys can be
limited to a number of threads.
"""

from __future__ import annotations

import logging
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Sequence
from math import inf
from threading import Condition, Thread
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

from kanister_py.controller.machine.part import PartTools
from kanister_py.core.errors import KanisterError, LeadershipLost, TransientError
from kanister_py.core.retries import NO_LIMIT, RetryRule
from kanister_py.executor.timers import Timer, TimerService
from kanister_py.ports.clock import Clock

_LOG: Final = logging.getLogger(__name__)

Key = TypeVar("Key", bound=Hashable)
REQUEUE_RULE: Final = RetryRule(NO_LIMIT, 0.5, 2.0, 60.0)
Groups: TypeAlias = Sequence[tuple[Hashable, int]]
"""The groups of a key, and how many keys of a group may be reconciled at the same time."""
GroupsOf: TypeAlias = Callable[[Key], Groups]


class WorkQueue(Generic[Key]):
    """Queue of keys to reconcile.

    A key that is added while it is being reconciled is queued again afterwards, so that no
    change is missed and no two threads reconcile the same object. Limits on groups prevent the
    keys of a slow group from occupying all threads.
    """

    def __init__(
        self,
        clock: Clock,
        timers: TimerService,
        *,
        groups_of: GroupsOf[Key] | None = None,
        retry: RetryRule = REQUEUE_RULE,
    ) -> None:
        self._clock = clock
        self._timers = timers
        self._groups_of = groups_of
        self._retry = retry
        self._changed = Condition()
        self._ready: deque[Key] = deque()
        self._waiting: dict[Key, float] = {}
        """All queued keys (ready, parked, or also active) and when they were added."""
        self._parked: dict[Hashable, deque[Key]] = defaultdict(deque)
        self._groups: dict[Key, Groups] = {}
        """Groups of queued keys, since `take` first looked at them. They stay fixed until the key
        is taken. If a parked key could leave its group, it would never make room for the next key
        of that group."""
        self._active: dict[Key, Groups] = {}
        self._busy: dict[Hashable, int] = defaultdict(int)
        self._failures: dict[Key, int] = {}
        self._later: dict[Key, Timer] = {}
        self._is_closed = False

    def add(self, key: Key) -> None:
        """Queue a key, unless it is queued already."""
        with self._changed:
            if self._is_closed or key in self._waiting:
                return
            self._waiting[key] = self._clock.monotonic()
            if key not in self._active:
                self._ready.append(key)
                self._changed.notify()

    def add_after(self, key: Key, seconds: float) -> None:
        """Queue a key after a delay. If it has another delay already, the earlier end counts."""
        with self._changed:
            if self._is_closed:
                return
            due = self._clock.monotonic() + seconds
            before = self._later.get(key)
            if before is not None and not before.is_cancelled and before.due <= due:
                return
            if before is not None:
                before.cancel()
            self._later[key] = self._timers.call_later(seconds, lambda: self._come_due(key))

    def _come_due(self, key: Key) -> None:
        with self._changed:
            self._later.pop(key, None)
        self.add(key)

    def add_rate_limited(self, key: Key) -> float:
        """Queue a key after a delay that grows with each failure. Returns the delay in seconds.

        A key that has failed more often than the retry rule allows is not queued again. The
        returned delay is infinite then.
        """
        with self._changed:
            failures = self._failures[key] = self._failures.get(key, 0) + 1
        if failures > self._retry.limit:
            self.forget(key)
            return inf
        seconds = self._retry.delay_after(failures)
        self.add_after(key, seconds)
        return seconds

    def forget(self, key: Key) -> None:
        """Reset the failures of a key."""
        with self._changed:
            self._failures.pop(key, None)

    def drop(self, key: Key) -> None:
        """Cancel the delayed addition of a key whose object was deleted. A queued key stays."""
        with self._changed:
            self._failures.pop(key, None)
            later = self._later.pop(key, None)
        if later is not None:
            later.cancel()

    def take(self) -> Key | None:
        """Wait for a key to reconcile, after which `done` must be called. None once closed."""
        with self._changed:
            while not self._is_closed:
                while self._ready:
                    key = self._ready.popleft()
                    groups = self._groups.get(key)
                    if groups is None:
                        groups = () if self._groups_of is None else self._groups_of(key)
                        self._groups[key] = groups
                    if self._park(key, groups):
                        # It had been unparked for a free place in another group, which it cannot
                        # use now. Offer that place to the next key.
                        for group, most in groups:
                            self._unpark(group, most)
                        continue
                    del self._waiting[key]
                    self._active[key] = self._groups.pop(key)
                    for group, _ in groups:
                        self._busy[group] += 1
                    return key
                self._clock.wait(self._changed)
        return None

    def _park(self, key: Key, groups: Groups) -> bool:
        """Park a key in the first of its groups that is at its limit. Returns False if none is."""
        for group, most in groups:
            if self._busy.get(group, 0) >= most:
                self._parked[group].append(key)
                return True
        return False

    def done(self, key: Key) -> None:
        """Mark a key as reconciled, and queue it again if it was added in between."""
        with self._changed:
            for group, most in self._active.pop(key):
                self._busy[group] -= 1
                if not self._busy[group]:
                    del self._busy[group]
                self._unpark(group, most)
            if key in self._waiting and not self._is_closed:
                self._ready.append(key)
                self._changed.notify()

    def _unpark(self, group: Hashable, most: int) -> None:
        """If a group has a free place, make its first key ready that no other group blocks."""
        if self._busy.get(group, 0) >= most:
            return
        parked = self._parked.pop(group, None)
        while parked:
            key = parked.popleft()
            groups = [entry for entry in self._groups[key] if entry[0] != group]
            if not self._park(key, groups):
                self._ready.appendleft(key)
                self._changed.notify()
                break
        if parked:
            self._parked[group] = parked

    def close(self) -> None:
        """Discard all keys, and make `take` return None."""
        with self._changed:
            self._is_closed = True
            self._ready.clear()
            self._parked.clear()
            self._waiting.clear()
            for timer in self._later.values():
                timer.cancel()
            self._changed.notify_all()

    @property
    def depth(self) -> int:
        """The number of queued keys."""
        with self._changed:
            return len(self._waiting)

    @property
    def oldest_seconds(self) -> float:
        """How long the oldest key has been queued."""
        with self._changed:
            since = next(iter(self._waiting.values()), None)
        return 0.0 if since is None else self._clock.monotonic() - since

    @property
    def is_idle(self) -> bool:
        """Whether no key is queued or being reconciled. Delayed keys do not count."""
        with self._changed:
            return not self._waiting and not self._active


class PassResult(NamedTuple):
    """Result of reconciling an object.

    Without a failure the object is reconciled again after `requeue_seconds`, or after its next
    change. After a failure it is retried with growing delays.
    """

    requeue_seconds: float | None = None
    has_failed: bool = False


DONE: Final = PassResult()
FAILED: Final = PassResult(has_failed=True)


class WorkLoop(Generic[Key]):
    """Work queue and the threads that reconcile its keys.

    The `reconcile` function returns a result, or None if it queues the key and resets its failures
    itself. `give_up` is called with a key that has failed more often than `retry` allows.
    """

    def __init__(
        self,
        name: str,
        tools: PartTools,
        *,
        threads: int = 1,
        kind_of: Callable[[Key], str] | None = None,
        groups_of: GroupsOf[Key] | None = None,
        retry: RetryRule = REQUEUE_RULE,
        give_up: Callable[[Key], None] = lambda _key: None,
    ) -> None:
        self._name = name
        self._clock, self._metrics = tools.clock, tools.metrics
        self._threads = max(1, threads)
        self._kind_of = kind_of
        self._give_up = give_up
        self.queue: WorkQueue[Key] = WorkQueue(
            tools.clock, tools.timers, groups_of=groups_of, retry=retry
        )
        self._metrics.watch_queue(
            name, lambda: float(self.queue.depth), lambda: self.queue.oldest_seconds
        )

    def start(self, reconcile: Callable[[Key], PassResult | None]) -> None:
        """Start the threads."""
        for _ in range(self._threads):
            Thread(target=self._work, args=(reconcile,), name=self._name, daemon=True).start()

    def close(self) -> None:
        self.queue.close()

    def _work(self, reconcile: Callable[[Key], PassResult | None]) -> None:
        kind_of, passes, seconds = self._kind_of, self._metrics.passes, self._metrics.pass_seconds
        while (key := self.queue.take()) is not None:
            kind = self._name if kind_of is None else kind_of(key)
            began = self._clock.monotonic()
            outcome = "done"
            try:
                result = reconcile(key)
                if result is not None:
                    outcome = self._settle(key, result)
            except LeadershipLost:
                outcome = "not the leader"
            except KanisterError as error:
                outcome = error.reason
                self._retry(key)
                level = logging.INFO if isinstance(error, TransientError) else logging.WARNING
                _LOG.log(level, "%s %s is reconciled again later: %s", kind, key, error.message)
            except BaseException:  # noqa: BLE001 # a bug, or a function that calls sys.exit, must not end the thread
                outcome = "Fault"
                self._retry(key)
                _LOG.exception("Reconciling %s %s failed because of a bug", kind, key)
            finally:
                self.queue.done(key)
                passes.labels(kind, outcome).inc()
                seconds.labels(kind).observe(self._clock.monotonic() - began)

    def _settle(self, key: Key, result: PassResult) -> str:
        if result.has_failed:
            self._retry(key)
            return "failed"
        self.queue.forget(key)
        if result.requeue_seconds is not None:
            self.queue.add_after(key, result.requeue_seconds)
        return "done"

    def _retry(self, key: Key) -> None:
        if self.queue.add_rate_limited(key) == inf:
            self._give_up(key)

"""Work loop: a queue, the threads that look at what comes out of it, and what becomes of a look.

A queue gives out keys in order, each once, each in one pair of hands, and a share for every group.
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
"""The groups of a key, and of how many of a group's keys may be in hand at a time."""
GroupsOf: TypeAlias = Callable[[Key], Groups]


class WorkQueue(Generic[Key]):
    """Keys that are to be looked at, whatever kind of object they name.

    A key that is added while it is looked at comes again when that is done,
    so that no change goes unseen and no two look at one thing at once. A key may
    belong to groups, of each of which only so many keys are in hand at a time:
    what keeps those busy keeps nobody else waiting.
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
        """All that wait, ready or behind their group, and since when."""
        self._parked: dict[Hashable, deque[Key]] = defaultdict(deque)
        self._groups: dict[Key, Groups] = {}
        """Groups of those that wait, as found when their turn came first. They stay: a key that
        is let up for a place in a group, and does not take it, would let nobody else up."""
        self._in_hand: dict[Key, Groups] = {}
        self._busy: dict[Hashable, int] = defaultdict(int)
        self._failures: dict[Key, int] = {}
        self._later: dict[Key, Timer] = {}
        self._is_closed = False

    def add(self, key: Key) -> None:
        """Have a key looked at as soon as a worker has time."""
        with self._changed:
            if self._is_closed or key in self._waiting:
                return
            self._waiting[key] = self._clock.monotonic()
            if key not in self._in_hand:
                self._ready.append(key)
                self._changed.notify()

    def add_after(self, key: Key, seconds: float) -> None:
        """Have a key looked at after some time; the earliest of several times counts."""
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
        """Have a key looked at again after a while that grows with each failure; say how long.

        One that has failed more often than its rule allows is forgotten: that is infinitely long.
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
        """Let the next failure be the first again."""
        with self._changed:
            self._failures.pop(key, None)

    def drop(self, key: Key) -> None:
        """Forget a key whose object is gone; one that waits is still looked at."""
        with self._changed:
            self._failures.pop(key, None)
            later = self._later.pop(key, None)
        if later is not None:
            later.cancel()

    def take(self) -> Key | None:
        """Wait for a key, and take it in hand; None once the queue is closed."""
        with self._changed:
            while not self._is_closed:
                while self._ready:
                    key = self._ready.popleft()
                    groups = self._groups.get(key)
                    if groups is None:
                        groups = () if self._groups_of is None else self._groups_of(key)
                        self._groups[key] = groups
                    if self._park(key, groups):
                        # Its other groups may have room that it came back for.
                        for group, most in groups:
                            self._let_up(group, most)
                        continue
                    del self._waiting[key]
                    self._in_hand[key] = self._groups.pop(key)
                    for group, _ in groups:
                        self._busy[group] += 1
                    return key
                self._clock.wait(self._changed)
        return None

    def _park(self, key: Key, groups: Groups) -> bool:
        """Put a key aside if one of its groups is busy enough."""
        for group, most in groups:
            if self._busy.get(group, 0) >= most:
                self._parked[group].append(key)
                return True
        return False

    def done(self, key: Key) -> None:
        """Put a key down again."""
        with self._changed:
            for group, most in self._in_hand.pop(key):
                self._busy[group] -= 1
                if not self._busy[group]:
                    del self._busy[group]
                self._let_up(group, most)
            if key in self._waiting and not self._is_closed:
                self._ready.append(key)
                self._changed.notify()

    def _let_up(self, group: Hashable, most: int) -> None:
        """Make the first that waits for a group ready, unless another group holds it up."""
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
        """Give out nothing any more."""
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
        """Say how many keys wait."""
        with self._changed:
            return len(self._waiting)

    @property
    def oldest_seconds(self) -> float:
        """Say how long the key has waited that waits for longest."""
        with self._changed:
            since = next(iter(self._waiting.values()), None)
        return 0.0 if since is None else self._clock.monotonic() - since

    @property
    def is_idle(self) -> bool:
        """Whether nobody looks at anything, and nothing waits."""
        with self._changed:
            return not self._waiting and not self._in_hand


class PassResult(NamedTuple):
    """What came of a look at an object.

    It came to rest, if only until `again_seconds` have passed; or it failed, and is looked
    at again after a while that grows.
    """

    again_seconds: float | None = None
    has_failed: bool = False


DONE: Final = PassResult()
FAILED: Final = PassResult(has_failed=True)


class WorkLoop(Generic[Key]):
    """Threads that look at whatever is in a queue.

    A look gives what came of it, or None if it has seen to the next look by itself.
    `give_up` is called with a key that has failed more often than `retry` allows.
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

    def start(self, look: Callable[[Key], PassResult | None]) -> None:
        """Begin to look."""
        for _ in range(self._threads):
            Thread(target=self._work, args=(look,), name=self._name, daemon=True).start()

    def close(self) -> None:
        self.queue.close()

    def _work(self, look: Callable[[Key], PassResult | None]) -> None:
        kind_of, passes, seconds = self._kind_of, self._metrics.passes, self._metrics.pass_seconds
        while (key := self.queue.take()) is not None:
            kind = self._name if kind_of is None else kind_of(key)
            began = self._clock.monotonic()
            outcome = "done"
            try:
                result = look(key)
                if result is not None:
                    outcome = self._settle(key, result)
            except LeadershipLost:
                outcome = "not the leader"
            except KanisterError as error:
                outcome = error.reason
                self._look_again(key)
                level = logging.INFO if isinstance(error, TransientError) else logging.WARNING
                _LOG.log(level, "%s %s is looked at again: %s", kind, key, error.message)
            except BaseException:  # noqa: BLE001 # one object that nobody can look at, or whose function calls sys.exit, must not keep others waiting
                outcome = "Fault"
                self._look_again(key)
                _LOG.exception("Looking at %s %s fell over", kind, key)
            finally:
                self.queue.done(key)
                passes.labels(kind, outcome).inc()
                seconds.labels(kind).observe(self._clock.monotonic() - began)

    def _settle(self, key: Key, found: PassResult) -> str:
        if found.has_failed:
            self._look_again(key)
            return "failed"
        self.queue.forget(key)
        if found.again_seconds is not None:
            self.queue.add_after(key, found.again_seconds)
        return "done"

    def _look_again(self, key: Key) -> None:
        if self.queue.add_rate_limited(key) == inf:
            self._give_up(key)

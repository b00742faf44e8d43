"""Waits of a phase: for an answer of the cluster, on watches shared between runs, or for a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from threading import Condition, Lock
from typing import Any, Final

from kanister_py.core.errors import PodsNotRun, WaitTimedOut
from kanister_py.core.objects.resources import PODS
from kanister_py.executor.stop_signal import StopSignal
from kanister_py.executor.watching import Read, SharedWatches, Subscription, TracedCluster
from kanister_py.executor.working import Workers
from kanister_py.ports.clock import Clock

_FIRST_POLL_SECONDS: Final = 0.1
_LONGEST_POLL_SECONDS: Final = 10.0
# A wait on watches needs no asking. This is for what also depends on the time; the longer
# a wait, the less a little more matters, and a thousand may wait at once.
_SAFETY_SECONDS: Final = 30.0
_LONGEST_SAFETY_SECONDS: Final = 240.0


class PhaseWaits:
    """Lets a phase wait without a slot, until its answer is there or it is to stop."""

    def __init__(
        self,
        cluster: TracedCluster,
        clock: Clock,
        workers: Workers,
        watches: SharedWatches,
        stop: StopSignal,
        *,
        runs_pods: bool,
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._workers = workers
        self._watches = watches
        self._stop = stop
        self._runs_pods = runs_pods

    def sleep(self, seconds: float) -> None:
        wakeup = _Wakeup(self._clock)
        until = self._clock.monotonic() + seconds
        with self._workers.idle(), self._stop.listening(wakeup.wake):
            while self._stop.why is None and wakeup.wait_until(until):
                pass
        self._stop.check()

    def wait(
        self,
        until: Callable[[], Any],
        *,
        timeout_seconds: float | None = None,
        what: str = "",
        every_seconds: float | None = None,
    ) -> Any:
        self._stop.check()
        answer, reads = self._cluster.trace(until)
        if answer:
            return answer
        self._refuse_pods(reads)
        clock, watches = self._clock, self._watches
        deadline = None if timeout_seconds is None else clock.monotonic() + timeout_seconds
        wakeup = _Wakeup(clock)
        with self._workers.idle(), self._stop.listening(wakeup.wake):
            subscription = watches.subscribe(reads, wakeup.wake)
            pause = every_seconds or _FIRST_POLL_SECONDS
            try:
                while True:
                    self._stop.check()
                    # Between the first look and the watch something may have happened.
                    answer, now_read = watches.look(lambda: self._cluster.trace(until))
                    if answer:
                        return answer
                    if now_read != reads:
                        reads = now_read
                        renewed = watches.subscribe(reads, wakeup.wake)
                        subscription.close()
                        subscription = renewed
                        continue
                    if deadline is not None and clock.monotonic() >= deadline:
                        raise WaitTimedOut(what, timeout_seconds or 0.0)
                    next_look, pause = _next_look(subscription, reads, every_seconds, pause)
                    look_at = clock.monotonic() + next_look
                    wakeup.wait_until(look_at if deadline is None else min(look_at, deadline))
            finally:
                subscription.close()

    def _refuse_pods(self, reads: Iterable[Read]) -> None:
        """A pod that no node runs never changes: waiting for it would never end."""
        if self._runs_pods:
            return
        for read in sorted(reads, key=lambda each: (each.namespace, each.name)):
            if read.resource == PODS:
                raise PodsNotRun(read.name or "(any)", read.namespace)


def _next_look(
    subscription: Subscription, reads: frozenset[Read], every_seconds: float | None, pause: float
) -> tuple[float, float]:
    """Say after how long to look again if nothing wakes the waiter, and how long after that."""
    if every_seconds is not None:
        return every_seconds, every_seconds
    if reads and not subscription.is_blind:
        pause = max(pause, _SAFETY_SECONDS)
        return pause, min(pause * 2, _LONGEST_SAFETY_SECONDS)
    pause = min(pause, _LONGEST_POLL_SECONDS)
    return pause, min(pause * 2, _LONGEST_POLL_SECONDS)


class _Wakeup:
    """Lets one thread sleep until a time, or until it is woken."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._condition = Condition(Lock())
        self._is_awake = False

    def wake(self) -> None:
        with self._condition:
            self._is_awake = True
            self._condition.notify_all()

    def wait_until(self, time: float) -> bool:
        """Sleep; say whether there is time left."""
        with self._condition:
            while not self._is_awake:
                left = time - self._clock.monotonic()
                if left <= 0:
                    return False
                self._clock.wait(self._condition, left)
            self._is_awake = False
        return self._clock.monotonic() < time

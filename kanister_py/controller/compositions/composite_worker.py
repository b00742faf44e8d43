"""Worker that reconciles the composite resources that come out of the work queue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kanister_py.controller.compositions.composition_users import CompositionUsers
from kanister_py.controller.compositions.dependency_tracker import DependencyTracker
from kanister_py.controller.compositions.reconciliation import Dependencies
from kanister_py.controller.compositions.resources import Outcome
from kanister_py.controller.compositions.served_kinds import ServedKinds
from kanister_py.controller.compositions.tasks import Task
from kanister_py.controller.machine.breakers import Breakers
from kanister_py.controller.machine.work_loop import DONE, FAILED, PassResult, WorkQueue
from kanister_py.core.compositions.messages import Data
from kanister_py.executor.object_cache import ObjectCache
from kanister_py.executor.response_cache import memory_of_data
from kanister_py.ports.clock import Clock
from kanister_py.weighted_cache import WeightedCache

# A pod that is replaced is back sooner; a longer outage is reported.
_GRACE_SECONDS: Final = 10.0
_LONGEST_HOLD_SECONDS: Final = 60.0
_REQUIREMENTS_BYTES: Final = 32 << 20


class Outages:
    """Composite resources whose functions are unavailable, and how long that goes unreported."""

    def __init__(self, clock: Clock, breakers: Breakers[Task]) -> None:
        self._clock = clock
        self._breakers = breakers
        self._since: dict[Task, float] = {}

    def grace_seconds(self, task: Task) -> float:
        """Return for how many more seconds an unavailable function is not reported."""
        now = self._clock.monotonic()
        return self._since.get(task, now) + _GRACE_SECONDS - now

    def record_postponed(self, task: Task, revision: str) -> None:
        """Record a failure that was not reported; start its grace period if it is the first.

        A revision that has never answered gets no grace period.
        """
        has_grace = not revision or self._breakers.has_answered(revision)
        since = self._clock.monotonic() - (0.0 if has_grace else _GRACE_SECONDS)
        self._since[task] = min(self._since.get(task, since), since)

    def suspend(self, task: Task, revision: str, *, is_postponed: bool) -> float | None:
        """Suspend a task until its function answers.

        Returns the seconds after which to reconcile it in any case, or None if the function may
        be called now.
        """
        if not revision or not self._breakers.hold(revision, task):
            return None
        seconds = self.grace_seconds(task) if is_postponed else _LONGEST_HOLD_SECONDS
        return max(seconds, 0.0)

    def end(self, task: Task) -> None:
        self._since.pop(task, None)


class CompositeWorker:
    """Worker that reconciles a composite resource, and decides when to do it again."""

    def __init__(
        self,
        cache: ObjectCache,
        kinds: ServedKinds,
        queue: WorkQueue[Task],
        users: CompositionUsers,
        dependencies: DependencyTracker,
        outages: Outages,
    ) -> None:
        self._cache = cache
        self._kinds = kinds
        self._queue = queue
        self._users = users
        self._dependencies = dependencies
        self._outages = outages
        self._requirements: WeightedCache[Task, Mapping[str, Data]] = WeightedCache(
            _REQUIREMENTS_BYTES
        )
        """Requirements that functions returned last, by step."""

    def reconcile(self, task: Task) -> PassResult:
        """Reconcile one composite resource."""
        served = self._kinds.of(task.resource)
        xr = self._cache.get_cached(task.resource, task.key)
        if served is None or xr is None:
            self.forget(task)
            return DONE
        changes = self._users.changes
        has_new_dependencies = False

        def track(dependencies: Dependencies) -> None:
            nonlocal has_new_dependencies
            has_new_dependencies = self._dependencies.track(task, dependencies)

        self._dependencies.track_refs(task, xr, served)
        outcome = served.reconciler.reconcile(
            xr,
            self._requirements.get(task),
            track=track,
            flooded_by=self._dependencies.rate_limit.flooded_by(task),
            may_postpone=self._outages.grace_seconds(task) > 0,
            is_kind_ending=self._kinds.is_ending(task.resource),
        )
        if outcome.is_gone:
            self.forget(task)
            return DONE
        if not outcome.is_failed:
            self._outages.end(task)
        if not outcome.is_postponed:
            self._users.record_use(task, served)
            if changes != self._users.changes:
                # A change during this reconcile did not enqueue a user that was not recorded.
                self._queue.add(task)
            if outcome.requirements or task in self._requirements:
                requirements = outcome.requirements
                self._requirements.put(task, requirements, memory_of_data(requirements))
        return self._next(task, outcome, has_new_dependencies=has_new_dependencies)

    def _next(self, task: Task, outcome: Outcome, *, has_new_dependencies: bool) -> PassResult:
        """Decide when to reconcile again."""
        if outcome.is_postponed:
            self._outages.record_postponed(task, outcome.unavailable)
        # The breaker enqueues a held task when its function answers; the time is a fallback.
        seconds = self._outages.suspend(
            task, outcome.unavailable, is_postponed=outcome.is_postponed
        )
        if seconds is not None:
            return PassResult(seconds)
        if outcome.changed:
            # The response to the write is in the cache; there is no need to wait for the watch.
            self._dependencies.enqueue(task, outcome.changed)
        elif has_new_dependencies:
            # New dependencies were read before their kinds were watched.
            self._dependencies.enqueue(task, "new dependencies")
        if outcome.is_failed:
            return FAILED
        waits = (outcome.again_seconds, self._dependencies.rate_limit.seconds_to_calm(task))
        return PassResult(min(filter(None, waits), default=None))

    def forget(self, task: Task) -> None:
        """Forget a composite resource that was deleted or belongs to another partition."""
        self._dependencies.forget(task)
        self._requirements.discard(task)
        self._outages.end(task)
        self._users.forget(task)

"""The controller: runs ActionSets and Schedules, and composes, inside this process.

    from kanister_py.controller.controller import Controller, ControllerSettings

    controller = Controller(cluster, functions, clock=clock, settings=ControllerSettings(
        namespaces=("shop",), home="kanister", identity="my-program-1",
    ))
    controller.start()          # returns at once; waits for leadership in the background
    ...
    controller.stop()           # starts nothing new, leaves active runs to be resumed

`run()` does the same in the foreground. The embedding program passes the cluster and the
functions; the controller reads nothing else from the process.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from math import inf
from threading import Condition, Event, Thread
from typing import Final, NamedTuple

from kanister_py.controller.actionsets.draining import Drain
from kanister_py.controller.actionsets.failure_notices import FailureNotices
from kanister_py.controller.actionsets.part import ActionSets
from kanister_py.controller.machine.cluster_clock import ClusterClock
from kanister_py.controller.machine.events import EventPoster
from kanister_py.controller.machine.fencing import FencedCluster
from kanister_py.controller.machine.handover import wait_for_composer
from kanister_py.controller.machine.lease import (
    COMPOSING_LEASE_NAME,
    LEASE_NAME,
    Candidate,
    Leadership,
    lease_name,
)
from kanister_py.controller.machine.logs import PhaseLines
from kanister_py.controller.machine.metrics import ControllerMetrics
from kanister_py.controller.machine.neighbours import refuse_neighbours
from kanister_py.controller.machine.part import Part, PartMaker, PartTools
from kanister_py.controller.machine.partitions import OverlapCheck
from kanister_py.controller.schedules.part import Schedules
from kanister_py.controller.settings import ControllerSettings as ControllerSettings  # noqa: PLC0414 # part of the interface for embedding programs
from kanister_py.core.errors import KanisterError, LeadershipLost, TransientError
from kanister_py.core.kube.resources import NAMESPACES
from kanister_py.executor.function_source import FunctionSource
from kanister_py.executor.timers import TimerService
from kanister_py.gotemplate.effects import NO_EFFECTS, Effects
from kanister_py.ports.clock import Clock
from kanister_py.ports.cluster import Cluster, find
from kanister_py.ports.object_store import ObjectStores

_LOG: Final = logging.getLogger(__name__)

_FLUSH_SECONDS: Final = 5.0


class _Parts(NamedTuple):
    """Components that exist while this process is the leader."""

    timers: TimerService
    events: EventPoster
    actionsets: ActionSets | None
    all: Sequence[Part]

    def start(self) -> None:
        for part in self.all:
            part.start()

    def close(self) -> None:
        for part in reversed(self.all):
            part.close()
        self.timers.close()
        self.events.close()


class Controller:
    """Controller of a cluster, which acts while it is the leader. It can be started once."""

    def __init__(
        self,
        cluster: Cluster,
        functions: FunctionSource,
        *,
        clock: Clock,
        settings: ControllerSettings | None = None,
        effects: Effects = NO_EFFECTS,
        stores: ObjectStores | None = None,
        parts: Sequence[PartMaker] = (),
    ) -> None:
        self.settings = settings or ControllerSettings()
        self.metrics = ControllerMetrics()
        self.lines = PhaseLines(clock)
        self._outer = cluster
        self._functions = functions
        # Other replicas read the times that this one writes, and their clocks may differ.
        self._clock = shared = ClusterClock(clock)
        self._effects = effects
        self._stores = stores
        self._part_makers = tuple(parts)
        self._leadership = Leadership(
            Candidate(
                cluster,
                clock,
                self.settings.identity,
                self.settings.home,
                self.settings.terms,
                shared.note,
            ),
            lease_name(
                LEASE_NAME if self.settings.runs_actionsets else COMPOSING_LEASE_NAME,
                self.settings.partition,
            ),
            self.settings.scope.annotations,
        )
        self._cluster = FencedCluster(cluster, self._leadership.check).as_cluster()
        self._changed = Condition()
        self._error: KanisterError | None = None
        self._is_stopping = False
        self._why_stopping = ""
        self._drained: Drain | None = None
        self._sees_neighbours = False
        self._has_begun = False
        self._has_ended = Event()
        self._thread: Thread | None = None
        self._parts: _Parts | None = None
        watch = self.metrics.watch
        watch("kanister_py_is_leader", lambda: float(self.is_leader))
        watch("kanister_py_paused", lambda: float(self.settings.is_paused))

    # Start and run

    def start(self) -> None:
        """Run in the background."""
        self._has_begun = True
        self._thread = Thread(target=self._run_in_background, name="controller", daemon=True)
        self._thread.start()

    def _run_in_background(self) -> None:
        try:
            self.run()
        except KanisterError as error:
            self._error = self._error or error
            if not isinstance(error, LeadershipLost):
                # Lost leadership was logged when it happened.
                _LOG.error("The controller has ended: %s", error.message)

    def run(self) -> None:
        """Wait for leadership, act, and return when stopped. Raises the error that ends it."""
        self._has_begun = True
        try:
            self._run()
        except LeadershipLost:
            # A controller that stops has released its Lease itself.
            if not self._is_stopping:
                self._lose()
        finally:
            if self._parts is not None:
                self._parts.close()
            self._leadership.close()
            self._has_ended.set()
        if self._error is not None:
            raise self._error
        if self._drained is not None:
            self._drained.log_end()

    def _run(self) -> None:
        settings = self.settings

        def wait_for_lease(lease: str) -> None:
            stopped = (self._changed, lambda: self._is_stopping)
            name = lease_name(lease, settings.partition)
            wait_for_composer(self._outer, self._clock, settings.home, name, *stopped)

        if settings.refuses_neighbours and settings.runs_actionsets:
            self._retry(self._refuse_neighbours)
        if settings.composes and settings.runs_actionsets:
            wait_for_lease(COMPOSING_LEASE_NAME)
        if not self._leadership.acquire(stands_by=settings.stands_by):
            return
        _LOG.info("Leader as %s", settings.identity)
        self._leadership.renew_in_background(self._lose)
        if settings.composes and not settings.runs_actionsets:
            wait_for_lease(LEASE_NAME)
        self._refuse_overlap()
        if self._is_stopping:
            return
        if settings.is_paused:
            _LOG.warning("Paused: no new run starts until it is restarted without --paused")
        parts = self._parts = self._new_parts()
        parts.start()
        if parts.actionsets is not None:
            _warn_of_missing_namespaces(self._outer, settings.namespaces)
        self._wait_until_stopping()
        if self._error is None:
            if parts.actionsets is not None:
                self._drained = Drain(self._clock, self._why_stopping, settings.drain_seconds)
                reconciler = parts.actionsets.reconciler
                self._drained.carry_out(reconciler, self._changed, self._is_still_leader)
            parts.events.close(_FLUSH_SECONDS)

    def _new_parts(self) -> _Parts:
        settings, clock, metrics = self.settings, self._clock, self.metrics
        timers = TimerService(clock)
        events = EventPoster(
            self._cluster, clock, host=settings.identity, on_dropped=metrics.dropped_events.inc
        )

        tools = PartTools(
            cluster=self._cluster,
            clock=clock,
            timers=timers,
            post_event=events.post,
            metrics=metrics,
            check_leadership=self._leadership.check,
        )
        actionsets = self._new_actionsets(tools) if settings.runs_actionsets else None
        added = [make(tools) for make in self._part_makers]
        own: tuple[Part, ...] = ()
        if actionsets is not None:
            # Schedules create ActionSets where ActionSets are run.
            own = (actionsets, Schedules(tools, settings.namespaces, settings.partition))
        return _Parts(timers, events, actionsets, (*own, *added))

    def _new_actionsets(self, tools: PartTools) -> ActionSets:
        settings = self.settings
        notices = None
        if settings.receivers is not None:
            notices = FailureNotices(tools, settings.receivers)
        return ActionSets(
            tools=tools,
            functions=self._functions,
            effects=self._effects,
            settings=settings,
            lines=self.lines,
            stores=self._stores,
            notices=notices,
        )

    def _refuse_overlap(self) -> None:
        settings = self.settings
        bases = (LEASE_NAME, COMPOSING_LEASE_NAME)
        own = tuple(lease_name(base, settings.partition) for base in bases)
        check = OverlapCheck(self._outer, self._clock, settings.scope, settings.home, own)
        check.refuse_overlap(self._changed, lambda: self._is_stopping)

    def _refuse_neighbours(self) -> None:
        self._sees_neighbours = refuse_neighbours(self._outer, self.settings.namespaces or ("",))

    def _wait_until_stopping(self) -> None:
        while not self._is_stopping:
            self._wait_until(self._clock.monotonic() + self.settings.neighbours_every_seconds)
            if not self._is_stopping:
                # After a transient error the next check follows at its usual time.
                with suppress(TransientError):
                    self._refuse_neighbours()

    def _wait_until(self, check_at: float) -> None:
        """Wait until the controller stops, or until the next check for neighbours, if it may."""
        clock = self._clock
        with self._changed:
            while not self._is_stopping and self._is_still_leader():
                left = check_at - clock.monotonic() if self._sees_neighbours else inf
                if left <= 0:
                    return
                clock.wait(self._changed, min(left, self._leadership.seconds_left))

    def _is_still_leader(self) -> bool:
        """Return whether this process is still the leader, and stop the controller if not.

        The thread that renews the Lease may itself hang in a request.
        """
        if not self._leadership.is_leader:
            self._lose()
        return self._error is None

    def _retry(self, act: Callable[[], None]) -> None:
        """Call `act` until it raises no transient error, or the controller stops."""
        while not self._is_stopping:
            try:
                act()
            except TransientError as error:
                _LOG.warning("Cannot start yet: %s", error.message)
                with self._changed:
                    self._clock.wait(self._changed, 1.0)
            else:
                return

    def _lose(self) -> None:
        with self._changed:
            if self._error is not None or self._has_ended.is_set():
                return
            why = self._leadership.why_lost
            # Logged first, because the process may exit as soon as it has failed.
            _LOG.error(
                "Leadership is lost: %s. This process ends. Restart it, as a Deployment does with "
                "its pod, and it becomes a standby or the leader again. The new leader resumes "
                "the active runs",
                why,
            )
            self._fail(LeadershipLost(why))

    def _fail(self, error: KanisterError) -> None:
        with self._changed:
            self._error = self._error or error
            self._is_stopping = True
            self._changed.notify_all()

    def request_stop(self, why: str = "") -> None:
        """Start nothing new, and let `run` return soon."""
        with self._changed:
            self._why_stopping = self._why_stopping or why
            was_stopping, self._is_stopping = self._is_stopping, True
            parts = self._parts
            self._changed.notify_all()
        if parts is not None:
            if parts.actionsets is not None:
                parts.actionsets.reconciler.drain()
            else:
                _LOG.info("Stopping%s: starting nothing new", f" on {why}" if why else "")
            return
        if not was_stopping:
            _LOG.info("Stopping%s; it was not the leader", f" on {why}" if why else "")
        # Ends the wait for leadership.
        self._leadership.close()

    def stop(self) -> None:
        """Stop gracefully, and return when it has stopped."""
        self.request_stop()
        self._has_ended.wait()

    def kill(self) -> None:
        """Stop acting at once, without releasing anything, like a crash."""
        with self._changed:
            self._leadership.abandon()
            self._error = self._error or LeadershipLost()
            self._fail(self._error)
        self._has_ended.wait()

    # State

    @property
    def is_leader(self) -> bool:
        """Whether this process may act."""
        return self._leadership.is_leader

    @property
    def has_begun(self) -> bool:
        return self._has_begun

    @property
    def has_ended(self) -> bool:
        return self._has_ended.is_set()

    @property
    def is_settled(self) -> bool:
        """Whether all existing objects were reconciled, and nothing is in progress."""
        parts = self._parts
        return parts is not None and all(part.is_settled for part in parts.all)

    @property
    def active_runs(self) -> int:
        """The number of ActionSets that this process is running."""
        actionsets = self._parts.actionsets if self._parts is not None else None
        return actionsets.reconciler.active_runs if actionsets is not None else 0

    def checks(self) -> Mapping[str, Callable[[], str]]:
        """Return the readiness checks of this process; a check returns its problem or "".

        A standby is ready, because it can take over. A leader is ready once it has read all
        objects.
        """
        return {"controller": self._why_not_ready}

    def _why_not_ready(self) -> str:
        if self._has_ended.is_set():
            return self._error.message if self._error is not None else "has stopped"
        parts = self._parts
        if parts is None:
            is_standby = self._leadership.is_standby
            return self._leadership.why_unable or ("" if is_standby else "has not started yet")
        return next(filter(None, (part.trouble for part in parts.all)), "")


def _warn_of_missing_namespaces(cluster: Cluster, namespaces: Sequence[str]) -> None:
    """Log a warning for each watched namespace that does not exist, such as a misspelt one."""
    for name in namespaces:
        # The permission to read Namespaces is optional.
        with suppress(KanisterError):
            if find(cluster, NAMESPACES, name) is None:
                _LOG.warning(
                    "Namespace %s does not exist: no ActionSets run there until it is created", name
                )

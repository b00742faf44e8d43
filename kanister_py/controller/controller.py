"""The controller: runs ActionSets and Schedules, and composes, inside this process.

    from kanister_py.controller.controller import Controller, ControllerSettings

    controller = Controller(cluster, functions, clock=clock, settings=ControllerSettings(
        namespaces=("shop",), home="kanister", identity="my-program-1",
    ))
    controller.start()          # comes back at once; waits for leadership in the background
    ...
    controller.stop()           # begins nothing new, leaves the rest to be taken up

`run()` is the same in the foreground. The program that embeds it hands in the cluster, as the
port describes it, and the functions; nothing else is taken from the process.
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
from kanister_py.controller.settings import ControllerSettings as ControllerSettings  # noqa: PLC0414 # who embeds it finds it here
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
    """Everything that lives for as long as one process leads."""

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
    """Controller of a cluster, at work while it leads. One instance is good for one life."""

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
        # What is written is read by other replicas: their clocks need not agree.
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

    # Its life

    def start(self) -> None:
        """Begin in the background."""
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
        """Lead, act, and come back when stopped. Raises what makes acting impossible."""
        self._has_begun = True
        try:
            self._run()
        except LeadershipLost:
            # Who was asked to stop has given it up.
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
            self._drained.tell_end()

    def _run(self) -> None:
        settings = self.settings

        def wait_for_lease(lease: str) -> None:
            stopped = (self._changed, lambda: self._is_stopping)
            name = lease_name(lease, settings.partition)
            wait_for_composer(self._outer, self._clock, settings.home, name, *stopped)

        if settings.refuses_neighbours and settings.runs_actionsets:
            self._patiently(self._refuse_neighbours)
        if settings.composes and settings.runs_actionsets:
            wait_for_lease(COMPOSING_LEASE_NAME)
        if not self._leadership.acquire(stands_by=settings.stands_by):
            return
        _LOG.info("Leads as %s", settings.identity)
        self._leadership.keep(self._lose)
        if settings.composes and not settings.runs_actionsets:
            wait_for_lease(LEASE_NAME)
        self._refuse_overlap()
        if self._is_stopping:
            return
        if settings.is_paused:
            _LOG.warning("Is paused: nothing new begins until it is started without --paused")
        parts = self._parts = self._made_parts()
        parts.start()
        if parts.actionsets is not None:
            _warn_of_missing_namespaces(self._outer, settings.namespaces)
        self._wait_for_the_end()
        if self._error is None:
            if parts.actionsets is not None:
                self._drained = Drain(self._clock, self._why_stopping, settings.drain_seconds)
                reconciler = parts.actionsets.reconciler
                self._drained.carry_out(reconciler, self._changed, self._still_leads)
            parts.events.close(_FLUSH_SECONDS)

    def _made_parts(self) -> _Parts:
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
        actionsets = self._made_actionsets(tools) if settings.runs_actionsets else None
        added = [make(tools) for make in self._part_makers]
        own: tuple[Part, ...] = ()
        if actionsets is not None:
            # Who makes ActionSets at their times is who runs them.
            own = (actionsets, Schedules(tools, settings.namespaces, settings.partition))
        return _Parts(timers, events, actionsets, (*own, *added))

    def _made_actionsets(self, tools: PartTools) -> ActionSets:
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

    def _wait_for_the_end(self) -> None:
        while not self._is_stopping:
            self._wait_until(self._clock.monotonic() + self.settings.neighbours_every_seconds)
            if not self._is_stopping:
                # Who is not answered now is answered the next time.
                with suppress(TransientError):
                    self._refuse_neighbours()

    def _wait_until(self, look_at: float) -> None:
        """Wait for the end, or until it is time to look for neighbours, if any can be seen."""
        clock = self._clock
        with self._changed:
            while not self._is_stopping and self._still_leads():
                left = look_at - clock.monotonic() if self._sees_neighbours else inf
                if left <= 0:
                    return
                clock.wait(self._changed, min(left, self._leadership.seconds_left))

    def _still_leads(self) -> bool:
        """Say whether there is any sense in going on; if not, that is the end.

        The thread that renews the Lease may itself wait for an answer that never comes.
        """
        if not self._leadership.is_leader:
            self._lose()
        return self._error is None

    def _patiently(self, act: Callable[[], None]) -> None:
        """Do something that must be done first, as often as it takes."""
        while not self._is_stopping:
            try:
                act()
            except TransientError as error:
                _LOG.warning("Cannot begin yet: %s", error.message)
                with self._changed:
                    self._clock.wait(self._changed, 1.0)
            else:
                return

    def _lose(self) -> None:
        with self._changed:
            if self._error is not None or self._has_ended.is_set():
                return
            why = self._leadership.why_lost
            # Logged first: once it has failed, the process may be gone before anything is logged.
            _LOG.error(
                "Leadership is lost: %s. This process acts no more and ends; start it anew, as a "
                "Deployment does with its pod, and it stands by or leads again. Whoever leads "
                "goes on with what is under way",
                why,
            )
            self._fail(LeadershipLost(why))

    def _fail(self, error: KanisterError) -> None:
        with self._changed:
            self._error = self._error or error
            self._is_stopping = True
            self._changed.notify_all()

    def request_stop(self, why: str = "") -> None:
        """Begin nothing new from here on, and have `run` come back soon."""
        with self._changed:
            self._why_stopping = self._why_stopping or why
            was_stopping, self._is_stopping = self._is_stopping, True
            parts = self._parts
            self._changed.notify_all()
        if parts is not None:
            if parts.actionsets is not None:
                parts.actionsets.reconciler.drain()
            else:
                _LOG.info("Stops%s: begins nothing new", f" on {why}" if why else "")
            return
        if not was_stopping:
            _LOG.info("Stops%s; it did not lead", f" on {why}" if why else "")
        # Nobody waits for a leadership that is not wanted any more.
        self._leadership.close()

    def stop(self) -> None:
        """Stop in good order, and come back when that is done."""
        self.request_stop()
        self._has_ended.wait()

    def kill(self) -> None:
        """Stop acting at once and leave everything as it is, the Lease too, as a crash would."""
        with self._changed:
            self._leadership.abandon()
            self._error = self._error or LeadershipLost()
            self._fail(self._error)
        self._has_ended.wait()

    # What others may know

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
        """Whether all that was there has been looked at, and nothing is under way."""
        parts = self._parts
        return parts is not None and all(part.is_settled for part in parts.all)

    @property
    def active_runs(self) -> int:
        """Say how many ActionSets are under way here."""
        actionsets = self._parts.actionsets if self._parts is not None else None
        return actionsets.reconciler.active_runs if actionsets is not None else 0

    def checks(self) -> Mapping[str, Callable[[], str]]:
        """Say what has to be fine for this process to be ready, for an endpoint of health.

        One that stands by is ready too: it is there to take over. One that acts is ready once
        it has seen all there is, and could begin at once with what comes.
        """
        return {"controller": self._why_not_ready}

    def _why_not_ready(self) -> str:
        if self._has_ended.is_set():
            return self._error.message if self._error is not None else "has stopped"
        parts = self._parts
        if parts is None:
            is_there = self._leadership.stands_by
            return self._leadership.why_never or ("" if is_there else "has not begun yet")
        return next(filter(None, (part.trouble for part in parts.all)), "")


def _warn_of_missing_namespaces(cluster: Cluster, namespaces: Sequence[str]) -> None:
    """Say which namespaces there are none of yet: a slip in a name looks like peace."""
    for name in namespaces:
        # A controller that may not ask acts all the same.
        with suppress(KanisterError):
            if find(cluster, NAMESPACES, name) is None:
                _LOG.warning(
                    "There is no namespace %s: nothing runs there until somebody creates it", name
                )

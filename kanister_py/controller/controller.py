"""The controller: runs the ActionSets of a cluster, inside this process.

    from kanister_py.controller.controller import Controller, ControllerSettings

    controller = Controller(cluster, functions, clock=clock, settings=ControllerSettings(
        namespaces=("shop",), home="kanister", identity="my-program-1",
    ))
    controller.start()          # comes back at once; waits for leadership in the background
    ...
    controller.stop()           # begins nothing new, leaves the rest to be taken up

`run()` is the same in the foreground. Whoever embeds it hands in the cluster, as the
port describes it, and the functions; nothing else is taken from the process.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from math import inf
from threading import Condition, Event, Lock, Thread
from typing import Final, NamedTuple, Protocol

from kanister_py.controller.actionsets.collection import parents_in_need, surplus
from kanister_py.controller.actionsets.concurrency import Lines
from kanister_py.controller.actionsets.planner import Planner
from kanister_py.controller.actionsets.projection import Kept, Live, keep
from kanister_py.controller.actionsets.reconcile import ActionSetReconciler, Equipment
from kanister_py.controller.actionsets.reporting import Tellers
from kanister_py.controller.actionsets.status import form_of
from kanister_py.controller.actionsets.watched_namespaces import WatchedNamespaces
from kanister_py.controller.machine.events import NORMAL, EventPoster, Subject, subject_of
from kanister_py.controller.machine.fencing import FencedCluster
from kanister_py.controller.machine.lease import Leadership, LeaseTerms
from kanister_py.controller.machine.logs import PhaseLines
from kanister_py.controller.machine.metrics import ControllerMetrics
from kanister_py.controller.machine.neighbours import refuse_neighbours
from kanister_py.controller.machine.queue import WorkQueue
from kanister_py.controller.machine.watch_cache import ObjectKey, Store
from kanister_py.core.errors import KanisterError, LeadershipLost, NotFound, TransientError
from kanister_py.core.objects.resources import ACTION_SETS, BLUEPRINTS, NAMESPACES
from kanister_py.executor.alarms import Alarms
from kanister_py.executor.phase_context import Surroundings
from kanister_py.executor.run.actions import FunctionSource
from kanister_py.executor.run.run import AtWork
from kanister_py.executor.watching import SharedWatches
from kanister_py.executor.working import Workers
from kanister_py.gotemplate import NO_EFFECTS, Effects
from kanister_py.ports.clock import Clock
from kanister_py.ports.cluster import Cluster, KubeObject
from kanister_py.ports.object_store import ObjectStores

_LOG: Final = logging.getLogger(__name__)

LEASE_NAME: Final = "kanister-py-controller"
_COLLECT_SECONDS: Final = 30.0
_DRAIN_LOOK_SECONDS: Final = 0.05
_FLUSH_SECONDS: Final = 5.0


class ControllerSettings(NamedTuple):
    """What a controller watches, and how much it does at once.

    Without `namespaces` it watches all. `home` is where its Lease is. `keep_newest`
    bounds how many ActionSets that ended are kept for each Blueprint; None for all.
    """

    namespaces: tuple[str, ...] = ()
    home: str = "default"
    identity: str = "kanister-py"
    allows_other_namespaces: bool = False
    stands_by: bool = False
    """Whether to wait while another replica acts; without it, one that acts is refused."""
    workers: int = 32
    workers_per_namespace: int = 0
    passes: int = 4
    keep_newest: int | None = None
    drain_seconds: float = 20.0
    terms: LeaseTerms = LeaseTerms()
    refuses_neighbours: bool = True
    neighbours_every_seconds: float = 300.0
    """How often is looked whether somebody else's controller has come meanwhile."""


class Part(Protocol):
    """Something more that acts for as long as the controller leads."""

    def start(self) -> None: ...

    def close(self) -> None: ...

    @property
    def is_settled(self) -> bool:
        """Whether all that was there has been looked at, and nothing is under way."""

    @property
    def trouble(self) -> str:
        """What keeps it from being up to date; empty if nothing does."""


class PartTools(NamedTuple):
    """What every part of a controller acts with: a cluster that refuses who does not lead."""

    cluster: Cluster
    clock: Clock
    alarms: Alarms
    tell: Callable[[Subject, str, str, str], None]
    on_error: Callable[[KanisterError], None]
    metrics: ControllerMetrics


PartMaker = Callable[[PartTools], Part]


class _KeptBlueprint(NamedTuple):
    subject: Subject
    resource_version: str


class Controller:
    """Runs ActionSets for as long as it leads. One instance is good for one life."""

    def __init__(
        self,
        cluster: Cluster,
        functions: FunctionSource,
        *,
        clock: Clock,
        settings: ControllerSettings | None = None,
        effects: Effects = NO_EFFECTS,
        stores: ObjectStores | None = None,
        metrics: ControllerMetrics | None = None,
        parts: Sequence[PartMaker] = (),
    ) -> None:
        self.settings = settings or ControllerSettings()
        self.metrics = metrics or ControllerMetrics()
        self.lines = PhaseLines(clock)
        self._outer = cluster
        self._functions = functions
        self._clock = clock
        self._effects = effects
        self._stores = stores
        self._part_makers = tuple(parts)
        self._leadership = Leadership(
            cluster,
            clock,
            self.settings.identity,
            namespace=self.settings.home,
            name=LEASE_NAME,
            terms=self.settings.terms,
        )
        self._is_fenced_off = Event()
        self._cluster = FencedCluster(cluster, self._check).as_cluster()
        self._changed = Condition()
        self._error: KanisterError | None = None
        self._is_stopping = False
        self._why_stopping = ""
        self._drained: _Drain | None = None
        self._sees_neighbours = False
        self._has_begun = False
        self._has_ended = Event()
        self._thread: Thread | None = None
        self._parts: _Parts | None = None

    def _check(self) -> None:
        if self._is_fenced_off.is_set():
            raise LeadershipLost
        self._leadership.check()

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
                # That has been told when it happened.
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
            self._shut_down()
            self._has_ended.set()
        if self._error is not None:
            raise self._error
        if self._drained is not None:
            self._drained.tell_end()

    def _run(self) -> None:
        settings = self.settings
        if settings.refuses_neighbours:
            self._patiently(self._refuse_neighbours)
        if not self._leadership.acquire(is_patient=settings.stands_by):
            return
        _LOG.info("Leads as %s", settings.identity)
        self._leadership.keep(self._lose)
        parts = self._parts = _Parts(self)
        parts.start()
        self._tell_of_missing_namespaces()
        self._wait_for_the_end()
        if self._error is None:
            self._drain(parts)

    def _tell_of_missing_namespaces(self) -> None:
        """Say which namespaces there are none of yet: a slip in a name looks like peace."""
        for name in self.settings.namespaces:
            try:
                self._outer.get(NAMESPACES, name)
            except NotFound:
                _LOG.warning(
                    "There is no namespace %s: nothing runs there until somebody creates it", name
                )
            except KanisterError:
                # Whoever may not ask acts all the same.
                continue

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

        Whoever renews the Lease may itself wait for an answer that never comes.
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
            self._is_fenced_off.set()
            why = self._leadership.why_lost
            # Said first: once it has failed, the process may be gone before anything is said.
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

    def ask_to_stop(self, why: str = "") -> None:
        """Begin nothing new from here on, and have `run` come back soon."""
        with self._changed:
            self._why_stopping = self._why_stopping or why
            was_stopping, self._is_stopping = self._is_stopping, True
            parts = self._parts
            self._changed.notify_all()
        if parts is not None:
            parts.reconciler.drain()
            return
        if not was_stopping:
            _LOG.info("Stops%s; it did not lead", f" on {why}" if why else "")
        # Nobody waits for a leadership that is not wanted any more.
        self._leadership.close()

    def stop(self) -> None:
        """Stop in good order, and come back when that is done."""
        self.ask_to_stop()
        self._has_ended.wait()

    def kill(self) -> None:
        """Stop acting at once and leave everything as it is, the Lease too, as a crash would."""
        with self._changed:
            self._is_fenced_off.set()
            self._error = self._error or LeadershipLost()
            self._leadership.abandon()
            self._fail(self._error)
        self._has_ended.wait()

    def _drain(self, parts: _Parts) -> None:
        """Give phases that nobody could take up some time to end, and no others."""
        clock, reconciler = self._clock, parts.reconciler
        drain = _Drain(clock, self._why_stopping, self.settings.drain_seconds)
        drain.tell_begin(reconciler.at_work)
        reconciler.drain()
        while drain.has_time and self._still_leads():
            left = reconciler.at_work.untouchable
            if not left and not reconciler.has_untold_ends:
                break
            with self._changed:
                clock.wait(self._changed, _DRAIN_LOOK_SECONDS)
            reconciler.drain()
        left = reconciler.at_work.untouchable
        self._drained = drain.end(left)
        parts.events.close(_FLUSH_SECONDS)

    def _shut_down(self) -> None:
        parts = self._parts
        if parts is not None:
            parts.close()
        self._is_fenced_off.set()
        self._leadership.close()

    # What others may know

    @property
    def is_leader(self) -> bool:
        return self._leadership.is_leader and not self._is_fenced_off.is_set()

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
        return parts is not None and parts.is_settled

    @property
    def active_runs(self) -> int:
        """Say how many ActionSets are under way here."""
        return self._parts.reconciler.active_runs if self._parts is not None else 0

    def checks(self) -> Mapping[str, Callable[[], str]]:
        """Say what has to be fine for this process to be ready, for an endpoint of health.

        One that stands by is ready too: it is there to take over.
        """
        return {"controller": self._why_not_ready}

    def _why_not_ready(self) -> str:
        if self._has_ended.is_set():
            return self._error.message if self._error is not None else "has stopped"
        parts = self._parts
        if parts is None:
            return ""
        return parts.trouble


class _Drain:
    """What is left to be done once a controller was asked to stop, and what is told of that."""

    def __init__(self, clock: Clock, why: str, most_seconds: float) -> None:
        self._clock = clock
        self._why = why
        self._most_seconds = most_seconds
        self._began = clock.monotonic()
        self._cut_off = 0

    @property
    def has_time(self) -> bool:
        return self._seconds < self._most_seconds

    @property
    def _seconds(self) -> float:
        return self._clock.monotonic() - self._began

    def tell_begin(self, at_work: AtWork) -> None:
        why = f" on {self._why}" if self._why else ""
        if at_work.untouchable:
            left = at_work.phases - at_work.untouchable
            _LOG.info(
                "Stops%s: begins nothing new; %s that nobody could take up may go on for %g s at "
                "most, %s left to the next controller",
                why,
                _phases(at_work.untouchable),
                self._most_seconds,
                f"{_phases(left)} more {'is' if left == 1 else 'are'}" if left else "nothing is",
            )
        elif at_work.phases:
            told = "Stops%s: begins nothing new; %s at work left to the next controller"
            _LOG.info(told, why, _phases(at_work.phases))
        else:
            _LOG.info("Stops%s: begins nothing new; no phase is at work", why)

    def end(self, cut_off: int) -> _Drain:
        """Give up on what is at work still."""
        self._cut_off = cut_off
        return self

    def tell_end(self) -> None:
        if self._cut_off:
            _LOG.warning(
                "Has stopped after %.1f s, in the midst of %s that nobody can take up: what is cut "
                "off fails as Interrupted, unless its retry says otherwise",
                self._seconds,
                _phases(self._cut_off),
            )
        else:
            _LOG.info("Has stopped after %.1f s, nothing was cut off", self._seconds)


def _phases(count: int) -> str:
    return "1 phase" if count == 1 else f"{count} phases"


class _Parts:
    """Everything that lives for as long as one process leads."""

    def __init__(self, controller: Controller) -> None:
        settings, clock = controller.settings, controller._clock  # noqa: SLF001 # two halves of one thing
        cluster = controller._cluster  # noqa: SLF001 # as above
        self._settings = settings
        self._clock = clock
        self._cluster = cluster
        self._metrics = controller.metrics
        metrics = controller.metrics
        self._is_closed = False
        self.alarms = Alarms(clock)
        self.queue: WorkQueue[ObjectKey] = WorkQueue(clock, self.alarms)
        self.chores: WorkQueue[ObjectKey] = WorkQueue(clock, self.alarms)
        self.events = EventPoster(
            cluster, clock, host=settings.identity, on_dropped=metrics.dropped_events.inc
        )
        self._workers = Workers(settings.workers)
        self._shares: dict[str, Workers] = {}
        self._lock = Lock()
        self._watches = SharedWatches(cluster, clock)
        self._namespaces = WatchedNamespaces(cluster, clock)
        self._run_cluster = self._namespaces.as_cluster()
        self._effects = controller._effects  # noqa: SLF001 # as above
        self._stores = controller._stores  # noqa: SLF001 # as above
        namespaces = settings.namespaces or ("",)

        def count_error(error: KanisterError) -> None:
            metrics.api_errors.labels(error.reason).inc()

        self.store: Store[Kept] = Store(
            cluster,
            clock,
            ACTION_SETS,
            lambda obj: keep(obj, clock.monotonic()),
            # The reconciler is made with the store, and heard of only then.
            lambda key, old, new: self.reconciler.on_change(key, old, new),  # noqa: PLW0108 # see above
            namespaces=namespaces,
            on_error=count_error,
        )
        self.store.tell_by_age(_age_of)
        self._blueprints: Store[_KeptBlueprint] = Store(
            cluster,
            clock,
            BLUEPRINTS,
            _keep_blueprint,
            self._on_blueprint,
            namespaces=namespaces,
            on_error=count_error,
        )
        functions = controller._functions  # noqa: SLF001 # as above
        form = form_of(cluster)
        if not form.has_subresource:
            _LOG.warning(
                "These definitions are Kanister's own: additions to the status go into the "
                "annotation kanister-py.io/status, and funcVersion, if, timeout and retry of "
                "phases are lost when a Blueprint is stored; `kanister-py crds` brings ours"
            )
        self.reconciler = ActionSetReconciler(
            Equipment(
                cluster,
                clock,
                form,
                self.store,
                self.queue,
                self.chores,
                self.alarms,
                Lines(),
                Planner(
                    cluster,
                    clock,
                    functions,
                    allows_other_namespaces=settings.allows_other_namespaces,
                ),
                functions,
                Tellers(self.events, metrics, controller.lines, functions.registry),
                self._surroundings,
                controller._check,  # noqa: SLF001 # as above
            )
        )
        self._show_gauges()
        tools = PartTools(cluster, clock, self.alarms, self.events.post, count_error, metrics)
        makers = controller._part_makers  # noqa: SLF001 # as above
        self._others = [make(tools) for make in makers]

    def _surroundings(self, namespace: str) -> Surroundings:
        workers: Workers = self._workers
        if self._settings.workers_per_namespace:
            with self._lock:
                share = self._shares.get(namespace)
                if share is None:
                    share = self._workers.part(self._settings.workers_per_namespace)
                    self._shares[namespace] = share
            workers = share
        cluster = self._run_cluster
        return Surroundings(
            cluster, self._clock, workers, self._watches, self._effects, stores=self._stores
        )

    def _show_gauges(self) -> None:
        show = self._metrics.watch_gauge
        show("kanister_py_queue_depth", "Objects that wait to be looked at", self._depth)
        show(
            "kanister_py_phases_queued",
            "Phases that wait for somebody to work on them",
            lambda: float(self._workers.queued),
        )
        show(
            "kanister_py_active_runs",
            "ActionSets that are under way",
            lambda: float(self.reconciler.active_runs),
        )
        show(
            "kanister_py_oldest_run_seconds",
            "How long ago the ActionSet was created that is under way for longest",
            self._oldest_run_seconds,
        )
        show(
            "kanister_py_open_watches",
            "Watches that are open",
            lambda: float(
                self._watches.open_watches + self.store.open_watches + self._blueprints.open_watches
            ),
        )

    def _oldest_run_seconds(self) -> float:
        began = [
            each.created_at
            for _, each in self.store.items()
            if isinstance(each, Live) and not each.is_suspended
        ]
        return (self._clock.now() - min(began)).total_seconds() if began else 0.0

    def _depth(self) -> float:
        return float(self.queue.depth)

    def start(self) -> None:
        self._blueprints.start()
        self.store.start()
        reconciler = self.reconciler
        for _ in range(max(1, self._settings.passes)):
            self._spawn(self.queue, reconciler.kind, reconciler.reconcile)
        self._spawn(self.chores, "Chore", reconciler.tidy)
        for part in self._others:
            part.start()
        if self._settings.keep_newest is not None:
            self.alarms.set(_COLLECT_SECONDS, self._collect_later)

    def _spawn(
        self, queue: WorkQueue[ObjectKey], kind: str, look: Callable[[ObjectKey], None]
    ) -> None:
        Thread(target=self._work, args=(queue, kind, look), name=kind, daemon=True).start()

    def _work(
        self, queue: WorkQueue[ObjectKey], kind: str, look: Callable[[ObjectKey], None]
    ) -> None:
        passes, seconds = self._metrics.passes, self._metrics.pass_seconds.labels(kind)
        while (key := queue.take()) is not None:
            began = self._clock.monotonic()
            outcome = "done"
            try:
                look(key)
            except LeadershipLost:
                outcome = "not the leader"
            except TransientError as error:
                outcome = error.reason
                queue.add_failed(key)
                _LOG.info("%s %s is looked at again: %s", kind, key, error.message)
            except KanisterError as error:
                outcome = error.reason
                queue.add_failed(key)
                _LOG.warning("%s %s is looked at again: %s", kind, key, error.message)
            except Exception:  # noqa: BLE001 # see below
                # One object that nobody can look at must not keep others waiting.
                outcome = "Fault"
                queue.add_failed(key)
                _LOG.exception("Looking at %s %s fell over", kind, key)
            finally:
                queue.done(key)
                passes.labels(kind, outcome).inc()
                seconds.observe(self._clock.monotonic() - began)

    # Collection of what is too many

    def _collect_later(self) -> None:
        Thread(target=self._collect, name="collect", daemon=True).start()

    def _collect(self) -> None:
        try:
            self.collect_surplus()
        except KanisterError as error:
            _LOG.info("ActionSets that are too many stay for now: %s", error.message)
        if not self._is_closed:
            self.alarms.set(_COLLECT_SECONDS, self._collect_later)

    def collect_surplus(self) -> None:
        """Delete what is more than the newest of each Blueprint."""
        newest = self._settings.keep_newest
        if newest is None or not self.store.has_synced:
            return
        items = self.store.items()
        kept = dict(items)
        for key in surplus(kept, newest, parents_in_need(items)):
            self.reconciler.delete(key, kept[key].uid)

    # Blueprints

    def _on_blueprint(
        self, key: ObjectKey, old: _KeptBlueprint | None, new: _KeptBlueprint | None
    ) -> None:
        if old is None and new is not None and self._blueprints.has_synced:
            self.events.post(new.subject, NORMAL, "Added", f"Added blueprint {key.name}")

    @property
    def is_settled(self) -> bool:
        return (
            self.store.has_synced
            and self.queue.is_idle
            and self.chores.is_idle
            and self.reconciler.active_runs == 0
            and all(part.is_settled for part in self._others)
        )

    @property
    def trouble(self) -> str:
        if not self.store.has_synced:
            return self.store.trouble or "has not seen all ActionSets yet"
        troubles = (self.store.trouble, self._blueprints.trouble)
        return next(filter(None, (*troubles, *(part.trouble for part in self._others))), "")

    def close(self) -> None:
        self._is_closed = True
        for part in self._others:
            part.close()
        self.queue.close()
        self.chores.close()
        self.reconciler.abort()
        self.alarms.close()
        self.store.close()
        self._blueprints.close()
        self._namespaces.close()
        self.events.close()


def _age_of(kept: Kept) -> datetime:
    return kept.created_at if isinstance(kept, Live) else kept.ended_at


def _keep_blueprint(obj: KubeObject) -> _KeptBlueprint:
    return _KeptBlueprint(subject_of(obj), obj["metadata"].get("resourceVersion", ""))


__all__: Sequence[str] = [
    "LEASE_NAME",
    "Controller",
    "ControllerSettings",
    "Part",
    "PartMaker",
    "PartTools",
]

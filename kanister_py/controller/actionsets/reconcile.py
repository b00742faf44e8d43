"""What is to be done about an ActionSet? One look at it, and one step.

A pass keeps nothing that the next one needs: what a process holds of a run that is under
way can be found again from the object's status. Users steer a run by its object:

    kanister-py.io/concurrency-key   (annotation or label) one at a time, in order
    kanister-py.io/from              (annotation) the ActionSet whose artifacts these are;
                                     it is not collected while this one lives
    kanister-py.io/retry-of          (annotation) repeat that ActionSet of this namespace:
                                     what it completed is taken over with its outputs,
                                     from `kanister-py.io/retry-from` on everything runs
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from threading import Lock
from typing import Any, Final, NamedTuple

from kanister_py.controller.actionsets.collection import expiry_of, parents_in_need
from kanister_py.controller.actionsets.concurrency import Lines
from kanister_py.controller.actionsets.planner import Planned, Planner
from kanister_py.controller.actionsets.projection import Ended, Kept, Live, keep
from kanister_py.controller.actionsets.reporting import RunTeller, Tellers
from kanister_py.controller.actionsets.status import (
    FINALIZER,
    StatusForm,
    StatusWriter,
    read_status,
)
from kanister_py.controller.machine.events import Subject, subject_of
from kanister_py.controller.machine.logs import fields_of
from kanister_py.controller.machine.queue import WorkQueue
from kanister_py.controller.machine.watch_cache import ObjectKey, Store
from kanister_py.core.actionsets.creation import RETRY_FROM, RETRY_OF
from kanister_py.core.actionsets.outcomes import Begun
from kanister_py.core.actionsets.progress import record_phase
from kanister_py.core.actionsets.status import (
    Condition,
    PhaseError,
    Place,
    State,
    Status,
)
from kanister_py.core.actionsets.transitions import refused_status
from kanister_py.core.errors import (
    ApiError,
    Conflict,
    Fault,
    Forbidden,
    Invalid,
    InvalidDocument,
    KanisterError,
    LeadershipLost,
    NotFound,
    RequestTooLarge,
    TransientError,
)
from kanister_py.core.objects.names import run_key
from kanister_py.core.objects.parts import annotations_of, namespace_of, spec_of
from kanister_py.core.objects.resources import ACTION_SETS, PODS
from kanister_py.executor.alarms import Alarm, Alarms
from kanister_py.executor.phase_context import RUN_LABEL, Surroundings
from kanister_py.executor.run.actions import FunctionSource
from kanister_py.executor.run.run import ActionSetRun, AtWork
from kanister_py.ports.clock import Clock
from kanister_py.ports.cluster import Cluster, KubeObject

_LOG: Final = logging.getLogger(__name__)

WAITING: Final = "Waiting"
_LOOK_AGAIN_SECONDS: Final = 1.0
_PATIENCE_SECONDS: Final = 0.2
_MOST_KEYS_IN_SELECTOR: Final = 40


class Equipment(NamedTuple):
    """What all passes over ActionSets share."""

    cluster: Cluster
    clock: Clock
    form: StatusForm
    store: Store[Kept]
    queue: WorkQueue[ObjectKey]
    chores: WorkQueue[ObjectKey]
    alarms: Alarms
    lines: Lines
    planner: Planner
    functions: FunctionSource
    tellers: Tellers
    surroundings: Callable[[str], Surroundings]
    """What runs of a namespace find around them."""
    check: Callable[[], None]
    """Raises when this process may not act any more."""


@dataclass(slots=True, eq=False, repr=False)
class _Host:
    """Keeps one run going: puts its key in the queue when there is something to do for it."""

    key: ObjectKey
    queue: WorkQueue[ObjectKey]
    alarms: Alarms
    clock: Clock
    alarm: Alarm | None = None
    has_rung: bool = False

    def wake_in(self, seconds: float) -> None:
        before = self.alarm
        if before is not None and before.act is not None:
            if before.due <= self.clock.monotonic() + seconds:
                return
            before.call_off()
        self.alarm = self.alarms.set(seconds, self._ring)

    def _ring(self) -> None:
        self.alarm = None
        self.has_rung = True
        self.queue.add(self.key)

    def on_over(self) -> None:
        if self.alarm is not None:
            self.alarm.call_off()
        self.queue.add(self.key)


@dataclass(slots=True, eq=False, repr=False)
class _Active:
    """A run that is under way in this process."""

    uid: str
    subject: Subject
    run: ActionSetRun
    writer: StatusWriter
    host: _Host
    is_taken_up: bool
    is_suspended: bool
    is_cancelled: bool = False


class ActionSetReconciler:
    """Brings ActionSets to their ends, each by looking at it as often as something changes."""

    kind: Final = "ActionSet"

    def __init__(self, equipment: Equipment) -> None:
        self._equipment = equipment
        self._lock = Lock()
        self._active: dict[ObjectKey, _Active] = {}
        self._ended: dict[ObjectKey, str] = {}
        self._is_draining = False

    # What the watch tells

    def on_change(self, key: ObjectKey, old: Kept | None, new: Kept | None) -> None:
        """Hear that an ActionSet is another than before. Decides only who has to look."""
        lines = self._equipment.lines
        if isinstance(new, Live):
            stands = new.concurrency_key and not (new.is_pending and new.is_suspended)
            if stands:
                lines.stand(key, new.concurrency_key, new.created_at, is_waiting=new.is_pending)
            self._equipment.queue.add(key)
            return
        with self._lock:
            self._ended.pop(key, None)
            is_active = key in self._active
        for follower in lines.leave(key):
            self._equipment.queue.add(follower)
        if is_active:
            self._equipment.queue.add(key)
        if isinstance(new, Ended):
            if new.ttl_seconds is not None or new.has_finalizer:
                self._equipment.chores.add(key)
        elif old is not None:
            self._equipment.tellers.lines.forget(key)

    # A pass

    def reconcile(self, key: ObjectKey) -> None:
        """Look at an ActionSet, and do what is to be done about it now."""
        kept = self._equipment.store.get(key)
        with self._lock:
            active = self._active.get(key)
        if active is not None:
            self._attend(key, active, kept)
        elif isinstance(kept, Live) and not self._is_draining:
            with self._lock:
                has_ended = self._ended.get(key) == kept.uid
            if not has_ended:
                self._begin(key, kept)

    # Runs that are under way

    @property
    def active_runs(self) -> int:
        with self._lock:
            return len(self._active)

    def _attend(self, key: ObjectKey, active: _Active, kept: Kept | None) -> None:
        run = active.run
        if not run.is_done and self._has_news(active, kept):
            with run.at_rest(_PATIENCE_SECONDS) as is_ours:
                if not is_ours:
                    # It writes, or cannot: nobody else should have to wait for that.
                    self._equipment.queue.add_later(key, _LOOK_AGAIN_SECONDS)
                    return
                self._steer(active, kept)
                if active.host.has_rung:
                    active.host.has_rung = False
                    run.ring()
                self._flush(active)
        if run.is_done:
            # Its end can be seen in the cluster before all have been told of it here.
            with run.at_rest(_PATIENCE_SECONDS) as is_ours:
                pass
            if is_ours:
                self._retire(key, active)
            else:
                self._equipment.queue.add_later(key, _LOOK_AGAIN_SECONDS)

    def _has_news(self, active: _Active, kept: Kept | None) -> bool:
        """Say whether there is anything to tell the run; most of what is seen it did itself."""
        wishes = _wishes_of(active, kept)
        return (
            active.host.has_rung
            or active.writer.is_late
            or wishes.is_suspended != active.is_suspended
            or (wishes.is_cancelled and not active.is_cancelled)
        )

    def _steer(self, active: _Active, kept: Kept | None) -> None:
        """Hand on what the object wants by now."""
        run, wishes = active.run, _wishes_of(active, kept)
        try:
            if wishes.is_cancelled and not active.is_cancelled:
                active.is_cancelled = True
                run.cancel(message="The ActionSet was deleted" if wishes.is_deleted else "")
            if wishes.is_suspended != active.is_suspended:
                active.is_suspended = wishes.is_suspended
                if wishes.is_suspended:
                    run.suspend()
                else:
                    run.resume()
        except KanisterError as error:
            _LOG.warning("A run cannot be steered: %s", error.message)

    def _flush(self, active: _Active) -> None:
        try:
            active.writer.flush()
        except KanisterError as error:
            _LOG.warning("The progress of a run cannot be written: %s", error.message)

    def _retire(self, key: ObjectKey, active: _Active) -> None:
        run, equipment = active.run, self._equipment
        if not run.status.is_final:
            self._leave(key, active)
            return
        if active.is_taken_up:
            self._sweep(key, active.uid, run.status)
        active.writer.remove_finalizer()
        with self._lock:
            self._ended[key] = active.uid
            self._active.pop(key, None)
        kept = equipment.store.get(key)
        if not isinstance(kept, Live) or kept.uid != active.uid:
            # The watch has been faster than we are.
            with self._lock:
                self._ended.pop(key, None)
            equipment.queue.add(key)
        for follower in equipment.lines.leave(key):
            equipment.queue.add(follower)
        equipment.queue.forget(key)

    def _leave(self, key: ObjectKey, active: _Active) -> None:
        """Let go of a run that could not go on, to take it up again from what is written."""
        run, queue = active.run, self._equipment.queue
        error = run.error
        if not self._may_act() or self._is_draining:
            with self._lock:
                self._active.pop(key, None)
            return
        if run.is_at_work:
            # The same attempt must not be made twice, not even by one process.
            queue.add_later(key, _LOOK_AGAIN_SECONDS)
            return
        with self._lock:
            self._active.pop(key, None)
        if error is None:
            return
        if isinstance(error.__cause__, Invalid | RequestTooLarge):
            self._end_unwritable(key, active, error)
            return
        seconds = queue.add_failed(key)
        _LOG.warning(
            "ActionSet %s cannot go on, and is looked at again in %g s: %s",
            key,
            seconds,
            error.message,
            extra=fields_of(namespace=key.namespace, actionSet=key.name, reason=error.reason),
        )

    def _end_unwritable(self, key: ObjectKey, active: _Active, error: KanisterError) -> None:
        """End a run whose status the cluster will never take, with as much as it takes."""
        known = active.run.status
        is_too_large = isinstance(error.__cause__, RequestTooLarge)
        reason = "StatusTooLarge" if is_too_large else "StatusRefused"
        bare = refused_status(error.message, reason, self._now())
        refused = bare._replace(actions=self._interrupted(known, error.message, error).actions)
        self._sweep(key, active.uid, known)
        for status in (refused, bare):
            if self._write_end(key, active.writer, status):
                active.writer.remove_finalizer()
                self._equipment.tellers.tell_refused(active.subject, status)
                return

    def _may_act(self) -> bool:
        try:
            self._equipment.check()
        except LeadershipLost:
            return False
        return True

    # Runs that begin here

    def _begin(self, key: ObjectKey, kept: Live) -> None:
        obj = kept.obj
        if not kept.is_pending:
            # Others may have brought it further than our copy says.
            try:
                obj = self._equipment.cluster.get(ACTION_SETS, key.name, namespace=key.namespace)
            except NotFound:
                return
            if obj["metadata"]["uid"] != kept.uid or isinstance(keep(obj), Ended):
                return
        writer = self._writer(obj)
        try:
            planned = self._plan(obj, kept.seen_at)
        except TransientError:
            raise
        except KanisterError as error:
            self._refuse(key, obj, writer, error)
            return
        if not planned.is_taken_up and self._waits(key, kept, writer, planned):
            return
        self._set_out(key, obj, writer, planned)

    def _plan(self, obj: KubeObject, seen_at: float) -> Planned:
        notes = annotations_of(obj)
        try:
            return self._equipment.planner.plan(
                obj, seen_at, str(notes.get(RETRY_OF) or ""), str(notes.get(RETRY_FROM) or "")
            )
        except KanisterError:
            raise
        except Exception as error:
            _LOG.exception("An ActionSet cannot be understood, and we do not say why")
            raise Fault(f"{type(error).__name__}: {error}") from error

    def _writer(self, obj: KubeObject) -> StatusWriter:
        equipment = self._equipment
        key = ObjectKey(namespace_of(obj), obj["metadata"]["name"])
        return StatusWriter(
            equipment.cluster,
            equipment.clock,
            equipment.form,
            obj,
            check=equipment.check,
            when_late=lambda seconds: equipment.queue.add_later(key, seconds),
        )

    def _refuse(
        self, key: ObjectKey, obj: KubeObject, writer: StatusWriter, error: KanisterError
    ) -> None:
        message = error.message
        if isinstance(error, InvalidDocument):
            message = "; ".join(str(each) for each in error.problems)
        refused = refused_status(message, error.reason, self._now(), getattr(error, "action", ""))
        known = self._known_status(obj)
        if known is not None and known.state is State.RUNNING:
            refused = refused._replace(actions=self._interrupted(known, message, error).actions)
            self._sweep(key, obj["metadata"]["uid"], known)
        if self._write_end(key, writer, refused):
            writer.remove_finalizer()
            self._equipment.tellers.tell_refused(subject_of(obj), refused)

    def _known_status(self, obj: KubeObject) -> Status | None:
        try:
            return read_status(obj)
        except KanisterError:
            return None

    def _interrupted(self, status: Status, message: str, error: KanisterError) -> Status:
        """Say how the phases stand of a run that nobody can go on with."""
        for place in status.totals.running:
            phase = status.phase_at(place)
            failed = phase._replace(
                state=State.FAILED,
                error=PhaseError(message, error.reason),
                completion_time=self._now(),
            )
            status = record_phase(status, place, failed)
        return status

    def _write_end(self, key: ObjectKey, writer: StatusWriter, status: Status) -> bool:
        try:
            writer.put(status)
        except KanisterError as error:
            seconds = self._equipment.queue.add_failed(key)
            _LOG.warning(
                "The end of ActionSet %s cannot be written, next try in %g s: %s",
                key,
                seconds,
                error.message,
            )
            return False
        uid = self._equipment.store.get(key)
        with self._lock:
            if isinstance(uid, Live):
                self._ended[key] = uid.uid
        for follower in self._equipment.lines.leave(key):
            self._equipment.queue.add(follower)
        return True

    # Waiting for others

    def _waits(self, key: ObjectKey, kept: Live, writer: StatusWriter, planned: Planned) -> bool:
        """Say whether an ActionSet has to wait for another one, and tell for which."""
        if not kept.concurrency_key or kept.is_deleted:
            return False
        if kept.is_suspended:
            # It holds nobody up, and is put in line when it goes on.
            return False
        equipment = self._equipment
        if not equipment.store.has_synced:
            equipment.queue.add_later(key, _LOOK_AGAIN_SECONDS / 4)
            return True
        before = equipment.lines.before(key)
        if before is None:
            equipment.lines.stand(key, kept.concurrency_key, kept.created_at, is_waiting=False)
            return False
        told = f"Waits for {before} (concurrency key {kept.concurrency_key})"
        condition = planned.status.condition(WAITING)
        if condition is None or condition.message != told:
            waiting = Condition(WAITING, True, "ConcurrencyKey", told, self._now())
            others = _without(planned.status, WAITING).conditions
            writer.put(planned.status._replace(conditions=(*others, waiting)))
        return True

    def _set_out(
        self,
        key: ObjectKey,
        obj: KubeObject,
        writer: StatusWriter,
        planned: Planned,
    ) -> None:
        equipment = self._equipment
        metadata = obj["metadata"]
        course, status = planned.course, planned.status
        is_deleted = bool(metadata.get("deletionTimestamp"))
        if is_deleted:
            spec = course.actionset.spec._replace(cancel=True)
            course = course._replace(actionset=course.actionset._replace(spec=spec))
        if not planned.is_taken_up:
            status = _without(status, WAITING)
        writer.needs_finalizer = lambda outcome: (
            isinstance(outcome, Begun) and equipment.planner.leaves_traces(course, outcome)
        )
        host = _Host(key, equipment.queue, equipment.alarms, equipment.clock)
        teller = RunTeller(
            equipment.tellers,
            key,
            subject_of(obj),
            course,
            planned.blueprints,
            lambda: run.status,
        )
        run = ActionSetRun(
            course,
            equipment.functions,
            equipment.surroundings(key.namespace),
            journal=writer,
            status=status,
            onlooker=teller,
            owner=_owner_of(obj),
        )
        spec_now = course.actionset.spec
        active = _Active(
            metadata["uid"],
            subject_of(obj),
            run,
            writer,
            host,
            planned.is_taken_up,
            is_suspended=spec_now.suspend,
            is_cancelled=spec_now.cancel,
        )
        with self._lock:
            self._active[key] = active
        run.begin(host)

    # What is left behind

    def _sweep(self, key: ObjectKey, uid: str, status: Status) -> None:
        """Delete the pods that attempts of a run have left, wherever they are."""
        keys = sorted(_run_keys(uid, status))
        namespaces = {key.namespace}
        for action in status.actions:
            namespaces.add(str(action.object.get("namespace") or key.namespace))
        cluster = self._equipment.cluster
        for at in range(0, len(keys), _MOST_KEYS_IN_SELECTOR):
            some = ",".join(keys[at : at + _MOST_KEYS_IN_SELECTOR])
            selector = f"createdBy=kanister,{RUN_LABEL} in ({some})"
            for pod in _listed(cluster, selector, sorted(namespaces)):
                found = pod["metadata"]
                if found.get("deletionTimestamp"):
                    continue
                try:
                    cluster.delete(
                        PODS,
                        found["name"],
                        namespace=found["namespace"],
                        uid=found["uid"],
                        grace_period_seconds=0,
                    )
                except (NotFound, Conflict):
                    continue
                except ApiError as error:
                    _LOG.warning(
                        "Pod %s/%s of ActionSet %s is left behind, delete it by hand: %s",
                        found["namespace"],
                        found["name"],
                        key,
                        error.message,
                    )

    # Those that ended

    def tidy(self, key: ObjectKey) -> None:
        """Look at an ActionSet that ended: finish its cleaning up, and delete it in time."""
        kept = self._equipment.store.get(key)
        with self._lock:
            is_active = key in self._active
        if not isinstance(kept, Ended):
            return
        if is_active:
            self._equipment.chores.add_later(key, _LOOK_AGAIN_SECONDS)
            return
        if kept.has_finalizer:
            self._finish_cleanup(key, kept)
        if not kept.is_deleted:
            self._collect(key, kept)

    def _finish_cleanup(self, key: ObjectKey, kept: Ended) -> None:
        """Do what a process left undone that died after it had written how a run ended."""
        try:
            obj = self._equipment.cluster.get(ACTION_SETS, key.name, namespace=key.namespace)
        except NotFound:
            return
        if obj["metadata"]["uid"] != kept.uid or FINALIZER not in (
            obj["metadata"].get("finalizers") or ()
        ):
            return
        status = self._known_status(obj)
        if status is not None:
            self._sweep(key, kept.uid, status)
        self._writer(obj).remove_finalizer()

    def _collect(self, key: ObjectKey, kept: Ended) -> None:
        expiry = expiry_of(kept)
        if expiry is None:
            return
        left = (expiry - self._now()).total_seconds()
        if left > 0:
            self._equipment.chores.add_later(key, left)
        elif key in parents_in_need(self._equipment.store.items()):
            self._equipment.chores.add_later(key, 30.0)
        else:
            self.delete(key, kept.uid)

    def delete(self, key: ObjectKey, uid: str) -> None:
        """Delete an ActionSet that nobody needs any more."""
        try:
            self._equipment.cluster.delete(ACTION_SETS, key.name, namespace=key.namespace, uid=uid)
        except (NotFound, Conflict):
            return

    # The end of the process

    def drain(self) -> None:
        """Begin nothing new, and leave what can be taken up by somebody else."""
        self._is_draining = True
        with self._lock:
            runs = [each.run for each in self._active.values()]
        for run in runs:
            with run.at_rest(_PATIENCE_SECONDS) as is_ours:
                if is_ours:
                    run.drain()

    @property
    def at_work(self) -> AtWork:
        """Say how much is at work at this moment, over all runs."""
        with self._lock:
            runs = [each.run for each in self._active.values()]
        found = [run.at_work for run in runs]
        return AtWork(sum(each.phases for each in found), sum(each.untouchable for each in found))

    @property
    def has_untold_ends(self) -> bool:
        """Whether runs have come to their end that is still being told of."""
        with self._lock:
            return any(each.run.status.is_final for each in self._active.values())

    def abort(self) -> None:
        """Leave everything as it is."""
        self._is_draining = True
        with self._lock:
            runs = [each.run for each in self._active.values()]
        for run in runs:
            with run.at_rest(_PATIENCE_SECONDS) as is_ours:
                if is_ours:
                    run.abort()

    def _now(self) -> datetime:
        return self._equipment.clock.now()


class _Wishes(NamedTuple):
    """What an object wants of its run."""

    is_cancelled: bool
    is_suspended: bool
    is_deleted: bool = False


def _wishes_of(active: _Active, kept: Kept | None) -> _Wishes:
    if kept is None or kept.uid != active.uid or kept.is_deleted:
        return _Wishes(True, active.is_suspended, is_deleted=True)
    if not isinstance(kept, Live):
        return _Wishes(active.is_cancelled, active.is_suspended)
    spec = spec_of(kept.obj)
    return _Wishes(spec.get("cancel") is True, spec.get("suspend") is True)


def _owner_of(obj: KubeObject) -> dict[str, Any]:
    metadata = obj["metadata"]
    return {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "name": metadata["name"],
        "uid": metadata["uid"],
        "namespace": metadata.get("namespace", ""),
    }


def _without(status: Status, kind: str) -> Status:
    return status._replace(
        conditions=tuple(each for each in status.conditions if each.type != kind)
    )


def _run_keys(uid: str, status: Status) -> Iterator[str]:
    for at, action in enumerate(status.actions):
        phases = [(Place(at, index), phase) for index, phase in enumerate(action.phases)]
        if action.deferred is not None:
            phases.append((Place(at, -1), action.deferred))
        for place, phase in phases:
            for attempt in range(1, phase.attempt + 1):
                yield run_key(uid, at, place.phase_index, attempt)


def _listed(cluster: Cluster, selector: str, namespaces: list[str]) -> Iterator[KubeObject]:
    """List pods everywhere, or, where that is not allowed, where they are likely."""
    try:
        yield from cluster.list(PODS, label_selector=selector).items
    except Forbidden:
        for namespace in namespaces:
            try:
                yield from cluster.list(PODS, namespace=namespace, label_selector=selector).items
            except ApiError as error:
                _LOG.warning("Pods in %s cannot be looked for: %s", namespace, error.message)
    except NotFound:
        return

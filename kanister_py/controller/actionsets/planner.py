"""Planning runs from ActionSets and their Blueprints."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from threading import Condition
from typing import Final, NamedTuple

from kanister_py.controller.machine.events import Subject, subject_of
from kanister_py.core.actionsets.course import Course, course_of, first_status
from kanister_py.core.actionsets.creation import nothing_to_retry, why_not_retried
from kanister_py.core.actionsets.model import ActionSet, parse_actionset
from kanister_py.core.actionsets.outcomes import Begun
from kanister_py.core.actionsets.status import ActionStatus, State, Status
from kanister_py.core.actionsets.stored_status import read_status
from kanister_py.core.actionsets.transitions import status_for_retry
from kanister_py.core.blueprints.model import Blueprint, parse_blueprint
from kanister_py.core.errors import (
    InvalidDocument,
    KanisterError,
    NotFound,
    UsageError,
)
from kanister_py.core.kube.objects import LocatedObject
from kanister_py.core.kube.resources import ACTION_SETS, BLUEPRINTS
from kanister_py.core.yaml.documents import Document
from kanister_py.executor.function_source import FunctionSource
from kanister_py.executor.watch_cache import ObjectKey, key_of
from kanister_py.ports.clock import Clock
from kanister_py.ports.cluster import Cluster, KubeObject
from kanister_py.ports.function import OnRestart

_MAX_PARSED: Final = 256
_FRESH_SECONDS: Final = 1.0
"""How long after its start a read of a Blueprint is shared with further runs."""
_PACE_SECONDS: Final = 0.05
"""Shortest time between two reads of a Blueprint. Runs that start in between share one read."""
_MAX_AWAITED: Final = 2
"""Number of reads by other threads to wait for. The current one may be too old, the next is not."""


class Planned(NamedTuple):
    """Plan and status of a run that can start or be resumed.

    `blueprints` are the event subjects of the Blueprints of its actions.
    """

    course: Course
    status: Status
    blueprints: tuple[Subject, ...]
    is_resumed: bool

    @property
    def has_begun(self) -> bool:
        return self.status.state is not State.PENDING


class _Parsed(NamedTuple):
    version: tuple[str, str]
    blueprint: Blueprint
    subject: Subject
    read_at: float


class Planner:
    """Planner of runs. Reads the Blueprints from the cluster when a run starts.

    Runs that start together share one read of a Blueprint. The read begins after their
    ActionSets were seen, so that no run gets a Blueprint older than its ActionSet. Thread-safe.
    """

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        functions: FunctionSource,
        *,
        allows_other_namespaces: bool = False,
        impersonates: bool = False,
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._functions = functions
        self._allows_other_namespaces = allows_other_namespaces
        self._impersonates = impersonates
        self._changed = Condition()
        self._parsed: OrderedDict[ObjectKey, _Parsed] = OrderedDict()
        self._reading: dict[ObjectKey, object] = {}

    def plan(
        self, obj: KubeObject, seen_at: float, retry_of: str = "", retry_from: str = ""
    ) -> Planned:
        """Return the plan of an ActionSet. Raises `KanisterError` if it or a Blueprint is invalid.

        Blueprints are read after the monotonic time `seen_at`, when the ActionSet was seen.
        """
        document = Document.of(obj, f"ActionSet {key_of(obj)}")
        if not isinstance(obj.get("spec"), dict):
            raise InvalidDocument([document.problem(("spec",), "Is required")])
        status = read_status(obj)
        if status is not None and status.state is State.RUNNING and not _is_ours(status):
            raise UsageError(
                "The run was started by another controller, and its status does not say how far "
                "it came; create a new ActionSet",
                reason="Interrupted",
            )
        actionset = parse_actionset(document)
        if actionset.spec.service_account_name and not self._impersonates:
            raise UsageError(
                "spec.serviceAccountName is set, and this controller acts under its own account "
                "only; start it with --impersonate-service-accounts",
                reason="ImpersonationDisabled",
            )
        blueprints = self._blueprints_of(actionset, seen_at)
        course = course_of(
            actionset, {name: parsed.blueprint for name, parsed in blueprints.items()}
        )
        subjects = tuple(
            [blueprints[action.blueprint].subject for action in actionset.spec.actions]
        )
        if status is None or status.state is State.PENDING:
            fresh = first_status(course)
            if retry_of:
                fresh = self._retried(course, fresh, retry_of, retry_from)
            if status is not None:
                fresh = fresh._replace(conditions=status.conditions)
            return Planned(course, fresh, subjects, is_resumed=False)
        _refuse_if_changed(course, status)
        return Planned(course, status, subjects, is_resumed=True)

    def _blueprints_of(self, actionset: ActionSet, seen_at: float) -> dict[str, _Parsed]:
        blueprints: dict[str, _Parsed] = {}
        for index, action in enumerate(actionset.spec.actions):
            if action.blueprint not in blueprints:
                path = f"spec.actions[{index}].blueprint"
                key = self._key_of(path, action.blueprint, actionset.metadata.namespace)
                blueprints[action.blueprint] = self._read(path, key, seen_at)
        return blueprints

    def _key_of(self, path: str, name: str, own: str) -> ObjectKey:
        if not name:
            raise _no_blueprint(path, name, "", "Is required")
        namespace, slash, blueprint = name.partition("/")
        if not slash:
            return ObjectKey(own, name)
        if namespace != own and not self._allows_other_namespaces:
            raise _no_blueprint(
                path,
                blueprint,
                namespace,
                "Blueprints of other namespaces are not allowed here; the controller allows them "
                "with --allow-cross-namespace-blueprints",
            )
        return ObjectKey(namespace, blueprint)

    def _read(self, path: str, key: ObjectKey, seen_at: float) -> _Parsed:
        parsed = self._await_turn(key, seen_at)
        if parsed is not None:
            return parsed
        read_at = self._clock.monotonic()
        try:
            return self._parse(
                key, self._cluster.get(BLUEPRINTS, key.name, namespace=key.namespace), read_at
            )
        except NotFound as error:
            raise _no_blueprint(path, key.name, key.namespace, "Not found") from error
        finally:
            with self._changed:
                self._reading.pop(key, None)
                self._changed.notify_all()

    def _await_turn(self, key: ObjectKey, seen_at: float) -> _Parsed | None:
        """Return a Blueprint that was read recently enough, or None if the caller has to read it.

        A failed read has no result to share, so a thread waits for at most two reads by others.
        """
        came_at, awaited = self._clock.monotonic(), 0
        with self._changed:
            while True:
                parsed = self._parsed.get(key)
                if parsed is not None and parsed.read_at > max(seen_at, came_at - _FRESH_SECONDS):
                    return parsed
                now = self._clock.monotonic()
                pause = parsed.read_at + _PACE_SECONDS - now if parsed is not None else 0.0
                current = self._reading.get(key)
                if current is not None and awaited < _MAX_AWAITED:
                    while self._reading.get(key) is current:
                        self._clock.wait(self._changed)
                    awaited += 1
                elif current is None and pause > 0:
                    self._clock.wait(self._changed, pause)
                else:
                    self._reading[key] = object()
                    return None

    def _parse(self, key: ObjectKey, obj: KubeObject, read_at: float) -> _Parsed:
        metadata = obj["metadata"]
        version = (metadata["uid"], metadata["resourceVersion"])
        before = self._parsed.get(key)
        if before is not None and before.version == version:
            parsed = before._replace(read_at=read_at)
        else:
            document = Document.of(obj, f"Blueprint {key}")
            blueprint = parse_blueprint(LocatedObject(document, (), "Blueprint", obj)).blueprint
            parsed = _Parsed(version, blueprint, subject_of(obj), read_at)
        with self._changed:
            self._parsed[key] = parsed
            self._parsed.move_to_end(key)
            if len(self._parsed) > _MAX_PARSED:
                self._parsed.popitem(last=False)
        return parsed

    def _retried(self, course: Course, fresh: Status, name: str, from_phase: str) -> Status:
        namespace = course.actionset.metadata.namespace
        old = read_status(self._cluster.get(ACTION_SETS, name, namespace=namespace))
        if old is None:
            raise nothing_to_retry(name, from_phase, "it has not begun")
        if not _have_same_phases(old.actions, fresh.actions):
            why = "its Blueprints have other phases now"
            raise nothing_to_retry(name, from_phase, why)
        began = status_for_retry(course.rules, old, fresh, from_phase)
        if began is None:
            raise nothing_to_retry(name, from_phase, why_not_retried(old, from_phase))
        return began

    def needs_cleanup(self, course: Course, begun: Begun) -> bool:
        """Return whether an ActionSet that is deleted during its run needs cleanup."""
        for action, versions in zip(course.actions, begun.versions, strict=True):
            if action.action.defer_phase is not None:
                return True
            for phase, version in zip(action.action.phases, versions, strict=True):
                try:
                    choice = self._functions.choose_again(phase.func, version)
                    code = self._functions.load(choice.chosen)
                except KanisterError:
                    # The run itself reports functions that cannot be loaded, with their phases.
                    continue
                if code.on_restart is OnRestart.ADOPT:
                    return True
        return False


def _is_ours(status: Status) -> bool:
    """Return whether the status of a running ActionSet has the fields that this project writes."""
    if not status.actions:
        return False
    for action in status.actions:
        for phase in action.every_phase():
            if phase.state is State.RUNNING and not phase.attempt:
                return False
    # A run that was suspended before its first action started has only the versions.
    return any(
        action.start_time is not None or any(phase.func_version for phase in action.every_phase())
        for action in status.actions
    )


def _refuse_if_changed(course: Course, status: Status) -> None:
    """Raise `UsageError` if the Blueprint has other phases than when the run started."""
    if len(status.actions) != len(course.actions):
        raise _blueprint_changed("(all)", "(several)")
    for action, recorded in zip(course.actions, status.actions, strict=True):
        fresh = action.action
        names = [phase.name for phase in fresh.phases]
        deferred = fresh.defer_phase.name if fresh.defer_phase is not None else None
        was = recorded.deferred.name if recorded.deferred is not None else None
        if names != [phase.name for phase in recorded.phases] or deferred != was:
            raise _blueprint_changed(action.spec.name, action.spec.blueprint)


def _blueprint_changed(action: str, blueprint: str) -> UsageError:
    return UsageError(
        f"Action {action} cannot be resumed: Blueprint {blueprint} has other phases now",
        reason="BlueprintChanged",
    )


def _have_same_phases(old: Sequence[ActionStatus], new: Sequence[ActionStatus]) -> bool:
    def shape(actions: Sequence[ActionStatus]) -> list[tuple[str, list[str]]]:
        return [(action.name, [phase.name for phase in action.phases]) for action in actions]

    return shape(old) == shape(new)


def _no_blueprint(path: str, name: str, namespace: str, why: str) -> UsageError:
    where = f" in namespace {namespace}" if namespace else ""
    message = f"{path}: Blueprint {name or '(none)'}{where}: {why}"
    return UsageError(message, reason="BlueprintNotFound")

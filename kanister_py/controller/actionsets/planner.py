"""Plans of ActionSets: each brought together with its Blueprints, or why that cannot be."""

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

_MOST_PARSED: Final = 256
_FRESH_SECONDS: Final = 1.0
"""How long what was read of a Blueprint counts for others that were there before it was read."""
_PACE_SECONDS: Final = 0.05
"""How long after one look at a Blueprint the next is taken; those that begin meanwhile share it."""
_MOST_AWAITED: Final = 2
"""For how many looks of others is waited: the one under way, which may be too old, and the next."""


class Planned(NamedTuple):
    """An ActionSet with all it needs to begin, or to go on where it stands.

    `blueprints` are the Blueprints of its actions, as events name them.
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
    asked_at: float


class Planner:
    """Planner of runs, from ActionSets and from their Blueprints as they are when a run begins.

    Runs that begin together share one look at it: one that was taken after each of their
    ActionSets had been seen, so that nobody gets a Blueprint older than their wish.
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
        self._asking: dict[ObjectKey, object] = {}

    def plan(
        self, obj: KubeObject, seen_at: float, retry_of: str = "", retry_from: str = ""
    ) -> Planned:
        """Bring an ActionSet together with its Blueprints, or raise what is wrong with either.

        It was seen at `seen_at`; of its Blueprints nothing counts that was read before.
        """
        document = Document.of(obj, f"ActionSet {key_of(obj)}")
        if not isinstance(obj.get("spec"), dict):
            raise InvalidDocument([document.problem(("spec",), "Is required")])
        status = read_status(obj)
        if status is not None and status.state is State.RUNNING and not _is_ours(status):
            raise UsageError(
                "The run was under way in another controller, which is gone and has not left "
                "behind how far it was; create the ActionSet anew",
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
        asked_at = self._clock.monotonic()
        try:
            return self._keep(
                key, self._cluster.get(BLUEPRINTS, key.name, namespace=key.namespace), asked_at
            )
        except NotFound as error:
            raise _no_blueprint(path, key.name, key.namespace, "There is none") from error
        finally:
            with self._changed:
                self._asking.pop(key, None)
                self._changed.notify_all()

    def _await_turn(self, key: ObjectKey, seen_at: float) -> _Parsed | None:
        """Give a look that was taken since; None where this one is to take the next.

        A look that fails is of no use to others: after two of them nobody waits for one more.
        """
        came_at, awaited = self._clock.monotonic(), 0
        with self._changed:
            while True:
                parsed = self._parsed.get(key)
                if parsed is not None and parsed.asked_at > max(seen_at, came_at - _FRESH_SECONDS):
                    return parsed
                now = self._clock.monotonic()
                pause = parsed.asked_at + _PACE_SECONDS - now if parsed is not None else 0.0
                under_way = self._asking.get(key)
                if under_way is not None and awaited < _MOST_AWAITED:
                    while self._asking.get(key) is under_way:
                        self._clock.wait(self._changed)
                    awaited += 1
                elif under_way is None and pause > 0:
                    self._clock.wait(self._changed, pause)
                else:
                    self._asking[key] = object()
                    return None

    def _keep(self, key: ObjectKey, obj: KubeObject, asked_at: float) -> _Parsed:
        metadata = obj["metadata"]
        version = (metadata["uid"], metadata["resourceVersion"])
        before = self._parsed.get(key)
        if before is not None and before.version == version:
            parsed = before._replace(asked_at=asked_at)
        else:
            document = Document.of(obj, f"Blueprint {key}")
            blueprint = parse_blueprint(LocatedObject(document, (), "Blueprint", obj)).blueprint
            parsed = _Parsed(version, blueprint, subject_of(obj), asked_at)
        with self._changed:
            self._parsed[key] = parsed
            self._parsed.move_to_end(key)
            if len(self._parsed) > _MOST_PARSED:
                self._parsed.popitem(last=False)
        return parsed

    def _retried(self, course: Course, fresh: Status, name: str, from_phase: str) -> Status:
        namespace = course.actionset.metadata.namespace
        old = read_status(self._cluster.get(ACTION_SETS, name, namespace=namespace))
        if old is None:
            raise nothing_to_retry(name, from_phase, "it has not begun")
        if not _have_same_phases(old.actions, fresh.actions):
            why = "its phases are not those of its Blueprints any more"
            raise nothing_to_retry(name, from_phase, why)
        began = status_for_retry(course.rules, old, fresh, from_phase)
        if began is None:
            raise nothing_to_retry(name, from_phase, why_not_retried(old, from_phase))
        return began

    def leaves_traces(self, course: Course, begun: Begun) -> bool:
        """Say whether something is to be cleaned up should it be deleted in mid-run."""
        for action, versions in zip(course.actions, begun.versions, strict=True):
            if action.action.defer_phase is not None:
                return True
            for phase, version in zip(action.action.phases, versions, strict=True):
                try:
                    choice = self._functions.choose_again(phase.func, version)
                    code = self._functions.load(choice.chosen)
                except KanisterError:
                    # What cannot be loaded is refused by the run itself, with its place.
                    continue
                if code.on_restart is OnRestart.ADOPT:
                    return True
        return False


def _is_ours(status: Status) -> bool:
    """Say whether a run that is under way left behind how far it is."""
    if not status.actions:
        return False
    for action in status.actions:
        for phase in action.every_phase():
            if phase.state is State.RUNNING and not phase.attempt:
                return False
    # One that was suspended before it could be launched has its versions, and nothing else.
    return any(
        action.start_time is not None or any(phase.func_version for phase in action.every_phase())
        for action in status.actions
    )


def _refuse_if_changed(course: Course, status: Status) -> None:
    """Refuse to go on with a Blueprint that is not the one a run began with."""
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
        f"Action {action} was under way, and Blueprint {blueprint} has other phases now: "
        "it cannot be taken up",
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

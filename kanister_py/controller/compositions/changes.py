"""Changes of watched objects: the tasks that each of them adds to the work queue."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from kanister_py.controller.compositions.composition_index import CompositionIndex, revision_facts
from kanister_py.controller.compositions.composition_users import CompositionUsers
from kanister_py.controller.compositions.dependency_tracker import DependencyTracker
from kanister_py.controller.compositions.pipelines import ComposedWithStatus
from kanister_py.controller.compositions.served_kinds import Served, ServedKinds
from kanister_py.controller.compositions.tasks import Role, Task
from kanister_py.controller.functions.revision_registry import FunctionRevisionRegistry
from kanister_py.controller.functions.settings import CompositionSettings
from kanister_py.controller.machine.breakers import Breakers
from kanister_py.controller.machine.work_loop import WorkQueue
from kanister_py.core.compositions.model import called_functions
from kanister_py.core.kube.parts import name_of, spec_of, status_of
from kanister_py.core.kube.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    GroupVersionResource,
)
from kanister_py.core.registry.entries import DesiredState, FunctionRevision
from kanister_py.core.revisions.functions import revision_of
from kanister_py.core.revisions.kinds import (
    COMPOSITION_REVISIONS,
    COMPOSITIONS,
    DEFINITIONS,
    ENDPOINT_SLICES,
    FUNCTION_REVISIONS,
    FUNCTIONS,
)
from kanister_py.executor.object_cache import ObjectCache
from kanister_py.executor.watch_cache import ObjectKey, key_of
from kanister_py.ports.cluster import KubeObject

_Maybe: TypeAlias = KubeObject | None
_OnChange: TypeAlias = Callable[[ObjectKey, _Maybe, _Maybe], None]

_PIPELINE_INPUTS: Final = frozenset({COMPOSITIONS, COMPOSITION_REVISIONS, FUNCTION_REVISIONS})
_NO_REVISION: Final = FunctionRevision("", "", 0, desired_state=DesiredState.INACTIVE)


class KindChanges:
    """Changes of definitions, and of the composite resources and claims of their kinds."""

    def __init__(self, cache: ObjectCache, kinds: ServedKinds, queue: WorkQueue[Task]) -> None:
        self._cache = cache
        self._kinds = kinds
        self._queue = queue

    def on_definition(self, key: ObjectKey, _old: _Maybe, _new: _Maybe) -> None:
        self._queue.add(Task(Role.DEFINITION, DEFINITIONS, key))

    def on_crd(self, key: ObjectKey, _old: _Maybe, _new: _Maybe) -> None:
        """Enqueue the definition of a CustomResourceDefinition."""
        is_defined = self._cache.get_cached(DEFINITIONS, key) is not None
        if is_defined or self._kinds.is_defined_by(key.name):
            self._queue.add(Task(Role.DEFINITION, DEFINITIONS, key))

    def on_instance(
        self, resource: GroupVersionResource, key: ObjectKey, old: _Maybe, new: _Maybe
    ) -> None:
        """Enqueue a composite resource or claim, if `resource` is the kind of one."""
        served = self._kinds.of(resource)
        if served is None:
            return
        if resource != served.resource:
            if _is_changed_beyond_status(old, new):
                self._queue.add(Task(Role.CLAIM, resource, key))
            return
        # A write by its own reconcile needs no other one. A composed resource of the same kind
        # does need one after a write by its owner's reconcile.
        is_own_write = new is not None and self._cache.is_own_write(resource, new, in_own_pass=True)
        if not is_own_write and _is_changed_beyond_status(old, new):
            self._queue.add(Task(Role.COMPOSITE, resource, key))
        self._enqueue_claim(served, new or old)

    def _enqueue_claim(self, served: Served, composite: _Maybe) -> None:
        """Enqueue the claim that a composite resource is bound to, if there is one."""
        claim = spec_of(composite or {}).get("claimRef") or {}
        if served.claim_resource is not None and claim.get("name"):
            key = ObjectKey(str(claim.get("namespace") or ""), str(claim["name"]))
            self._queue.add(Task(Role.CLAIM, served.claim_resource, key))


class CompositionChanges:
    """Changes of Compositions and their revisions."""

    def __init__(
        self,
        cache: ObjectCache,
        compositions: CompositionIndex,
        composed_with: ComposedWithStatus,
        users: CompositionUsers,
        queue: WorkQueue[Task],
        *,
        uses_revisions: bool,
    ) -> None:
        self._cache = cache
        self._compositions = compositions
        self._composed_with = composed_with
        self._users = users
        self._queue = queue
        self._uses_revisions = uses_revisions

    def on_composition(self, key: ObjectKey, old: _Maybe, new: _Maybe) -> None:
        if new is None:
            self._compositions.forget_composition(key.name)
        if not _is_changed_beyond_status(old, new):
            return
        if self._uses_revisions:
            self._queue.add(Task(Role.COMPOSITION, COMPOSITIONS, key))
        else:
            self._users.enqueue_users(key.name)

    def on_revision(self, _key: ObjectKey, old: _Maybe, new: _Maybe) -> None:
        facts = self._compositions.update_revision(old, new)
        if new is None:
            self._composed_with.forget(facts.name)
            return
        if not self._cache.is_own_write(COMPOSITION_REVISIONS, new):
            old_conditions = status_of(old or {}).get("conditions")
            are_conditions_equal = old_conditions == status_of(new).get("conditions")
            if not are_conditions_equal or _is_changed_beyond_status(old, new):
                self._queue.add(_validation_of(new))
        if spec_of(old or {}).get("revision") != spec_of(new).get("revision"):
            self._users.enqueue_followers(facts)


class FunctionChanges:
    """Changes of Functions, their revisions, and the Deployments and endpoints that run them."""

    def __init__(
        self,
        cache: ObjectCache,
        functions: FunctionRevisionRegistry,
        users: CompositionUsers,
        queue: WorkQueue[Task],
        breakers: Breakers[Task],
        settings: CompositionSettings,
    ) -> None:
        self._cache = cache
        self._functions = functions
        self._users = users
        self._queue = queue
        self._breakers = breakers
        self._settings = settings

    def on_function(self, key: ObjectKey, old: _Maybe, new: _Maybe) -> None:
        if _is_changed_beyond_status(old, new):
            self._queue.add(Task(Role.FUNCTION, FUNCTIONS, key))

    def on_endpoints(self, _key: ObjectKey, old: _Maybe, new: _Maybe) -> None:
        service = self._functions.update_endpoints(new or old or {})
        if service:
            self._enqueue_runtime(service)

    def on_deployment(self, key: ObjectKey, _old: _Maybe, _new: _Maybe) -> None:
        # The Deployment of a FunctionRevision has its name.
        revision = ObjectKey("", key.name)
        is_in_home = key.namespace == self._settings.namespace
        if is_in_home and self._cache.get_cached(FUNCTION_REVISIONS, revision) is not None:
            self._enqueue_runtime(key.name)

    def on_revision(self, key: ObjectKey, old: _Maybe, new: _Maybe) -> None:
        self._functions.update_revisions()
        before = revision_of(old) if old is not None else _NO_REVISION
        after = revision_of(new) if new is not None else _NO_REVISION
        function = after.function or before.function
        if _without_health(before) != _without_health(after) and self._settings.uses_revisions:
            for obj in self._cache.list_cached(COMPOSITION_REVISIONS):
                if function in called_functions(spec_of(obj)):
                    self._queue.add(_validation_of(obj))
        has_new_capabilities = before.capabilities != after.capabilities
        if before.is_routable != after.is_routable or (after.is_routable and has_new_capabilities):
            self._breakers.forget(function, key.name)
            self._enqueue_users(function)
        # Installing and running a package does not depend on its capabilities.
        is_same = before._replace(capabilities=()) == after._replace(capabilities=())
        if is_same and not _is_changed_beyond_status(old, new):
            return
        if self._settings.runs_functions:
            self._enqueue_runtime(key.name)
            if function:
                self._queue.add(Task(Role.FUNCTION, FUNCTIONS, ObjectKey("", function)))

    def _enqueue_users(self, function: str) -> None:
        """Enqueue everything composed with a function, which may now use another revision."""
        using = {
            name_of(obj)
            for obj in self._cache.list_cached(COMPOSITIONS)
            if function in called_functions(spec_of(obj))
        }
        if self._settings.uses_revisions:
            # A composite resource may use a revision that differs from its Composition.
            using |= {
                revision_facts(obj).composition
                for obj in self._cache.list_cached(COMPOSITION_REVISIONS)
                if function in called_functions(spec_of(obj))
            }
        for composition in sorted(using):
            self._users.enqueue_users(composition)

    def _enqueue_runtime(self, revision: str) -> None:
        self._queue.add(Task(Role.REVISION, FUNCTION_REVISIONS, ObjectKey("", revision)))


class ChangeDispatcher:
    """Dispatcher of watch events: calls the class for the kind, and enqueues dependents."""

    def __init__(
        self,
        kinds: KindChanges,
        compositions: CompositionChanges,
        functions: FunctionChanges,
        users: CompositionUsers,
        dependencies: DependencyTracker,
    ) -> None:
        self._on_instance = kinds.on_instance
        self._users = users
        self._dependencies = dependencies
        self._by_resource: Mapping[GroupVersionResource, _OnChange] = {
            DEFINITIONS: kinds.on_definition,
            CUSTOM_RESOURCE_DEFINITIONS: kinds.on_crd,
            COMPOSITIONS: compositions.on_composition,
            COMPOSITION_REVISIONS: compositions.on_revision,
            FUNCTIONS: functions.on_function,
            FUNCTION_REVISIONS: functions.on_revision,
            ENDPOINT_SLICES: functions.on_endpoints,
            DEPLOYMENTS: functions.on_deployment,
        }

    def dispatch(
        self, resource: GroupVersionResource, key: ObjectKey, old: _Maybe, new: _Maybe
    ) -> None:
        """Process one change; `old` is None for an added object, `new` for a deleted one."""
        on_change = self._by_resource.get(resource)
        if on_change is not None:
            on_change(key, old, new)
        else:
            self._on_instance(resource, key, old, new)
        if resource in _PIPELINE_INPUTS and _changes_pipelines(resource, old, new):
            self._users.count_change()
        self._dependencies.enqueue_dependents(resource, key, old, new)


def _validation_of(composition_revision: KubeObject) -> Task:
    return Task(Role.COMPOSITION_REVISION, COMPOSITION_REVISIONS, key_of(composition_revision))


def _changes_pipelines(resource: GroupVersionResource, old: _Maybe, new: _Maybe) -> bool:
    """Return whether a reconcile that read the old object may be out of date."""
    if old is None or new is None or _is_changed_beyond_status(old, new):
        return True
    # Health and capabilities of a FunctionRevision are in its status.
    return resource == FUNCTION_REVISIONS and revision_of(old) != revision_of(new)


def _without_health(revision: FunctionRevision) -> FunctionRevision:
    return revision._replace(is_healthy=False, endpoint="")


def _is_changed_beyond_status(old: _Maybe, new: _Maybe) -> bool:
    """Return whether anything but the status of an object has changed."""
    if old is None or new is None:
        return True
    keys = ("generation", "labels", "annotations", "deletionTimestamp", "finalizers")
    before, after = old["metadata"], new["metadata"]
    if any(before.get(key) != after.get(key) for key in keys):
        return True
    return bool(old.get("spec") != new.get("spec"))

"""Changes of watched objects: which tasks each of them asks for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from kanister_py.controller.compositions.looks import Looks
from kanister_py.controller.compositions.served_kinds import Served, ServedKinds
from kanister_py.controller.compositions.tasks import Role, Task
from kanister_py.controller.compositions.world import World, revision_facts
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
from kanister_py.executor.watch_cache import ObjectKey, key_of
from kanister_py.ports.cluster import KubeObject

_Maybe: TypeAlias = KubeObject | None

_COMPOSED_WITH: Final = frozenset({COMPOSITIONS, COMPOSITION_REVISIONS, FUNCTION_REVISIONS})
_NOBODY: Final = FunctionRevision("", "", 0, desired_state=DesiredState.INACTIVE)


class Changes:
    """Receiver of every change of a watch: it puts into the queue what has to be looked at."""

    def __init__(
        self,
        world: World,
        kinds: ServedKinds,
        looks: Looks,
        queue: WorkQueue[Task],
        breakers: Breakers[Task],
        settings: CompositionSettings,
    ) -> None:
        self._seen = world.seen
        self._world = world
        self._kinds = kinds
        self._looks = looks
        self._queue = queue
        self._breakers = breakers
        self._settings = settings
        self._on: Mapping[GroupVersionResource, Callable[[ObjectKey, _Maybe, _Maybe], None]] = {
            DEFINITIONS: self._on_definition,
            CUSTOM_RESOURCE_DEFINITIONS: self._on_kind,
            COMPOSITIONS: self._on_composition,
            COMPOSITION_REVISIONS: self._on_composition_revision,
            FUNCTIONS: self._on_function,
            FUNCTION_REVISIONS: self._on_function_revision,
            ENDPOINT_SLICES: self._on_endpoints,
            DEPLOYMENTS: self._on_deployment,
        }

    def take(
        self, resource: GroupVersionResource, key: ObjectKey, old: _Maybe, new: _Maybe
    ) -> None:
        """Hear that an object is another than before."""
        on_change = self._on.get(resource)
        if on_change is not None:
            on_change(key, old, new)
        else:
            served = self._kinds.of(resource)
            if served is not None:
                self._on_served(served, resource, key, old, new)
        if resource in _COMPOSED_WITH and _is_composed_differently(resource, old, new):
            self._looks.note_change()
        self._looks.tell_dependents(resource, key, old, new)

    def _on_definition(self, key: ObjectKey, _old: _Maybe, _new: _Maybe) -> None:
        self._queue.add(Task(Role.DEFINITION, DEFINITIONS, key))

    def _on_kind(self, key: ObjectKey, _old: _Maybe, _new: _Maybe) -> None:
        """A kind came, changed or went: its definition is looked at again."""
        is_defined = self._seen.get_cached(DEFINITIONS, key) is not None
        if is_defined or self._kinds.is_defined_by(key.name):
            self._queue.add(Task(Role.DEFINITION, DEFINITIONS, key))

    def _on_function(self, key: ObjectKey, old: _Maybe, new: _Maybe) -> None:
        if _is_changed_beyond_status(old, new):
            self._queue.add(Task(Role.FUNCTION, FUNCTIONS, key))

    def _on_endpoints(self, _key: ObjectKey, old: _Maybe, new: _Maybe) -> None:
        self._look_at_runtime(self._world.note_endpoints(new or old or {}))

    def _on_deployment(self, key: ObjectKey, _old: _Maybe, _new: _Maybe) -> None:
        # A revision of a function is run by a Deployment of its name.
        is_ours = key.namespace == self._settings.namespace
        if (
            is_ours
            and self._seen.get_cached(FUNCTION_REVISIONS, ObjectKey("", key.name)) is not None
        ):
            self._look_at_runtime(key.name)

    def _on_served(
        self,
        served: Served,
        resource: GroupVersionResource,
        key: ObjectKey,
        old: _Maybe,
        new: _Maybe,
    ) -> None:
        if resource != served.resource:
            if _is_changed_beyond_status(old, new):
                self._queue.add(Task(Role.CLAIM, resource, key))
            return
        # What its own pass wrote asks for none; what it is composed of may be one of its kind.
        is_ours = new is not None and self._seen.is_own_write(resource, new, in_own_pass=True)
        if not is_ours and _is_changed_beyond_status(old, new):
            self._queue.add(Task(Role.COMPOSITE, resource, key))
        self._tell_claim(served, new or old)

    def _tell_claim(self, served: Served | None, composite: _Maybe) -> None:
        """Have the claim looked at that a composite resource stands for, if there is one."""
        claim = spec_of(composite or {}).get("claimRef") or {}
        if served is not None and served.claim_resource is not None and claim.get("name"):
            of = ObjectKey(str(claim.get("namespace") or ""), str(claim["name"]))
            self._queue.add(Task(Role.CLAIM, served.claim_resource, of))

    def _on_composition(self, key: ObjectKey, old: _Maybe, new: _Maybe) -> None:
        if new is None:
            self._world.forget_composition(key.name)
        if not _is_changed_beyond_status(old, new):
            return
        if self._settings.uses_revisions:
            self._queue.add(Task(Role.COMPOSITION, COMPOSITIONS, key))
        else:
            self._looks.tell_users(key.name)

    def _on_composition_revision(self, _key: ObjectKey, old: _Maybe, new: _Maybe) -> None:
        facts = self._world.note_revision(old, new)
        if new is None:
            return
        if not self._seen.is_own_write(COMPOSITION_REVISIONS, new):
            was = status_of(old or {}).get("conditions")
            if was != status_of(new).get("conditions") or _is_changed_beyond_status(old, new):
                self._check(new)
        if spec_of(old or {}).get("revision") != spec_of(new).get("revision"):
            self._looks.tell_followers(facts)

    def _on_function_revision(self, key: ObjectKey, old: _Maybe, new: _Maybe) -> None:
        self._world.note_functions()
        was = revision_of(old) if old is not None else _NOBODY
        now = revision_of(new) if new is not None else _NOBODY
        function = now.function or was.function
        if _as_meant(was) != _as_meant(now) and self._settings.uses_revisions:
            for obj in self._seen.list_cached(COMPOSITION_REVISIONS):
                if function in called_functions(spec_of(obj)):
                    self._check(obj)
        can_differently = was.capabilities != now.capabilities
        if was.is_routable != now.is_routable or (now.is_routable and can_differently):
            self._breakers.forget(key.name)
            self._tell_users_of_function(function)
        # What a package is made for is nothing to those who install and run it.
        is_same = was._replace(capabilities=()) == now._replace(capabilities=())
        if is_same and not _is_changed_beyond_status(old, new):
            return
        if self._settings.runs_functions:
            self._look_at_runtime(key.name)
            if function:
                self._queue.add(Task(Role.FUNCTION, FUNCTIONS, ObjectKey("", function)))

    def _tell_users_of_function(self, function: str) -> None:
        """Have all that is composed with a function looked at again: another revision may serve."""
        found = [(name_of(obj), obj) for obj in self._seen.list_cached(COMPOSITIONS)]
        if self._settings.uses_revisions:
            # A resource may hold a revision that says what its composition no longer does.
            revisions = self._seen.list_cached(COMPOSITION_REVISIONS)
            found += [(revision_facts(obj).composition, obj) for obj in revisions]
        using = {name for name, obj in found if function in called_functions(spec_of(obj))}
        for composition in sorted(using):
            self._looks.tell_users(composition)

    def _check(self, obj: KubeObject) -> None:
        self._queue.add(Task(Role.COMPOSITION_REVISION, COMPOSITION_REVISIONS, key_of(obj)))

    def _look_at_runtime(self, revision: str) -> None:
        if revision:
            self._queue.add(Task(Role.REVISION, FUNCTION_REVISIONS, ObjectKey("", revision)))


def _is_composed_differently(resource: GroupVersionResource, old: _Maybe, new: _Maybe) -> bool:
    """Say whether a pass that saw the old state of what is composed with may be out of date."""
    if old is None or new is None or _is_changed_beyond_status(old, new):
        return True
    # Whether a revision of a function serves, and what it is made for, stands in its status.
    return resource == FUNCTION_REVISIONS and revision_of(old) != revision_of(new)


def _as_meant(revision: FunctionRevision) -> FunctionRevision:
    """Leave out of a revision how it fares."""
    return revision._replace(is_healthy=False, endpoint="")


def _is_changed_beyond_status(old: _Maybe, new: _Maybe) -> bool:
    """Say whether anything but the status of an object has changed."""
    if old is None or new is None:
        return True
    keys = ("generation", "labels", "annotations", "deletionTimestamp", "finalizers")
    before, after = old["metadata"], new["metadata"]
    if any(before.get(key) != after.get(key) for key in keys):
        return True
    return bool(old.get("spec") != new.get("spec"))

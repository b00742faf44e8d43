"""Composite resources under control: what each depends on and uses, and when it is looked at."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from threading import RLock
from typing import Any, Final

from kanister_py.controller.compositions.dependents import Gate, Tracker, Wanted
from kanister_py.controller.compositions.one_pass import Dependencies
from kanister_py.controller.compositions.resources import Outcome
from kanister_py.controller.compositions.served_kinds import Served, ServedKinds
from kanister_py.controller.compositions.tasks import Role, Task
from kanister_py.controller.machine.breakers import Breakers
from kanister_py.controller.machine.part import PartTools
from kanister_py.controller.machine.work_loop import DONE, FAILED, Groups, Look, WorkQueue
from kanister_py.core.compositions.definitions import machinery_of
from kanister_py.core.compositions.messages import Data
from kanister_py.core.compositions.model import called_functions
from kanister_py.core.compositions.requirements import labels_wanted
from kanister_py.core.errors import NoMatch
from kanister_py.core.kube.parts import controller_of, labels_of, spec_of
from kanister_py.core.kube.resources import GroupVersionResource
from kanister_py.core.revisions.kinds import COMPOSITIONS
from kanister_py.core.revisions.policy import RevisionFacts, follows, wishes_of
from kanister_py.executor.object_cache import ObjectCache
from kanister_py.executor.response_cache import memory_of_data
from kanister_py.executor.watch_cache import ObjectKey
from kanister_py.ports.cluster import KubeObject
from kanister_py.weighted_cache import WeightedCache

# A pod that dies is back in less; what lasts longer, people should hear of.
_PATIENCE_SECONDS: Final = 10.0
_LONGEST_HOLD_SECONDS: Final = 60.0
_REMEMBERED_BYTES: Final = 32 << 20


class Looks:
    """Composite resources as they are looked at, and what is known of each until a restart."""

    def __init__(
        self,
        part: PartTools,
        seen: ObjectCache,
        kinds: ServedKinds,
        breakers: Breakers[Task],
        queue: WorkQueue[Task],
        workers: int,
    ) -> None:
        self._part = part
        self._clock = part.clock
        self._seen = seen
        self._kinds = kinds
        self._breakers = breakers
        self._queue = queue
        self._quarter = max(1, workers // 4)
        self._eighth = max(1, workers // 8)
        self._tracker: Tracker[Task] = Tracker()
        self._gate: Gate[Task] = Gate(part.clock)
        self._lock = RLock()
        self._users: dict[str, set[Task]] = defaultdict(set)
        self._uses: dict[Task, str] = {}
        self._called: dict[Task, Sequence[str]] = {}
        self._stale: set[Task] = set()
        """Tasks whose composition has changed since the functions it calls were read."""
        self._remembered: WeightedCache[Task, Mapping[str, Data]] = WeightedCache(_REMEMBERED_BYTES)
        """What functions asked for last."""
        self._failing: dict[Task, float] = {}
        self._changes = 0
        """How often what is composed with has changed."""

    def groups_of(self, task: Task) -> Groups:
        """Say with whom a task shares workers, and how many of them may be busy with each.

        What hangs holds a quarter of them, and a namespace in which several things hang a half.
        A function that has not answered yet gets an eighth.
        """
        if task.role is not Role.COMPOSITE:
            return ()
        return (
            (task.resource, self._quarter),
            (task.key.namespace, self._quarter * 2),
            *(
                (name, self._quarter if self._breakers.is_proven(name) else self._eighth)
                for name in self._called.get(task, ())
            ),
        )

    # A look

    def look(self, task: Task) -> Look:
        """Look at one composite resource."""
        served = self._kinds.of(task.resource)
        xr = self._seen.get_cached(task.resource, task.key)
        if served is None or xr is None:
            self.forget(task)
            return DONE
        changes = self._changes
        is_unheard = False

        def track(dependencies: Dependencies) -> None:
            nonlocal is_unheard
            is_unheard = self._track(task, dependencies)

        self._track_refs(task, xr, served)
        outcome = served.reconciler.reconcile(
            xr,
            self._remembered.get(task),
            track=track,
            flooded_by=self._gate.flooded_by(task),
            is_patient=self._patience_of(task) > 0,
            is_kind_ending=self._kinds.is_ending(task.resource),
        )
        if outcome.is_gone:
            self.forget(task)
            return DONE
        if not outcome.is_failed:
            self._failing.pop(task, None)
        if not outcome.is_postponed:
            self._note_use(task, served)
            if changes != self._changes:
                # What changed meanwhile found nobody to tell who was not known as a user yet.
                self._queue.add(task)
            if outcome.requirements or task in self._remembered:
                asked = outcome.requirements
                self._remembered.put(task, asked, memory_of_data(asked))
        return self._look_again(task, outcome, is_unheard=is_unheard)

    def _patience_of(self, task: Task) -> float:
        """Say for how many seconds more a failure that may pass is nobody's news."""
        now = self._clock.monotonic()
        return self._failing.get(task, now) + _PATIENCE_SECONDS - now

    def _look_again(self, task: Task, outcome: Outcome, *, is_unheard: bool) -> Look:
        if outcome.is_postponed:
            # A function that never answered is not one that is away for a moment.
            is_new = outcome.unavailable and not self._breakers.has_answered(outcome.unavailable)
            since = self._clock.monotonic() - (_PATIENCE_SECONDS if is_new else 0.0)
            self._failing[task] = min(self._failing.get(task, since), since)
        if outcome.unavailable and self._breakers.hold(outcome.unavailable, task):
            # It is looked at when the function answers; the time is for what nobody foresaw.
            wait = self._patience_of(task) if outcome.is_postponed else _LONGEST_HOLD_SECONDS
            return Look(max(wait, 0.0))
        if outcome.changed:
            # What the cluster made of it is remembered: nobody has to wait for a watch.
            self.tell(task, outcome.changed)
        elif is_unheard:
            # What it asked for was looked at before its changes were followed.
            self.tell(task, "what is newly asked for")
        if outcome.is_failed:
            return FAILED
        waits = (outcome.again_seconds, self._gate.calm_after(task))
        return Look(min(filter(None, waits), default=None))

    def forget(self, task: Task) -> None:
        """Forget what is known of a resource that is gone, or of another partition."""
        self._tracker.forget(task)
        self._gate.forget(task)
        self._remembered.discard(task)
        self._failing.pop(task, None)
        with self._lock:
            self._called.pop(task, None)
            self._stale.discard(task)
            self._unuse(task)

    def _unuse(self, task: Task) -> None:
        before = self._uses.pop(task, None)
        if before is not None:
            users = self._users[before]
            users.discard(task)
            if not users:
                del self._users[before]

    # Who uses which composition

    def _note_use(self, task: Task, served: Served) -> None:
        """Remember which composition a resource uses, to tell it of that one's changes."""
        xr = self._seen.get_cached(task.resource, task.key)
        if xr is None:
            return
        used = wishes_of(machinery_of(xr, legacy=served.kind.is_legacy)).composition
        with self._lock:
            before = self._uses.get(task)
            if before == used and task not in self._stale:
                return
            self._unuse(task)
            self._uses[task] = used
            self._users[used].add(task)
            self._stale.discard(task)
            composition = self._seen.get_cached(COMPOSITIONS, ObjectKey("", used))
            self._called[task] = tuple(called_functions(spec_of(composition or {})))

    def note_change(self) -> None:
        """Count a change of what is composed with, once it can be seen and its users know."""
        with self._lock:
            self._changes += 1

    def tell_users(self, composition: str) -> None:
        """Have those look again that use a composition, and those that have found none yet."""
        users = self._users_of(composition)
        with self._lock:
            self._stale.update(users)
        for task in users:
            self._queue.add(task)

    def tell_followers(self, facts: RevisionFacts) -> None:
        """Have those look again that a revision with a new number may be for."""
        for task in self._users_of(facts.composition):
            served = self._kinds.of(task.resource)
            xr = self._seen.get_cached(task.resource, task.key)
            if served is None or xr is None:
                continue
            wishes = wishes_of(machinery_of(xr, legacy=served.kind.is_legacy))
            is_missed = wishes.revision in ("", facts.name)
            if is_missed or follows(wishes, served.kind.rules, facts.composition, facts):
                self._queue.add(task)

    def _users_of(self, composition: str) -> list[Task]:
        with self._lock:
            return [*self._users.get(composition, ()), *self._users.get("", ())]

    # What they depend on

    def _track_refs(self, task: Task, xr: KubeObject, served: Served) -> None:
        """Hear of what a resource composed in another life, before that is looked at."""
        if self._tracker.knows(task):
            return
        kept = machinery_of(xr, legacy=served.kind.is_legacy).get("resourceRefs") or ()
        self._track(task, Dependencies(tuple(each for each in kept if each.get("name"))))

    def _track(self, task: Task, dependencies: Dependencies) -> bool:
        """Hear of changes from now on; say whether some of them may have gone unheard."""
        selectors: list[Mapping[str, Any]] = [
            {"namespace": task.key.namespace, **each, "matchName": each["name"]}
            for each in dependencies.refs
        ]
        selectors += dependencies.needs
        for asked in dependencies.requirements.values():
            for found in (asked.get("resources"), asked.get("extraResources")):
                selectors += (found or {}).values()
        named: list[tuple[GroupVersionResource, ObjectKey]] = []
        wanted: list[Wanted] = []
        for selector in selectors:
            self._sort_in(selector, named, wanted)
        is_new = self._tracker.track(task, named, wanted)
        for resource in {each[0] for each in named} | {each.resource for each in wanted}:
            self._seen.watch(resource)
        return is_new

    def _sort_in(
        self,
        selector: Mapping[str, Any],
        named: list[tuple[GroupVersionResource, ObjectKey]],
        wanted: list[Wanted],
    ) -> None:
        api_version, kind = str(selector.get("apiVersion")), str(selector.get("kind"))
        try:
            known = self._part.cluster.resource_for(api_version, kind)
        except NoMatch:
            return
        namespace = str(selector.get("namespace") or "") if known.is_namespaced else ""
        if "matchName" in selector:
            named.append((known.gvr, ObjectKey(namespace, str(selector["matchName"]))))
            return
        labels = labels_wanted(selector)
        wanted.append(Wanted(known.gvr, namespace, frozenset(labels.items())))

    def tell_dependents(
        self,
        resource: GroupVersionResource,
        key: ObjectKey,
        old: KubeObject | None,
        new: KubeObject | None,
    ) -> None:
        """Have those look again that depend on an object which has changed."""
        labels = [labels_of(each or {}) for each in (old, new)]
        tasks = self._tracker.who_depends_on(resource, key, *labels)
        if not tasks:
            return
        kind = (new or old or {}).get("kind", resource.resource)
        source = f"{kind}/{key.name} ({key.namespace})" if key.namespace else f"{kind}/{key.name}"
        composer = ""
        if new is not None and self._seen.is_write_of_another(resource, new):
            # Who has just written it looks again anyhow, and knows what became of it.
            composer = str((controller_of(new) or {}).get("uid") or "")
        for task in tasks:
            if not composer or self._uid_of(task) != composer:
                self.tell(task, source)

    def _uid_of(self, task: Task) -> str:
        found = self._seen.get_cached(task.resource, task.key)
        return str(found["metadata"].get("uid") or "") if found is not None else ""

    def tell(self, task: Task, source: str) -> None:
        """Have a resource looked at because of a change, or later if there are too many of them."""
        seconds = self._gate.delay_for(task, source)
        if seconds:
            self._queue.add_later(task, seconds)
        else:
            self._queue.add(task)

"""The part of the controller that composes: definitions, compositions, functions, resources.

One queue holds everything that must be looked at, whatever its kind, and a few threads
look. What they read comes from watches; what they find out about who depends on what is
remembered only for as long as the process lives.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import timedelta
from enum import StrEnum
from threading import RLock, Thread
from typing import Any, Final, NamedTuple

from kanister_py.controller.compositions.claims import ClaimReconciler
from kanister_py.controller.compositions.definitions import Offered, reconcile_definition
from kanister_py.controller.compositions.dependents import Gate, Tracker, Wanted
from kanister_py.controller.compositions.resources import (
    CompositeReconciler,
    Dependencies,
    Kind,
    Outcome,
)
from kanister_py.controller.compositions.revisions import reconcile_composition
from kanister_py.controller.compositions.valid_pipeline import reconcile_composition_revision
from kanister_py.controller.compositions.world import (
    ComposingWorld,
    CompositionSettings,
    FunctionTools,
    revision_facts,
)
from kanister_py.controller.controller import PartTools
from kanister_py.controller.functions.client_certificate import ClientCertificate
from kanister_py.controller.functions.packages import FunctionReconciler
from kanister_py.controller.functions.runtime import FunctionRuntime, RuntimeSettings
from kanister_py.controller.machine.certificates import CertificateKeeper
from kanister_py.controller.machine.known_objects import Seen
from kanister_py.controller.machine.neighbours import CROSSPLANE, find_neighbour
from kanister_py.controller.machine.queue import WorkQueue
from kanister_py.controller.machine.watch_cache import ObjectKey, key_of
from kanister_py.core.compositions.definitions import machinery_of
from kanister_py.core.compositions.messages import Data
from kanister_py.core.compositions.model import called_functions
from kanister_py.core.errors import (
    AnotherController,
    KanisterError,
    LeadershipLost,
    NoMatch,
    NotFound,
    TransientError,
)
from kanister_py.core.objects.parts import spec_of, status_of
from kanister_py.core.objects.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    GroupVersionResource,
)
from kanister_py.core.registry.entries import DesiredState, FunctionRevision
from kanister_py.core.revisions.collection import Revision, plan_collection, words_for_uses
from kanister_py.core.revisions.functions import revision_of
from kanister_py.core.revisions.kinds import (
    COMPOSITION_REVISIONS,
    COMPOSITIONS,
    DEFINITIONS,
    ENDPOINT_SLICES,
    FUNCTION_REVISIONS,
    FUNCTIONS,
)
from kanister_py.core.revisions.owners import controller_of
from kanister_py.core.revisions.policy import RevisionFacts, follows, wishes_of
from kanister_py.core.revisions.users import Holder, users_of_composition
from kanister_py.ports.cluster import KubeObject

_LOG: Final = logging.getLogger(__name__)
_COLLECT_SECONDS: Final = 60.0
_COMPOSED_WITH: Final = frozenset({COMPOSITIONS, COMPOSITION_REVISIONS, FUNCTION_REVISIONS})
# A pod that dies is back in less; what lasts longer, people should hear of.
_PATIENCE_SECONDS: Final = 30.0


class Role(StrEnum):
    """As what an object is looked at."""

    DEFINITION = "CompositeResourceDefinition"
    COMPOSITION = "Composition"
    COMPOSITION_REVISION = "CompositionRevision"
    FUNCTION = "Function"
    REVISION = "FunctionRevision"
    COMPOSITE = "CompositeResource"
    CLAIM = "Claim"


class Task(NamedTuple):
    """One object that must be looked at."""

    role: Role
    resource: GroupVersionResource
    key: ObjectKey


class _Served(NamedTuple):
    """A kind of composite resource that is served."""

    kind: Kind
    resource: GroupVersionResource
    reconciler: CompositeReconciler
    claims: ClaimReconciler | None = None
    claim_resource: GroupVersionResource | None = None


class Compositions:
    """Composes for as long as somebody lets it."""

    def __init__(
        self,
        part: PartTools,
        tools: FunctionTools,
        settings: CompositionSettings,
        *,
        replaces_crossplane: bool = False,
    ) -> None:
        cluster, clock, tell = part.cluster, part.clock, part.tell
        self._cluster = cluster
        self._clock = clock
        self._alarms = part.alarms
        self._tell = tell
        self._tools = tools
        self._metrics = part.metrics
        self._settings = settings
        self._replaces_crossplane = replaces_crossplane
        self.queue: WorkQueue[Task] = WorkQueue(clock, part.alarms)
        self.seen = Seen(cluster, clock, self._on_change, part.on_error)
        self._tracker: Tracker[Task] = Tracker()
        self._gate: Gate[Task] = Gate(clock)
        self._lock = RLock()
        self._served: dict[GroupVersionResource, _Served] = {}
        self._definitions: dict[str, GroupVersionResource] = {}
        self._users: dict[str, set[Task]] = defaultdict(set)
        self._uses: dict[Task, str] = {}
        self._remembered: dict[Task, Mapping[str, Data]] = {}
        self._failing: dict[Task, float] = {}
        self._changes = 0
        """How often what is composed with has changed."""
        self._is_closed = False
        self.world = ComposingWorld(cluster, clock, self.seen, tools, settings, tell)
        keeper = CertificateKeeper(
            cluster, tools.certificates, clock, life=settings.certificate_life
        )
        looks_every = min(timedelta(hours=1), settings.certificate_life / 6)
        self._client: ClientCertificate | None = None
        if tools.client_files is not None:
            self._client = ClientCertificate(
                keeper,
                clock,
                part.alarms,
                tools.client_files,
                namespace=settings.namespace,
                authority=settings.authority,
                looks_every=looks_every,
                on_error=part.on_error,
            )
        self._function_reconciler = FunctionReconciler(
            cluster,
            tools.packages,
            clock,
            tell,
            self.world.users_of_functions,
            namespace=settings.namespace,
            default_runtime=settings.default_runtime,
        )
        self._runtime = FunctionRuntime(
            cluster,
            tools.certificates,
            keeper,
            clock,
            RuntimeSettings(
                settings.namespace,
                settings.authority,
                settings.default_runtime,
                settings.drains_for,
                looks_every,
            ),
            built_in=tools.built_in_endpoint,
            ready_addresses=self.world.addresses_of,
        )

    # Its life

    def start(self) -> None:
        """Watch what is always watched, and begin to look."""
        if not self._replaces_crossplane:
            self._refuse_crossplane()
        if self._client is not None:
            self._client.start()
        for resource in self._always():
            self.seen.watch(resource)
        if self._settings.runs_functions:
            for resource in (ENDPOINT_SLICES, DEPLOYMENTS):
                self.seen.watch(resource, self._settings.namespace)
        for index in range(max(1, self._settings.workers)):
            Thread(target=self._work, name=f"compose {index}", daemon=True).start()
        if self._settings.uses_revisions and self._settings.keeps_revisions:
            self._alarms.set(_COLLECT_SECONDS, self._collect_later)

    def _refuse_crossplane(self) -> None:
        found = find_neighbour(self._cluster, CROSSPLANE)
        if found:
            raise AnotherController(
                found, "scale it to 0, or start this one with --replace-crossplane"
            )

    def _always(self) -> tuple[GroupVersionResource, ...]:
        kinds: tuple[GroupVersionResource, ...] = (
            CUSTOM_RESOURCE_DEFINITIONS,
            DEFINITIONS,
            COMPOSITIONS,
            FUNCTION_REVISIONS,
        )
        if self._settings.uses_revisions:
            kinds = (*kinds, COMPOSITION_REVISIONS)
        if self._settings.runs_functions:
            kinds = (*kinds, FUNCTIONS)
        return kinds

    def close(self) -> None:
        self._is_closed = True
        if self._client is not None:
            self._client.close()
        self.queue.close()
        self.seen.close()

    @property
    def is_settled(self) -> bool:
        return self.queue.is_idle and all(self.seen.has_synced(each) for each in self.seen.watched)

    @property
    def trouble(self) -> str:
        return self.seen.trouble

    # Looking

    def _work(self) -> None:
        while (task := self.queue.take()) is not None:
            began = self._clock.monotonic()
            outcome = "done"
            try:
                if self.look(task):
                    self.queue.forget(task)
                else:
                    outcome = "failed"
                    self.queue.add_failed(task)
            except LeadershipLost:
                outcome = "not the leader"
            except KanisterError as error:
                outcome = error.reason
                self.queue.add_failed(task)
                level = logging.INFO if isinstance(error, TransientError) else logging.WARNING
                said = "%s %s is looked at again: %s"
                _LOG.log(level, said, task.role, task.key, error.message)
            except Exception:  # noqa: BLE001 # see below
                # One object that nobody can look at must not keep others waiting.
                outcome = "Fault"
                self.queue.add_failed(task)
                _LOG.exception("Looking at %s %s fell over", task.role, task.key)
            finally:
                self.queue.done(task)
                self._metrics.passes.labels(task.role, outcome).inc()
                seconds = self._clock.monotonic() - began
                self._metrics.pass_seconds.labels(task.role).observe(seconds)

    def look(self, task: Task) -> bool:
        """Look at one object; say whether it came to rest, if only until its time comes."""
        if task.role is Role.COMPOSITE:
            return self._look_at_composite(task)
        if task.role is Role.COMPOSITION_REVISION:
            return self._look_at_composition_revision(task.key)
        again = self._look_at_machinery(task)
        if again is not None:
            self.queue.add_later(task, again)
        return True

    def _look_at_machinery(self, task: Task) -> float | None:
        """Look at what composing stands on; say after how many seconds to look again."""
        name = task.key.name
        if task.role is Role.CLAIM:
            served = self._served.get(task.resource)
            if served is not None and served.claims is not None:
                served.claims.reconcile(task.key.namespace, name)
            return None
        if task.role is Role.COMPOSITION:
            if self._settings.uses_revisions:
                reconcile_composition(self._cluster, name, self._tell)
            return None
        if task.role is Role.FUNCTION:
            return self._function_reconciler.reconcile(name)
        if task.role is Role.REVISION:
            return self._runtime.reconcile(name)
        return self._look_at_definition(name)

    def _look_at_composition_revision(self, key: ObjectKey) -> bool:
        if not self.seen.has_synced(FUNCTION_REVISIONS):
            # Who has not seen every function would take back what was said of them.
            return False
        revision = self.seen.known(COMPOSITION_REVISIONS, key)
        if revision is None:
            return True
        written = reconcile_composition_revision(
            self._cluster, self._clock, revision, self.world.functions(), self._tell
        )
        if written is not None:
            self.seen.remember(written)
        return True

    def _look_at_definition(self, name: str) -> float | None:
        found = reconcile_definition(self._cluster, self._clock, name, self._tell)
        if found.offered is not None:
            served = self._serve(name, found.offered)
            return found.again_seconds if served is None else served
        if self.seen.known(DEFINITIONS, ObjectKey("", name)) is None:
            self._stop_serving(name)
        return found.again_seconds

    def _serve(self, name: str, offered: Offered) -> float | None:
        kind = offered.kind
        try:
            resource = self.seen.resource_of(kind.api_version, kind.kind)
            claim_resource = (
                self.seen.resource_of(kind.api_version, offered.claim_kind)
                if offered.claim_kind
                else None
            )
        except NoMatch:
            # Established, but not yet told by the server that was asked.
            return 1.0
        with self._lock:
            before = self._served.get(resource)
            if (
                before is not None
                and before.kind == kind
                and before.claim_resource == claim_resource
            ):
                return None
            reconciler = CompositeReconciler(
                self._cluster,
                self.world,
                self._clock,
                self._tell,
                kind,
                poll_seconds=self._settings.poll_seconds,
            )
            claims = None
            if claim_resource is not None:
                claims = ClaimReconciler(
                    self._cluster,
                    self._clock,
                    self._tell,
                    kind.api_version,
                    kind.kind,
                    offered.claim_kind,
                )
            served = _Served(kind, resource, reconciler, claims, claim_resource)
            self._served[resource] = served
            self._definitions[name] = resource
            if claim_resource is not None:
                self._served[claim_resource] = served
            withdrawn = before.claim_resource if before is not None else None
            if withdrawn == claim_resource:
                withdrawn = None
            if withdrawn is not None:
                self._served.pop(withdrawn, None)
        if withdrawn is not None:
            self.seen.stop(withdrawn)
        for obj in self.seen.all_of(resource):
            self.queue.add(Task(Role.COMPOSITE, resource, key_of(obj)))
        if claim_resource is not None:
            for obj in self.seen.all_of(claim_resource):
                self.queue.add(Task(Role.CLAIM, claim_resource, key_of(obj)))
        return None

    def _stop_serving(self, name: str) -> None:
        """Let go of a kind whose definition is gone, once its resources are gone too."""
        with self._lock:
            resource = self._definitions.get(name)
            served = self._served.get(resource) if resource is not None else None
        if resource is None or served is None:
            return
        if self.seen.known(CUSTOM_RESOURCE_DEFINITIONS, ObjectKey("", name)) is not None:
            # The cluster takes the resources away first, and each needs us for its end.
            return
        with self._lock:
            self._definitions.pop(name, None)
            for each in (served.resource, served.claim_resource):
                if each is not None:
                    self._served.pop(each, None)
        for each in (served.resource, served.claim_resource):
            if each is not None:
                self.seen.stop(each)

    def _look_at_composite(self, task: Task) -> bool:
        served = self._served.get(task.resource)
        if served is None:
            return True
        xr = self.seen.known(task.resource, task.key)
        if xr is None:
            self._forget(task)
            return True
        now = self._clock.monotonic()
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
            is_patient=now - self._failing.get(task, now) < _PATIENCE_SECONDS,
            is_kind_ending=self._is_ending(task.resource),
        )
        if outcome.is_gone:
            self._forget(task)
            return True
        if outcome.is_postponed:
            self._failing.setdefault(task, now)
            return False
        if not outcome.is_failed:
            self._failing.pop(task, None)
        self._note_use(task, served)
        if changes != self._changes:
            # What changed while we looked found nobody to tell who was not known as a user yet.
            self.queue.add(task)
        if outcome.requirements or task in self._remembered:
            self._remembered[task] = outcome.requirements
        self._look_again(task, outcome, is_unheard=is_unheard)
        return not outcome.is_failed

    def _look_again(self, task: Task, outcome: Outcome, *, is_unheard: bool) -> None:
        if outcome.changed:
            # What the cluster made of it is remembered: nobody has to wait for a watch.
            self._tell_task(task, outcome.changed)
        elif is_unheard:
            # What it asked for was looked at before anybody could hear of its changes.
            self._tell_task(task, "what is newly asked for")
        if not outcome.is_failed:
            for seconds in (outcome.again_seconds, self._gate.calm_after(task)):
                if seconds:
                    self.queue.add_later(task, seconds)

    def _is_ending(self, resource: GroupVersionResource) -> bool:
        """Say whether the definition of a kind is being deleted."""
        key = ObjectKey("", f"{resource.resource}.{resource.group}")
        definition = self.seen.known(DEFINITIONS, key)
        return definition is None or bool(definition["metadata"].get("deletionTimestamp"))

    def _forget(self, task: Task) -> None:
        self._tracker.forget(task)
        self._gate.forget(task)
        self._remembered.pop(task, None)
        self._failing.pop(task, None)
        with self._lock:
            before = self._uses.pop(task, None)
            if before is not None:
                self._users[before].discard(task)

    def _note_use(self, task: Task, served: _Served) -> None:
        """Remember which composition a resource uses, to tell it of that one's changes."""
        xr = self.seen.known(task.resource, task.key)
        if xr is None:
            return
        used = wishes_of(machinery_of(xr, legacy=served.kind.is_legacy)).composition
        with self._lock:
            before = self._uses.get(task)
            if before == used:
                return
            if before is not None:
                self._users[before].discard(task)
            self._uses[task] = used
            self._users[used].add(task)

    def _track_refs(self, task: Task, xr: KubeObject, served: _Served) -> None:
        """Hear of what a resource composed in another life, before that is looked at."""
        if self._tracker.knows(task):
            return
        kept = machinery_of(xr, legacy=served.kind.is_legacy).get("resourceRefs") or ()
        self._track(task, Dependencies(tuple(each for each in kept if each.get("name"))))

    def _track(self, task: Task, dependencies: Dependencies) -> bool:
        """Hear of changes from now on; say whether some of them may have gone unheard."""
        named: list[tuple[GroupVersionResource, ObjectKey]] = []
        wanted: list[Wanted] = []
        for ref in dependencies.refs:
            try:
                resource = self.seen.resource_of(ref["apiVersion"], ref["kind"])
            except NoMatch:
                continue
            namespace = str(ref.get("namespace") or task.key.namespace)
            known = self._cluster.describe(resource)
            named.append(
                (resource, ObjectKey(namespace if known.is_namespaced else "", ref["name"]))
            )
        for asked in dependencies.requirements.values():
            for selectors in (asked.get("resources"), asked.get("extraResources")):
                for selector in (selectors or {}).values():
                    self._track_selector(selector, named, wanted)
        for selector in dependencies.needs:
            self._track_selector(selector, named, wanted)
        is_new = self._tracker.track(task, named, wanted)
        for resource in {each[0] for each in named} | {each.resource for each in wanted}:
            self.seen.watch(resource)
        return is_new

    def _track_selector(
        self,
        selector: Mapping[str, Any],
        named: list[tuple[GroupVersionResource, ObjectKey]],
        wanted: list[Wanted],
    ) -> None:
        try:
            resource = self.seen.resource_of(
                str(selector.get("apiVersion")), str(selector.get("kind"))
            )
        except NoMatch:
            return
        is_namespaced = self._cluster.describe(resource).is_namespaced
        namespace = str(selector.get("namespace") or "") if is_namespaced else ""
        if "matchName" in selector:
            named.append((resource, ObjectKey(namespace, str(selector["matchName"]))))
            return
        labels = (selector.get("matchLabels") or {}).get("labels") or {}
        wanted.append(Wanted(resource, namespace, frozenset(labels.items())))

    # What changed

    def _on_change(
        self,
        resource: GroupVersionResource,
        key: ObjectKey,
        old: KubeObject | None,
        new: KubeObject | None,
    ) -> None:
        if resource == DEFINITIONS:
            self.queue.add(Task(Role.DEFINITION, resource, key))
        elif resource == CUSTOM_RESOURCE_DEFINITIONS:
            self._on_kind(key)
        elif resource == COMPOSITIONS:
            self._on_composition(key, old, new)
        elif resource == COMPOSITION_REVISIONS:
            self._on_composition_revision(old, new)
        elif resource == FUNCTIONS:
            if _is_said_differently(old, new):
                self.queue.add(Task(Role.FUNCTION, resource, key))
        elif resource == FUNCTION_REVISIONS:
            self._on_function_revision(key, old, new)
        elif resource == ENDPOINT_SLICES:
            self._on_endpoints(new or old or {})
        elif resource == DEPLOYMENTS and key.namespace == self._settings.namespace:
            # A revision of a function is run by a Deployment of its name.
            name = ObjectKey("", key.name)
            if self.seen.known(FUNCTION_REVISIONS, name) is not None:
                self.queue.add(Task(Role.REVISION, FUNCTION_REVISIONS, name))
        else:
            self._on_resource(resource, key, old, new)
            return
        if resource in _COMPOSED_WITH and _is_composed_differently(resource, old, new):
            # Counted once all of it can be seen, and whoever is known has been told.
            with self._lock:
                self._changes += 1
        self._tell_dependents(resource, key, old, new)

    def _on_kind(self, key: ObjectKey) -> None:
        """A kind came, changed or went: whoever defines it looks again."""
        with self._lock:
            if key.name in self._definitions:
                self.queue.add(Task(Role.DEFINITION, DEFINITIONS, key))

    def _on_resource(
        self,
        resource: GroupVersionResource,
        key: ObjectKey,
        old: KubeObject | None,
        new: KubeObject | None,
    ) -> None:
        with self._lock:
            served = self._served.get(resource)
        if served is not None and resource == served.resource:
            is_ours = new is not None and self.seen.is_own_write(resource, new)
            if not is_ours and _is_said_differently(old, new):
                self.queue.add(Task(Role.COMPOSITE, resource, key))
            self._tell_claim(served, new or old)
        elif served is not None and _is_said_differently(old, new):
            self.queue.add(Task(Role.CLAIM, resource, key))
        self._tell_dependents(resource, key, old, new)

    def _tell_claim(self, served: _Served, composite: KubeObject | None) -> None:
        if served.claim_resource is None or composite is None:
            return
        claim = spec_of(composite).get("claimRef") or {}
        if claim.get("name"):
            key = ObjectKey(str(claim.get("namespace") or ""), str(claim["name"]))
            self.queue.add(Task(Role.CLAIM, served.claim_resource, key))

    def _tell_dependents(
        self,
        resource: GroupVersionResource,
        key: ObjectKey,
        old: KubeObject | None,
        new: KubeObject | None,
    ) -> None:
        labels = [each["metadata"].get("labels") if each else None for each in (old, new)]
        tasks = self._tracker.who_depends_on(resource, key, *labels)
        if not tasks:
            return
        kind = (new or old or {}).get("kind", resource.resource)
        source = f"{kind}/{key.name} ({key.namespace})" if key.namespace else f"{kind}/{key.name}"
        composer = ""
        if new is not None and self.seen.is_own_write(resource, new):
            # Who has just written it looks again anyhow, and knows what became of it.
            composer = str((controller_of(new) or {}).get("uid") or "")
        for task in tasks:
            if not composer or self._uid_of(task) != composer:
                self._tell_task(task, source)

    def _uid_of(self, task: Task) -> str:
        found = self.seen.known(task.resource, task.key)
        return str(found["metadata"].get("uid") or "") if found is not None else ""

    def _tell_task(self, task: Task, source: str) -> None:
        """Have somebody look because of a change, as soon as there are not too many of them."""
        seconds = self._gate.delay_for(task, source)
        if seconds:
            self.queue.add_later(task, seconds)
        else:
            self.queue.add(task)

    def _on_composition(
        self, key: ObjectKey, old: KubeObject | None, new: KubeObject | None
    ) -> None:
        if not _is_said_differently(old, new):
            return
        if self._settings.uses_revisions:
            self.queue.add(Task(Role.COMPOSITION, COMPOSITIONS, key))
            return
        for task in self._users_of(key.name):
            self.queue.add(task)

    def _users_of(self, composition: str) -> list[Task]:
        """Name those that use a composition, and those that have found none yet."""
        with self._lock:
            return [*self._users.get(composition, ()), *self._users.get("", ())]

    def _on_composition_revision(self, old: KubeObject | None, new: KubeObject | None) -> None:
        facts = self.world.note_revision(old, new)
        if new is not None and not self.seen.is_own_write(COMPOSITION_REVISIONS, new):
            has_other_conditions = _conditions_of(old) != _conditions_of(new)
            if has_other_conditions or _is_said_differently(old, new):
                self._check_revision(new)
        before = spec_of(old or {}).get("revision")
        if new is None or before == spec_of(new).get("revision"):
            return
        for task in self._users_of(facts.composition):
            served = self._served.get(task.resource)
            xr = self.seen.known(task.resource, task.key)
            if served is None or xr is None:
                continue
            wishes = wishes_of(machinery_of(xr, legacy=served.kind.is_legacy))
            is_missed = wishes.revision in ("", facts.name)
            if is_missed or follows(wishes, served.kind.rules, facts.composition, facts):
                self.queue.add(task)

    def _on_function_revision(
        self, key: ObjectKey, old: KubeObject | None, new: KubeObject | None
    ) -> None:
        self.world.note_functions()
        nobody = FunctionRevision("", "", 0, desired_state=DesiredState.INACTIVE)
        was = revision_of(old) if old is not None else nobody
        now = revision_of(new) if new is not None else nobody
        function = now.function or was.function
        if _as_meant(was) != _as_meant(now):
            self._check_users_of_function(function)
        can_differently = was.capabilities != now.capabilities
        if was.is_routable != now.is_routable or (now.is_routable and can_differently):
            self._tell_users_of_function(function)
        # What a package is made for is nothing to those who install and run it.
        is_same = was._replace(capabilities=()) == now._replace(capabilities=())
        if is_same and not _is_said_differently(old, new):
            return
        if self._settings.runs_functions:
            self.queue.add(Task(Role.REVISION, FUNCTION_REVISIONS, key))
            if function:
                self.queue.add(Task(Role.FUNCTION, FUNCTIONS, ObjectKey("", function)))

    def _tell_users_of_function(self, function: str) -> None:
        """Have whoever is composed with a function look again: another revision may serve."""
        found = [(obj["metadata"]["name"], obj) for obj in self.seen.all_of(COMPOSITIONS)]
        if self._settings.uses_revisions:
            # A resource may hold a revision that says what its composition no longer does.
            revisions = self.seen.all_of(COMPOSITION_REVISIONS)
            found += [(revision_facts(obj).composition, obj) for obj in revisions]
        using = set()
        for composition, obj in found:
            if function in called_functions(spec_of(obj)):
                using.add(composition)
        for composition in sorted(using):
            for task in self._users_of(composition):
                self.queue.add(task)

    def _check_users_of_function(self, function: str) -> None:
        """Have the revisions of Compositions that call a function be judged again."""
        if not self._settings.uses_revisions:
            return
        for obj in self.seen.all_of(COMPOSITION_REVISIONS):
            if function in called_functions(spec_of(obj)):
                self._check_revision(obj)

    def _check_revision(self, obj: KubeObject) -> None:
        self.queue.add(Task(Role.COMPOSITION_REVISION, COMPOSITION_REVISIONS, key_of(obj)))

    def _on_endpoints(self, slices: KubeObject) -> None:
        name = self.world.note_endpoints(slices)
        if name:
            self.queue.add(Task(Role.REVISION, FUNCTION_REVISIONS, ObjectKey("", name)))

    # Collection

    def _collect_later(self) -> None:
        Thread(target=self._collect, name="collect revisions", daemon=True).start()

    def _collect(self) -> None:
        try:
            self.collect_revisions()
        except KanisterError as error:
            _LOG.info("Revisions that nobody uses stay for now: %s", error.message)
        if not self._is_closed:
            self._alarms.set(_COLLECT_SECONDS, self._collect_later)

    def collect_revisions(self) -> list[str]:
        """Delete revisions of Compositions beyond the newest that nobody uses; name them."""
        limit = self._settings.keeps_revisions
        if not limit or not all(self.seen.has_synced(each) for each in self.seen.watched):
            # Who has not seen everybody cannot say that nobody uses it.
            return []
        removed: list[str] = []
        for composition in self.world.known_compositions:
            if not self._is_kind_served(composition):
                continue
            facts = self.world.revisions(composition)
            users = self._users_of_composition(composition, facts)
            plan = plan_collection(
                [Revision(each.name, each.number, users.get(each.name, ())) for each in facts],
                limit,
            )
            for name in plan.removed:
                try:
                    self._cluster.delete(COMPOSITION_REVISIONS, name)
                except NotFound:
                    continue
                _LOG.info("Removed CompositionRevision %s: nobody uses it", name)
                removed.append(name)
        return removed

    def _users_of_composition(
        self, composition: str, revisions: Sequence[RevisionFacts]
    ) -> Mapping[str, tuple[str, ...]]:
        with self._lock:
            served = [each for key, each in self._served.items() if key == each.resource]
        holders = [
            Holder(
                f"{obj['kind']}/{key}",
                wishes_of(machinery_of(obj, legacy=each.kind.is_legacy)),
                each.kind.rules,
            )
            for each in served
            for key, obj in self.seen.watch(each.resource).items()
        ]
        users = users_of_composition(composition, revisions, holders)
        return {name: words_for_uses(found) for name, found in users.items()}

    def _is_kind_served(self, composition: str) -> bool:
        """Say whether all resources that a composition is for are seen."""
        found = self.seen.known(COMPOSITIONS, ObjectKey("", composition))
        if found is None:
            of_this = (
                each
                for each in self.seen.all_of(COMPOSITION_REVISIONS)
                if revision_facts(each).composition == composition
            )
            found = next(of_this, None)
        target = spec_of(found or {}).get("compositeTypeRef") or {}
        wanted = (target.get("apiVersion"), target.get("kind"))
        with self._lock:
            return any(
                (each.kind.api_version, each.kind.kind) == wanted for each in self._served.values()
            )


def _is_composed_differently(
    resource: GroupVersionResource, old: KubeObject | None, new: KubeObject | None
) -> bool:
    """Say whether a pass that saw the old state of what is composed with may be out of date."""
    if old is None or new is None or _is_said_differently(old, new):
        return True
    # Whether a revision of a function serves, and what it is made for, stands in its status.
    return resource == FUNCTION_REVISIONS and revision_of(old) != revision_of(new)


def _as_meant(revision: FunctionRevision) -> FunctionRevision:
    """Leave out of a revision how it fares."""
    return revision._replace(is_healthy=False, endpoint="")


def _conditions_of(obj: KubeObject | None) -> Any:
    return status_of(obj or {}).get("conditions")


def _is_said_differently(old: KubeObject | None, new: KubeObject | None) -> bool:
    """Say whether anything but the status of an object has changed."""
    if old is None or new is None:
        return True
    keys = ("generation", "labels", "annotations", "deletionTimestamp", "finalizers")
    before, after = old["metadata"], new["metadata"]
    if any(before.get(key) != after.get(key) for key in keys):
        return True
    return old.get("spec") != new.get("spec")

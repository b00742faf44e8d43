"""Composing world: compositions, functions and objects of the cluster as a pass sees them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from threading import RLock
from typing import Final

from kanister_py.controller.compositions.requirements import ClusterSource, OwnNamespaceSource
from kanister_py.controller.compositions.revisions import reconcile_composition
from kanister_py.controller.compositions.tasks import Kind
from kanister_py.controller.functions.pull_secrets import logins_of
from kanister_py.controller.functions.settings import CompositionSettings, FunctionTools
from kanister_py.controller.machine.part import PartTools
from kanister_py.core.compositions.desired import Composed, ComposedRules
from kanister_py.core.compositions.installed import built_in_revisions, run_by_package
from kanister_py.core.compositions.messages import Data
from kanister_py.core.compositions.model import Composition, parse_composition
from kanister_py.core.compositions.pipeline import Observed, StepOutcome
from kanister_py.core.errors import NoMatch, NotFound
from kanister_py.core.kube.parts import labels_of, name_of, namespace_of, spec_of, status_of
from kanister_py.core.registry.entries import (
    FunctionRevision,
    Registry,
    RegistryBuilder,
)
from kanister_py.core.revisions.collection import pipeline_of, users_of_function, words_for_uses
from kanister_py.core.revisions.functions import (
    Runtime,
    revision_of,
    runtime_of,
)
from kanister_py.core.revisions.identity import COMPOSITION_NAME_LABEL
from kanister_py.core.revisions.kinds import (
    COMPOSITION_REVISIONS,
    COMPOSITIONS,
    ENDPOINT_SLICES,
    FUNCTION_REVISIONS,
)
from kanister_py.core.revisions.lifecycles import with_lifecycles
from kanister_py.core.revisions.policy import CompositionFacts, RevisionFacts
from kanister_py.core.revisions.runtime import GRPC_PORT, server_name
from kanister_py.core.yaml.documents import Document
from kanister_py.executor.object_cache import ObjectCache
from kanister_py.executor.response_cache import ResponseCache
from kanister_py.executor.run_pipeline import Engine, compose
from kanister_py.executor.step_artifacts import StepArtifacts
from kanister_py.executor.watch_cache import ObjectKey, key_of
from kanister_py.ports.cluster import KubeObject
from kanister_py.ports.requirement_source import RequirementSource

_SERVICE_NAME: Final = "kubernetes.io/service-name"


class World:
    """The cluster as a pass sees it, and the means to call functions."""

    def __init__(
        self,
        part: PartTools,
        seen: ObjectCache,
        tools: FunctionTools,
        settings: CompositionSettings,
    ) -> None:
        self.seen = seen
        self._part = part
        self._tools = tools
        self._settings = settings
        self._lock = RLock()
        self._revisions: dict[str, dict[str, RevisionFacts]] = defaultdict(dict)
        self._read: dict[tuple[str, str], tuple[str, Composition]] = {}
        """What was read of each Composition and revision that there is, and in which state."""
        self._composed_with: dict[str, tuple[tuple[str, str], ...]] = {}
        self._addresses: dict[str, tuple[str, ...]] = {}
        self._functions: Registry[FunctionRevision] | None = None
        self._source = ClusterSource(part.cluster, seen, gives_resources=settings.gives_resources)
        self._cache = ResponseCache(part.clock, metrics=tools.metrics)
        self._artifacts = StepArtifacts(
            tools.packages,
            part.clock,
            lambda ref: logins_of(part.cluster, settings.namespace, ref.pull_secrets),
        )

    # What changed

    def note_revision(self, old: KubeObject | None, new: KubeObject | None) -> RevisionFacts:
        """Take in that a revision of a Composition came, changed or went."""
        facts = revision_facts(new or old or {})
        with self._lock:
            if new is None:
                named = self._revisions[facts.composition]
                named.pop(facts.name, None)
                if not named:
                    del self._revisions[facts.composition]
                self._composed_with.pop(facts.name, None)
                self._read.pop((COMPOSITION_REVISIONS.resource, facts.name), None)
            else:
                self._revisions[facts.composition][facts.name] = facts
        return facts

    def forget_composition(self, name: str) -> None:
        """Take in that a Composition is gone."""
        with self._lock:
            self._read.pop((COMPOSITIONS.resource, name), None)

    def note_functions(self) -> None:
        """Take in that revisions of functions changed."""
        with self._lock:
            self._functions = None
        self._tools.keep_only(
            [each.name for family in self.functions() for each in family if each.is_routable]
        )

    def note_endpoints(self, slices: KubeObject) -> str:
        """Take in that the addresses behind a Service changed; say whose, if it is one of ours."""
        namespace = self._settings.namespace
        name = str(labels_of(slices).get(_SERVICE_NAME) or "")
        if key_of(slices).namespace != namespace or not name:
            return ""
        found: list[str] = []
        for each in self.seen.list_cached(ENDPOINT_SLICES):
            labels = labels_of(each)
            if labels.get(_SERVICE_NAME) == name and key_of(each).namespace == namespace:
                found += _ready_addresses(each)
        with self._lock:
            self._addresses[name] = tuple(sorted(set(found)))
            if not found:
                del self._addresses[name]
            self._functions = None
        return name

    def addresses_of(self, service: str) -> Sequence[str]:
        """Give the addresses at which pods behind a Service answer now."""
        return self._addresses.get(service, ())

    @property
    def known_compositions(self) -> Sequence[str]:
        """Name the Compositions that have revisions."""
        with self._lock:
            return list(self._revisions)

    # What a pass sees of the cluster

    def compositions(self, api_version: str, kind: str) -> Sequence[CompositionFacts]:
        found = [composition_facts(each) for each in self.seen.list_cached(COMPOSITIONS)]
        return [each for each in found if (each.api_version, each.kind) == (api_version, kind)]

    def composition(self, name: str) -> CompositionFacts | None:
        found = self.seen.get(COMPOSITIONS, ObjectKey("", name))
        return composition_facts(found) if found is not None else None

    def revisions(self, composition: str) -> Sequence[RevisionFacts]:
        with self._lock:
            found = list(self._revisions.get(composition, {}).values())
        if found or not self.seen.has_synced(COMPOSITION_REVISIONS):
            return found
        # A resource may be faster than the revision of its new composition.
        made = reconcile_composition(self._part.cluster, composition, self._part.tell)
        if not made:
            return ()
        return [revision_facts(self._part.cluster.get(COMPOSITION_REVISIONS, made))]

    def revision(self, name: str) -> RevisionFacts | None:
        found = self.seen.get(COMPOSITION_REVISIONS, ObjectKey("", name))
        return revision_facts(found) if found is not None else None

    def read(self, composition: str, revision: str) -> Composition:
        resource = COMPOSITION_REVISIONS if revision else COMPOSITIONS
        name = revision or composition
        found = self.seen.get(resource, ObjectKey("", name))
        if found is None:
            kind = "CompositionRevision" if revision else "Composition"
            raise NotFound(f"cannot fetch {kind} {name}: there is none")
        key, version = (resource.resource, name), found["metadata"].get("resourceVersion", "")
        with self._lock:
            known, kept = self._read.get(key, ("", None))
        if kept is not None and known == version:
            return kept
        parsed = parse_composition(Document.of(found, f"{resource.resource} {name}"))
        with self._lock:
            self._read[key] = version, parsed
        return parsed

    def compose(
        self,
        composition: Composition,
        observed: Observed,
        kind: Kind,
        remembered: Mapping[str, Data] | None,
    ) -> Composed:
        namespace = namespace_of(observed.composite)
        source: RequirementSource = self._source
        if namespace and self._settings.restricts_resources:
            source = OwnNamespaceSource(source, self._part.cluster, namespace)
        engine = Engine(
            self._tools.runner,
            self.functions(),
            source,
            self._part.clock,
            self._cache,
            self._tools.metrics,
            rules=ComposedRules(kind.is_legacy, self._is_namespaced),
            artifacts=self._artifacts,
        )
        return compose(composition, observed, engine, remembered=remembered)

    def _is_namespaced(self, api_version: str, kind: str) -> bool:
        try:
            return self._part.cluster.resource_for(api_version, kind).is_namespaced
        except NoMatch:
            # Applying it says what is wrong.
            return True

    def connection_details(self, namespace: str, secret: str) -> Mapping[str, str]:
        return self._source.fetch_secret(namespace, secret) or {}

    @property
    def uses_revisions(self) -> bool:
        return self._settings.uses_revisions

    def note_composed(self, revision: str, outcomes: Sequence[StepOutcome]) -> None:
        if not revision:
            return
        used = tuple((each.step, each.revision) for each in outcomes if each.revision)
        with self._lock:
            if self._composed_with.get(revision) == used:
                return
            self._composed_with[revision] = used
            digests = {each.name: each.digest for family in self.functions() for each in family}
        composed_with = [
            {"step": step, "functionRevision": name, **({"digest": found} if found else {})}
            for step, name in used
            for found in (digests.get(name),)
        ]
        found = self.seen.get(COMPOSITION_REVISIONS, ObjectKey("", revision))
        if found is None or status_of(found).get("composedWith") == composed_with:
            return
        self._part.cluster.patch(
            COMPOSITION_REVISIONS,
            revision,
            {"status": {"composedWith": composed_with}},
            subresource="status",
        )

    # Functions

    def functions(self) -> Registry[FunctionRevision]:
        """Give all revisions: those of the cluster, and what comes with us under other names."""
        with self._lock:
            if self._functions is not None:
                return self._functions
            by_function: dict[str, list[FunctionRevision]] = defaultdict(list)
            for obj in self.seen.list_cached(FUNCTION_REVISIONS):
                revision = self._reached(obj)
                if revision.function:
                    by_function[revision.function].append(revision)
            builder: RegistryBuilder[FunctionRevision] = RegistryBuilder()
            for revisions in by_function.values():
                builder.add(with_lifecycles(revisions))
            here: dict[str, list[FunctionRevision]] = defaultdict(list)
            for revision in built_in_revisions(self._tools.entries):
                here[revision.function].append(revision)
            for function, revisions in here.items():
                if function not in by_function:
                    builder.add(revisions)
            self._functions = builder.build()
            return self._functions

    def _reached(self, obj: KubeObject) -> FunctionRevision:
        """Give a revision with the addresses at which its pods answer now."""
        revision = revision_of(obj)
        if runtime_of(obj, self._settings.default_runtime) is Runtime.IN_PROCESS:
            is_strict = self._settings.is_strict
            return run_by_package(revision, self._tools.entries, obj, strict=is_strict)
        if not self._settings.runs_functions:
            return revision
        if runtime_of(obj, self._settings.default_runtime) is not Runtime.DEPLOYMENT:
            return revision
        addresses = self._addresses.get(revision.name, ())
        if not addresses:
            return revision._replace(endpoint="")
        host = server_name(revision.name, self._settings.namespace)
        return revision._replace(endpoint=f"ipv4:{','.join(addresses)}#{host}")

    def users_of_functions(
        self, function: str, revisions: Sequence[FunctionRevision]
    ) -> Mapping[str, Sequence[str]]:
        """Say which compositions name a revision, or would pick it by its labels."""
        pipelines = [
            pipeline_of(obj)
            for resource in (COMPOSITIONS, COMPOSITION_REVISIONS)
            if self.seen.has_synced(resource)
            for obj in self.seen.list_cached(resource)
        ]
        users = users_of_function(function, revisions, pipelines)
        return {name: words_for_uses(found) for name, found in users.items()}


def composition_facts(obj: KubeObject) -> CompositionFacts:
    target = spec_of(obj).get("compositeTypeRef") or {}
    return CompositionFacts(
        name_of(obj),
        str(target.get("apiVersion") or ""),
        str(target.get("kind") or ""),
        labels_of(obj),
    )


def revision_facts(obj: KubeObject) -> RevisionFacts:
    labels = labels_of(obj)
    number = int(spec_of(obj).get("revision") or 0)
    return RevisionFacts(
        name_of(obj), str(labels.get(COMPOSITION_NAME_LABEL) or ""), number, labels
    )


def _ready_addresses(slices: KubeObject) -> list[str]:
    """Give the addresses in an EndpointSlice that may be called, with the port of gRPC."""
    port = next(
        (
            each.get("port")
            for each in slices.get("ports") or ()
            if each.get("name") in ("grpc", "", None)
        ),
        GRPC_PORT,
    )
    return [
        f"{address}:{port}"
        for endpoint in slices.get("endpoints") or ()
        if (endpoint.get("conditions") or {}).get("ready") is not False
        for address in endpoint.get("addresses") or ()
    ]

"""Compositions and their revisions, as the informer cache has them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from threading import RLock

from kanister_py.controller.compositions.revisions import reconcile_composition
from kanister_py.controller.machine.events import PostEvent
from kanister_py.core.compositions.model import Composition, parse_composition
from kanister_py.core.errors import NotFound
from kanister_py.core.kube.parts import labels_of, name_of, spec_of
from kanister_py.core.registry.entries import FunctionRevision
from kanister_py.core.revisions.collection import describe_uses, pipeline_of, users_of_function
from kanister_py.core.revisions.identity import COMPOSITION_NAME_LABEL
from kanister_py.core.revisions.kinds import COMPOSITION_REVISIONS, COMPOSITIONS
from kanister_py.core.revisions.policy import CompositionFacts, RevisionFacts
from kanister_py.core.yaml.documents import Document
from kanister_py.executor.object_cache import ObjectCache
from kanister_py.executor.watch_cache import ObjectKey
from kanister_py.ports.cluster import Cluster, KubeObject


class CompositionIndex:
    """Index of Compositions and CompositionRevisions; each version is parsed once."""

    def __init__(self, cluster: Cluster, cache: ObjectCache, post_event: PostEvent) -> None:
        self._cluster = cluster
        self._cache = cache
        self._post_event = post_event
        self._lock = RLock()
        self._revisions: dict[str, dict[str, RevisionFacts]] = defaultdict(dict)
        """Revisions by the name of their Composition, then by their own name."""
        self._parsed: dict[tuple[str, str], tuple[str, Composition]] = {}
        """Parsed objects with their `resourceVersion`, by resource and name."""

    def update_revision(self, old: KubeObject | None, new: KubeObject | None) -> RevisionFacts:
        """Record that a CompositionRevision was added, changed or deleted."""
        facts = revision_facts(new or old or {})
        with self._lock:
            if new is None:
                siblings = self._revisions[facts.composition]
                siblings.pop(facts.name, None)
                if not siblings:
                    del self._revisions[facts.composition]
                self._parsed.pop((COMPOSITION_REVISIONS.resource, facts.name), None)
            else:
                self._revisions[facts.composition][facts.name] = facts
        return facts

    def forget_composition(self, name: str) -> None:
        """Record that a Composition was deleted."""
        with self._lock:
            self._parsed.pop((COMPOSITIONS.resource, name), None)

    @property
    def names_with_revisions(self) -> Sequence[str]:
        """Names of the Compositions that have revisions."""
        with self._lock:
            return list(self._revisions)

    def compositions_for(self, api_version: str, kind: str) -> Sequence[CompositionFacts]:
        """List the Compositions for a kind of composite resource."""
        compositions = [composition_facts(obj) for obj in self._cache.list_cached(COMPOSITIONS)]
        return [
            facts
            for facts in compositions
            if (facts.api_version, facts.kind) == (api_version, kind)
        ]

    def composition(self, name: str) -> CompositionFacts | None:
        obj = self._cache.get(COMPOSITIONS, ObjectKey("", name))
        return composition_facts(obj) if obj is not None else None

    def revisions(self, composition: str) -> Sequence[RevisionFacts]:
        """List the revisions of a Composition, creating the first one if there is none yet."""
        with self._lock:
            revisions = list(self._revisions.get(composition, {}).values())
        if revisions or not self._cache.has_synced(COMPOSITION_REVISIONS):
            return revisions
        # A composite resource may be reconciled before its new Composition has a revision.
        name = reconcile_composition(self._cluster, composition, self._post_event)
        if not name:
            return ()
        return [revision_facts(self._cluster.get(COMPOSITION_REVISIONS, name))]

    def revision(self, name: str) -> RevisionFacts | None:
        obj = self._cache.get(COMPOSITION_REVISIONS, ObjectKey("", name))
        return revision_facts(obj) if obj is not None else None

    def read(self, composition: str, revision: str) -> Composition:
        """Parse a revision, or the Composition itself if `revision` is empty."""
        resource = COMPOSITION_REVISIONS if revision else COMPOSITIONS
        name = revision or composition
        obj = self._cache.get(resource, ObjectKey("", name))
        if obj is None:
            kind = "CompositionRevision" if revision else "Composition"
            raise NotFound(f"cannot fetch {kind} {name}: there is none")
        key, version = (resource.resource, name), obj["metadata"].get("resourceVersion", "")
        with self._lock:
            parsed_version, parsed = self._parsed.get(key, ("", None))
        if parsed is not None and parsed_version == version:
            return parsed
        parsed = parse_composition(Document.of(obj, f"{resource.resource} {name}"))
        with self._lock:
            self._parsed[key] = version, parsed
        return parsed

    def users_of_functions(
        self, function: str, revisions: Sequence[FunctionRevision]
    ) -> Mapping[str, Sequence[str]]:
        """Map revisions of a function to the compositions that name or select them."""
        pipelines = [
            pipeline_of(obj)
            for resource in (COMPOSITIONS, COMPOSITION_REVISIONS)
            if self._cache.has_synced(resource)
            for obj in self._cache.list_cached(resource)
        ]
        users = users_of_function(function, revisions, pipelines)
        return {name: describe_uses(uses) for name, uses in users.items()}


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

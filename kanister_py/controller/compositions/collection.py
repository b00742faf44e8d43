"""Garbage collection of old CompositionRevisions that are not in use."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from kanister_py.controller.compositions.composition_index import CompositionIndex, revision_facts
from kanister_py.controller.compositions.served_kinds import Served
from kanister_py.controller.machine.writing import delete_as_seen
from kanister_py.core.compositions.definitions import machinery_of
from kanister_py.core.kube.parts import spec_of
from kanister_py.core.revisions.collection import (
    Holder,
    Revision,
    describe_uses,
    plan_collection,
    users_of_composition,
)
from kanister_py.core.revisions.kinds import COMPOSITION_REVISIONS, COMPOSITIONS
from kanister_py.core.revisions.policy import RevisionFacts, selection_of
from kanister_py.executor.object_cache import ObjectCache
from kanister_py.executor.watch_cache import ObjectKey
from kanister_py.ports.cluster import Cluster

_LOG: Final = logging.getLogger(__name__)


def collect_revisions(
    cluster: Cluster,
    cache: ObjectCache,
    compositions: CompositionIndex,
    kinds: Iterable[Served],
    limit: int,
) -> list[str]:
    """Delete unused revisions of Compositions beyond `limit`; return their names."""
    # The cache does not have the resources of a kind that is served from now on.
    served = tuple(kinds)
    needed = {*cache.watched, *(kind.resource for kind in served)}
    if not limit or not all(map(cache.has_synced, needed)):
        # A revision may be in use by a resource that is not in the cache yet.
        return []
    removed: list[str] = []
    for composition in compositions.names_with_revisions:
        if not _is_kind_served(composition, cache, served):
            continue
        facts = compositions.revisions(composition)
        users = _users_of(composition, facts, cache, served)
        revisions = [
            Revision(revision.name, revision.number, users.get(revision.name, ()))
            for revision in facts
        ]
        for name in plan_collection(revisions, limit).removed:
            obj = cache.get_cached(COMPOSITION_REVISIONS, ObjectKey("", name))
            if obj is None or not delete_as_seen(cluster, COMPOSITION_REVISIONS, obj):
                continue
            _LOG.info("Removed CompositionRevision %s, which is not in use", name)
            removed.append(name)
    return removed


def _users_of(
    composition: str,
    revisions: Sequence[RevisionFacts],
    cache: ObjectCache,
    kinds: Sequence[Served],
) -> Mapping[str, tuple[str, ...]]:
    holders = [
        Holder(
            f"{kind.kind.kind}/{key}",
            selection_of(machinery_of(obj, legacy=kind.kind.is_legacy)),
            kind.kind.rules,
        )
        for kind in kinds
        for key, obj in cache.watch(kind.resource).items()
    ]
    users = users_of_composition(composition, revisions, holders)
    return {name: describe_uses(uses) for name, uses in users.items()}


def _is_kind_served(composition: str, cache: ObjectCache, kinds: Sequence[Served]) -> bool:
    """Return whether the kind of a composition is served, so that its resources are cached."""
    obj = cache.get_cached(COMPOSITIONS, ObjectKey("", composition))
    if obj is None:
        siblings = (
            revision
            for revision in cache.list_cached(COMPOSITION_REVISIONS)
            if revision_facts(revision).composition == composition
        )
        obj = next(siblings, None)
    target = spec_of(obj or {}).get("compositeTypeRef") or {}
    target_kind = (target.get("apiVersion"), target.get("kind"))
    return any((served.kind.api_version, served.kind.kind) == target_kind for served in kinds)

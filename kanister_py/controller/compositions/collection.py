"""Collection of CompositionRevisions: those beyond the newest that nobody uses are deleted."""

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
    """Delete revisions of Compositions beyond `limit` that nobody uses; name them."""
    # Of a kind that is served from now on, not all resources are seen.
    served = tuple(kinds)
    needed = {*cache.watched, *(each.resource for each in served)}
    if not limit or not all(map(cache.has_synced, needed)):
        # Who has not seen everybody cannot say that nobody uses it.
        return []
    removed: list[str] = []
    for composition in compositions.names_with_revisions:
        if not _is_kind_served(composition, cache, served):
            continue
        facts = compositions.revisions(composition)
        users = _users_of(composition, facts, cache, served)
        revisions = [Revision(each.name, each.number, users.get(each.name, ())) for each in facts]
        for name in plan_collection(revisions, limit).removed:
            found = cache.get_cached(COMPOSITION_REVISIONS, ObjectKey("", name))
            if found is None or not delete_as_seen(cluster, COMPOSITION_REVISIONS, found):
                continue
            _LOG.info("Removed CompositionRevision %s: nobody uses it", name)
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
            f"{each.kind.kind}/{key}",
            selection_of(machinery_of(obj, legacy=each.kind.is_legacy)),
            each.kind.rules,
        )
        for each in kinds
        for key, obj in cache.watch(each.resource).items()
    ]
    users = users_of_composition(composition, revisions, holders)
    return {name: describe_uses(found) for name, found in users.items()}


def _is_kind_served(composition: str, cache: ObjectCache, kinds: Sequence[Served]) -> bool:
    """Say whether all resources that a composition is for are seen."""
    found = cache.get_cached(COMPOSITIONS, ObjectKey("", composition))
    if found is None:
        of_this = (
            each
            for each in cache.list_cached(COMPOSITION_REVISIONS)
            if revision_facts(each).composition == composition
        )
        found = next(of_this, None)
    target = spec_of(found or {}).get("compositeTypeRef") or {}
    wanted = (target.get("apiVersion"), target.get("kind"))
    return any((each.kind.api_version, each.kind.kind) == wanted for each in kinds)

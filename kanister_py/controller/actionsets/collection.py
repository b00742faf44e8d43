"""Collection of ActionSets: those whose time is over, and the oldest of too many.

One that a living ActionSet was made from stays until that one has ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from kanister_py.controller.actionsets.projection import Ended, Kept, Live
from kanister_py.controller.machine.watch_cache import ObjectKey


def expiry_of(ended: Ended) -> datetime | None:
    """Say when an ActionSet's time is over; None for never."""
    if ended.ttl_seconds is None:
        return None
    return ended.ended_at + timedelta(seconds=ended.ttl_seconds)


def parents_in_need(sets: Iterable[tuple[ObjectKey, Kept]]) -> frozenset[ObjectKey]:
    """Say which ActionSets those that live were made from."""
    return frozenset(
        ObjectKey(key.namespace, parent)
        for key, each in sets
        if isinstance(each, Live)
        for parent in each.parents
    )


def surplus(
    sets: Mapping[ObjectKey, Kept], newest: int, needed: frozenset[ObjectKey]
) -> list[ObjectKey]:
    """Say which ActionSets of a blueprint are more than its newest, the oldest first.

    One that runs several blueprints counts for each, and goes only when it is too many
    for all of them. Records of a schedule's backups are left to that schedule.
    """
    by_blueprint: dict[tuple[str, str], list[tuple[datetime, ObjectKey]]] = {}
    for key, each in sets.items():
        if isinstance(each, Ended) and not each.is_record:
            for blueprint in each.blueprints or ("",):
                found = by_blueprint.setdefault((key.namespace, blueprint), [])
                found.append((each.ended_at, key))
    kept: set[ObjectKey] = set()
    old: list[tuple[datetime, ObjectKey]] = []
    for found in by_blueprint.values():
        found.sort(reverse=True)
        kept.update(key for _, key in found[:newest])
        old += found[newest:]
    return [
        key for key in dict.fromkeys(key for _, key in sorted(old))
        if key not in kept and key not in needed
    ]  # fmt: skip

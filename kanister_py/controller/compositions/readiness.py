"""Readiness of composing: whether a new composite resource could begin at once."""

from __future__ import annotations

from collections.abc import Collection

from kanister_py.controller.compositions.served_kinds import ServedKinds
from kanister_py.core.kube.parts import name_of
from kanister_py.core.kube.resources import GroupVersionResource
from kanister_py.core.revisions.kinds import DEFINITIONS
from kanister_py.executor.object_cache import ObjectCache


class Readiness:
    """What is lacking until every kind that was defined at the start is served.

    One kind that is broken keeps no replica from the others: it is enough that a definition
    was looked at once, whatever came of that, and that a kind was listed or could not be.
    Once that is so it stays so: from then on, only what all kinds need counts.
    """

    def __init__(
        self, seen: ObjectCache, kinds: ServedKinds, needed: Collection[GroupVersionResource]
    ) -> None:
        """`needed` are the kinds without which nothing is composed at all."""
        self._seen = seen
        self._kinds = kinds
        self._needed = needed
        self._looked_at: set[str] = set()
        self._has_begun = False

    def note_look(self, definition: str) -> None:
        """Take in that a definition has been looked at."""
        if not self._has_begun:
            self._looked_at.add(definition)

    @property
    def lack(self) -> str:
        """What is lacking; empty if nothing is."""
        trouble = next(filter(None, map(self._seen.trouble_of, self._needed)), "")
        if not trouble and not self._has_begun:
            trouble = self._lack_at_start()
            self._has_begun = not trouble
        return trouble

    def _lack_at_start(self) -> str:
        seen = self._seen
        for each in self._needed:
            if not seen.has_synced(each):
                return f"has not seen all {each.group_resource} yet"
        for name in map(name_of, seen.list_cached(DEFINITIONS)):
            if name not in self._looked_at:
                return f"has not looked at the definition {name} yet"
        for served in self._kinds:
            for each in filter(None, (served.resource, served.claim_resource)):
                if not seen.has_synced(each) and not seen.trouble_of(each):
                    return f"has not seen all {each.group_resource} yet"
        return ""

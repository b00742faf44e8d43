"""Garbage collection of revisions: their users, those that may go, and why the others stay."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from kanister_py.core.kube.parts import spec_of
from kanister_py.core.kube.selectors import InvalidSelector, label_selector_of
from kanister_py.core.registry.entries import FunctionRevision
from kanister_py.core.revisions.policy import CompositionSelection, RevisionFacts, XrdRules

_SHOWN: Final = 3


class KeptRevision(NamedTuple):
    """A revision that stays, and every reason for it."""

    name: str
    why: tuple[str, ...]


class CollectionPlan(NamedTuple):
    """Revisions that go, the oldest first, and those that stay, the newest first."""

    removed: tuple[str, ...]
    kept: tuple[KeptRevision, ...]


class Revision(NamedTuple):
    """A revision as far as its keeping is concerned.

    `uses` says in words what needs it: an XR that holds it, a selector that picks it,
    that it is active or serves.
    """

    name: str
    number: int
    uses: tuple[str, ...] = ()


def plan_collection(revisions: Sequence[Revision], limit: int) -> CollectionPlan:
    """Keep the newest `limit` revisions, and beyond them every one that something needs.

    The newest is never removed. A limit of 0 keeps all.
    """
    ordered = sorted(revisions, key=lambda each: (each.number, each.name), reverse=True)
    kept: list[KeptRevision] = []
    removed: list[str] = []
    for place, revision in enumerate(ordered):
        why: list[str] = []
        if place == 0:
            why.append("is the newest")
        elif limit == 0:
            why.append("no limit is set")
        elif place < limit:
            why.append(f"is among the newest {limit}")
        why += revision.uses
        if why:
            kept.append(KeptRevision(revision.name, tuple(why)))
        else:
            removed.append(revision.name)
    return CollectionPlan(tuple(reversed(removed)), tuple(kept))


def describe_uses(users: Mapping[str, Collection[str]]) -> tuple[str, ...]:
    """Name the users of a revision, in a line for each way of using it."""
    lines = []
    for way, names in sorted(users.items()):
        ordered = sorted(names)
        if not ordered:
            continue
        more = f" and {len(ordered) - _SHOWN} more" if len(ordered) > _SHOWN else ""
        lines.append(f"{way} {', '.join(ordered[:_SHOWN])}{more}")
    return tuple(lines)


# Users

HELD: Final = "is held by"
SELECTED: Final = "is selected by"
REFERENCED: Final = "is referenced by"

Users = Mapping[str, Mapping[str, set[str]]]
"""By the name of a revision and the way of using it: the users."""


class Holder(NamedTuple):
    """A composite resource, what it says about its composition, and what its definition does."""

    who: str
    selection: CompositionSelection
    rules: XrdRules = XrdRules()


class Pipeline(NamedTuple):
    """The steps of a Composition or of one of its revisions."""

    who: str
    steps: Sequence[Mapping[str, Any]]


def pipeline_of(obj: Mapping[str, Any]) -> Pipeline:
    """Read the steps of a Composition or of a revision of one as far as they call functions."""
    found = spec_of(obj).get("pipeline") or ()
    steps = [each for each in found if isinstance(each, Mapping)]
    return Pipeline(f"{obj['kind']}/{obj['metadata']['name']}", steps)


_AnyRevision = TypeVar("_AnyRevision", RevisionFacts, FunctionRevision)


def _selected(selector: Any, revisions: Iterable[_AnyRevision]) -> _AnyRevision | None:
    """Find the revision that labels pick. A selector that cannot be read fails where it is used."""
    try:
        wanted = label_selector_of(selector)
    except InvalidSelector:
        return None
    fitting = [each for each in revisions if wanted.matches(each.labels)]
    return max(fitting, key=lambda each: (each.number, each.name), default=None)


def users_of_composition(
    composition: str, revisions: Sequence[RevisionFacts], holders: Iterable[Holder]
) -> Users:
    """Find the resources that hold a revision of a composition, or would pick it by its labels."""
    users: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    of_this = [each for each in revisions if each.composition == composition]
    names = {each.name for each in of_this}
    for holder in holders:
        selection = holder.selection
        if selection.revision in names:
            users[selection.revision][HELD].add(holder.who)
        selector = selection.revision_selector or holder.rules.default_revision_selector or {}
        # One that asks for nothing holds nothing: the highest is kept anyway.
        asks = any(map(selector.get, ("matchLabels", "matchExpressions")))
        if asks and selection.composition in ("", composition):
            picked = _selected(selector, of_this)
            if picked is not None:
                users[picked.name][SELECTED].add(holder.who)
    return users


def users_of_function(
    function: str, revisions: Sequence[FunctionRevision], pipelines: Iterable[Pipeline]
) -> Users:
    """Find the compositions that name a revision of a function, or would pick it by its labels."""
    users: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for pipeline in pipelines:
        for step in pipeline.steps:
            if (step.get("functionRef") or {}).get("name") != function:
                continue
            named = (step.get("functionRevisionRef") or {}).get("name")
            selector = step.get("functionRevisionSelector")
            if named:
                users[str(named)][REFERENCED].add(pipeline.who)
            elif selector:
                picked = _selected(selector, revisions)
                if picked is not None:
                    users[picked.name][SELECTED].add(pipeline.who)
    return users

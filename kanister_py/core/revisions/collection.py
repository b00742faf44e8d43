"""Garbage collection of revisions: their users, and the revisions to remove or keep."""

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
    """A revision that is kept, with all reasons."""

    name: str
    why: tuple[str, ...]


class CollectionPlan(NamedTuple):
    """Revisions to remove, oldest first, and revisions to keep, newest first."""

    removed: tuple[str, ...]
    kept: tuple[KeptRevision, ...]


class Revision(NamedTuple):
    """A revision with the reasons to keep it.

    `uses` describes these reasons in words: XRs that use it, selectors that match it, or that it
    is active or healthy.
    """

    name: str
    number: int
    uses: tuple[str, ...] = ()


def plan_collection(revisions: Sequence[Revision], limit: int) -> CollectionPlan:
    """Plan to keep the newest `limit` revisions and all that are in use.

    The newest revision is never removed. A limit of 0 keeps all.
    """
    ordered = sorted(revisions, key=lambda revision: (revision.number, revision.name), reverse=True)
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
    """Describe the users of a revision, in one line per way of using it."""
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
"""Users by revision name and way of using it."""


class Holder(NamedTuple):
    """A composite resource, its selection of a Composition, and the rules of its definition."""

    title: str
    selection: CompositionSelection
    rules: XrdRules = XrdRules()


class Pipeline(NamedTuple):
    """The steps of a Composition or CompositionRevision."""

    title: str
    steps: Sequence[Mapping[str, Any]]


def pipeline_of(obj: Mapping[str, Any]) -> Pipeline:
    """Return the steps of a Composition or CompositionRevision."""
    listed = spec_of(obj).get("pipeline") or ()
    steps = [step for step in listed if isinstance(step, Mapping)]
    return Pipeline(f"{obj['kind']}/{obj['metadata']['name']}", steps)


_AnyRevision = TypeVar("_AnyRevision", RevisionFacts, FunctionRevision)


def _selected(selector: Any, revisions: Iterable[_AnyRevision]) -> _AnyRevision | None:
    """Return the highest revision that a selector matches, or None.

    Invalid selectors match nothing here. They are reported where they are used.
    """
    try:
        requirements = label_selector_of(selector)
    except InvalidSelector:
        return None
    matching = [revision for revision in revisions if requirements.matches(revision.labels)]
    return max(matching, key=lambda revision: (revision.number, revision.name), default=None)


def users_of_composition(
    composition: str, revisions: Sequence[RevisionFacts], holders: Iterable[Holder]
) -> Users:
    """Find the composite resources that use a revision, or whose selector matches it."""
    users: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    own_revisions = [revision for revision in revisions if revision.composition == composition]
    names = {revision.name for revision in own_revisions}
    for holder in holders:
        selection = holder.selection
        if selection.revision in names:
            users[selection.revision][HELD].add(holder.title)
        selector = selection.revision_selector or holder.rules.default_revision_selector or {}
        # An empty selector is ignored: it matches the highest revision, which is kept anyway.
        is_selective = any(map(selector.get, ("matchLabels", "matchExpressions")))
        if is_selective and selection.composition in ("", composition):
            selected = _selected(selector, own_revisions)
            if selected is not None:
                users[selected.name][SELECTED].add(holder.title)
    return users


def users_of_function(
    function: str, revisions: Sequence[FunctionRevision], pipelines: Iterable[Pipeline]
) -> Users:
    """Find the Compositions that name a revision, or whose selector matches it."""
    users: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for pipeline in pipelines:
        for step in pipeline.steps:
            if (step.get("functionRef") or {}).get("name") != function:
                continue
            named = (step.get("functionRevisionRef") or {}).get("name")
            selector = step.get("functionRevisionSelector")
            if named:
                users[str(named)][REFERENCED].add(pipeline.title)
            elif selector:
                selected = _selected(selector, revisions)
                if selected is not None:
                    users[selected.name][SELECTED].add(pipeline.title)
    return users

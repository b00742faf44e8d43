"""Users of revisions: composite resources and pipelines, by their way of using one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from kanister_py.core.objects.parts import spec_of
from kanister_py.core.objects.selectors import InvalidSelector, label_selector_of
from kanister_py.core.registry.entries import FunctionRevision
from kanister_py.core.revisions.policy import RevisionFacts, Rules, Wishes
from kanister_py.values import NamedTuple

HELD: Final = "is held by"
SELECTED: Final = "is selected by"
REFERENCED: Final = "is referenced by"

Users = Mapping[str, Mapping[str, set[str]]]
"""By the name of a revision and the way of using it: the users."""


class Holder(NamedTuple):
    """A composite resource, what it says about its composition, and what its definition does."""

    who: str
    wishes: Wishes
    rules: Rules = Rules()


class Pipeline(NamedTuple):
    """The steps of a Composition or of one of its revisions."""

    who: str
    steps: Sequence[Mapping[str, Any]]


def pipeline_of(obj: Mapping[str, Any]) -> Pipeline:
    """Read the steps of a Composition or of a revision of one as far as they call functions."""
    found = spec_of(obj).get("pipeline") or ()
    steps = [each for each in found if isinstance(each, Mapping)]
    return Pipeline(f"{obj['kind']}/{obj['metadata']['name']}", steps)


def users_of_composition(
    composition: str, revisions: Sequence[RevisionFacts], holders: Iterable[Holder]
) -> Users:
    """Find the resources that hold a revision of a composition, or would pick it by its labels."""
    users: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    of_this = [each for each in revisions if each.composition == composition]
    names = {each.name for each in of_this}
    for holder in holders:
        wishes = holder.wishes
        if wishes.revision in names:
            users[wishes.revision][HELD].add(holder.who)
        selector = wishes.revision_selector or holder.rules.default_revision_selector
        if not selector or wishes.composition not in ("", composition):
            continue
        try:
            wanted = label_selector_of(selector)
        except InvalidSelector:
            continue  # an error where the resource is composed
        fitting = [each for each in of_this if wanted.lets_through(each.labels)]
        if fitting and wanted.requirements:
            highest = max(fitting, key=lambda each: (each.number, each.name))
            users[highest.name][SELECTED].add(holder.who)
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
                try:
                    wanted = label_selector_of(selector)
                except InvalidSelector:
                    continue  # an error where the pipeline runs
                fitting = [each for each in revisions if wanted.lets_through(each.labels)]
                if fitting:
                    highest = max(fitting, key=lambda each: each.rank)
                    users[highest.name][SELECTED].add(pipeline.who)
    return users

"""Composition policy: which Composition, and which revision of it, a composite resource holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple

from kanister_py.core.errors import UsageError
from kanister_py.core.kube.selectors import InvalidSelector, LabelSelector, label_selector_of

Labels = Mapping[str, str]
Selector = Mapping[str, Any]
"""As objects hold it: `matchLabels` and `matchExpressions`. An empty one selects all."""


class UpdatePolicy(StrEnum):
    """Whether a composite resource follows its Composition."""

    AUTOMATIC = "Automatic"
    MANUAL = "Manual"


class CompositionSelection(NamedTuple):
    """Selection of a Composition by a composite resource. A selector of None selects nothing."""

    composition: str = ""
    selector: Selector | None = None
    revision: str = ""
    revision_selector: Selector | None = None
    policy: str = ""


class XrdRules(NamedTuple):
    """Rules of a definition for composite resources that select no Composition.

    Enforced values override the selection of a resource.
    """

    default_composition: str = ""
    enforced_composition: str = ""
    default_revision_selector: Selector | None = None
    default_policy: str = ""
    enforced_policy: str = ""


class CompositionFacts(NamedTuple):
    """A Composition as far as selecting it goes."""

    name: str
    api_version: str
    kind: str
    labels: Labels


class RevisionFacts(NamedTuple):
    """A revision as far as selecting it goes: whose it is, and how it is labelled."""

    name: str
    composition: str
    number: int
    labels: Labels


SELECTION_FIELDS: Final = (
    "compositionRef",
    "compositionSelector",
    "compositionRevisionRef",
    "compositionRevisionSelector",
    "compositionUpdatePolicy",
)
"""Where a composite resource says them."""


def selection_of(machinery: Mapping[str, Any]) -> CompositionSelection:
    """Read what a composite resource says: `spec.crossplane` of it, or `spec` of a legacy one."""
    composition, selector, revision, revision_selector, policy = map(
        machinery.get, SELECTION_FIELDS
    )
    return CompositionSelection(
        _name(composition),
        _selector(selector),
        _name(revision),
        _selector(revision_selector),
        str(policy or ""),
    )


def _name(reference: Any) -> str:
    return str(reference.get("name") or "") if isinstance(reference, Mapping) else ""


def _selector(value: Any) -> Selector | None:
    return value if isinstance(value, Mapping) else None


def choose_composition(
    selection: CompositionSelection,
    rules: XrdRules,
    api_version: str,
    kind: str,
    known: Sequence[CompositionFacts],
) -> str:
    """Say which Composition a composite resource uses.

    What is enforced comes first, then what it names, then the default if it selects
    nothing, then the first by name of those that fit. A name once written stays.
    """
    chosen = rules.enforced_composition or selection.composition
    if not chosen and selection.selector is None:
        chosen = rules.default_composition
    if chosen:
        found = next((each for each in known if each.name == chosen), None)
        if found is not None and (found.api_version, found.kind) != (api_version, kind):
            raise UsageError(
                f"Composition {chosen} is for {found.api_version} {found.kind}, not for "
                f"{api_version} {kind}",
                reason="CompositionNotCompatible",
            )
        return chosen
    for_this = [each for each in known if (each.api_version, each.kind) == (api_version, kind)]
    wanted = label_selector_of(selection.selector)
    fitting = [each.name for each in for_this if wanted.matches(each.labels)]
    if not fitting:
        names = ", ".join(sorted(each.name for each in for_this))
        others = f"; without them there is {names}" if names else ""
        raise UsageError(
            f"No Composition for {api_version} {kind}{_selected(wanted)}{others}",
            reason="CompositionNotSelected",
        )
    return min(fitting)


def _selected(wanted: LabelSelector) -> str:
    pairs = ", ".join(map(str, wanted.requirements))
    return f" with the labels {pairs}" if pairs else ""


class SelectedRevision(NamedTuple):
    """The revision that is used, and what is written so that the next look finds the same.

    `selector` is a default that the resource takes over.
    """

    revision: str
    policy: UpdatePolicy
    selector: Selector | None = None


def policy_of(selection: CompositionSelection, rules: XrdRules) -> UpdatePolicy:
    """Say whether a composite resource follows: what is enforced counts before its own word."""
    policy = rules.enforced_policy or selection.policy or rules.default_policy
    return UpdatePolicy.MANUAL if policy == UpdatePolicy.MANUAL else UpdatePolicy.AUTOMATIC


def choose_composition_revision(
    selection: CompositionSelection,
    rules: XrdRules,
    composition: str,
    revisions: Sequence[RevisionFacts],
) -> SelectedRevision:
    """Say which revision a composite resource holds.

    One that follows takes the highest that its selector allows. One that does not keeps
    the revision it has; its selector, if it has one, decides the first pick only.
    """
    policy = policy_of(selection, rules)
    if policy is UpdatePolicy.MANUAL and selection.revision:
        return _kept(selection, composition, revisions)
    selector = _revision_selector(selection, rules)
    of_this = [each for each in revisions if each.composition == composition]
    wanted = label_selector_of(selector)
    fitting = [each for each in of_this if wanted.matches(each.labels)]
    if not fitting:
        names = [each.name for each in sorted(of_this, key=lambda each: each.number)]
        raise _not_found(composition, _selected(wanted), names)
    highest = max(fitting, key=lambda each: (each.number, each.name))
    return SelectedRevision(
        highest.name, policy, selector if selection.revision_selector is None else None
    )


def _revision_selector(selection: CompositionSelection, rules: XrdRules) -> Selector | None:
    is_open = selection.revision_selector is None and not selection.revision
    return rules.default_revision_selector if is_open else selection.revision_selector


def _kept(
    selection: CompositionSelection, composition: str, revisions: Sequence[RevisionFacts]
) -> SelectedRevision:
    found = next((each for each in revisions if each.name == selection.revision), None)
    if found is None:
        names = sorted(each.name for each in revisions if each.composition == composition)
        raise _not_found(composition, f" called {selection.revision}", names)
    if found.composition != composition:
        raise UsageError(
            f"compositionRevisionRef names {found.name}, a revision of {found.composition}, but "
            f"the composition is {composition}; name one of its revisions, or remove the reference",
            reason="RevisionOfAnotherComposition",
        )
    return SelectedRevision(found.name, UpdatePolicy.MANUAL)


def _not_found(composition: str, asked: str, others: Sequence[str]) -> UsageError:
    nothing = ": there is no such Composition, or its first revision is still to be made"
    found = f": there is {', '.join(others)}" if others else nothing
    return UsageError(
        f"Composition {composition} has no revision{asked}{found}",
        reason="CompositionRevisionNotFound",
    )


def follows(
    selection: CompositionSelection, rules: XrdRules, composition: str, revision: RevisionFacts
) -> bool:
    """Say whether a new revision concerns a composite resource that uses a composition."""
    if revision.composition != composition or policy_of(selection, rules) is UpdatePolicy.MANUAL:
        return False
    try:
        return label_selector_of(_revision_selector(selection, rules)).matches(revision.labels)
    except InvalidSelector:
        return True  # its next look says so

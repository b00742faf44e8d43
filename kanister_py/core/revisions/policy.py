"""Selection of a Composition and of its revision by composite resources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple

from kanister_py.core.errors import UsageError
from kanister_py.core.kube.selectors import InvalidSelector, LabelSelector, label_selector_of

Labels = Mapping[str, str]
Selector = Mapping[str, Any]
"""Selector with `matchLabels` and `matchExpressions`. An empty one selects everything."""


class UpdatePolicy(StrEnum):
    """Whether a composite resource follows its Composition."""

    AUTOMATIC = "Automatic"
    MANUAL = "Manual"


class CompositionSelection(NamedTuple):
    """Selection of a Composition by a composite resource. Selectors are None if not set."""

    composition: str = ""
    selector: Selector | None = None
    revision: str = ""
    revision_selector: Selector | None = None
    policy: str = ""


class XrdRules(NamedTuple):
    """Rules of a definition for the selection of Compositions.

    Default values apply to resources that select none. Enforced values override the selection.
    """

    default_composition: str = ""
    enforced_composition: str = ""
    default_revision_selector: Selector | None = None
    default_policy: str = ""
    enforced_policy: str = ""


class CompositionFacts(NamedTuple):
    """Fields of a Composition that selection needs."""

    name: str
    api_version: str
    kind: str
    labels: Labels


class RevisionFacts(NamedTuple):
    """Fields of a CompositionRevision that selection needs."""

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
"""Fields of a composite resource with its selection."""


def selection_of(machinery: Mapping[str, Any]) -> CompositionSelection:
    """Parse the selection in `spec.crossplane`, or in `spec` of a legacy resource."""
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
    candidates: Sequence[CompositionFacts],
) -> str:
    """Return the name of the Composition for a composite resource.

    The order of precedence is: the enforced one, the one that the resource names, the default
    (only for a resource without a selector), and the first by name that its selector matches.
    """
    chosen = rules.enforced_composition or selection.composition
    if not chosen and selection.selector is None:
        chosen = rules.default_composition
    if chosen:
        chosen_facts = next(
            (candidate for candidate in candidates if candidate.name == chosen), None
        )
        if chosen_facts is not None and (chosen_facts.api_version, chosen_facts.kind) != (
            api_version,
            kind,
        ):
            raise UsageError(
                f"Composition {chosen} is for {chosen_facts.api_version} {chosen_facts.kind}, "
                f"not for {api_version} {kind}",
                reason="CompositionNotCompatible",
            )
        return chosen
    for_kind = [
        candidate
        for candidate in candidates
        if (candidate.api_version, candidate.kind) == (api_version, kind)
    ]
    required = label_selector_of(selection.selector)
    matching = [candidate.name for candidate in for_kind if required.matches(candidate.labels)]
    if not matching:
        names = ", ".join(sorted(candidate.name for candidate in for_kind))
        hint = f"; other Compositions for the kind: {names}" if names else ""
        raise UsageError(
            f"No Composition for {api_version} {kind}{_selected(required)}{hint}",
            reason="CompositionNotSelected",
        )
    return min(matching)


def _selected(selector: LabelSelector) -> str:
    pairs = ", ".join(map(str, selector.requirements))
    return f" with the labels {pairs}" if pairs else ""


class SelectedRevision(NamedTuple):
    """The selected revision, and the values to store in the composite resource.

    `selector` is the default selector, if the resource should store it.
    """

    revision: str
    policy: UpdatePolicy
    selector: Selector | None = None


def policy_of(selection: CompositionSelection, rules: XrdRules) -> UpdatePolicy:
    """Return the update policy: enforced, of the composite resource, or default."""
    policy = rules.enforced_policy or selection.policy or rules.default_policy
    return UpdatePolicy.MANUAL if policy == UpdatePolicy.MANUAL else UpdatePolicy.AUTOMATIC


def choose_composition_revision(
    selection: CompositionSelection,
    rules: XrdRules,
    composition: str,
    revisions: Sequence[RevisionFacts],
) -> SelectedRevision:
    """Return the revision for a composite resource.

    With the automatic policy, this is the highest revision that its selector matches. With the
    manual policy, the resource keeps its revision, and the selector only applies to the first
    choice.
    """
    policy = policy_of(selection, rules)
    if policy is UpdatePolicy.MANUAL and selection.revision:
        return _pinned_revision(selection, composition, revisions)
    selector = _revision_selector(selection, rules)
    own_revisions = [revision for revision in revisions if revision.composition == composition]
    required = label_selector_of(selector)
    matching = [revision for revision in own_revisions if required.matches(revision.labels)]
    if not matching:
        names = [
            revision.name
            for revision in sorted(own_revisions, key=lambda revision: revision.number)
        ]
        raise _not_found(composition, _selected(required), names)
    highest = max(matching, key=lambda revision: (revision.number, revision.name))
    return SelectedRevision(
        highest.name, policy, selector if selection.revision_selector is None else None
    )


def _revision_selector(selection: CompositionSelection, rules: XrdRules) -> Selector | None:
    uses_default = selection.revision_selector is None and not selection.revision
    return rules.default_revision_selector if uses_default else selection.revision_selector


def _pinned_revision(
    selection: CompositionSelection, composition: str, revisions: Sequence[RevisionFacts]
) -> SelectedRevision:
    pinned = next((revision for revision in revisions if revision.name == selection.revision), None)
    if pinned is None:
        names = sorted(
            revision.name for revision in revisions if revision.composition == composition
        )
        raise _not_found(composition, f" named {selection.revision}", names)
    if pinned.composition != composition:
        raise UsageError(
            f"compositionRevisionRef names {pinned.name}, a revision of {pinned.composition}, but "
            f"the composition is {composition}; name one of its revisions, or remove the reference",
            reason="RevisionOfAnotherComposition",
        )
    return SelectedRevision(pinned.name, UpdatePolicy.MANUAL)


def _not_found(composition: str, condition: str, names: Sequence[str]) -> UsageError:
    nothing = ": the Composition does not exist, or has no revision yet"
    alternatives = f"; it has {', '.join(names)}" if names else nothing
    return UsageError(
        f"Composition {composition} has no revision{condition}{alternatives}",
        reason="CompositionRevisionNotFound",
    )


def follows(
    selection: CompositionSelection, rules: XrdRules, composition: str, revision: RevisionFacts
) -> bool:
    """Return whether a composite resource should use a new revision of its Composition."""
    if revision.composition != composition or policy_of(selection, rules) is UpdatePolicy.MANUAL:
        return False
    try:
        return label_selector_of(_revision_selector(selection, rules)).matches(revision.labels)
    except InvalidSelector:
        return True  # reported by its next reconcile

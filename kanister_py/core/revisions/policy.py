"""Which Composition, and which revision of it, does a composite resource hold?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple

from kanister_py.core.errors import UsageError
from kanister_py.core.objects.selectors import InvalidSelector, LabelSelector, label_selector_of


def _selected(wanted: LabelSelector) -> str:
    pairs = ", ".join(map(str, wanted.requirements))
    return f" with the labels {pairs}" if pairs else ""


class CompositionNotSelected(UsageError):
    """No Composition is there for a kind of composite resource."""

    reason = "CompositionNotSelected"

    def __init__(self, kind: str, wanted: LabelSelector, others: Sequence[str]) -> None:
        found = f"; without them there is {', '.join(sorted(others))}" if others else ""
        super().__init__(f"No Composition for {kind}{_selected(wanted)}{found}")
        self.kind = kind
        self.others = tuple(others)


class CompositionNotCompatible(UsageError):
    """A Composition is meant for another kind than the resource that names it."""

    reason = "CompositionNotCompatible"

    def __init__(
        self, composition: str, api_version: str, kind: str, of_api_version: str, of_kind: str
    ) -> None:
        super().__init__(
            f"Composition {composition} is for {api_version} {kind}, not for "
            f"{of_api_version} {of_kind}"
        )
        self.composition = composition


class CompositionRevisionNotFound(UsageError):
    """No revision of a Composition is what a composite resource asks for."""

    reason = "CompositionRevisionNotFound"

    def __init__(
        self,
        composition: str,
        wanted: LabelSelector,
        others: Sequence[str],
        name: str = "",
    ) -> None:
        nothing = ": there is no such Composition, or its first revision is still to be made"
        found = f": there is {', '.join(others)}" if others else nothing
        asked = f" called {name}" if name else _selected(wanted)
        super().__init__(f"Composition {composition} has no revision{asked}{found}")
        self.composition = composition
        self.others = tuple(others)
        self.name = name


class RevisionOfAnotherComposition(UsageError):
    """A composite resource holds a revision that is not of its Composition."""

    reason = "RevisionOfAnotherComposition"

    def __init__(self, revision: str, its_composition: str, composition: str) -> None:
        super().__init__(
            f"compositionRevisionRef names {revision}, a revision of {its_composition}, but the "
            f"composition is {composition}; name one of its revisions, or remove the reference"
        )
        self.revision = revision
        self.composition = composition


Labels = Mapping[str, str]
Selector = Mapping[str, Any]
"""As objects hold it: `matchLabels` and `matchExpressions`. An empty one selects all."""


class UpdatePolicy(StrEnum):
    """Whether a composite resource follows its Composition."""

    AUTOMATIC = "Automatic"
    MANUAL = "Manual"


class Wishes(NamedTuple):
    """What a composite resource says about its composition. A selector of None selects nothing."""

    composition: str = ""
    selector: Selector | None = None
    revision: str = ""
    revision_selector: Selector | None = None
    policy: str = ""


class Rules(NamedTuple):
    """What the definition of a composite resource says where it says nothing itself.

    What is enforced overrules it.
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


NO_WISHES: Final = Wishes()


def wishes_of(machinery: Mapping[str, Any]) -> Wishes:
    """Read what a composite resource says: `spec.crossplane` of it, or `spec` of a legacy one."""
    return Wishes(
        _name(machinery.get("compositionRef")),
        _selector(machinery.get("compositionSelector")),
        _name(machinery.get("compositionRevisionRef")),
        _selector(machinery.get("compositionRevisionSelector")),
        str(machinery.get("compositionUpdatePolicy") or ""),
    )


def rules_of(definition_spec: Mapping[str, Any]) -> Rules:
    """Read what a CompositeResourceDefinition's spec says."""
    return Rules(
        _name(definition_spec.get("defaultCompositionRef")),
        _name(definition_spec.get("enforcedCompositionRef")),
        _selector(definition_spec.get("defaultCompositionRevisionSelector")),
        str(definition_spec.get("defaultCompositionUpdatePolicy") or ""),
        str(definition_spec.get("enforceCompositionUpdatePolicy") or ""),
    )


def _name(reference: Any) -> str:
    return str(reference.get("name") or "") if isinstance(reference, Mapping) else ""


def _selector(value: Any) -> Selector | None:
    return value if isinstance(value, Mapping) else None


def choose_composition(
    wishes: Wishes,
    rules: Rules,
    api_version: str,
    kind: str,
    compositions: Sequence[CompositionFacts],
) -> str:
    """Say which Composition a composite resource uses.

    What is enforced comes first, then what it names, then the default if it selects
    nothing, then the first by name of those that fit. A name once written stays.
    """
    chosen = rules.enforced_composition or wishes.composition
    if not chosen and wishes.selector is None:
        chosen = rules.default_composition
    if chosen:
        found = next((each for each in compositions if each.name == chosen), None)
        if found is not None and (found.api_version, found.kind) != (api_version, kind):
            raise CompositionNotCompatible(chosen, found.api_version, found.kind, api_version, kind)
        return chosen
    for_this = [
        each for each in compositions if (each.api_version, each.kind) == (api_version, kind)
    ]
    wanted = label_selector_of(wishes.selector)
    fitting = [each.name for each in for_this if wanted.lets_through(each.labels)]
    if not fitting:
        raise CompositionNotSelected(f"{api_version} {kind}", wanted, [e.name for e in for_this])
    return min(fitting)


class Held(NamedTuple):
    """The revision that is used, and what is written so that the next look finds the same.

    `selector` is a default that the resource takes over.
    """

    revision: str
    policy: UpdatePolicy
    selector: Selector | None = None


def policy_of(wishes: Wishes, rules: Rules) -> UpdatePolicy:
    """Say whether a composite resource follows: what is enforced counts before its own word."""
    said = rules.enforced_policy or wishes.policy or rules.default_policy
    return UpdatePolicy.MANUAL if said == UpdatePolicy.MANUAL else UpdatePolicy.AUTOMATIC


def choose_composition_revision(
    wishes: Wishes, rules: Rules, composition: str, revisions: Sequence[RevisionFacts]
) -> Held:
    """Say which revision a composite resource holds.

    One that follows takes the highest that its selector allows. One that does not keeps
    the revision it has; its selector, if it has one, decides the first pick only.
    """
    policy = policy_of(wishes, rules)
    if policy is UpdatePolicy.MANUAL and wishes.revision:
        return _kept(wishes, composition, revisions)
    selector, taken_over = wishes.revision_selector, None
    if selector is None and not wishes.revision:
        selector = taken_over = rules.default_revision_selector
    of_this = [each for each in revisions if each.composition == composition]
    wanted = label_selector_of(selector)
    fitting = [each for each in of_this if wanted.lets_through(each.labels)]
    if not fitting:
        names = [each.name for each in sorted(of_this, key=lambda each: each.number)]
        raise CompositionRevisionNotFound(composition, wanted, names)
    highest = max(fitting, key=lambda each: (each.number, each.name))
    return Held(highest.name, policy, taken_over)


def _kept(wishes: Wishes, composition: str, revisions: Sequence[RevisionFacts]) -> Held:
    found = next((each for each in revisions if each.name == wishes.revision), None)
    if found is None:
        names = sorted(each.name for each in revisions if each.composition == composition)
        raise CompositionRevisionNotFound(composition, LabelSelector(), names, wishes.revision)
    if found.composition != composition:
        raise RevisionOfAnotherComposition(found.name, found.composition, composition)
    return Held(found.name, UpdatePolicy.MANUAL)


def follows(wishes: Wishes, rules: Rules, composition: str, revision: RevisionFacts) -> bool:
    """Say whether a new revision concerns a composite resource that uses a composition."""
    if revision.composition != composition or policy_of(wishes, rules) is UpdatePolicy.MANUAL:
        return False
    selector = wishes.revision_selector
    if selector is None and not wishes.revision:
        selector = rules.default_revision_selector
    try:
        return label_selector_of(selector).lets_through(revision.labels)
    except InvalidSelector:
        return True  # its next look says so

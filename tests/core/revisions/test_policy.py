"""Composition policy: the Composition and revision of a composite resource."""

from __future__ import annotations

from typing import Any

import pytest

from kanister_py.core.errors import UsageError
from kanister_py.core.revisions.policy import (
    CompositionFacts,
    CompositionSelection,
    RevisionFacts,
    SelectedRevision,
    UpdatePolicy,
    XrdRules,
    choose_composition,
    choose_composition_revision,
    follows,
    selection_of,
)

NO_RULES = XrdRules()
COMPOSITIONS = [
    CompositionFacts("blue", "example.org/v1", "XBucket", {"colour": "blue"}),
    CompositionFacts("amber", "example.org/v1", "XBucket", {"colour": "amber"}),
    CompositionFacts("other", "example.org/v1", "XQueue", {"colour": "blue"}),
]
REVISIONS = [
    RevisionFacts("blue-1", "blue", 1, {"channel": "stable"}),
    RevisionFacts("blue-2", "blue", 2, {"channel": "alpha"}),
    RevisionFacts("amber-1", "amber", 9, {"channel": "stable"}),
]
STABLE, ALPHA = ({"matchLabels": {"channel": channel}} for channel in ("stable", "alpha"))


def expressed(operator: str, *values: str) -> dict[str, Any]:
    expression = {"key": "channel", "operator": operator, "values": list(values)}
    return {"matchExpressions": [expression]}


AUTOMATIC, MANUAL = UpdatePolicy.AUTOMATIC, UpdatePolicy.MANUAL


@pytest.mark.parametrize(
    ("selection", "rules", "want"),
    [
        pytest.param(CompositionSelection("blue"), NO_RULES, "blue", id="it names one"),
        pytest.param(
            CompositionSelection("blue"),
            XrdRules(enforced_composition="amber"),
            "amber",
            id="one is enforced",
        ),
        pytest.param(
            CompositionSelection(),
            XrdRules(default_composition="blue"),
            "blue",
            id="no selection: the default",
        ),
        pytest.param(
            CompositionSelection(selector={"matchLabels": {"colour": "amber"}}),
            XrdRules(default_composition="blue"),
            "amber",
            id="a selector overrides the default",
        ),
        pytest.param(
            CompositionSelection(), NO_RULES, "amber", id="the first by name of those that fit"
        ),
    ],
)
def test_choice_of_a_composition(
    selection: CompositionSelection, rules: XrdRules, want: str
) -> None:
    assert choose_composition(selection, rules, "example.org/v1", "XBucket", COMPOSITIONS) == want


def test_a_composition_for_another_kind_is_refused() -> None:
    with pytest.raises(UsageError) as refused:
        choose_composition(
            CompositionSelection("other"), NO_RULES, "example.org/v1", "XBucket", COMPOSITIONS
        )
    assert refused.value.reason == "CompositionNotCompatible"


def test_selector_without_a_match_lists_the_compositions() -> None:
    with pytest.raises(UsageError) as caught:
        choose_composition(
            CompositionSelection(selector={"matchLabels": {"colour": "red"}}),
            NO_RULES,
            "example.org/v1",
            "XBucket",
            COMPOSITIONS,
        )
    assert caught.value.reason == "CompositionNotSelected"
    assert caught.value.message.endswith("; other Compositions for the kind: amber, blue")


@pytest.mark.parametrize(
    ("selection", "rules", "want"),
    [
        pytest.param(
            CompositionSelection(),
            NO_RULES,
            SelectedRevision("blue-2", AUTOMATIC),
            id="the newest by default",
        ),
        pytest.param(
            CompositionSelection(revision="blue-1"),
            NO_RULES,
            SelectedRevision("blue-2", AUTOMATIC),
            id="it follows",
        ),
        pytest.param(
            CompositionSelection(revision="blue-1", policy="Manual"),
            NO_RULES,
            SelectedRevision("blue-1", MANUAL),
            id="it is pinned",
        ),
        pytest.param(
            CompositionSelection(revision_selector=STABLE),
            NO_RULES,
            SelectedRevision("blue-1", AUTOMATIC),
            id="by labels",
        ),
        pytest.param(
            CompositionSelection(revision_selector=STABLE, policy="Manual"),
            NO_RULES,
            SelectedRevision("blue-1", MANUAL),
            id="under Manual the selector decides the first pick",
        ),
        pytest.param(
            CompositionSelection(revision_selector=expressed("NotIn", "alpha", "beta")),
            NO_RULES,
            SelectedRevision("blue-1", AUTOMATIC),
            id="by expressions over labels",
        ),
        pytest.param(
            CompositionSelection(revision="blue-2", revision_selector=STABLE, policy="Manual"),
            NO_RULES,
            SelectedRevision("blue-2", MANUAL),
            id="after that it is pinned",
        ),
        pytest.param(
            CompositionSelection(),
            XrdRules(default_revision_selector=STABLE),
            SelectedRevision("blue-1", AUTOMATIC, STABLE),
            id="a default selector is taken over",
        ),
        pytest.param(
            CompositionSelection(revision="blue-1"),
            XrdRules(default_policy="Manual"),
            SelectedRevision("blue-1", MANUAL),
            id="the default policy",
        ),
        pytest.param(
            CompositionSelection(revision="blue-1", policy="Manual"),
            XrdRules(enforced_policy="Automatic"),
            SelectedRevision("blue-2", AUTOMATIC),
            id="an enforced policy overrules",
        ),
    ],
)
def test_choice_of_a_composition_revision(
    selection: CompositionSelection, rules: XrdRules, want: SelectedRevision
) -> None:
    assert choose_composition_revision(selection, rules, "blue", REVISIONS) == want


def test_a_revision_of_another_composition_is_refused() -> None:
    with pytest.raises(UsageError) as refused:
        choose_composition_revision(
            CompositionSelection(revision="amber-1", policy="Manual"), NO_RULES, "blue", REVISIONS
        )
    assert refused.value.reason == "RevisionOfAnotherComposition"


@pytest.mark.parametrize(
    "selection",
    [
        pytest.param(
            CompositionSelection(revision="gone", policy="Manual"), id="a pinned one that is gone"
        ),
        pytest.param(
            CompositionSelection(revision_selector={"matchLabels": {"channel": "none"}}),
            id="labels that none has",
        ),
    ],
)
def test_missing_revision_lists_the_existing_ones(selection: CompositionSelection) -> None:
    with pytest.raises(UsageError) as caught:
        choose_composition_revision(selection, NO_RULES, "blue", REVISIONS)
    assert caught.value.reason == "CompositionRevisionNotFound"
    assert caught.value.message.endswith("; it has blue-1, blue-2")


def test_missing_revision_mentions_that_the_composition_may_not_exist() -> None:
    with pytest.raises(UsageError, match="the Composition does not exist, or"):
        choose_composition_revision(CompositionSelection(), NO_RULES, "absent", REVISIONS)


@pytest.mark.parametrize(
    ("selection", "rules", "want"),
    [
        pytest.param(CompositionSelection(), NO_RULES, True, id="it follows"),
        pytest.param(CompositionSelection(policy="Manual"), NO_RULES, False, id="it is pinned"),
        pytest.param(
            CompositionSelection(revision_selector=STABLE),
            NO_RULES,
            False,
            id="it selects other labels",
        ),
        pytest.param(
            CompositionSelection(revision_selector=ALPHA), NO_RULES, True, id="it selects this"
        ),
        pytest.param(
            CompositionSelection(revision_selector=expressed("In", "alpha", "beta")),
            NO_RULES,
            True,
            id="it selects this one and others",
        ),
        pytest.param(
            CompositionSelection(revision_selector=expressed("DoesNotExist")),
            NO_RULES,
            False,
            id="no label",
        ),
        pytest.param(
            CompositionSelection(revision_selector=expressed("In")),
            NO_RULES,
            True,
            id="an invalid selector is reported later",
        ),
    ],
)
def test_new_revision_is_for_resources_with_the_automatic_policy(
    selection: CompositionSelection, rules: XrdRules, want: bool
) -> None:
    assert follows(selection, rules, "blue", REVISIONS[1]) is want
    assert not follows(selection, rules, "amber", REVISIONS[1])


def test_selection_is_parsed() -> None:
    spec = {
        "compositionRef": {"name": "blue"},
        "compositionSelector": {"matchLabels": {"colour": "blue"}},
        "compositionRevisionRef": {"name": "blue-1"},
        "compositionRevisionSelector": STABLE,
        "compositionUpdatePolicy": "Manual",
    }
    assert selection_of(spec) == CompositionSelection(
        "blue", {"matchLabels": {"colour": "blue"}}, "blue-1", STABLE, "Manual"
    )
    assert selection_of({}) == CompositionSelection()

"""Claims, and what passes between one and its composite resource."""

from __future__ import annotations

from typing import Any

import pytest

from kanister_py.core.compositions.claims import (
    claim_spec_after,
    claim_status_after,
    composite_of_claim,
    is_of_claim,
)
from kanister_py.core.revisions.policy import XrdRules

CLAIM: dict[str, Any] = {
    "apiVersion": "example.org/v1",
    "kind": "Bucket",
    "metadata": {
        "name": "mine",
        "namespace": "team",
        "labels": {"tier": "gold", "app.kubernetes.io/name": "x"},
        "annotations": {"note": "kept", "kubectl.kubernetes.io/last-applied-configuration": "{}"},
    },
    "spec": {
        "region": "eu",
        "compositionSelector": {"matchLabels": {"a": "b"}},
        "writeConnectionSecretToRef": {"name": "mine"},
    },
}
NO_RULES = XrdRules()
REFERENCE = {"apiVersion": "example.org/v1", "kind": "Bucket", "namespace": "team", "name": "mine"}


def _composite(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "example.org/v1",
        "kind": "XBucket",
        "metadata": {"name": "mine-abcde"},
        "spec": {"claimRef": REFERENCE, **spec},
    }


def _made(
    claim: dict[str, Any], composite: dict[str, Any] | None, rules: XrdRules = NO_RULES
) -> dict[str, Any]:
    return composite_of_claim(claim, composite, "example.org/v1", "XBucket", rules, "claims")


def _after(
    claim: dict[str, Any], composite: dict[str, Any], rules: XrdRules = NO_RULES
) -> dict[str, Any]:
    return claim_spec_after(claim, composite, rules)


def test_a_claim_makes_a_composite_resource_that_knows_it() -> None:
    made = _made(CLAIM, None)
    assert made["metadata"] == {
        "generateName": "mine-",
        "labels": {
            "tier": "gold",
            "crossplane.io/claim-name": "mine",
            "crossplane.io/claim-namespace": "team",
        },
        "annotations": {"note": "kept"},
    }
    assert made["spec"] == {
        "region": "eu",
        "compositionSelector": {"matchLabels": {"a": "b"}},
        "claimRef": REFERENCE,
    }


def test_what_the_machinery_wrote_stays() -> None:
    theirs = _composite(
        resourceRefs=[{"kind": "X"}],
        compositionRef={"name": "c"},
        compositionRevisionRef={"name": "c-2"},
        writeConnectionSecretToRef={"name": "uid", "namespace": "system"},
    )
    made = _made(CLAIM, theirs)
    assert made["metadata"]["name"] == "mine-abcde"
    for key in ("resourceRefs", "compositionRef", "compositionRevisionRef"):
        assert made["spec"][key] == theirs["spec"][key]
    assert made["spec"]["writeConnectionSecretToRef"]["name"] == "uid"


def test_a_field_that_the_claim_drops_is_dropped() -> None:
    made = _made(CLAIM, _composite(size=3))
    assert "size" not in made["spec"]


def test_the_revision_is_the_claims_if_it_is_pinned_and_the_composites_if_not() -> None:
    theirs = _composite(compositionRevisionRef={"name": "c-2"})
    pinned = {
        **CLAIM,
        "spec": {
            "compositionUpdatePolicy": "Manual",
            "compositionRevisionRef": {"name": "c-1"},
        },
    }
    made = _made(pinned, theirs)
    assert made["spec"]["compositionRevisionRef"] == {"name": "c-1"}
    assert _after(pinned, theirs)["compositionRevisionRef"] == {"name": "c-1"}
    following = {**CLAIM, "spec": {"compositionRevisionRef": {"name": "c-1"}}}
    made = _made(following, theirs)
    assert made["spec"]["compositionRevisionRef"] == {"name": "c-2"}
    assert _after(following, theirs)["compositionRevisionRef"] == {"name": "c-2"}


def test_a_claim_that_is_held_and_names_no_revision_keeps_its_composites() -> None:
    theirs = _composite(compositionRevisionRef={"name": "c-2"})
    held = {**CLAIM, "spec": {"compositionUpdatePolicy": "Manual"}}
    assert _made(held, theirs)["spec"]["compositionRevisionRef"] == {"name": "c-2"}
    assert _after(held, theirs)["compositionRevisionRef"] == {"name": "c-2"}


@pytest.mark.parametrize(
    ("rules", "policy", "want"),
    [
        pytest.param(XrdRules(enforced_policy="Automatic"), "Manual", "c-2", id="all follow"),
        pytest.param(XrdRules(enforced_policy="Manual"), "Automatic", "c-1", id="all are held"),
        pytest.param(XrdRules(default_policy="Manual"), "", "c-1", id="held unless they say more"),
    ],
)
def test_what_a_definition_enforces_says_whose_the_revision_is(
    rules: XrdRules, policy: str, want: str
) -> None:
    theirs = _composite(compositionRevisionRef={"name": "c-2"})
    spec: dict[str, Any] = {"compositionRevisionRef": {"name": "c-1"}}
    if policy:
        spec["compositionUpdatePolicy"] = policy
    claim = {**CLAIM, "spec": spec}
    assert _made(claim, theirs, rules)["spec"]["compositionRevisionRef"] == {"name": want}
    assert _after(claim, theirs, rules)["compositionRevisionRef"] == {"name": want}


def test_an_enforced_composition_is_not_overwritten_by_a_claim() -> None:
    rules = XrdRules(enforced_composition="enforced")
    theirs = _composite(compositionRef={"name": "enforced"})
    claim = {**CLAIM, "spec": {"compositionRef": {"name": "own"}}}
    assert _made(claim, theirs, rules)["spec"]["compositionRef"] == {"name": "enforced"}
    assert _after(claim, theirs, rules)["compositionRef"] == {"name": "enforced"}


@pytest.mark.parametrize("writer", ["claims", "people"])
def test_a_selector_goes_with_the_claims_if_it_came_from_there(writer: str) -> None:
    stable = {"matchLabels": {"channel": "stable"}}
    theirs = _composite(compositionRevisionSelector=stable)
    fields: dict[str, Any] = {"f:spec": {"f:compositionRevisionSelector": {"f:matchLabels": {}}}}
    theirs["metadata"]["managedFields"] = [{"manager": writer, "fieldsV1": fields}]
    found = _made(CLAIM, theirs)["spec"].get("compositionRevisionSelector")
    assert found == (None if writer == "claims" else stable)


def test_a_claim_takes_over_which_composition_was_found() -> None:
    after = _after(CLAIM, _composite(compositionRef={"name": "c"}))
    assert after["compositionRef"] == {"name": "c"}
    assert after["resourceRef"]["name"] == "mine-abcde"
    assert after["region"] == "eu"


def test_a_claim_shows_the_status_and_the_conditions_meant_for_it() -> None:
    composite = {
        **_composite(),
        "status": {
            "address": "10.0.0.1",
            "claimConditionTypes": ["DatabaseReady"],
            "conditions": [
                {"type": "Ready", "status": "True"},
                {"type": "DatabaseReady", "status": "True"},
                {"type": "Internal", "status": "True"},
            ],
        },
    }
    claim = {**CLAIM, "status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    after = claim_status_after(claim, composite)
    assert after["address"] == "10.0.0.1"
    assert after["conditions"] == [
        {"type": "Ready", "status": "False"},
        {"type": "DatabaseReady", "status": "True"},
    ]
    assert "claimConditionTypes" not in after


def test_a_composite_resource_of_another_claim_is_left_alone() -> None:
    assert is_of_claim(_composite(), CLAIM)
    assert is_of_claim({"spec": {}}, CLAIM)
    other = {**CLAIM, "metadata": {"name": "other", "namespace": "team"}}
    assert not is_of_claim(_composite(), other)

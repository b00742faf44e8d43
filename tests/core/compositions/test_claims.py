"""Synchronization of a claim and its composite resource."""

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


def _build(
    claim: dict[str, Any], composite: dict[str, Any] | None, rules: XrdRules = NO_RULES
) -> dict[str, Any]:
    return composite_of_claim(claim, composite, "example.org/v1", "XBucket", rules, "claims")


def _after(
    claim: dict[str, Any], composite: dict[str, Any], rules: XrdRules = NO_RULES
) -> dict[str, Any]:
    return claim_spec_after(claim, composite, rules)


def test_composite_resource_refers_to_its_claim() -> None:
    built = _build(CLAIM, None)
    assert built["metadata"] == {
        "generateName": "mine-",
        "labels": {
            "tier": "gold",
            "crossplane.io/claim-name": "mine",
            "crossplane.io/claim-namespace": "team",
        },
        "annotations": {"note": "kept"},
    }
    assert built["spec"] == {
        "region": "eu",
        "compositionSelector": {"matchLabels": {"a": "b"}},
        "claimRef": REFERENCE,
    }


def test_fields_of_the_composite_resource_are_kept() -> None:
    theirs = _composite(
        resourceRefs=[{"kind": "X"}],
        compositionRef={"name": "c"},
        compositionRevisionRef={"name": "c-2"},
        writeConnectionSecretToRef={"name": "uid", "namespace": "system"},
    )
    built = _build(CLAIM, theirs)
    assert built["metadata"]["name"] == "mine-abcde"
    for key in ("resourceRefs", "compositionRef", "compositionRevisionRef"):
        assert built["spec"][key] == theirs["spec"][key]
    assert built["spec"]["writeConnectionSecretToRef"]["name"] == "uid"


def test_a_field_that_the_claim_drops_is_dropped() -> None:
    built = _build(CLAIM, _composite(size=3))
    assert "size" not in built["spec"]


def test_revision_comes_from_a_manual_claim_else_from_the_composite() -> None:
    theirs = _composite(compositionRevisionRef={"name": "c-2"})
    pinned = {
        **CLAIM,
        "spec": {
            "compositionUpdatePolicy": "Manual",
            "compositionRevisionRef": {"name": "c-1"},
        },
    }
    built = _build(pinned, theirs)
    assert built["spec"]["compositionRevisionRef"] == {"name": "c-1"}
    assert _after(pinned, theirs)["compositionRevisionRef"] == {"name": "c-1"}
    following = {**CLAIM, "spec": {"compositionRevisionRef": {"name": "c-1"}}}
    built = _build(following, theirs)
    assert built["spec"]["compositionRevisionRef"] == {"name": "c-2"}
    assert _after(following, theirs)["compositionRevisionRef"] == {"name": "c-2"}


def test_manual_claim_without_a_revision_keeps_that_of_the_composite() -> None:
    theirs = _composite(compositionRevisionRef={"name": "c-2"})
    held = {**CLAIM, "spec": {"compositionUpdatePolicy": "Manual"}}
    assert _build(held, theirs)["spec"]["compositionRevisionRef"] == {"name": "c-2"}
    assert _after(held, theirs)["compositionRevisionRef"] == {"name": "c-2"}


@pytest.mark.parametrize(
    ("rules", "policy", "want"),
    [
        pytest.param(
            XrdRules(enforced_policy="Automatic"), "Manual", "c-2", id="enforced automatic"
        ),
        pytest.param(XrdRules(enforced_policy="Manual"), "Automatic", "c-1", id="enforced manual"),
        pytest.param(XrdRules(default_policy="Manual"), "", "c-1", id="manual by default"),
    ],
)
def test_enforced_policy_decides_the_source_of_the_revision(
    rules: XrdRules, policy: str, want: str
) -> None:
    theirs = _composite(compositionRevisionRef={"name": "c-2"})
    spec: dict[str, Any] = {"compositionRevisionRef": {"name": "c-1"}}
    if policy:
        spec["compositionUpdatePolicy"] = policy
    claim = {**CLAIM, "spec": spec}
    assert _build(claim, theirs, rules)["spec"]["compositionRevisionRef"] == {"name": want}
    assert _after(claim, theirs, rules)["compositionRevisionRef"] == {"name": want}


def test_an_enforced_composition_is_not_overwritten_by_a_claim() -> None:
    rules = XrdRules(enforced_composition="enforced")
    theirs = _composite(compositionRef={"name": "enforced"})
    claim = {**CLAIM, "spec": {"compositionRef": {"name": "own"}}}
    assert _build(claim, theirs, rules)["spec"]["compositionRef"] == {"name": "enforced"}
    assert _after(claim, theirs, rules)["compositionRef"] == {"name": "enforced"}


@pytest.mark.parametrize("writer", ["claims", "people"])
def test_selector_set_for_a_claim_is_removed_with_the_claims_selector(writer: str) -> None:
    stable = {"matchLabels": {"channel": "stable"}}
    theirs = _composite(compositionRevisionSelector=stable)
    fields: dict[str, Any] = {"f:spec": {"f:compositionRevisionSelector": {"f:matchLabels": {}}}}
    theirs["metadata"]["managedFields"] = [{"manager": writer, "fieldsV1": fields}]
    selector = _build(CLAIM, theirs)["spec"].get("compositionRevisionSelector")
    assert selector == (None if writer == "claims" else stable)


def test_claim_takes_over_the_selected_composition() -> None:
    after = _after(CLAIM, _composite(compositionRef={"name": "c"}))
    assert after["compositionRef"] == {"name": "c"}
    assert after["resourceRef"]["name"] == "mine-abcde"
    assert after["region"] == "eu"


def test_claim_gets_the_status_and_selected_conditions() -> None:
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


def test_composite_resource_of_another_claim_is_not_used() -> None:
    assert is_of_claim(_composite(), CLAIM)
    assert is_of_claim({"spec": {}}, CLAIM)
    other = {**CLAIM, "metadata": {"name": "other", "namespace": "team"}}
    assert not is_of_claim(_composite(), other)

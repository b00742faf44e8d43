"""What passes between a claim and its composite resource?"""

from __future__ import annotations

from typing import Any

from kanister_py.core.compositions.claims import (
    claim_spec_after,
    claim_status_after,
    composite_of_claim,
    is_of_claim,
)

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
REFERENCE = {"apiVersion": "example.org/v1", "kind": "Bucket", "namespace": "team", "name": "mine"}


def _composite(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "example.org/v1",
        "kind": "XBucket",
        "metadata": {"name": "mine-abcde"},
        "spec": {"claimRef": REFERENCE, **spec},
    }


def test_a_claim_makes_a_composite_resource_that_knows_it() -> None:
    made = composite_of_claim(CLAIM, None, "example.org/v1", "XBucket")
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
    made = composite_of_claim(CLAIM, theirs, "example.org/v1", "XBucket")
    assert made["metadata"]["name"] == "mine-abcde"
    for key in ("resourceRefs", "compositionRef", "compositionRevisionRef"):
        assert made["spec"][key] == theirs["spec"][key]
    assert made["spec"]["writeConnectionSecretToRef"]["name"] == "uid"


def test_a_field_that_the_claim_drops_is_dropped() -> None:
    made = composite_of_claim(CLAIM, _composite(size=3), "example.org/v1", "XBucket")
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
    made = composite_of_claim(pinned, theirs, "example.org/v1", "XBucket")
    assert made["spec"]["compositionRevisionRef"] == {"name": "c-1"}
    assert claim_spec_after(pinned, theirs)["compositionRevisionRef"] == {"name": "c-1"}
    following = {**CLAIM, "spec": {"compositionRevisionRef": {"name": "c-1"}}}
    made = composite_of_claim(following, theirs, "example.org/v1", "XBucket")
    assert made["spec"]["compositionRevisionRef"] == {"name": "c-2"}
    assert claim_spec_after(following, theirs)["compositionRevisionRef"] == {"name": "c-2"}


def test_a_claim_takes_over_which_composition_was_found() -> None:
    after = claim_spec_after(CLAIM, _composite(compositionRef={"name": "c"}))
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

"""CompositeResourceDefinitions, and the CRDs made of them."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.core.compositions.definitions import (
    Scope,
    claim_crd_of,
    crd_of,
    is_legacy,
    machinery_of,
    problems_of_definition,
    scope_of,
    target_version,
)
from kanister_py.core.errors import Invalid
from kanister_py.embedded.cluster.cluster import MemoryCluster

MODERN: dict[str, Any] = {
    "apiVersion": "apiextensions.crossplane.io/v2",
    "kind": "CompositeResourceDefinition",
    "metadata": {"name": "xbuckets.example.org", "uid": "u-1"},
    "spec": {
        "group": "example.org",
        "names": {"kind": "XBucket", "plural": "xbuckets"},
        "defaultCompositionUpdatePolicy": "Manual",
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "referenceable": True,
                "additionalPrinterColumns": [
                    {"name": "Region", "type": "string", "jsonPath": ".spec.region"}
                ],
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "required": ["region"],
                                "properties": {
                                    "region": {"type": "string", "default": "eu"},
                                    "size": {"type": "integer", "minimum": 1},
                                },
                            },
                            "status": {
                                "type": "object",
                                "properties": {"address": {"type": "string"}},
                            },
                        },
                    }
                },
            }
        ],
    },
}
LEGACY: dict[str, Any] = {
    **MODERN,
    "apiVersion": "apiextensions.crossplane.io/v1",
    "spec": {**MODERN["spec"], "claimNames": {"kind": "Bucket", "plural": "buckets"}},
}


def _schema(crd: dict[str, Any]) -> Any:
    return crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]


def test_a_definition_says_where_its_resources_live() -> None:
    assert scope_of(MODERN) is Scope.NAMESPACED
    assert scope_of(LEGACY) is Scope.LEGACY_CLUSTER
    assert is_legacy(LEGACY)
    cluster = {**MODERN, "spec": {**MODERN["spec"], "scope": "Cluster"}}
    assert crd_of(cluster)["spec"]["scope"] == "Cluster"
    assert crd_of(MODERN)["spec"]["scope"] == "Namespaced"


def test_what_people_wrote_stays_and_the_machinery_stands_apart() -> None:
    schema = _schema(crd_of(MODERN))
    spec = schema["spec"]
    assert spec["required"] == ["region"]
    assert set(spec["properties"]) == {"region", "size", "crossplane"}
    machinery = spec["properties"]["crossplane"]["properties"]
    assert machinery["compositionUpdatePolicy"]["default"] == "Manual"
    assert "namespace" not in machinery["resourceRefs"]["items"]["properties"]
    assert {"address", "conditions"} <= set(schema["status"]["properties"])
    assert "claimConditionTypes" not in schema["status"]["properties"]


def test_a_legacy_resource_has_the_machinery_in_its_spec() -> None:
    spec = _schema(crd_of(LEGACY))["spec"]["properties"]
    assert {"compositionRef", "claimRef", "writeConnectionSecretToRef", "region"} <= set(spec)
    assert "crossplane" not in spec


def test_an_enforced_policy_is_the_default_that_people_see() -> None:
    enforced = deepcopy(MODERN)
    enforced["spec"]["enforceCompositionUpdatePolicy"] = "Automatic"
    machinery = _schema(crd_of(enforced))["spec"]["properties"]["crossplane"]["properties"]
    assert machinery["compositionUpdatePolicy"]["default"] == "Automatic"


def test_their_columns_come_before_ours() -> None:
    columns = crd_of(MODERN)["spec"]["versions"][0]["additionalPrinterColumns"]
    names = [each["name"] for each in columns]
    assert names == ["Region", "SYNCED", "READY", "COMPOSITION", "COMPOSITIONREVISION", "AGE"]


def test_only_legacy_definitions_offer_claims() -> None:
    assert claim_crd_of(MODERN) is None
    claim = claim_crd_of(LEGACY)
    assert claim is not None
    assert claim["metadata"]["name"] == "buckets.example.org"
    assert claim["spec"]["scope"] == "Namespaced"
    assert {"resourceRef", "compositeDeletePolicy"} <= set(_schema(claim)["spec"]["properties"])


@pytest.mark.parametrize("definition", [MODERN, LEGACY], ids=["modern", "legacy"])
def test_a_cluster_takes_resources_of_the_kinds(definition: dict[str, Any]) -> None:
    cluster = MemoryCluster(clock=SystemClock())
    cluster.create(crd_of(definition))
    resource: dict[str, Any] = {
        "apiVersion": "example.org/v1alpha1",
        "kind": "XBucket",
        "metadata": {"name": "mine"},
        "spec": {"size": 3},
    }
    if not is_legacy(definition):
        resource["metadata"]["namespace"] = "default"
    made = cluster.create(resource)
    assert made["spec"]["size"] == 3
    assert machinery_of(made, legacy=is_legacy(definition)) is not None


@pytest.mark.parametrize("key", ["compositionSelector", "compositionRevisionSelector"])
def test_a_selector_of_which_nothing_is_left_is_refused(key: str) -> None:
    cluster = MemoryCluster(clock=SystemClock())
    cluster.create(crd_of(LEGACY))
    # A key that nobody knows is pruned, and an empty selector would mean all.
    resource = {
        "apiVersion": "example.org/v1alpha1",
        "kind": "XBucket",
        "metadata": {"name": "mine"},
        "spec": {key: {"matchLabel": {"tier": "gold"}}},
    }
    with pytest.raises(Invalid, match="matchLabels or matchExpressions is required"):
        cluster.create(resource)


def test_a_definition_is_owned_and_its_metadata_is_handed_on() -> None:
    labelled = deepcopy(MODERN)
    labelled["spec"]["metadata"] = {"labels": {"team": "data"}}
    metadata = crd_of(labelled)["metadata"]
    assert metadata["labels"] == {"team": "data"}
    assert metadata["ownerReferences"][0]["uid"] == "u-1"
    assert target_version(MODERN) == "v1alpha1"


@pytest.mark.parametrize(
    ("change", "path"),
    [
        pytest.param({"group": "other.org"}, "metadata.name", id="a name of another group"),
        pytest.param({"versions": []}, "spec.versions", id="no version"),
        pytest.param({"claimNames": {"kind": "B", "plural": "b"}}, "spec.claimNames", id="claims"),
    ],
)
def test_what_makes_no_kind_is_named(change: dict[str, Any], path: str) -> None:
    wrong = {**MODERN, "spec": {**MODERN["spec"], **change}}
    assert [where for where, _message in problems_of_definition(wrong)] == [path]
    assert not list(problems_of_definition(MODERN))

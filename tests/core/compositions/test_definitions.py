"""CompositeResourceDefinitions, and the CRDs built from them."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.core.compositions.composite_crds import claim_crd_of, crd_of
from kanister_py.core.compositions.definitions import (
    Definition,
    Scope,
    machinery_of,
    read_definition,
)
from kanister_py.core.errors import Invalid
from kanister_py.core.revisions.policy import XrdRules
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


def _model(definition: dict[str, Any]) -> Definition:
    model, problems = read_definition(definition)
    assert not problems
    return model


def _crd(definition: dict[str, Any]) -> dict[str, Any]:
    return crd_of(_model(definition))


def _schema(crd: dict[str, Any]) -> Any:
    return crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]


def test_scope_of_a_definition() -> None:
    assert _model(MODERN).scope is Scope.NAMESPACED
    assert _model(LEGACY).scope is Scope.LEGACY_CLUSTER
    assert _model(LEGACY).is_legacy
    cluster = {**MODERN, "spec": {**MODERN["spec"], "scope": "Cluster"}}
    assert _crd(cluster)["spec"]["scope"] == "Cluster"
    assert _crd(MODERN)["spec"]["scope"] == "Namespaced"


def test_authored_fields_are_kept_and_machinery_has_its_own_field() -> None:
    schema = _schema(_crd(MODERN))
    spec = schema["spec"]
    assert spec["required"] == ["region"]
    assert set(spec["properties"]) == {"region", "size", "crossplane"}
    machinery = spec["properties"]["crossplane"]["properties"]
    assert machinery["compositionUpdatePolicy"]["default"] == "Manual"
    assert "namespace" not in machinery["resourceRefs"]["items"]["properties"]
    assert {"address", "conditions"} <= set(schema["status"]["properties"])
    assert "claimConditionTypes" not in schema["status"]["properties"]


def test_a_legacy_resource_has_the_machinery_in_its_spec() -> None:
    spec = _schema(_crd(LEGACY))["spec"]["properties"]
    assert {"compositionRef", "claimRef", "writeConnectionSecretToRef", "region"} <= set(spec)
    assert "crossplane" not in spec


def test_enforced_policy_is_the_default_in_the_schema() -> None:
    enforced = deepcopy(MODERN)
    enforced["spec"]["enforceCompositionUpdatePolicy"] = "Automatic"
    machinery = _schema(_crd(enforced))["spec"]["properties"]["crossplane"]["properties"]
    assert machinery["compositionUpdatePolicy"]["default"] == "Automatic"


def test_authored_columns_come_before_standard_columns() -> None:
    columns = _crd(MODERN)["spec"]["versions"][0]["additionalPrinterColumns"]
    names = [column["name"] for column in columns]
    assert names == ["Region", "SYNCED", "READY", "COMPOSITION", "COMPOSITIONREVISION", "AGE"]


def test_only_legacy_definitions_offer_claims() -> None:
    assert claim_crd_of(_model(MODERN)) is None
    claim = claim_crd_of(_model(LEGACY))
    assert claim is not None
    assert claim["metadata"]["name"] == "buckets.example.org"
    assert claim["spec"]["scope"] == "Namespaced"
    assert {"resourceRef", "compositeDeletePolicy"} <= set(_schema(claim)["spec"]["properties"])


@pytest.mark.parametrize("definition", [MODERN, LEGACY], ids=["modern", "legacy"])
def test_cluster_accepts_resources_of_the_crd(definition: dict[str, Any]) -> None:
    cluster = MemoryCluster(clock=SystemClock())
    cluster.create(_crd(definition))
    resource: dict[str, Any] = {
        "apiVersion": "example.org/v1alpha1",
        "kind": "XBucket",
        "metadata": {"name": "mine"},
        "spec": {"size": 3},
    }
    if not _model(definition).is_legacy:
        resource["metadata"]["namespace"] = "default"
    created = cluster.create(resource)
    assert created["spec"]["size"] == 3
    assert machinery_of(created, legacy=_model(definition).is_legacy) is not None


@pytest.mark.parametrize("key", ["compositionSelector", "compositionRevisionSelector"])
def test_selector_that_becomes_empty_by_pruning_is_refused(key: str) -> None:
    cluster = MemoryCluster(clock=SystemClock())
    cluster.create(_crd(LEGACY))
    # The unknown key is pruned, and an empty selector would match everything.
    resource = {
        "apiVersion": "example.org/v1alpha1",
        "kind": "XBucket",
        "metadata": {"name": "mine"},
        "spec": {key: {"matchLabel": {"tier": "gold"}}},
    }
    with pytest.raises(Invalid, match="matchLabels or matchExpressions is required"):
        cluster.create(resource)


def test_crd_has_an_owner_and_the_metadata_of_the_definition() -> None:
    labelled = deepcopy(MODERN)
    labelled["spec"]["metadata"] = {"labels": {"team": "data"}}
    metadata = _crd(labelled)["metadata"]
    assert metadata["labels"] == {"team": "data"}
    assert metadata["ownerReferences"][0]["uid"] == "u-1"
    assert _model(MODERN).target_version == "v1alpha1"


@pytest.mark.parametrize(
    ("change", "path"),
    [
        pytest.param({"group": "other.org"}, "metadata.name", id="a name of another group"),
        pytest.param({"versions": []}, "spec.versions", id="no version"),
        pytest.param({"claimNames": {"kind": "B", "plural": "b"}}, "spec.claimNames", id="claims"),
    ],
)
def test_invalid_definition_is_reported(change: dict[str, Any], path: str) -> None:
    wrong = {**MODERN, "spec": {**MODERN["spec"], **change}}
    _definition, problems = read_definition(wrong)
    assert [where for where, _message in problems] == [path]


def test_a_field_of_a_wrong_type_is_reported_and_left_out() -> None:
    wrong = deepcopy(MODERN)
    wrong["spec"]["versions"][0]["served"] = "yes"
    definition, problems = read_definition(wrong)
    assert [where for where, _message in problems] == ["spec.versions[0].served"]
    assert not definition.spec.versions[0].served
    assert definition.target_version == "v1alpha1"


def test_rules_have_the_defaults_and_what_is_enforced() -> None:
    selector = {"matchLabels": {"channel": "stable"}}
    definition = deepcopy(MODERN)
    definition["spec"] |= {
        "defaultCompositionRef": {"name": "a"},
        "enforcedCompositionRef": {"name": "b"},
        "defaultCompositionRevisionSelector": selector,
        "defaultCompositionUpdatePolicy": "Manual",
        "enforceCompositionUpdatePolicy": "Automatic",
    }
    rules = XrdRules("a", "b", selector, "Manual", "Automatic")
    assert _model(definition).spec.rules == rules

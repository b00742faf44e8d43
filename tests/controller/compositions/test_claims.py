"""Claims get a composite resource, and its status and connection details."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import pytest

from kanister_py.controller.compositions.claims import FINALIZER, ClaimReconciler
from kanister_py.controller.compositions.tasks import Kind
from kanister_py.controller.functions.settings import CompositionSettings
from kanister_py.controller.machine.events import Subject
from kanister_py.core.compositions.composite_crds import claim_crd_of, crd_of
from kanister_py.core.compositions.definitions import read_definition
from kanister_py.core.compositions.naming import COMPOSITE_MANAGER
from kanister_py.core.errors import NotFound
from kanister_py.core.kube.copies import copy_json
from kanister_py.core.kube.resources import CONFIG_MAPS, SECRETS
from kanister_py.core.revisions.kinds import COMPOSITION_REVISIONS
from kanister_py.core.revisions.policy import XrdRules
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.ports.cluster import KubeObject
from tests.controller.compositions.databases import (
    API,
    CLAIMS,
    COMPOSITES,
    claim,
    claimed,
    composition,
    definition,
    is_claim_ready,
)
from tests.controller.compositions.harness import Harness
from tests.controller.part_tools import part_tools
from tests.fake_clock import FakeClock


class ClaimHarness:
    """A cluster with claims, and a reconciler that tests call."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.cluster = MemoryCluster(clock=self.clock)
        self.events: list[str] = []
        defined = definition()
        defined["metadata"]["uid"] = "defined"
        model, _problems = read_definition(defined)
        offered = claim_crd_of(model)
        assert offered is not None
        self.cluster.load(
            [
                crd_of(model),
                offered,
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}},
            ]
        )
        kind = Kind(API, "XDatabase", True, XrdRules(), claim_kind="Database")
        tools = part_tools(self.cluster, self.clock, self._post_event)
        self.reconciler = ClaimReconciler(tools, kind)

    def _post_event(self, _subject: Subject, _kind: str, reason: str, message: str) -> None:
        self.events.append(f"{reason}: {message}")

    def reconcile(self, name: str = "orders") -> None:
        self.reconciler.reconcile("shop", name)

    def apply(self, obj: KubeObject) -> KubeObject:
        return self.cluster.apply(obj, field_manager="people", force=True)

    def claim(self, name: str = "orders") -> KubeObject:
        return self.cluster.get(CLAIMS, name, namespace="shop")

    def composites(self) -> list[KubeObject]:
        return list(self.cluster.list(COMPOSITES).items)

    def composite(self) -> KubeObject:
        (xr,) = self.composites()
        return xr

    def condition(self, kind: str) -> dict[str, Any]:
        conditions = self.claim()["status"]["conditions"]
        return next((condition for condition in conditions if condition["type"] == kind), {})


@pytest.fixture
def claims() -> ClaimHarness:
    return ClaimHarness()


def change(claims: ClaimHarness, **spec: Any) -> None:
    """Change the spec of the composite resource as its reconciler does."""
    composite = claims.composite()
    changed = {**composite, "spec": {**composite["spec"], **spec}}
    claims.cluster.replace(changed, field_manager=COMPOSITE_MANAGER)


def test_a_claim_gets_a_composite_resource_with_its_spec(claims: ClaimHarness) -> None:
    claims.apply(claim())
    claims.reconcile()
    composite = claims.composite()
    assert composite["spec"]["region"] == "eu"
    assert composite["spec"]["claimRef"] == {
        "apiVersion": API,
        "kind": "Database",
        "namespace": "shop",
        "name": "orders",
    }
    labels = composite["metadata"]["labels"]
    assert labels["crossplane.io/claim-name"] == "orders"
    assert labels["crossplane.io/claim-namespace"] == "shop"
    assert labels["team"] == "orders"
    assert "kubernetes.io/local" not in labels
    stored = claims.claim()
    assert stored["metadata"]["finalizers"] == [FINALIZER]
    assert stored["spec"]["resourceRef"]["name"] == composite["metadata"]["name"]
    assert claims.condition("Synced")["status"] == "True"
    assert claims.condition("Ready")["reason"] == "Waiting"


def test_a_second_reconcile_changes_nothing(claims: ClaimHarness) -> None:
    claims.apply(claim())
    claims.reconcile()
    before = (claims.claim(), claims.composite())
    claims.reconcile()
    assert (claims.claim(), claims.composite()) == before


def test_a_changed_claim_updates_its_composite_resource(claims: ClaimHarness) -> None:
    claims.apply(claim())
    claims.reconcile()
    name = claims.composite()["metadata"]["name"]
    claims.apply(claim(region="us"))
    claims.reconcile()
    assert claims.composite()["spec"]["region"] == "us"
    assert claims.composite()["metadata"]["name"] == name


def test_the_selected_composition_and_revision_are_copied_to_the_claim(
    claims: ClaimHarness,
) -> None:
    claims.apply(claim())
    claims.reconcile()
    change(
        claims,
        compositionRef={"name": "plain"},
        compositionRevisionRef={"name": "plain-1"},
        resourceRefs=[{"apiVersion": "v1", "kind": "ConfigMap", "name": "x"}],
    )
    claims.reconcile()
    spec = claims.claim()["spec"]
    assert spec["compositionRef"] == {"name": "plain"}
    assert spec["compositionRevisionRef"] == {"name": "plain-1"}
    assert "resourceRefs" not in spec
    change(claims, compositionRevisionRef={"name": "plain-2"})
    claims.reconcile()
    assert claims.claim()["spec"]["compositionRevisionRef"] == {"name": "plain-2"}
    assert claims.composite()["spec"]["compositionRevisionRef"] == {"name": "plain-2"}
    assert claims.composite()["spec"]["resourceRefs"][0]["name"] == "x"


def test_a_selector_copied_to_the_composite_resource_is_kept(claims: ClaimHarness) -> None:
    claims.apply(claim())
    claims.reconcile()
    stable = {"matchLabels": {"channel": "stable"}}
    change(claims, compositionRevisionSelector=stable, compositionRevisionRef={"name": "plain-1"})
    claims.reconcile()
    assert claims.composite()["spec"]["compositionRevisionSelector"] == stable
    assert claims.claim()["spec"]["compositionRevisionSelector"] == stable


def test_a_claim_with_a_manual_policy_selects_the_revision(claims: ClaimHarness) -> None:
    pinned: dict[str, Any] = {
        "compositionUpdatePolicy": "Manual",
        "compositionRevisionRef": {"name": "plain-1"},
    }
    claims.apply(claim(**pinned))
    claims.reconcile()
    assert claims.composite()["spec"]["compositionRevisionRef"] == {"name": "plain-1"}
    claims.apply(claim(**{**pinned, "compositionRevisionRef": {"name": "plain-2"}}))
    claims.reconcile()
    assert claims.composite()["spec"]["compositionRevisionRef"] == {"name": "plain-2"}


def test_the_status_and_only_the_listed_conditions_are_copied_to_the_claim(
    claims: ClaimHarness,
) -> None:
    claims.apply(claim())
    claims.reconcile()
    composite = claims.composite()
    condition = {"status": "True", "reason": "x", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    claims.cluster.replace_status(
        {
            **composite,
            "status": {
                "address": "db.example.org",
                "claimConditionTypes": ["Backed"],
                "conditions": [
                    {**condition, "type": name} for name in ("Ready", "Backed", "Inner")
                ],
            },
        }
    )
    claims.reconcile()
    status = claims.claim()["status"]
    assert status["address"] == "db.example.org"
    assert {condition["type"] for condition in status["conditions"]} == {
        "Synced",
        "Ready",
        "Backed",
    }
    assert claims.condition("Ready")["status"] == "True"
    before = claims.claim()
    claims.reconcile()
    assert claims.claim() == before


def test_connection_details_are_copied_and_updated(claims: ClaimHarness) -> None:
    claims.apply(claim(writeConnectionSecretToRef={"name": "orders-login"}))
    claims.reconcile()
    change(claims, writeConnectionSecretToRef={"namespace": "default", "name": "inner"})
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"namespace": "default", "name": "inner"},
        "data": {"password": b64encode(b"one").decode()},
    }
    claims.apply(secret)
    claims.reconcile()
    copied = claims.cluster.get(SECRETS, "orders-login", namespace="shop")
    assert copied["data"] == secret["data"]
    (owner,) = copied["metadata"]["ownerReferences"]
    assert owner["uid"] == claims.claim()["metadata"]["uid"]
    claims.apply({**secret, "data": {"password": b64encode(b"two").decode()}})
    claims.reconcile()
    copied = claims.cluster.get(SECRETS, "orders-login", namespace="shop")
    assert copied["data"] == {"password": b64encode(b"two").decode()}


def test_a_secret_with_another_controller_is_unchanged(claims: ClaimHarness) -> None:
    claims.apply(claim(writeConnectionSecretToRef={"name": "theirs"}))
    claims.reconcile()
    change(claims, writeConnectionSecretToRef={"namespace": "default", "name": "inner"})
    for namespace, name, word in (("default", "inner", "ours"), ("shop", "theirs", "theirs")):
        claims.apply(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {
                    "namespace": namespace,
                    "name": name,
                    "ownerReferences": [
                        {
                            "apiVersion": "v1",
                            "kind": "ConfigMap",
                            "name": "another",
                            "uid": "else",
                            "controller": True,
                        }
                    ]
                    if word == "theirs"
                    else [],
                },
                "data": {"password": b64encode(word.encode()).decode()},
            }
        )
    claims.reconcile()
    kept = claims.cluster.get(SECRETS, "theirs", namespace="shop")
    assert kept["data"] == {"password": b64encode(b"theirs").decode()}
    assert "theirs" in claims.condition("Synced")["message"]


def test_a_composite_resource_of_another_claim_is_unchanged(claims: ClaimHarness) -> None:
    claims.apply(claim())
    claims.reconcile()
    theirs = claims.composite()
    reference = {"apiVersion": API, "kind": "XDatabase", "name": theirs["metadata"]["name"]}
    claims.apply(claim("thief", "us", resourceRef=reference))
    claims.reconcile("thief")
    assert claims.composite() == theirs
    (condition,) = claims.claim("thief")["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("Synced", "False")
    assert "another claim" in condition["message"]
    claims.cluster.delete(CLAIMS, "thief", namespace="shop")
    claims.reconcile("thief")
    assert claims.composite() == theirs


def test_a_composite_resource_without_a_claim_is_bound(claims: ClaimHarness) -> None:
    existing = {
        "apiVersion": API,
        "kind": "XDatabase",
        "metadata": {"name": "from-before"},
        "spec": {"region": "old"},
    }
    claims.apply(existing)
    reference = {"apiVersion": API, "kind": "XDatabase", "name": "from-before"}
    claims.apply(claim(resourceRef=reference))
    claims.reconcile()
    assert claims.composite()["metadata"]["name"] == "from-before"
    assert claims.composite()["spec"]["claimRef"]["name"] == "orders"


def test_a_deleted_composite_resource_is_created_again(claims: ClaimHarness) -> None:
    claims.apply(claim())
    claims.reconcile()
    first = claims.composite()["metadata"]
    claims.cluster.delete(COMPOSITES, first["name"])
    claims.reconcile()
    again = claims.composite()["metadata"]
    assert (again["name"], again["uid"] != first["uid"]) == (first["name"], True)


def test_deleting_a_claim_deletes_its_composite_resource(claims: ClaimHarness) -> None:
    claims.apply(claim())
    claims.reconcile()
    add_composite_finalizer(claims)
    claims.cluster.delete(CLAIMS, "orders", namespace="shop")
    claims.reconcile()
    assert claims.composite()["metadata"]["deletionTimestamp"]
    # It is deleted in the background, without waiting.
    with pytest.raises(NotFound):
        claims.claim()


def test_a_claim_with_foreground_deletion_waits_for_its_composite_resource(
    claims: ClaimHarness,
) -> None:
    claims.apply(claim(compositeDeletePolicy="Foreground"))
    claims.reconcile()
    add_composite_finalizer(claims)
    claims.cluster.delete(CLAIMS, "orders", namespace="shop")
    claims.reconcile()
    claims.reconcile()
    assert claims.claim()["metadata"]["finalizers"] == [FINALIZER]
    held = copy_json(claims.composite())
    held["metadata"]["finalizers"] = []
    claims.cluster.replace(held)
    for left in claims.composites():
        held = copy_json(left)
        held["metadata"]["finalizers"] = []
        claims.cluster.replace(held)
    claims.reconcile()
    with pytest.raises(NotFound):
        claims.claim()


def add_composite_finalizer(claims: ClaimHarness) -> None:
    """Add the finalizer of the reconciler of composite resources."""
    composite = copy_json(claims.composite())
    composite["metadata"]["finalizers"] = ["composite.apiextensions.crossplane.io"]
    claims.cluster.replace(composite)


# With a whole controller


@pytest.fixture
def harness() -> Iterator[Harness]:
    running = Harness(CompositionSettings("kanister-py", uses_revisions=True))
    running.start()
    yield running
    running.close()


def stores(harness: Harness) -> list[KubeObject]:
    listed = harness.cluster.list(CONFIG_MAPS, namespace="default").items
    return [obj for obj in listed if "colour" in (obj.get("data") or {})]


def test_a_claim_is_composed_and_deleted_with_everything_it_composed(harness: Harness) -> None:
    harness.define(definition())
    harness.apply(composition("red"))
    harness.apply(claim(writeConnectionSecretToRef={"name": "orders-login"}))
    harness.until(lambda: is_claim_ready(harness))
    (store,) = stores(harness)
    assert store["metadata"]["labels"]["crossplane.io/claim-name"] == "orders"
    assert store["metadata"]["labels"]["crossplane.io/claim-namespace"] == "shop"
    harness.until(lambda: claimed(harness)["status"].get("address") == "red")
    harness.until(
        lambda: (
            harness.cluster.get(SECRETS, "orders-login", namespace="shop")["data"]
            == {"password": b64encode(b"s3cret").decode()}
        )
    )
    (composite,) = harness.cluster.list(COMPOSITES).items
    inner = composite["spec"]["writeConnectionSecretToRef"]
    assert inner == {"namespace": "default", "name": composite["metadata"]["uid"]}
    harness.cluster.delete(CLAIMS, "orders", namespace="shop")
    harness.until(lambda: not harness.cluster.list(CLAIMS, namespace="shop").items)
    harness.until(lambda: not harness.cluster.list(COMPOSITES).items and not stores(harness))
    assert not harness.cluster.list(SECRETS, namespace="shop").items


def test_an_unchanged_claim_causes_no_writes(harness: Harness) -> None:
    harness.define(definition())
    harness.apply(composition("red"))
    harness.apply(claim(writeConnectionSecretToRef={"name": "orders-login"}))
    harness.until(lambda: is_claim_ready(harness))
    harness.until(lambda: bool(harness.cluster.list(SECRETS, namespace="shop").items))
    harness.until_idle()
    harness.writes.clear()
    annotated = copy_json(claimed(harness))
    annotated["metadata"]["annotations"] = {"kubernetes.io/note": "x"}
    harness.cluster.replace(annotated)
    harness.until_idle()
    assert harness.writes == []


def test_a_claim_uses_the_revisions_that_its_definition_selects(harness: Harness) -> None:
    stable = {"matchLabels": {"channel": "stable"}}
    harness.define(definition(defaultCompositionRevisionSelector=stable))
    harness.apply(composition("red", channel="stable"))
    harness.apply(claim())
    harness.until(lambda: is_claim_ready(harness))
    harness.until_idle()
    harness.apply(composition("green", channel="alpha"))
    harness.until(lambda: len(harness.cluster.list(COMPOSITION_REVISIONS).items) == 2)
    harness.until_idle()
    assert [store["data"]["colour"] for store in stores(harness)] == ["red"]
    harness.apply(claim(region="us"))
    harness.until(lambda: stores(harness)[0]["data"]["region"] == "us")
    assert stores(harness)[0]["data"]["colour"] == "red"
    harness.apply(composition("blue", channel="stable"))
    harness.until(lambda: stores(harness)[0]["data"]["colour"] == "blue")


def test_a_waiting_claim_is_deleted_after_its_composite_resource(harness: Harness) -> None:
    harness.define(definition())
    harness.apply(composition("red"))
    harness.apply(claim(compositeDeletePolicy="Foreground"))
    harness.until(lambda: is_claim_ready(harness))
    harness.cluster.delete(CLAIMS, "orders", namespace="shop")
    harness.until(lambda: not harness.cluster.list(CLAIMS, namespace="shop").items)
    assert not harness.cluster.list(COMPOSITES).items
    assert not stores(harness)

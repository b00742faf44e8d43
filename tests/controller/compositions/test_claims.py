"""Claims: each gets its composite resource, and everything back that concerns it."""

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
from kanister_py.core.kube.resources import CONFIG_MAPS, SECRETS, GroupVersionResource
from kanister_py.core.revisions.kinds import COMPOSITION_REVISIONS
from kanister_py.core.revisions.policy import XrdRules
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.ports.cluster import KubeObject
from tests.controller.compositions.test_kinds import World
from tests.controller.part_tools import part_tools
from tests.fake_clock import FakeClock

API = "example.org/v1alpha1"
COMPOSITES = GroupVersionResource("example.org", "v1alpha1", "xdatabases")
CLAIMS = GroupVersionResource("example.org", "v1alpha1", "databases")


def definition(**spec: Any) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": {"region": {"type": "string"}}},
            "status": {"type": "object", "properties": {"address": {"type": "string"}}},
        },
    }
    return {
        "apiVersion": "apiextensions.crossplane.io/v1",
        "kind": "CompositeResourceDefinition",
        "metadata": {"name": "xdatabases.example.org"},
        "spec": {
            "group": "example.org",
            "names": {"kind": "XDatabase", "plural": "xdatabases"},
            "claimNames": {"kind": "Database", "plural": "databases"},
            "versions": [
                {
                    "name": "v1alpha1",
                    "served": True,
                    "referenceable": True,
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
            **spec,
        },
    }


def claim(name: str = "orders", region: str = "eu", **spec: Any) -> KubeObject:
    return {
        "apiVersion": API,
        "kind": "Database",
        "metadata": {
            "name": name,
            "namespace": "shop",
            "labels": {"team": "orders", "kubernetes.io/local": "x"},
        },
        "spec": {"region": region, **spec},
    }


class Office:
    """A cluster with claims, and who looks after them one pass at a time."""

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
        tools = part_tools(self.cluster, self.clock, self._tell)
        self.reconciler = ClaimReconciler(tools, kind)

    def _tell(self, _subject: Subject, _kind: str, reason: str, message: str) -> None:
        self.events.append(f"{reason}: {message}")

    def look(self, name: str = "orders") -> None:
        self.reconciler.reconcile("shop", name)

    def say(self, obj: KubeObject) -> KubeObject:
        return self.cluster.apply(obj, field_manager="people", force=True)

    def claim(self, name: str = "orders") -> KubeObject:
        return self.cluster.get(CLAIMS, name, namespace="shop")

    def composites(self) -> list[KubeObject]:
        return list(self.cluster.list(COMPOSITES).items)

    def composite(self) -> KubeObject:
        (found,) = self.composites()
        return found

    def condition(self, kind: str) -> dict[str, Any]:
        found = self.claim()["status"]["conditions"]
        return next((each for each in found if each["type"] == kind), {})


@pytest.fixture
def office() -> Office:
    return Office()


def change(office: Office, **spec: Any) -> None:
    """Change the composite resource as its own reconciler would."""
    found = office.composite()
    changed = {**found, "spec": {**found["spec"], **spec}}
    office.cluster.replace(changed, field_manager=COMPOSITE_MANAGER)


def test_a_claim_gets_a_composite_resource_that_says_what_it_says(office: Office) -> None:
    office.say(claim())
    office.look()
    made = office.composite()
    assert made["spec"]["region"] == "eu"
    assert made["spec"]["claimRef"] == {
        "apiVersion": API,
        "kind": "Database",
        "namespace": "shop",
        "name": "orders",
    }
    labels = made["metadata"]["labels"]
    assert labels["crossplane.io/claim-name"] == "orders"
    assert labels["crossplane.io/claim-namespace"] == "shop"
    assert labels["team"] == "orders"
    assert "kubernetes.io/local" not in labels
    found = office.claim()
    assert found["metadata"]["finalizers"] == [FINALIZER]
    assert found["spec"]["resourceRef"]["name"] == made["metadata"]["name"]
    assert office.condition("Synced")["status"] == "True"
    assert office.condition("Ready")["reason"] == "Waiting"


def test_a_second_look_changes_nothing(office: Office) -> None:
    office.say(claim())
    office.look()
    before = (office.claim(), office.composite())
    office.look()
    assert (office.claim(), office.composite()) == before


def test_what_the_claim_says_now_reaches_its_composite_resource(office: Office) -> None:
    office.say(claim())
    office.look()
    name = office.composite()["metadata"]["name"]
    office.say(claim(region="us"))
    office.look()
    assert office.composite()["spec"]["region"] == "us"
    assert office.composite()["metadata"]["name"] == name


def test_what_was_chosen_for_the_composite_resource_shows_on_the_claim(office: Office) -> None:
    office.say(claim())
    office.look()
    change(
        office,
        compositionRef={"name": "plain"},
        compositionRevisionRef={"name": "plain-1"},
        resourceRefs=[{"apiVersion": "v1", "kind": "ConfigMap", "name": "x"}],
    )
    office.look()
    spec = office.claim()["spec"]
    assert spec["compositionRef"] == {"name": "plain"}
    assert spec["compositionRevisionRef"] == {"name": "plain-1"}
    assert "resourceRefs" not in spec
    change(office, compositionRevisionRef={"name": "plain-2"})
    office.look()
    assert office.claim()["spec"]["compositionRevisionRef"] == {"name": "plain-2"}
    assert office.composite()["spec"]["compositionRevisionRef"] == {"name": "plain-2"}
    assert office.composite()["spec"]["resourceRefs"][0]["name"] == "x"


def test_a_selector_that_the_composite_resource_took_over_stays(office: Office) -> None:
    office.say(claim())
    office.look()
    stable = {"matchLabels": {"channel": "stable"}}
    change(office, compositionRevisionSelector=stable, compositionRevisionRef={"name": "plain-1"})
    office.look()
    assert office.composite()["spec"]["compositionRevisionSelector"] == stable
    assert office.claim()["spec"]["compositionRevisionSelector"] == stable


def test_a_claim_that_keeps_its_revision_decides_which(office: Office) -> None:
    pinned: dict[str, Any] = {
        "compositionUpdatePolicy": "Manual",
        "compositionRevisionRef": {"name": "plain-1"},
    }
    office.say(claim(**pinned))
    office.look()
    assert office.composite()["spec"]["compositionRevisionRef"] == {"name": "plain-1"}
    office.say(claim(**{**pinned, "compositionRevisionRef": {"name": "plain-2"}}))
    office.look()
    assert office.composite()["spec"]["compositionRevisionRef"] == {"name": "plain-2"}


def test_the_status_and_only_the_conditions_that_are_shown_come_back(office: Office) -> None:
    office.say(claim())
    office.look()
    found = office.composite()
    condition = {"status": "True", "reason": "x", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    office.cluster.replace_status(
        {
            **found,
            "status": {
                "address": "db.example.org",
                "claimConditionTypes": ["Backed"],
                "conditions": [
                    {**condition, "type": each} for each in ("Ready", "Backed", "Inner")
                ],
            },
        }
    )
    office.look()
    status = office.claim()["status"]
    assert status["address"] == "db.example.org"
    assert {each["type"] for each in status["conditions"]} == {"Synced", "Ready", "Backed"}
    assert office.condition("Ready")["status"] == "True"
    before = office.claim()
    office.look()
    assert office.claim() == before


def test_connection_details_are_copied_and_follow(office: Office) -> None:
    office.say(claim(writeConnectionSecretToRef={"name": "orders-login"}))
    office.look()
    change(office, writeConnectionSecretToRef={"namespace": "default", "name": "inner"})
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"namespace": "default", "name": "inner"},
        "data": {"password": b64encode(b"one").decode()},
    }
    office.say(secret)
    office.look()
    copied = office.cluster.get(SECRETS, "orders-login", namespace="shop")
    assert copied["data"] == secret["data"]
    (owner,) = copied["metadata"]["ownerReferences"]
    assert owner["uid"] == office.claim()["metadata"]["uid"]
    office.say({**secret, "data": {"password": b64encode(b"two").decode()}})
    office.look()
    copied = office.cluster.get(SECRETS, "orders-login", namespace="shop")
    assert copied["data"] == {"password": b64encode(b"two").decode()}


def test_a_secret_that_is_somebody_elses_is_left_alone(office: Office) -> None:
    office.say(claim(writeConnectionSecretToRef={"name": "theirs"}))
    office.look()
    change(office, writeConnectionSecretToRef={"namespace": "default", "name": "inner"})
    for namespace, name, word in (("default", "inner", "ours"), ("shop", "theirs", "theirs")):
        office.say(
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
                            "name": "somebody",
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
    office.look()
    kept = office.cluster.get(SECRETS, "theirs", namespace="shop")
    assert kept["data"] == {"password": b64encode(b"theirs").decode()}
    assert "theirs" in office.condition("Synced")["message"]


def test_a_composite_resource_of_another_claim_is_left_alone(office: Office) -> None:
    office.say(claim())
    office.look()
    theirs = office.composite()
    reference = {"apiVersion": API, "kind": "XDatabase", "name": theirs["metadata"]["name"]}
    office.say(claim("thief", "us", resourceRef=reference))
    office.look("thief")
    assert office.composite() == theirs
    (condition,) = office.claim("thief")["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("Synced", "False")
    assert "another claim" in condition["message"]
    office.cluster.delete(CLAIMS, "thief", namespace="shop")
    office.look("thief")
    assert office.composite() == theirs


def test_a_composite_resource_that_nobody_claims_is_taken_on(office: Office) -> None:
    there = {
        "apiVersion": API,
        "kind": "XDatabase",
        "metadata": {"name": "from-before"},
        "spec": {"region": "old"},
    }
    office.say(there)
    reference = {"apiVersion": API, "kind": "XDatabase", "name": "from-before"}
    office.say(claim(resourceRef=reference))
    office.look()
    assert office.composite()["metadata"]["name"] == "from-before"
    assert office.composite()["spec"]["claimRef"]["name"] == "orders"


def test_a_composite_resource_that_was_deleted_is_made_again(office: Office) -> None:
    office.say(claim())
    office.look()
    first = office.composite()["metadata"]
    office.cluster.delete(COMPOSITES, first["name"])
    office.look()
    again = office.composite()["metadata"]
    assert (again["name"], again["uid"] != first["uid"]) == (first["name"], True)


def test_a_claim_that_goes_takes_its_composite_resource_along(office: Office) -> None:
    office.say(claim())
    office.look()
    hold(office)
    office.cluster.delete(CLAIMS, "orders", namespace="shop")
    office.look()
    assert office.composite()["metadata"]["deletionTimestamp"]
    # In the background: nobody waits for its end.
    with pytest.raises(NotFound):
        office.claim()


def test_a_claim_waits_for_its_composite_resource_if_it_says_so(office: Office) -> None:
    office.say(claim(compositeDeletePolicy="Foreground"))
    office.look()
    hold(office)
    office.cluster.delete(CLAIMS, "orders", namespace="shop")
    office.look()
    office.look()
    assert office.claim()["metadata"]["finalizers"] == [FINALIZER]
    held = copy_json(office.composite())
    held["metadata"]["finalizers"] = []
    office.cluster.replace(held)
    for left in office.composites():
        held = copy_json(left)
        held["metadata"]["finalizers"] = []
        office.cluster.replace(held)
    office.look()
    with pytest.raises(NotFound):
        office.claim()


def hold(office: Office) -> None:
    """Keep the composite resource from ending at once, as its own reconciler does."""
    found = copy_json(office.composite())
    found["metadata"]["finalizers"] = ["composite.apiextensions.crossplane.io"]
    office.cluster.replace(found)


# With everything around it


TEMPLATE = """
apiVersion: v1
kind: ConfigMap
metadata:
  namespace: default
  annotations:
    gotemplating.fn.crossplane.io/composition-resource-name: store
    gotemplating.fn.crossplane.io/ready: "True"
data:
  region: {{ .observed.composite.resource.spec.region | quote }}
  colour: COLOUR
---
apiVersion: meta.gotemplating.fn.crossplane.io/v1alpha1
kind: CompositeConnectionDetails
data:
  password: {{ "s3cret" | b64enc }}
---
apiVersion: example.org/v1alpha1
kind: XDatabase
status:
  address: COLOUR
"""


def composition(colour: str, **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.crossplane.io/v1",
        "kind": "Composition",
        "metadata": {"name": "database", "labels": labels},
        "spec": {
            "compositeTypeRef": {"apiVersion": API, "kind": "XDatabase"},
            "mode": "Pipeline",
            "writeConnectionSecretsToNamespace": "default",
            "pipeline": [
                {
                    "step": "template",
                    "functionRef": {"name": "function-go-templating"},
                    "input": {
                        "apiVersion": "gotemplating.fn.crossplane.io/v1beta1",
                        "kind": "GoTemplate",
                        "source": "Inline",
                        "inline": {"template": TEMPLATE.replace("COLOUR", colour)},
                    },
                }
            ],
        },
    }


@pytest.fixture
def world() -> Iterator[World]:
    made = World(CompositionSettings("kanister-py", uses_revisions=True))
    made.start()
    yield made
    made.close()


def claimed(world: World) -> KubeObject:
    return world.cluster.get(CLAIMS, "orders", namespace="shop")


def is_claim_ready(world: World) -> bool:
    found = (claimed(world).get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in found)


def stores(world: World) -> list[KubeObject]:
    listed = world.cluster.list(CONFIG_MAPS, namespace="default").items
    return [each for each in listed if "colour" in (each.get("data") or {})]


def test_a_claim_on_a_cluster_is_composed_and_ends_with_everything(world: World) -> None:
    world.define(definition())
    world.say(composition("red"))
    world.say(claim(writeConnectionSecretToRef={"name": "orders-login"}))
    world.until(lambda: is_claim_ready(world))
    (store,) = stores(world)
    assert store["metadata"]["labels"]["crossplane.io/claim-name"] == "orders"
    assert store["metadata"]["labels"]["crossplane.io/claim-namespace"] == "shop"
    world.until(lambda: claimed(world)["status"].get("address") == "red")
    world.until(
        lambda: (
            world.cluster.get(SECRETS, "orders-login", namespace="shop")["data"]
            == {"password": b64encode(b"s3cret").decode()}
        )
    )
    (composite,) = world.cluster.list(COMPOSITES).items
    inner = composite["spec"]["writeConnectionSecretToRef"]
    assert inner == {"namespace": "default", "name": composite["metadata"]["uid"]}
    world.cluster.delete(CLAIMS, "orders", namespace="shop")
    world.until(lambda: not world.cluster.list(CLAIMS, namespace="shop").items)
    world.until(lambda: not world.cluster.list(COMPOSITES).items and not stores(world))
    assert not world.cluster.list(SECRETS, namespace="shop").items


def test_a_claim_at_rest_is_left_alone(world: World) -> None:
    world.define(definition())
    world.say(composition("red"))
    world.say(claim(writeConnectionSecretToRef={"name": "orders-login"}))
    world.until(lambda: is_claim_ready(world))
    world.until(lambda: bool(world.cluster.list(SECRETS, namespace="shop").items))
    world.until_rest()
    world.writes.clear()
    annotated = copy_json(claimed(world))
    annotated["metadata"]["annotations"] = {"kubernetes.io/note": "x"}
    world.cluster.replace(annotated)
    world.until_rest()
    assert world.writes == []


def test_a_claim_follows_the_revisions_that_its_definition_selects(world: World) -> None:
    stable = {"matchLabels": {"channel": "stable"}}
    world.define(definition(defaultCompositionRevisionSelector=stable))
    world.say(composition("red", channel="stable"))
    world.say(claim())
    world.until(lambda: is_claim_ready(world))
    world.until_rest()
    world.say(composition("green", channel="alpha"))
    world.until(lambda: len(world.cluster.list(COMPOSITION_REVISIONS).items) == 2)
    world.until_rest()
    assert [each["data"]["colour"] for each in stores(world)] == ["red"]
    world.say(claim(region="us"))
    world.until(lambda: stores(world)[0]["data"]["region"] == "us")
    assert stores(world)[0]["data"]["colour"] == "red"
    world.say(composition("blue", channel="stable"))
    world.until(lambda: stores(world)[0]["data"]["colour"] == "blue")


def test_a_claim_that_waits_is_gone_after_its_composite_resource(world: World) -> None:
    world.define(definition())
    world.say(composition("red"))
    world.say(claim(compositeDeletePolicy="Foreground"))
    world.until(lambda: is_claim_ready(world))
    world.cluster.delete(CLAIMS, "orders", namespace="shop")
    world.until(lambda: not world.cluster.list(CLAIMS, namespace="shop").items)
    assert not world.cluster.list(COMPOSITES).items
    assert not stores(world)

"""Kills of the controller: the cluster converges on the same outcome after any of them.

Every scenario is killed before each of its writes. A kill after a write is the same as a kill
before the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import pytest

from kanister_py.controller.functions.settings import CompositionSettings
from kanister_py.core.errors import NotFound
from kanister_py.core.kube.resources import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, SECRETS
from kanister_py.core.revisions.kinds import (
    COMPOSITION_REVISIONS,
    DEFINITIONS,
    FUNCTION_REVISIONS,
    FUNCTIONS,
)
from tests.controller.compositions import databases as claims
from tests.controller.compositions import template_functions as functions
from tests.controller.compositions.harness import BUCKETS, Harness, bucket, composition, definition
from tests.controller.conftest import Mortal

SETTINGS = CompositionSettings("kanister-py", uses_revisions=True, runs_functions=True)


class Scenario(NamedTuple):
    """The initial objects, actions of users, the number of writes and a final check."""

    before: Callable[[Harness], None]
    act: Callable[[Harness], None]
    writes: int
    is_over: Callable[[dict[str, Any]], bool]


def do_nothing(harness: Harness) -> None:
    """Do nothing."""


def compose_first(harness: Harness) -> None:
    harness.apply(definition())
    harness.apply(composition("red"))
    harness.cluster.load([bucket("one")])


def have_composed(harness: Harness) -> None:
    harness.define(definition())
    harness.apply(composition("red"))
    harness.apply(bucket("one"))
    harness.until(lambda: harness.is_ready("one"))


def change_everything(harness: Harness) -> None:
    harness.apply(composition("green"))
    harness.apply(bucket("one", ("b", "c", "d")))


def go_back(harness: Harness) -> None:
    harness.apply(composition("red", new="label"))
    harness.apply(composition("red"))
    metadata = harness.composed("one")["a"]["metadata"]
    harness.cluster.delete(CONFIG_MAPS, metadata["name"], namespace="default")


def delete(harness: Harness) -> None:
    harness.cluster.delete(BUCKETS, "one", namespace="default")


def delete_the_kind(harness: Harness) -> None:
    harness.cluster.delete(DEFINITIONS, "xbuckets.example.org")


def claim_first(harness: Harness) -> None:
    harness.apply(claims.definition())
    harness.apply(claims.composition("red"))
    claimed = claims.claim(writeConnectionSecretToRef={"name": "orders-login"})
    harness.cluster.load([claimed])


def have_claimed(harness: Harness) -> None:
    claim_first(harness)
    harness.until(lambda: claims.is_claim_ready(harness))


def give_up_claim(harness: Harness) -> None:
    harness.cluster.delete(claims.CLAIMS, "orders", namespace="shop")


def give_up_kinds(harness: Harness) -> None:
    harness.cluster.delete(DEFINITIONS, "xdatabases.example.org")


def have_installed(harness: Harness) -> None:
    harness.define(definition())
    harness.apply(functions.function("v0.1.0", activeRevisionLimit=1))
    harness.apply(functions.using())
    harness.apply(bucket("one"))
    harness.until(lambda: harness.is_ready("one"))


def upgrade(harness: Harness) -> None:
    harness.apply(functions.function("v0.2.0", activeRevisionLimit=1, revisionHistoryLimit=1))


def is_ready(result: dict[str, Any], count: int, address: str) -> bool:
    conditions = [
        composite["conditions"].get("Ready", "").partition(" ")[0]
        for composite in result["composites"]
    ]
    addresses = {composite["address"] for composite in result["composites"]}
    return conditions == ["True"] * count and addresses == {address}


def names_of_colour(result: dict[str, Any], colour: str) -> list[str]:
    return [name for name, value, _owners in result["composed"] if value == colour]


SCENARIOS = {
    "compose": Scenario(
        do_nothing,
        compose_first,
        10,
        lambda result: is_ready(result, 1, "red") and names_of_colour(result, "red") == ["a", "b"],
    ),
    "change": Scenario(
        have_composed,
        change_everything,
        13,
        lambda result: (
            is_ready(result, 1, "green") and names_of_colour(result, "green") == ["b", "c", "d"]
        ),
    ),
    "repair": Scenario(
        have_composed,
        go_back,
        1,
        lambda result: is_ready(result, 1, "red") and names_of_colour(result, "red") == ["a", "b"],
    ),
    "delete": Scenario(have_composed, delete, 1, lambda result: not result["composites"]),
    "delete the kind": Scenario(
        have_composed, delete_the_kind, 3, lambda result: not result["definitions"]
    ),
    "claim": Scenario(
        do_nothing,
        claim_first,
        19,
        lambda result: is_ready(result, 2, "red") and len(result["secrets"]) == 2,
    ),
    "give up the kind of a claim": Scenario(
        have_claimed, give_up_kinds, 5, lambda result: not result["definitions"]
    ),
    "give up a claim": Scenario(
        have_claimed,
        give_up_claim,
        3,
        lambda result: not result["composites"] and not result["composed"],
    ),
    "upgrade a function": Scenario(
        have_installed,
        upgrade,
        9,
        lambda result: (
            result["functions"] == [(2, "Active", ["composition"])]
            and result["installed"][0]["Healthy"].startswith("True")
            and result["installed"][0]["current"].endswith("v0.2.0")
        ),
    ),
}


def outcome(harness: Harness) -> dict[str, Any]:
    """Return the relevant state of a cluster, without values that differ between clusters."""
    cluster = harness.cluster
    result: dict[str, Any] = {
        "definitions": [
            (obj["metadata"]["name"], conditions_of(obj)) for obj in cluster.list(DEFINITIONS).items
        ],
        "kinds": sorted(
            obj["metadata"]["name"]
            for obj in cluster.list(CUSTOM_RESOURCE_DEFINITIONS).items
            if obj["spec"]["group"] == "example.org"
        ),
        "revisions": sorted(
            (obj["spec"]["revision"], sorted(conditions_of(obj).items()))
            for obj in cluster.list(COMPOSITION_REVISIONS).items
        ),
        "functions": sorted(
            (
                obj["spec"]["revision"],
                obj["spec"]["desiredState"],
                (obj.get("status") or {}).get("capabilities"),
            )
            for obj in cluster.list(FUNCTION_REVISIONS).items
        ),
        "installed": [
            conditions_of(obj) | {"current": obj["status"].get("currentIdentifier")}
            for obj in cluster.list(FUNCTIONS).items
            if obj.get("status")
        ],
        "secrets": sorted(
            (obj["metadata"]["namespace"], tuple(sorted(obj.get("data") or {})))
            for obj in cluster.list(SECRETS).items
        ),
    }
    config_map = [obj for obj in cluster.list(CONFIG_MAPS).items if "colour" in obj.get("data", {})]
    result["composed"] = sorted(
        (
            obj["metadata"]["annotations"]["crossplane.io/composition-resource-name"],
            obj["data"]["colour"],
            len(obj["metadata"].get("ownerReferences") or ()),
        )
        for obj in config_map
    )
    composites: list[Any] = []
    for resource in (BUCKETS, claims.COMPOSITES, claims.CLAIMS):
        try:
            composites += cluster.list(resource).items
        except NotFound:
            continue
    result["composites"] = sorted((_summary(composite) for composite in composites), key=str)
    names = {obj["metadata"]["name"] for obj in config_map}
    refs = [ref["name"] for obj in composites for ref in _machinery(obj).get("resourceRefs", ())]
    result["refs match"] = sorted(refs) == sorted(names)
    return result


def _machinery(obj: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = obj.get("spec") or {}
    machinery: dict[str, Any] = spec.get("crossplane") or spec
    return machinery


def _summary(obj: dict[str, Any]) -> dict[str, Any]:
    status = obj.get("status") or {}
    applied = (status.get("crossplane") or {}).get("applied") or {}
    return {
        "kind": obj["kind"],
        "conditions": conditions_of(obj),
        "address": status.get("address"),
        "applied": sorted(applied),
        "finalizers": obj["metadata"].get("finalizers"),
        "is going": "deletionTimestamp" in obj["metadata"],
    }


def conditions_of(obj: dict[str, Any]) -> dict[str, str]:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return {
        condition["type"]: f"{condition['status']} {condition.get('reason')}"
        for condition in conditions
    }


def prepared(scenario: Scenario) -> Harness:
    """Return a cluster with the initial objects of a scenario and a closed controller."""
    harness = Harness(SETTINGS)
    harness.start()
    try:
        scenario.before(harness)
        harness.until_idle()
    finally:
        harness.close()
    scenario.act(harness)
    return harness


@cache
def outcome_without_kill(name: str) -> dict[str, Any]:
    """Return the outcome of a scenario without a kill."""
    scenario = SCENARIOS[name]
    harness = Harness(SETTINGS, prepared(scenario).cluster)
    harness.start()
    try:
        harness.until(lambda: bool(harness.writes) and scenario.is_over(outcome(harness)))
        harness.until_idle()
        return outcome(harness)
    finally:
        harness.close()


def kill_points() -> Iterator[tuple[str, int]]:
    for name, scenario in SCENARIOS.items():
        for write in range(1, scenario.writes + 1):
            yield name, write


@pytest.mark.parametrize(("name", "write"), list(kill_points()))
def test_the_outcome_is_the_same_wherever_the_controller_was_killed(name: str, write: int) -> None:
    expected = outcome_without_kill(name)
    cluster = prepared(SCENARIOS[name]).cluster
    mortal = Mortal(cluster, write)
    first = Harness(SETTINGS, cluster, through=mortal)
    first.start()
    try:
        # The number of writes varies, so the controller may finish before the kill.
        first.until(lambda: mortal.died.is_set() or outcome(first) == expected)
    finally:
        first.close()
    second = Harness(SETTINGS, cluster)
    second.start()
    try:
        second.until(lambda: outcome(second) == expected, "the expected outcome")
        second.until_idle()
        assert outcome(second) == expected
    finally:
        second.close()


@pytest.mark.parametrize("name", SCENARIOS)
def test_scenarios_without_a_kill_have_the_expected_outcome(name: str) -> None:
    expected = outcome_without_kill(name)
    assert expected["refs match"]
    for composite in expected["composites"]:
        assert composite["conditions"]["Ready"].startswith("True")
        assert not composite["is going"]

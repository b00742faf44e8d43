"""Survival of composing: wherever the controller dies, the cluster comes to rest in the same place.

A write that gets through before the end leaves what the next one that is lost leaves, so
each story is cut short before each of its writes.
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
from tests.controller.compositions import test_claims as claims
from tests.controller.compositions import test_functions_on_cluster as functions
from tests.controller.compositions.test_kinds import BUCKETS, World, bucket, composition, definition
from tests.controller.conftest import Mortal

SETTINGS = CompositionSettings("kanister-py", uses_revisions=True, runs_functions=True)


class Story(NamedTuple):
    """What is there before, what people do then, how many writes that takes, and its end."""

    before: Callable[[World], None]
    act: Callable[[World], None]
    writes: int
    is_over: Callable[[dict[str, Any]], bool]


def nothing(world: World) -> None:
    """Leave the cluster as it is."""


def compose_first(world: World) -> None:
    world.say(definition())
    world.say(composition("red"))
    world.cluster.load([bucket("one")])


def have_composed(world: World) -> None:
    world.define(definition())
    world.say(composition("red"))
    world.say(bucket("one"))
    world.until(lambda: world.is_ready("one"))


def change_everything(world: World) -> None:
    world.say(composition("green"))
    world.say(bucket("one", ("b", "c", "d")))


def go_back(world: World) -> None:
    world.say(composition("red", new="label"))
    world.say(composition("red"))
    found = world.composed("one")["a"]["metadata"]
    world.cluster.delete(CONFIG_MAPS, found["name"], namespace="default")


def delete(world: World) -> None:
    world.cluster.delete(BUCKETS, "one", namespace="default")


def delete_the_kind(world: World) -> None:
    world.cluster.delete(DEFINITIONS, "xbuckets.example.org")


def claim_first(world: World) -> None:
    world.say(claims.definition())
    world.say(claims.composition("red"))
    claimed = claims.claim(writeConnectionSecretToRef={"name": "orders-login"})
    world.cluster.load([claimed])


def have_claimed(world: World) -> None:
    claim_first(world)
    world.until(lambda: claims.is_claim_ready(world))


def give_up_claim(world: World) -> None:
    world.cluster.delete(claims.CLAIMS, "orders", namespace="shop")


def give_up_kinds(world: World) -> None:
    world.cluster.delete(DEFINITIONS, "xdatabases.example.org")


def have_installed(world: World) -> None:
    world.define(definition())
    world.say(functions.function("v0.1.0", activeRevisionLimit=1))
    world.say(functions.using())
    world.say(bucket("one"))
    world.until(lambda: world.is_ready("one"))


def upgrade(world: World) -> None:
    world.say(functions.function("v0.2.0", activeRevisionLimit=1, revisionHistoryLimit=1))


def is_ready(result: dict[str, Any], count: int, address: str) -> bool:
    found = [each["conditions"].get("Ready", "").partition(" ")[0] for each in result["composites"]]
    addresses = {each["address"] for each in result["composites"]}
    return found == ["True"] * count and addresses == {address}


def names_made(result: dict[str, Any], colour: str) -> list[str]:
    return [name for name, found, _owners in result["made"] if found == colour]


STORIES = {
    "compose": Story(
        nothing,
        compose_first,
        10,
        lambda result: is_ready(result, 1, "red") and names_made(result, "red") == ["a", "b"],
    ),
    "change": Story(
        have_composed,
        change_everything,
        13,
        lambda result: (
            is_ready(result, 1, "green") and names_made(result, "green") == ["b", "c", "d"]
        ),
    ),
    "repair": Story(
        have_composed,
        go_back,
        1,
        lambda result: is_ready(result, 1, "red") and names_made(result, "red") == ["a", "b"],
    ),
    "delete": Story(have_composed, delete, 1, lambda result: not result["composites"]),
    "delete the kind": Story(
        have_composed, delete_the_kind, 3, lambda result: not result["definitions"]
    ),
    "claim": Story(
        nothing,
        claim_first,
        19,
        lambda result: is_ready(result, 2, "red") and len(result["secrets"]) == 2,
    ),
    "give up the kind of a claim": Story(
        have_claimed, give_up_kinds, 5, lambda result: not result["definitions"]
    ),
    "give up a claim": Story(
        have_claimed,
        give_up_claim,
        3,
        lambda result: not result["composites"] and not result["made"],
    ),
    "upgrade a function": Story(
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


def outcome(world: World) -> dict[str, Any]:
    """Say all that counts in the end, without what differs from cluster to cluster."""
    cluster = world.cluster
    result: dict[str, Any] = {
        "definitions": [
            (each["metadata"]["name"], conditions_of(each))
            for each in cluster.list(DEFINITIONS).items
        ],
        "kinds": sorted(
            each["metadata"]["name"]
            for each in cluster.list(CUSTOM_RESOURCE_DEFINITIONS).items
            if each["spec"]["group"] == "example.org"
        ),
        "revisions": sorted(
            (each["spec"]["revision"], sorted(conditions_of(each).items()))
            for each in cluster.list(COMPOSITION_REVISIONS).items
        ),
        "functions": sorted(
            (
                each["spec"]["revision"],
                each["spec"]["desiredState"],
                (each.get("status") or {}).get("capabilities"),
            )
            for each in cluster.list(FUNCTION_REVISIONS).items
        ),
        "installed": [
            conditions_of(each) | {"current": each["status"].get("currentIdentifier")}
            for each in cluster.list(FUNCTIONS).items
            if each.get("status")
        ],
        "secrets": sorted(
            (each["metadata"]["namespace"], tuple(sorted(each.get("data") or {})))
            for each in cluster.list(SECRETS).items
        ),
    }
    made = [each for each in cluster.list(CONFIG_MAPS).items if "colour" in each.get("data", {})]
    result["made"] = sorted(
        (
            each["metadata"]["annotations"]["crossplane.io/composition-resource-name"],
            each["data"]["colour"],
            len(each["metadata"].get("ownerReferences") or ()),
        )
        for each in made
    )
    composites: list[Any] = []
    for resource in (BUCKETS, claims.COMPOSITES, claims.CLAIMS):
        try:
            composites += cluster.list(resource).items
        except NotFound:
            continue
    result["composites"] = sorted((_summary(each) for each in composites), key=str)
    names = {each["metadata"]["name"] for each in made}
    refs = [each["name"] for obj in composites for each in _machinery(obj).get("resourceRefs", ())]
    result["refs are what was made"] = sorted(refs) == sorted(names)
    return result


def _machinery(obj: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = obj.get("spec") or {}
    found: dict[str, Any] = spec.get("crossplane") or spec
    return found


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
    found = (obj.get("status") or {}).get("conditions") or ()
    return {each["type"]: f"{each['status']} {each.get('reason')}" for each in found}


def prepared(story: Story) -> World:
    """Give a cluster on which the story may begin, and nobody who looks after it."""
    world = World(SETTINGS)
    world.start()
    try:
        story.before(world)
        world.until_rest()
    finally:
        world.close()
    story.act(world)
    return world


@cache
def undisturbed(name: str) -> dict[str, Any]:
    """Give the outcome of a story that nobody cuts short."""
    story = STORIES[name]
    world = World(SETTINGS, prepared(story).cluster)
    world.start()
    try:
        world.until(lambda: bool(world.writes) and story.is_over(outcome(world)))
        world.until_rest()
        return outcome(world)
    finally:
        world.close()


def cuts() -> Iterator[tuple[str, int]]:
    for name, story in STORIES.items():
        for write in range(1, story.writes + 1):
            yield name, write


@pytest.mark.parametrize(("name", "write"), list(cuts()))
def test_it_ends_in_the_same_place_wherever_the_controller_died(name: str, write: int) -> None:
    want = undisturbed(name)
    cluster = prepared(STORIES[name]).cluster
    mortal = Mortal(cluster, write)
    first = World(SETTINGS, cluster, through=mortal)
    first.start()
    try:
        # Who needs fewer writes than another time need not die.
        first.until(lambda: mortal.died.is_set() or outcome(first) == want)
    finally:
        first.close()
    second = World(SETTINGS, cluster)
    second.start()
    try:
        second.until(lambda: outcome(second) == want, "the same place")
        second.until_rest()
        assert outcome(second) == want
    finally:
        second.close()


@pytest.mark.parametrize("name", STORIES)
def test_the_stories_end_well_if_nobody_cuts_them_short(name: str) -> None:
    want = undisturbed(name)
    assert want["refs are what was made"]
    for each in want["composites"]:
        assert each["conditions"]["Ready"].startswith("True")
        assert not each["is going"]

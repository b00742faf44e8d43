"""Objects that are there already: refused, or adopted with an event and a mark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kanister_py.controller.compositions.children import ADOPT, ADOPTED
from kanister_py.core.errors import NotFound
from kanister_py.core.kube.parts import annotations_of, labels_of, owners_of
from kanister_py.core.kube.resources import CONFIG_MAPS
from kanister_py.ports.cluster import KubeObject
from tests.controller.compositions.test_kinds import (
    BUCKETS,
    REVISIONS,
    World,
    bucket,
    composition,
    definition,
)

OTHER = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "name": "web",
    "uid": "somebody-else",
    "controller": True,
}


@pytest.fixture
def world() -> Iterator[World]:
    made = World(REVISIONS)
    made.start()
    made.define(definition())
    yield made
    made.close()


def there(**metadata: Any) -> KubeObject:
    """Give an object that people made, of the name that the composition wants."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "shared", "namespace": "default", **metadata},
        "data": {"theirs": "yes"},
    }


def naming(adopt: str = "") -> dict[str, Any]:
    """Give a composition that says what its object is called."""
    made = composition()
    if adopt:
        made["metadata"]["annotations"] = {ADOPT: adopt}
    source = made["spec"]["pipeline"][0]["input"]["inline"]
    source["template"] = source["template"].replace("metadata:\n", "metadata:\n  name: shared\n", 1)
    return made


def shared(world: World) -> KubeObject:
    return world.cluster.get(CONFIG_MAPS, "shared", namespace="default")


def adoptions(world: World) -> list[str]:
    return [each for each in world.events if "AdoptResource" in each]


def test_what_was_there_is_adopted_with_an_event_and_a_mark(world: World) -> None:
    world.say(there())
    world.say(naming())
    world.say(bucket(names=("a",)))
    world.until(world.is_ready)
    world.until_rest()
    found = shared(world)
    assert found["data"] == {"theirs": "yes", "region": "eu", "colour": "red"}
    assert annotations_of(found)[ADOPTED] == world.bucket()["metadata"]["uid"]
    assert owners_of(found) == ()
    assert len(adoptions(world)) == 1


def test_what_was_adopted_follows_and_stays_so(world: World) -> None:
    world.say(there())
    world.say(naming())
    world.say(bucket(names=("a",)))
    world.until(world.is_ready)
    changed = bucket(names=("a",))
    changed["spec"]["region"] = "us"
    world.say(changed)
    world.until(lambda: shared(world)["data"]["region"] == "us")
    world.until_rest()
    assert ADOPTED in annotations_of(shared(world))
    assert len(adoptions(world)) == 1
    world.writes.clear()
    world.say({**changed, "metadata": {**changed["metadata"], "annotations": {"note": "x"}}})
    world.until_rest()
    assert world.writes == []


@pytest.mark.parametrize("goes", ["the resource", "what it desires"])
def test_what_was_adopted_stays_when_it_is_given_up(world: World, goes: str) -> None:
    world.say(there())
    world.say(naming())
    world.say(bucket(names=("a",)))
    world.until(world.is_ready)
    world.until_rest()
    if goes == "the resource":
        world.cluster.delete(BUCKETS, "mine", namespace="default")
        world.until(lambda: is_gone(world))
    else:
        world.say(composition())
        world.until_rest()
        world.say(bucket(names=("b",)))
    world.until(lambda: ADOPTED not in annotations_of(shared(world)))
    world.until_rest()
    found = shared(world)
    assert found["data"]["theirs"] == "yes"
    assert "crossplane.io/composite" not in labels_of(found)


def is_gone(world: World) -> bool:
    try:
        world.bucket()
    except NotFound:
        return True
    return False


def test_what_we_made_ourselves_goes_with_us(world: World) -> None:
    world.say(naming())
    world.say(bucket(names=("a",)))
    world.until(world.is_ready)
    world.until_rest()
    assert adoptions(world) == []
    world.cluster.delete(BUCKETS, "mine", namespace="default")
    world.until(lambda: is_gone(world))
    with pytest.raises(NotFound):
        shared(world)


def test_an_object_of_another_controller_is_refused_and_left_alone(world: World) -> None:
    world.say(there(ownerReferences=[OTHER]))
    before = shared(world)
    world.say(naming())
    world.say(bucket(names=("a",)))
    world.until(lambda: world.condition("Synced").get("status") == "False")
    world.until_rest()
    assert shared(world) == before
    assert any("ConfigMap shared is controlled by Deployment web" in each for each in world.events)


def test_a_composition_may_refuse_to_adopt(world: World) -> None:
    world.say(there())
    before = shared(world)
    world.say(naming("Refuse"))
    world.say(bucket(names=("a",)))
    world.until(lambda: world.condition("Synced").get("status") == "False")
    world.until_rest()
    assert shared(world) == before
    assert any("exists already" in each for each in world.events)
    world.cluster.delete(CONFIG_MAPS, "shared", namespace="default")
    world.until(world.is_ready)


def test_what_one_resource_has_adopted_no_other_one_takes(world: World) -> None:
    world.say(there())
    world.say(naming())
    world.say(bucket(names=("a",)))
    world.until(world.is_ready)
    world.say(bucket("other", ("a",)))
    world.until(lambda: world.condition("Synced", "other").get("status") == "False")
    assert any("was adopted by the composite resource mine" in each for each in world.events)
    assert annotations_of(shared(world))[ADOPTED] == world.bucket()["metadata"]["uid"]

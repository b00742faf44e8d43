"""Existing objects are adopted with an event and an annotation, or refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kanister_py.controller.compositions.children import ADOPT, ADOPTED
from kanister_py.core.errors import NotFound
from kanister_py.core.kube.parts import annotations_of, labels_of, owners_of
from kanister_py.core.kube.resources import CONFIG_MAPS
from kanister_py.ports.cluster import KubeObject
from tests.controller.compositions.harness import (
    BUCKETS,
    REVISIONS,
    Harness,
    bucket,
    composition,
    definition,
)

OTHER = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "name": "web",
    "uid": "another-owner",
    "controller": True,
}


@pytest.fixture
def harness() -> Iterator[Harness]:
    running = Harness(REVISIONS)
    running.start()
    running.define(definition())
    yield running
    running.close()


def existing_object(**metadata: Any) -> KubeObject:
    """Return an object of a user with the name that the composition desires."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "shared", "namespace": "default", **metadata},
        "data": {"theirs": "yes"},
    }


def naming_composition(adopt: str = "") -> dict[str, Any]:
    """Return a composition that sets the name of its object."""
    obj = composition()
    if adopt:
        obj["metadata"]["annotations"] = {ADOPT: adopt}
    source = obj["spec"]["pipeline"][0]["input"]["inline"]
    source["template"] = source["template"].replace("metadata:\n", "metadata:\n  name: shared\n", 1)
    return obj


def shared(harness: Harness) -> KubeObject:
    return harness.cluster.get(CONFIG_MAPS, "shared", namespace="default")


def adoptions(harness: Harness) -> list[str]:
    return [event for event in harness.events if "AdoptResource" in event]


def test_an_existing_object_is_adopted_with_an_event_and_an_annotation(harness: Harness) -> None:
    harness.apply(existing_object())
    harness.apply(naming_composition())
    harness.apply(bucket(names=("a",)))
    harness.until(harness.is_ready)
    harness.until_idle()
    adopted = shared(harness)
    assert adopted["data"] == {"theirs": "yes", "region": "eu", "colour": "red"}
    assert annotations_of(adopted)[ADOPTED] == harness.bucket()["metadata"]["uid"]
    assert owners_of(adopted) == ()
    assert len(adoptions(harness)) == 1


def test_an_adopted_object_is_updated_and_stays_adopted(harness: Harness) -> None:
    harness.apply(existing_object())
    harness.apply(naming_composition())
    harness.apply(bucket(names=("a",)))
    harness.until(harness.is_ready)
    changed = bucket(names=("a",))
    changed["spec"]["region"] = "us"
    harness.apply(changed)
    harness.until(lambda: shared(harness)["data"]["region"] == "us")
    harness.until_idle()
    assert ADOPTED in annotations_of(shared(harness))
    assert len(adoptions(harness)) == 1
    harness.writes.clear()
    harness.apply({**changed, "metadata": {**changed["metadata"], "annotations": {"note": "x"}}})
    harness.until_idle()
    assert harness.writes == []


@pytest.mark.parametrize("goes", ["the resource", "what it desires"])
def test_an_adopted_object_is_kept_when_it_is_released(harness: Harness, goes: str) -> None:
    harness.apply(existing_object())
    harness.apply(naming_composition())
    harness.apply(bucket(names=("a",)))
    harness.until(harness.is_ready)
    harness.until_idle()
    if goes == "the resource":
        harness.cluster.delete(BUCKETS, "mine", namespace="default")
        harness.until(lambda: is_gone(harness))
    else:
        harness.apply(composition())
        harness.until_idle()
        harness.apply(bucket(names=("b",)))
    harness.until(lambda: ADOPTED not in annotations_of(shared(harness)))
    harness.until_idle()
    released = shared(harness)
    assert released["data"]["theirs"] == "yes"
    assert "crossplane.io/composite" not in labels_of(released)


def is_gone(harness: Harness) -> bool:
    try:
        harness.bucket()
    except NotFound:
        return True
    return False


def test_a_created_object_is_deleted_with_its_composite_resource(harness: Harness) -> None:
    harness.apply(naming_composition())
    harness.apply(bucket(names=("a",)))
    harness.until(harness.is_ready)
    harness.until_idle()
    assert adoptions(harness) == []
    harness.cluster.delete(BUCKETS, "mine", namespace="default")
    harness.until(lambda: is_gone(harness))
    with pytest.raises(NotFound):
        shared(harness)


def test_an_object_with_another_controller_is_refused_and_unchanged(harness: Harness) -> None:
    harness.apply(existing_object(ownerReferences=[OTHER]))
    before = shared(harness)
    harness.apply(naming_composition())
    harness.apply(bucket(names=("a",)))
    harness.until(lambda: harness.condition("Synced").get("status") == "False")
    harness.until_idle()
    assert shared(harness) == before
    assert any(
        "ConfigMap shared is controlled by Deployment web" in event for event in harness.events
    )


def test_a_composition_may_refuse_to_adopt(harness: Harness) -> None:
    harness.apply(existing_object())
    before = shared(harness)
    harness.apply(naming_composition("Refuse"))
    harness.apply(bucket(names=("a",)))
    harness.until(lambda: harness.condition("Synced").get("status") == "False")
    harness.until_idle()
    assert shared(harness) == before
    assert any("exists already" in event for event in harness.events)
    harness.cluster.delete(CONFIG_MAPS, "shared", namespace="default")
    harness.until(harness.is_ready)


def test_an_adopted_object_is_not_adopted_by_another_resource(harness: Harness) -> None:
    harness.apply(existing_object())
    harness.apply(naming_composition())
    harness.apply(bucket(names=("a",)))
    harness.until(harness.is_ready)
    harness.apply(bucket("other", ("a",)))
    harness.until(lambda: harness.condition("Synced", "other").get("status") == "False")
    assert any("was adopted by the composite resource mine" in event for event in harness.events)
    assert annotations_of(shared(harness))[ADOPTED] == harness.bucket()["metadata"]["uid"]

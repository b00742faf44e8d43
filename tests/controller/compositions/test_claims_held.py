"""Revisions held by a claim and its composite resource, whichever of them is changed.

"Only when the XR or XRC author explicitly specifies `compositionUpdatePolicy: Manual` will
the behaviour diverge." And whatever they say, both come to rest.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from kanister_py.controller.functions.settings import CompositionSettings
from kanister_py.core.kube.copies import copy_json
from kanister_py.core.revisions.kinds import COMPOSITION_REVISIONS
from kanister_py.ports.cluster import Cluster, KubeObject
from tests.controller.compositions.test_claims import (
    API,
    CLAIMS,
    COMPOSITES,
    claim,
    composition,
    definition,
)
from tests.controller.compositions.test_kinds import World

REST_SECONDS = 0.3
STABLE = {"matchLabels": {"channel": "stable"}}
ALPHA = {"matchLabels": {"channel": "alpha"}}


class Rollout:
    """A claim of a Composition that gets revision after revision: red, green, blue."""

    def __init__(self, cluster: Cluster, name: str = "database", namespace: str = "shop") -> None:
        self.cluster = cluster
        self.name = name
        self.namespace = namespace
        self._revisions: dict[str, str] = {}

    def begin(self) -> None:
        self.publish("red", "stable")
        self.publish("green", "alpha")

    def publish(self, colour: str, channel: str) -> None:
        obj = composition(colour, channel=channel)
        obj["metadata"]["name"] = self.name
        self._say(obj)
        known = set(self._revisions.values())

        def new() -> list[str]:
            label = f"crossplane.io/composition-name={self.name}"
            found = self.cluster.list(COMPOSITION_REVISIONS, label_selector=label).items
            return sorted({each["metadata"]["name"] for each in found} - known)

        self.until(lambda: bool(new()))
        (self._revisions[colour],) = new()

    def _say(self, obj: dict[str, Any]) -> None:
        self.cluster.apply(obj, field_manager="people", force=True)

    def ref(self, colour: str) -> dict[str, Any]:
        if not colour:
            return {}
        return {"compositionRevisionRef": {"name": self._revisions[colour]}}

    def claim(self, **spec: Any) -> None:
        """Write the claim as its author does, with all that they say and nothing else."""
        obj = claim(**spec, compositionRef={"name": self.name})
        obj["metadata"]["namespace"] = self.namespace
        self._say(obj)

    def adopt(self, spec: dict[str, Any], claim_spec: dict[str, Any]) -> None:
        """Make a composite resource first, and then a claim that takes it on."""
        made = {"apiVersion": API, "kind": "XDatabase", "metadata": {"name": self.name}}
        self._say({**made, "spec": {"region": "eu", "compositionRef": {"name": self.name}, **spec}})
        self.until(lambda: bool(_held(self.cluster.get(COMPOSITES, self.name))))
        reference = {"apiVersion": API, "kind": "XDatabase", "name": self.name}
        self.claim(**claim_spec, resourceRef=reference)

    def edit(self, **spec: Any) -> None:
        """Change the composite resource behind the claim's back; None removes."""
        edited = copy_json(self.composite())
        for key, value in spec.items():
            edited["spec"].pop(key, None)
            if value is not None:
                edited["spec"][key] = value
        self.cluster.replace(edited, field_manager="people")

    def claimed(self) -> KubeObject:
        return self.cluster.get(CLAIMS, "orders", namespace=self.namespace)

    def composite(self) -> KubeObject:
        return self.cluster.get(COMPOSITES, self.claimed()["spec"]["resourceRef"]["name"])

    def until(self, is_so: Callable[[], bool]) -> None:
        raise NotImplementedError

    def rest(self) -> None:
        """Wait until both objects are at rest, and want that nobody writes them any more."""
        raise NotImplementedError

    def holds(self, colour: str) -> None:
        """Want one revision composed and named by both, and nobody who writes anything."""
        want = self.ref(colour)["compositionRevisionRef"]["name"]

        def is_held() -> bool:
            found = self.composite()
            is_named = [_held(each) for each in (self.claimed(), found)] == [want, want]
            return is_named and found["status"].get("address") == colour

        self.rest()
        self.until(is_held)


def _held(obj: KubeObject) -> str:
    return str((obj["spec"].get("compositionRevisionRef") or {}).get("name") or "")


class RolloutInMemory(Rollout):
    def __init__(self, world: World) -> None:
        super().__init__(world.cluster)
        self._world = world

    def until(self, is_so: Callable[[], bool]) -> None:
        self._world.until(is_so)

    def rest(self) -> None:
        world = self._world
        world.until_rest()
        world.writes.clear()
        threading.Event().wait(REST_SECONDS)
        assert world.writes == []


@pytest.fixture
def rollout() -> Iterator[Rollout]:
    world = World(CompositionSettings("kanister-py", uses_revisions=True))
    world.start()
    world.define(definition())
    made = RolloutInMemory(world)
    made.begin()
    yield made
    world.close()


MANUAL: dict[str, Any] = {"compositionUpdatePolicy": "Manual"}
AUTOMATIC: dict[str, Any] = {"compositionUpdatePolicy": "Automatic"}


class Step(NamedTuple):
    """What one of the authors does, and which revision is held after that."""

    act: Callable[[Rollout], None]
    holds: str


def _claim(holds: str, ref: str = "", **spec: Any) -> Step:
    return Step(lambda rollout: rollout.claim(**spec, **rollout.ref(ref)), holds)


def _edit(holds: str, ref: str = "", **spec: Any) -> Step:
    return Step(lambda rollout: rollout.edit(**spec, **rollout.ref(ref)), holds)


def _adopt(
    holds: str, ref: str = "", claim_spec: dict[str, Any] | None = None, **spec: Any
) -> Step:
    """`claim_spec` is what the claim says that takes on a composite resource with a spec."""
    return Step(
        lambda rollout: rollout.adopt({**spec, **rollout.ref(ref)}, claim_spec or {}), holds
    )


def _selector(selector: dict[str, Any] | None) -> dict[str, Any]:
    return {"compositionRevisionSelector": selector}


ROWS = [
    # The claim's policy
    pytest.param([_claim("green", **MANUAL)], "green", id="claim, policy, create"),
    pytest.param([_claim("green"), _claim("green", **MANUAL)], "green", id="claim, policy, change"),
    pytest.param(
        [_claim("green", **MANUAL), _claim("green", **AUTOMATIC)],
        "blue",
        id="claim, policy, go back",
    ),
    pytest.param(
        [_claim("green", **MANUAL), _claim("green")], "blue", id="claim, policy, take back"
    ),
    # The revision that the claim names
    pytest.param([_claim("red", "red", **MANUAL)], "red", id="claim, ref, create"),
    pytest.param([_claim("green", "red")], "blue", id="claim, ref, create, and follow"),
    pytest.param(
        [_claim("green", **MANUAL), _claim("red", "red", **MANUAL)],
        "red",
        id="claim, ref, change",
    ),
    pytest.param(
        [_claim("red", "red", **MANUAL), _claim("green", "green", **MANUAL)],
        "green",
        id="claim, ref, go back",
    ),
    pytest.param(
        [_claim("red", "red", **MANUAL), _claim("red", **MANUAL)],
        "red",
        id="claim, ref, take back",
    ),
    # The claim's selector
    pytest.param([_claim("red", **_selector(STABLE))], "blue", id="claim, selector, create"),
    pytest.param(
        [_claim("red", **_selector(STABLE), **MANUAL)],
        "red",
        id="claim, selector, create, and be held",
    ),
    pytest.param(
        [_claim("red", **_selector(STABLE)), _claim("green", **_selector(ALPHA))],
        "green",
        id="claim, selector, change",
    ),
    pytest.param(
        [
            _claim("green", **_selector(ALPHA)),
            _claim("red", **_selector(STABLE)),
            _claim("green", **_selector(ALPHA)),
        ],
        "green",
        id="claim, selector, go back",
    ),
    pytest.param(
        [_claim("red", **_selector(STABLE)), _claim("green")],
        "blue",
        id="claim, selector, take back",
    ),
    # The policy of the composite resource: the claim's counts
    pytest.param(
        [_adopt("green", claim_spec=MANUAL, **MANUAL)], "green", id="composite, policy, create"
    ),
    pytest.param([_adopt("green", **MANUAL)], "blue", id="composite, policy, claim follows"),
    pytest.param([_claim("green"), _edit("green", **MANUAL)], "blue", id="composite, policy"),
    pytest.param(
        [_claim("green"), _edit("green", **MANUAL), _edit("green", **AUTOMATIC)],
        "blue",
        id="composite, policy, go back",
    ),
    # The revision that the composite resource names
    pytest.param([_adopt("red", "red", MANUAL, **MANUAL)], "red", id="composite, ref, create"),
    pytest.param(
        [_claim("green", **MANUAL), _edit("green", "red")], "green", id="composite, ref, change"
    ),
    pytest.param([_claim("green"), _edit("green", "red")], "blue", id="composite, ref, and follow"),
    pytest.param(
        [_claim("green", **MANUAL), _edit("green", "red"), _edit("green", "green")],
        "green",
        id="composite, ref, go back",
    ),
    pytest.param(
        [_claim("green", **MANUAL), _edit("green", compositionRevisionRef=None)],
        "green",
        id="composite, ref, take back",
    ),
    # The selector of the composite resource: a claim without one takes it over
    pytest.param([_adopt("red", **_selector(STABLE))], "blue", id="composite, selector, create"),
    pytest.param(
        [_claim("green"), _edit("red", **_selector(STABLE))],
        "blue",
        id="composite, selector, change",
    ),
    pytest.param(
        [_claim("green", **_selector(ALPHA)), _edit("green", **_selector(STABLE))],
        "green",
        id="composite, selector, the claim's counts",
    ),
    pytest.param(
        [
            _claim("green"),
            _edit("red", **_selector(STABLE)),
            _edit("red", **_selector(None)),
        ],
        "blue",
        id="composite, selector, go back",
    ),
]


@pytest.mark.parametrize(("steps", "then"), ROWS)
def test_what_authors_say_is_held_and_both_objects_come_to_rest(
    rollout: Rollout, steps: list[Step], then: str
) -> None:
    play(rollout, steps, then)


def play(rollout: Rollout, steps: list[Step], then: str) -> None:
    """Have authors act one after the other, and publish a revision in the end."""
    for step in steps:
        step.act(rollout)
        rollout.holds(step.holds)
    rollout.publish("blue", "stable")
    rollout.holds(then)

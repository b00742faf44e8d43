"""Rollouts of composition revisions to a claim and its composite resource."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from kanister_py.core.kube.copies import copy_json
from kanister_py.core.revisions.kinds import COMPOSITION_REVISIONS
from kanister_py.ports.cluster import Cluster, KubeObject
from tests.controller.compositions.databases import (
    API,
    CLAIMS,
    COMPOSITES,
    claim,
    composition,
)

REST_SECONDS = 0.3


STABLE = {"matchLabels": {"channel": "stable"}}


ALPHA = {"matchLabels": {"channel": "alpha"}}


class Rollout:
    """A claim of a Composition whose revisions red, green and blue are published in turn."""

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
        known_names = set(self._revisions.values())

        def new() -> list[str]:
            label = f"crossplane.io/composition-name={self.name}"
            revision = self.cluster.list(COMPOSITION_REVISIONS, label_selector=label).items
            return sorted({obj["metadata"]["name"] for obj in revision} - known_names)

        self.until(lambda: bool(new()))
        (self._revisions[colour],) = new()

    def _say(self, obj: dict[str, Any]) -> None:
        self.cluster.apply(obj, field_manager="people", force=True)

    def ref(self, colour: str) -> dict[str, Any]:
        if not colour:
            return {}
        return {"compositionRevisionRef": {"name": self._revisions[colour]}}

    def claim(self, **spec: Any) -> None:
        """Apply the claim with exactly the given spec."""
        obj = claim(**spec, compositionRef={"name": self.name})
        obj["metadata"]["namespace"] = self.namespace
        self._say(obj)

    def adopt(self, spec: dict[str, Any], claim_spec: dict[str, Any]) -> None:
        """Create a composite resource, and then a claim that binds it."""
        composite = {"apiVersion": API, "kind": "XDatabase", "metadata": {"name": self.name}}
        self._say(
            {**composite, "spec": {"region": "eu", "compositionRef": {"name": self.name}, **spec}}
        )
        self.until(lambda: bool(_held(self.cluster.get(COMPOSITES, self.name))))
        reference = {"apiVersion": API, "kind": "XDatabase", "name": self.name}
        self.claim(**claim_spec, resourceRef=reference)

    def edit(self, **spec: Any) -> None:
        """Change fields of the composite resource directly; None removes a field."""
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
        """Wait until neither object is written any more."""
        raise NotImplementedError

    def holds(self, colour: str) -> None:
        """Check that both objects name a composed revision, and that writes have ended."""
        expected = self.ref(colour)["compositionRevisionRef"]["name"]

        def is_held() -> bool:
            composite = self.composite()
            is_named = [_held(obj) for obj in (self.claimed(), composite)] == [expected, expected]
            return is_named and composite["status"].get("address") == colour

        self.rest()
        self.until(is_held)


def _held(obj: KubeObject) -> str:
    return str((obj["spec"].get("compositionRevisionRef") or {}).get("name") or "")


MANUAL: dict[str, Any] = {"compositionUpdatePolicy": "Manual"}


AUTOMATIC: dict[str, Any] = {"compositionUpdatePolicy": "Automatic"}


class Step(NamedTuple):
    """An action of an author, and the revision that is used after it."""

    act: Callable[[Rollout], None]
    holds: str


def _claim(holds: str, ref: str = "", **spec: Any) -> Step:
    return Step(lambda rollout: rollout.claim(**spec, **rollout.ref(ref)), holds)


def _edit(holds: str, ref: str = "", **spec: Any) -> Step:
    return Step(lambda rollout: rollout.edit(**spec, **rollout.ref(ref)), holds)


def _adopt(
    holds: str, ref: str = "", claim_spec: dict[str, Any] | None = None, **spec: Any
) -> Step:
    """Bind a composite resource with a spec to a claim with `claim_spec`."""
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
    pytest.param([_claim("green", **MANUAL), _claim("green")], "blue", id="claim, policy, remove"),
    # The revision that the claim names
    pytest.param([_claim("red", "red", **MANUAL)], "red", id="claim, ref, create"),
    pytest.param(
        [_claim("green", "red")], "blue", id="claim, ref, create with an automatic policy"
    ),
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
        id="claim, ref, remove",
    ),
    # The claim's selector
    pytest.param([_claim("red", **_selector(STABLE))], "blue", id="claim, selector, create"),
    pytest.param(
        [_claim("red", **_selector(STABLE), **MANUAL)],
        "red",
        id="claim, selector, create with a manual policy",
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
        id="claim, selector, remove",
    ),
    # The policy of the composite resource, which the policy of the claim overrides
    pytest.param(
        [_adopt("green", claim_spec=MANUAL, **MANUAL)], "green", id="composite, policy, create"
    ),
    pytest.param([_adopt("green", **MANUAL)], "blue", id="composite, policy, copied to the claim"),
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
    pytest.param(
        [_claim("green"), _edit("green", "red")],
        "blue",
        id="composite, ref, with an automatic policy",
    ),
    pytest.param(
        [_claim("green", **MANUAL), _edit("green", "red"), _edit("green", "green")],
        "green",
        id="composite, ref, go back",
    ),
    pytest.param(
        [_claim("green", **MANUAL), _edit("green", compositionRevisionRef=None)],
        "green",
        id="composite, ref, remove",
    ),
    # The selector of the composite resource, which is copied to a claim without one
    pytest.param([_adopt("red", **_selector(STABLE))], "blue", id="composite, selector, create"),
    pytest.param(
        [_claim("green"), _edit("red", **_selector(STABLE))],
        "blue",
        id="composite, selector, change",
    ),
    pytest.param(
        [_claim("green", **_selector(ALPHA)), _edit("green", **_selector(STABLE))],
        "green",
        id="composite, selector, overridden by the claim",
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


def play(rollout: Rollout, steps: list[Step], then: str) -> None:
    """Perform the steps in order, then publish a revision."""
    for step in steps:
        step.act(rollout)
        rollout.holds(step.holds)
    rollout.publish("blue", "stable")
    rollout.holds(then)

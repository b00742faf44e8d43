"""Composite resources that composite resources compose."""

from __future__ import annotations

from typing import Any

from kanister_py.controller.functions.settings import CompositionSettings
from kanister_py.core.kube.parts import conditions_of
from kanister_py.core.kube.resources import GroupVersionResource
from tests.controller.compositions.test_kinds import World, composition, definition

STORES = GroupVersionResource("example.org", "v1alpha1", "xstores")
READY = '    gotemplating.fn.crossplane.io/ready: "True"\n'
OUTER = """
apiVersion: example.org/v1alpha1
kind: XBucket
metadata:
  name: {{ .observed.composite.resource.metadata.name }}-inner
  annotations:
    gotemplating.fn.crossplane.io/composition-resource-name: bucket
    gotemplating.fn.crossplane.io/ready: "True"
spec:
  region: eu
  names: [a]
"""


def outer_definition() -> dict[str, Any]:
    made = definition()
    made["metadata"]["name"] = "xstores.example.org"
    made["spec"]["names"] = {"kind": "XStore", "plural": "xstores"}
    return made


def outer_composition() -> dict[str, Any]:
    made = composition(name="store")
    made["spec"]["compositeTypeRef"]["kind"] = "XStore"
    made["spec"]["pipeline"][0]["input"]["inline"]["template"] = OUTER
    return made


def store(name: str = "mine") -> dict[str, Any]:
    return {
        "apiVersion": "example.org/v1alpha1",
        "kind": "XStore",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {},
    }


def test_what_a_composite_resource_composes_is_composed_in_turn() -> None:
    world = World(CompositionSettings("default", uses_revisions=True))
    try:
        world.start()
        world.define(definition())
        world.define(outer_definition())
        world.say(composition())
        world.say(outer_composition())
        for number in range(20):
            world.say(store(f"store-{number}"))
            inner = f"store-{number}-inner"
            world.until(lambda: world.is_ready(inner))  # noqa: B023 # it is asked for at once
    finally:
        world.close()


def test_a_composite_resource_is_ready_once_one_that_it_composes_is() -> None:
    world = World(CompositionSettings("default", uses_revisions=True))
    made = outer_composition()
    pipeline = made["spec"]["pipeline"]
    pipeline[0]["input"]["inline"]["template"] = OUTER.replace(READY, "")
    pipeline.append({"step": "ready", "functionRef": {"name": "function-auto-ready"}})
    try:
        world.start()
        world.define(definition())
        world.define(outer_definition())
        world.say(composition())
        world.say(made)
        world.say(store())

        def is_ready() -> bool:
            conditions = conditions_of(world.cluster.get(STORES, "mine", namespace="default"))
            return ("Ready", "True") in [(each["type"], each["status"]) for each in conditions]

        world.until(is_ready)
    finally:
        world.close()

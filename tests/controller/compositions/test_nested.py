"""Composite resources composed by composite resources."""

from __future__ import annotations

from typing import Any

from kanister_py.controller.functions.settings import CompositionSettings
from kanister_py.core.kube.parts import conditions_of
from kanister_py.core.kube.resources import GroupVersionResource
from tests.controller.compositions.harness import Harness, composition, definition

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
    obj = definition()
    obj["metadata"]["name"] = "xstores.example.org"
    obj["spec"]["names"] = {"kind": "XStore", "plural": "xstores"}
    return obj


def outer_composition() -> dict[str, Any]:
    obj = composition(name="store")
    obj["spec"]["compositeTypeRef"]["kind"] = "XStore"
    obj["spec"]["pipeline"][0]["input"]["inline"]["template"] = OUTER
    return obj


def store(name: str = "mine") -> dict[str, Any]:
    return {
        "apiVersion": "example.org/v1alpha1",
        "kind": "XStore",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {},
    }


def test_composed_composite_resources_are_composed() -> None:
    harness = Harness(CompositionSettings("default", uses_revisions=True))
    try:
        harness.start()
        harness.define(definition())
        harness.define(outer_definition())
        harness.apply(composition())
        harness.apply(outer_composition())
        for number in range(20):
            harness.apply(store(f"store-{number}"))
            inner = f"store-{number}-inner"
            harness.until(lambda: harness.is_ready(inner))  # noqa: B023 # it is called immediately
    finally:
        harness.close()


def test_a_composite_resource_is_ready_once_its_composed_one_is() -> None:
    harness = Harness(CompositionSettings("default", uses_revisions=True))
    obj = outer_composition()
    pipeline = obj["spec"]["pipeline"]
    pipeline[0]["input"]["inline"]["template"] = OUTER.replace(READY, "")
    pipeline.append({"step": "ready", "functionRef": {"name": "function-auto-ready"}})
    try:
        harness.start()
        harness.define(definition())
        harness.define(outer_definition())
        harness.apply(composition())
        harness.apply(obj)
        harness.apply(store())

        def is_ready() -> bool:
            conditions = conditions_of(harness.cluster.get(STORES, "mine", namespace="default"))
            return ("Ready", "True") in [
                (condition["type"], condition["status"]) for condition in conditions
            ]

        harness.until(is_ready)
    finally:
        harness.close()

"""Composite resources, Compositions and definitions for tests on a real API server."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from e2e.cluster.client import ApiFailed, ApiUnreachable

PATIENCE_SECONDS = 180.0


def until(wanted: Callable[[], Any], what: Callable[[], str], seconds: float = 0) -> Any:
    """Call a function repeatedly until its result is true, and return the result."""
    end = time.monotonic() + (seconds or PATIENCE_SECONDS)
    while time.monotonic() < end:
        with suppress(ApiFailed, ApiUnreachable):
            answer = wanted()
            if answer:
                return answer
        time.sleep(0.05)
    raise AssertionError(f"it never came to be: {what()}")


def definition() -> dict[str, Any]:
    properties = {"colour": {"type": "string"}, "note": {"type": "string"}}
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": properties}},
    }
    version = {"name": "v1alpha1", "served": True, "referenceable": True}
    return {
        "apiVersion": "apiextensions.crossplane.io/v2",
        "kind": "CompositeResourceDefinition",
        "metadata": {"name": "xthings.example.org"},
        "spec": {
            "group": "example.org",
            "names": {"kind": "XThing", "plural": "xthings"},
            "versions": [{**version, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def composition(name: str, *steps: dict[str, Any], **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.crossplane.io/v1",
        "kind": "Composition",
        "metadata": {"name": name, "labels": {"uses": name, **labels}},
        "spec": {
            "compositeTypeRef": {"apiVersion": "example.org/v1alpha1", "kind": "XThing"},
            "mode": "Pipeline",
            "pipeline": list(steps),
        },
    }


def claimed_stores(*steps: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return a kind with claims and a Composition for it, with the path of each."""
    legacy = definition()
    legacy["apiVersion"] = "apiextensions.crossplane.io/v1"
    legacy["metadata"] = {"name": "xstores.example.org"}
    names = {"kind": "XStore", "plural": "xstores"}
    claims = {"kind": "Store", "plural": "stores"}
    legacy["spec"].update(names=names, claimNames=claims, scope="LegacyCluster")
    composed = composition("stores", *steps)
    composed["spec"]["compositeTypeRef"]["kind"] = "XStore"
    extensions = "/apis/apiextensions.crossplane.io/v1"
    return [
        (f"{extensions}/compositeresourcedefinitions", legacy),
        (f"{extensions}/compositions", composed),
    ]


def template_step(text: str) -> dict[str, Any]:
    manifest = (
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  annotations:\n"
        "    gotemplating.fn.crossplane.io/composition-resource-name: one\n"
        '    gotemplating.fn.crossplane.io/ready: "True"\n'
        f"data:\n  text: {text}\n"
    )
    return {
        "step": "template",
        "functionRef": {"name": "function-go-templating"},
        "input": {
            "apiVersion": "gotemplating.fn.crossplane.io/v1beta1",
            "kind": "GoTemplate",
            "source": "Inline",
            "inline": {"template": manifest},
        },
    }


def thing(name: str, uses: str, **machinery: Any) -> dict[str, Any]:
    selector = {"matchLabels": {"uses": uses}}
    return {
        "apiVersion": "example.org/v1alpha1",
        "kind": "XThing",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"crossplane": {"compositionSelector": selector, **machinery}},
    }

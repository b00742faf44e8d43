"""XRs and Compositions for tests of render."""

from __future__ import annotations

from typing import Any

import yaml

XR = """\
apiVersion: example.org/v1
kind: XApp
metadata: {name: shop, namespace: team-a}
spec: {region: eu}
"""


PATCH = {"type": "FromCompositeFieldPath", "fromFieldPath": "spec.region", "toFieldPath": "data.r"}


def composition(*steps: dict[str, Any], **spec: Any) -> str:
    return yaml.safe_dump(
        {
            "apiVersion": "apiextensions.crossplane.io/v1",
            "kind": "Composition",
            "metadata": {"name": "apps", "labels": {"tier": "gold"}},
            "spec": {
                "compositeTypeRef": {"apiVersion": "example.org/v1", "kind": "XApp"},
                "pipeline": list(steps),
                **spec,
            },
        }
    )


def patching(name: str = "bucket", **step: Any) -> dict[str, Any]:
    base = {"apiVersion": "v1", "kind": "ConfigMap", "data": {}}
    resources = [{"name": name, "base": base, "patches": [PATCH]}]
    return {
        "step": "patch",
        "functionRef": {"name": "function-patch-and-transform"},
        "input": {
            "apiVersion": "pt.fn.crossplane.io/v1beta1",
            "kind": "Resources",
            "resources": resources,
        },
        **step,
    }

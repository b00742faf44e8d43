"""EnvironmentConfigs, and compositions that require them."""

from __future__ import annotations

from typing import Any

from tests.controller.compositions.harness import (
    composition,
)


def config_map(name: str, namespace: str = "default", **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
    }


def environment(colour: str, name: str = "surroundings", **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.crossplane.io/v1beta1",
        "kind": "EnvironmentConfig",
        "metadata": {"name": name, "labels": labels},
        "data": {"colour": colour},
    }


BY_NAME = {"type": "Reference", "ref": {"name": "surroundings"}}


BY_LABELS = {
    "type": "Selector",
    "selector": {
        "mode": "Single",
        "matchLabels": [{"type": "Value", "key": "stage", "value": "prod"}],
    },
}


TEMPLATE = """
apiVersion: v1
kind: ConfigMap
metadata:
  annotations:
    gotemplating.fn.crossplane.io/composition-resource-name: a
    gotemplating.fn.crossplane.io/ready: "True"
data:
  colour: {{ (index .context "apiextensions.crossplane.io/environment").colour }}
"""


def in_surroundings(source: dict[str, Any]) -> dict[str, Any]:
    obj = composition()
    obj["spec"]["pipeline"][0]["input"]["inline"]["template"] = TEMPLATE
    obj["spec"]["pipeline"].insert(
        0,
        {
            "step": "surroundings",
            "functionRef": {"name": "function-environment-configs"},
            "input": {
                "apiVersion": "environmentconfigs.fn.crossplane.io/v1beta1",
                "kind": "Input",
                "spec": {"environmentConfigs": [source]},
            },
        },
    )
    return obj

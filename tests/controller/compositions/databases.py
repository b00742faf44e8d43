"""Databases: a definition with claims, its composition and a claim."""

from __future__ import annotations

from typing import Any

from kanister_py.core.kube.resources import GroupVersionResource
from kanister_py.ports.cluster import KubeObject
from tests.controller.compositions.harness import Harness

API = "example.org/v1alpha1"


COMPOSITES = GroupVersionResource("example.org", "v1alpha1", "xdatabases")


CLAIMS = GroupVersionResource("example.org", "v1alpha1", "databases")


def definition(**spec: Any) -> dict[str, Any]:
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "properties": {"region": {"type": "string"}}},
            "status": {"type": "object", "properties": {"address": {"type": "string"}}},
        },
    }
    return {
        "apiVersion": "apiextensions.crossplane.io/v1",
        "kind": "CompositeResourceDefinition",
        "metadata": {"name": "xdatabases.example.org"},
        "spec": {
            "group": "example.org",
            "names": {"kind": "XDatabase", "plural": "xdatabases"},
            "claimNames": {"kind": "Database", "plural": "databases"},
            "versions": [
                {
                    "name": "v1alpha1",
                    "served": True,
                    "referenceable": True,
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
            **spec,
        },
    }


def claim(name: str = "orders", region: str = "eu", **spec: Any) -> KubeObject:
    return {
        "apiVersion": API,
        "kind": "Database",
        "metadata": {
            "name": name,
            "namespace": "shop",
            "labels": {"team": "orders", "kubernetes.io/local": "x"},
        },
        "spec": {"region": region, **spec},
    }


TEMPLATE = """
apiVersion: v1
kind: ConfigMap
metadata:
  namespace: default
  annotations:
    gotemplating.fn.crossplane.io/composition-resource-name: store
    gotemplating.fn.crossplane.io/ready: "True"
data:
  region: {{ .observed.composite.resource.spec.region | quote }}
  colour: COLOUR
---
apiVersion: meta.gotemplating.fn.crossplane.io/v1alpha1
kind: CompositeConnectionDetails
data:
  password: {{ "s3cret" | b64enc }}
---
apiVersion: example.org/v1alpha1
kind: XDatabase
status:
  address: COLOUR
"""


def composition(colour: str, **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.crossplane.io/v1",
        "kind": "Composition",
        "metadata": {"name": "database", "labels": labels},
        "spec": {
            "compositeTypeRef": {"apiVersion": API, "kind": "XDatabase"},
            "mode": "Pipeline",
            "writeConnectionSecretsToNamespace": "default",
            "pipeline": [
                {
                    "step": "template",
                    "functionRef": {"name": "function-go-templating"},
                    "input": {
                        "apiVersion": "gotemplating.fn.crossplane.io/v1beta1",
                        "kind": "GoTemplate",
                        "source": "Inline",
                        "inline": {"template": TEMPLATE.replace("COLOUR", colour)},
                    },
                }
            ],
        },
    }


def claimed(harness: Harness) -> KubeObject:
    return harness.cluster.get(CLAIMS, "orders", namespace="shop")


def is_claim_ready(harness: Harness) -> bool:
    conditions = (claimed(harness).get("status") or {}).get("conditions") or ()
    return any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions
    )

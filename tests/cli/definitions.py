"""Definitions of a composite resource and of a kind that it composes, for tests."""

from __future__ import annotations

from typing import Any

SPEC = {
    "type": "object",
    "required": ["region"],
    "properties": {
        "region": {"type": "string", "enum": ["eu", "us"], "default": "eu"},
        "size": {"type": "integer", "maximum": 9},
        "zones": {"type": "array", "items": {"type": "object", "properties": {"name": {}}}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    "x-kubernetes-validations": [
        {"rule": "!has(self.size) || self.size != 7", "message": "7 brings bad luck"}
    ],
}
XRD = {
    "apiVersion": "apiextensions.crossplane.io/v2",
    "kind": "CompositeResourceDefinition",
    "metadata": {"name": "xapps.example.org"},
    "spec": {
        "group": "example.org",
        "names": {"kind": "XApp", "plural": "xapps"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "referenceable": True,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": SPEC}}},
            }
        ],
    },
}
BUCKET: dict[str, Any] = {
    "apiVersion": "store.example.org/v1",
    "kind": "Bucket",
    "spec": {"region": "eu"},
}
BUCKET_CRD = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "buckets.store.example.org"},
    "spec": {
        "group": "store.example.org",
        "names": {"kind": "Bucket", "plural": "buckets"},
        "scope": "Namespaced",
        "versions": [
            {"name": "v1", "schema": {"openAPIV3Schema": {"properties": {"spec": SPEC}}}},
        ],
    },
}

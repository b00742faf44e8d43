"""OpenAPI schemas: lookup by kind, with inlined references."""

from __future__ import annotations

from typing import Any

from kanister_py.core.kube.openapi import schema_of_kind

GVK = "x-kubernetes-group-version-kind"


def of_kinds(*kinds: str, group: str = "example.org", **more: Any) -> dict[str, Any]:
    return {GVK: [{"group": group, "version": "v1", "kind": kind} for kind in kinds], **more}


def document(**schemas: Any) -> dict[str, Any]:
    return {"components": {"schemas": schemas}}


def test_a_kind_is_found_by_group_version_and_kind() -> None:
    schemas = document(Other=of_kinds("Bucket", group="other.org"), Bucket=of_kinds("Bucket", a=1))
    assert (schema_of_kind(schemas, "example.org/v1", "Bucket") or {})["a"] == 1
    assert schema_of_kind(schemas, "example.org/v2", "Bucket") is None
    assert schema_of_kind(document(Pod=of_kinds("Pod", group="")), "v1", "Pod") is not None
    assert schema_of_kind({}, "v1", "Pod") is None


def test_schema_of_several_kinds_is_skipped() -> None:
    schemas = document(Options=of_kinds("Bucket", "Pail"))
    assert schema_of_kind(schemas, "example.org/v1", "Bucket") is None


def test_references_are_inlined() -> None:
    part = {"$ref": "#/components/schemas/Part"}
    schemas = document(
        Bucket=of_kinds("Bucket", properties={"a": {"allOf": [part], "default": {}}, "b": part}),
        Part={"properties": {"leaf": {"$ref": "#/components/schemas/Leaf"}}},
        Leaf={"type": "string"},
    )
    inlined = {"properties": {"leaf": {"type": "string"}}}
    schema = schema_of_kind(schemas, "example.org/v1", "Bucket")
    assert schema is not None
    assert schema["properties"] == {"a": {"allOf": [inlined], "default": {}}, "b": inlined}


def test_recursive_and_missing_references_become_empty_schemas() -> None:
    schemas = document(
        Bucket=of_kinds(
            "Bucket",
            properties={
                "again": {"$ref": "#/components/schemas/Bucket"},
                "gone": {"$ref": "#/components/schemas/Gone"},
            },
        )
    )
    schema = schema_of_kind(schemas, "example.org/v1", "Bucket")
    assert schema is not None
    assert schema["properties"] == {"again": {}, "gone": {}}

"""OpenAPI schemas: one kind of many, whole."""

from __future__ import annotations

from typing import Any

from kanister_py.core.kube.openapi import schema_of_kind

GVK = "x-kubernetes-group-version-kind"


def of_kinds(*kinds: str, group: str = "example.org", **more: Any) -> dict[str, Any]:
    return {GVK: [{"group": group, "version": "v1", "kind": kind} for kind in kinds], **more}


def document(**schemas: Any) -> dict[str, Any]:
    return {"components": {"schemas": schemas}}


def test_a_kind_is_found_by_group_version_and_kind() -> None:
    found = document(Other=of_kinds("Bucket", group="other.org"), Bucket=of_kinds("Bucket", a=1))
    assert (schema_of_kind(found, "example.org/v1", "Bucket") or {})["a"] == 1
    assert schema_of_kind(found, "example.org/v2", "Bucket") is None
    assert schema_of_kind(document(Pod=of_kinds("Pod", group="")), "v1", "Pod") is not None
    assert schema_of_kind({}, "v1", "Pod") is None


def test_what_belongs_to_several_kinds_is_none_of_them() -> None:
    found = document(Options=of_kinds("Bucket", "Pail"))
    assert schema_of_kind(found, "example.org/v1", "Bucket") is None


def test_what_is_referred_to_stands_in_its_place_every_time() -> None:
    part = {"$ref": "#/components/schemas/Part"}
    found = document(
        Bucket=of_kinds("Bucket", properties={"a": {"allOf": [part], "default": {}}, "b": part}),
        Part={"properties": {"leaf": {"$ref": "#/components/schemas/Leaf"}}},
        Leaf={"type": "string"},
    )
    whole = {"properties": {"leaf": {"type": "string"}}}
    schema = schema_of_kind(found, "example.org/v1", "Bucket")
    assert schema is not None
    assert schema["properties"] == {"a": {"allOf": [whole], "default": {}}, "b": whole}


def test_what_refers_to_itself_or_to_nothing_ends_there() -> None:
    found = document(
        Bucket=of_kinds(
            "Bucket",
            properties={
                "again": {"$ref": "#/components/schemas/Bucket"},
                "gone": {"$ref": "#/components/schemas/Gone"},
            },
        )
    )
    schema = schema_of_kind(found, "example.org/v1", "Bucket")
    assert schema is not None
    assert schema["properties"] == {"again": {}, "gone": {}}

"""Schemas and Secrets from manifests in files."""

from __future__ import annotations

from kanister_py.executor.manifest_source import ManifestSource

GVK = "x-kubernetes-group-version-kind"


def test_a_schema_is_returned_with_the_schemas_it_references() -> None:
    reference = {"$ref": "#/components/schemas/Spec"}
    schemas = {
        "Bucket": {
            GVK: [{"group": "example.org", "version": "v1", "kind": "Bucket"}],
            "properties": {"spec": {**reference, "description": "d"}},
        },
        "Spec": {"type": "object", "properties": {"again": reference, "n": {"type": "integer"}}},
        "List": {
            GVK: [
                {"group": "example.org", "version": "v1", "kind": "Bucket"},
                {"group": "example.org", "version": "v2", "kind": "Bucket"},
            ]
        },
    }
    source = ManifestSource(schemas=[{"components": {"schemas": schemas}}])
    schema = source.fetch_schema("example.org/v1", "Bucket")
    assert schema is not None
    assert schema["properties"]["spec"] == {
        "type": "object",
        # The schema references itself, which would never end.
        "properties": {"again": {}, "n": {"type": "integer"}},
        "description": "d",
    }
    assert source.fetch_schema("example.org/v2", "Bucket") is None
    assert source.requested_schemas == [
        {"apiVersion": "example.org/v1", "kind": "Bucket"},
        {"apiVersion": "example.org/v2", "kind": "Bucket"},
    ]


def test_a_secret_may_have_string_data() -> None:
    secret = {
        "metadata": {"namespace": "n", "name": "s"},
        "data": {"a": "eA=="},
        "stringData": {"b": "x"},
    }
    source = ManifestSource(secrets=[secret])
    assert source.fetch_secret("n", "s") == {"a": "eA==", "b": "eA=="}
    assert source.fetch_secret("n", "t") is None


def test_the_last_of_two_manifests_of_an_object_counts() -> None:
    obj = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    last = {**obj, "spec": {}}
    source = ManifestSource([obj, last])
    assert source.fetch_resources({"apiVersion": "v1", "kind": "Pod"}) == [last]

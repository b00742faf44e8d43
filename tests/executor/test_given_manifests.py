"""Schemas and Secrets that lie in files."""

from __future__ import annotations

from kanister_py.executor.given_manifests import ManifestSource

GVK = "x-kubernetes-group-version-kind"


def test_a_schema_is_found_by_its_kind_with_all_that_it_refers_to() -> None:
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
    found = source.fetch_schema("example.org/v1", "Bucket")
    assert found is not None
    assert found["properties"]["spec"] == {
        "type": "object",
        # Where it refers to itself there is no end to it.
        "properties": {"again": {}, "n": {"type": "integer"}},
        "description": "d",
    }
    assert source.fetch_schema("example.org/v2", "Bucket") is None
    assert source.asked_schemas == [
        {"apiVersion": "example.org/v1", "kind": "Bucket"},
        {"apiVersion": "example.org/v2", "kind": "Bucket"},
    ]


def test_a_secret_may_be_written_in_plain_text() -> None:
    secret = {
        "metadata": {"namespace": "n", "name": "s"},
        "data": {"a": "eA=="},
        "stringData": {"b": "x"},
    }
    source = ManifestSource(secrets=[secret])
    assert source.fetch_secret("n", "s") == {"a": "eA==", "b": "eA=="}
    assert source.fetch_secret("n", "t") is None


def test_an_object_that_is_described_twice_is_one() -> None:
    obj = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
    source = ManifestSource([obj, {**obj, "spec": {}}])
    assert source.fetch_resources({"apiVersion": "v1", "kind": "Pod"}) == [obj]

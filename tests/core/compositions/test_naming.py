"""Names that must be the same as in Crossplane."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanister_py.core.compositions.naming import (
    child_name,
    composed_manager,
    is_valid_name,
    uid_of_rendered,
)

BUCKET = {
    "apiVersion": "example.org/v1alpha1",
    "kind": "XBucket",
    "metadata": {"name": "my-bucket"},
}
UID = "75e4a668-035f-4ce8-8c45-f4d3ac850155"


def test_a_composed_resource_is_named_as_crossplane_names_it() -> None:
    assert child_name("cool-resource-", UID, "database") == "cool-resource-38ce86992a27"


def test_uid_and_field_manager_of_an_xr_are_the_same_as_in_crossplane() -> None:
    uid = uid_of_rendered(BUCKET)
    assert uid == "f70ef0ce-2b73-5b7b-a497-0ba62f7c6f04"
    assert child_name("my-bucket-", uid, "bucket") == "my-bucket-8cc10c10d494"
    manager = composed_manager(BUCKET)
    prefix = "apiextensions.crossplane.io/composed/"
    assert manager.startswith(f"{prefix}bf2a3e0d")
    assert manager.endswith("eea6")
    assert len(manager) == len(prefix) + 64


@given(st.text("abc-", max_size=100), st.text(max_size=20))
def test_a_name_is_never_too_long_and_has_one_dash_before_its_hash(
    prefix: str, resource: str
) -> None:
    name = child_name(prefix, UID, resource)
    assert len(name) <= 63
    if prefix.strip("-"):
        assert name[-13] == "-"
        assert name[-14] != "-"


@pytest.mark.parametrize(
    ("name", "api_version", "kind", "want"),
    [
        ("a.b-c", "v1", "ConfigMap", True),
        ("A", "v1", "ConfigMap", False),
        ("system:x", "v1", "ConfigMap", False),
        ("system:x", "rbac.authorization.k8s.io/v1", "ClusterRole", True),
        ("a/b", "rbac.authorization.k8s.io/v1", "ClusterRole", False),
    ],
)
def test_validity_of_a_name(name: str, api_version: str, kind: str, want: bool) -> None:
    assert is_valid_name(name, api_version, kind) is want

"""Packages of functions: references and metadata."""

from __future__ import annotations

import pytest

from kanister_py.core.revisions.package import (
    Dependency,
    InvalidPackage,
    InvalidPackageReference,
    PackageReference,
    has_capability,
    parse_function_package,
    parse_package_reference,
)
from kanister_py.core.versions.semver import parse_version

DIGEST = f"sha256:{'0123456789abcdef' * 4}"


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param(
            "registry.example.org/team/function-x:v1.2.0",
            PackageReference("registry.example.org", "team/function-x", "v1.2.0"),
            id="a tag",
        ),
        pytest.param(
            "localhost:5000/function-x",
            PackageReference("localhost:5000", "function-x", "latest"),
            id="no tag",
        ),
        pytest.param(
            f"registry.example.org/x@{DIGEST}",
            PackageReference("registry.example.org", "x", "", DIGEST),
            id="a digest",
        ),
        pytest.param(
            f"registry.example.org/x:v1.0.0@{DIGEST}",
            PackageReference("registry.example.org", "x", "v1.0.0", DIGEST),
            id="a tag and a digest",
        ),
    ],
)
def test_reference_is_parsed(text: str, want: PackageReference) -> None:
    assert parse_package_reference(text) == want


@pytest.mark.parametrize(
    "text",
    [
        "",
        "function-x",
        "team/function-x:v1",
        "r.example.org/",
        "r.example.org/X",
        "r.io/x:-",
        "r.io/x@sha256:1",
    ],
)
def test_invalid_reference_is_reported_with_an_example(text: str) -> None:
    with pytest.raises(InvalidPackageReference, match=r"write it as"):
        parse_package_reference(text)


def test_version_of_a_package_is_its_tag() -> None:
    assert parse_package_reference("r.io/x:v1.2.0").version == parse_version("1.2.0")
    assert parse_package_reference("r.io/x:stable").version is None


def test_pinned_reference_has_the_digest() -> None:
    assert parse_package_reference("r.io/x:v1").pinned(DIGEST) == f"r.io/x@{DIGEST}"


FUNCTION = """\
apiVersion: meta.pkg.crossplane.io/v1
kind: Function
metadata:
  name: function-x
  labels: {release-channel: alpha}
  annotations: {who: team}
spec:
  crossplane: {version: ">=v1.14"}
  capabilities: [Composition, operation]
  dependsOn:
    - {function: r.io/other, version: ">=v1.0.0"}
    - {apiVersion: pkg.crossplane.io/v1, kind: Provider, package: r.io/p, version: v2}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
"""


def test_metadata_and_dependencies_are_parsed() -> None:
    package = parse_function_package(FUNCTION, "x")
    assert (package.name, package.labels) == ("function-x", {"release-channel": "alpha"})
    assert package.annotations == {"who": "team"}
    assert has_capability(package.capabilities, "composition")
    assert not has_capability(package.capabilities, "required-schemas")
    assert package.dependencies == (
        Dependency("r.io/other", ">=v1.0.0"),
        Dependency("r.io/p", "v2", "Provider"),
    )
    assert package.constraint == ">=v1.14"


def test_default_capability_is_composition() -> None:
    text = "apiVersion: meta.pkg.crossplane.io/v1\nkind: Function\nmetadata: {name: f}\n"
    assert has_capability(parse_function_package(text, "x").capabilities, "composition")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        pytest.param("", "0 objects", id="nothing in it"),
        pytest.param(f"{FUNCTION}---\n{FUNCTION}", "2 objects", id="two functions"),
        pytest.param(
            FUNCTION.replace("kind: Function", "kind: Provider"), "a Provider", id="a provider"
        ),
        pytest.param(FUNCTION.replace("name: function-x", "x: y"), "metadata.name", id="no name"),
    ],
)
def test_package_of_another_kind_is_refused(text: str, why: str) -> None:
    with pytest.raises(InvalidPackage, match=why):
        parse_function_package(text, "x")

"""Dependencies of packages, and the packages to install for them."""

from __future__ import annotations

import pytest

from kanister_py.core.revisions.package import (
    Dependency,
    DependencyUnresolved,
    Installed,
    find_installed,
    name_for,
    package_for,
    parse_package_reference,
)

DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("package", "versions"),
    [
        pytest.param("r.io/t/f:v1.2.0", ">=v1.0.0", id="a version in the range"),
        pytest.param("r.io/t/f:latest", ">=v1.0.0", id="a tag that is no version"),
        pytest.param("r.io/t/f:v1.2.0", "", id="any version"),
        pytest.param(f"r.io/t/f@{DIGEST}", DIGEST, id="the digest"),
    ],
)
def test_function_of_the_same_repository_satisfies_a_dependency(
    package: str, versions: str
) -> None:
    installed = Installed("f", parse_package_reference(package))
    assert find_installed(Dependency("r.io/t/f", versions), [installed]) == installed


def test_another_repository_is_ignored_and_another_version_conflicts() -> None:
    installed = Installed("f", parse_package_reference("r.io/t/f:v1.2.0"))
    assert find_installed(Dependency("r.io/other/f", ">=v1.0.0"), [installed]) is None
    with pytest.raises(DependencyUnresolved, match=r"Function f is r\.io/t/f:v1\.2\.0"):
        find_installed(Dependency("r.io/t/f", ">=v2.0.0"), [installed])


@pytest.mark.parametrize(
    ("versions", "want"),
    [
        pytest.param(">=v1.0.0", "r.io/f:v1.10.0", id="by number, not by letter"),
        pytest.param("", "r.io/f:v1.10.0", id="the highest of all"),
        pytest.param("v1.9.0", "r.io/f:v1.9.0", id="exactly one"),
        pytest.param(DIGEST, f"r.io/f@{DIGEST}", id="a digest needs no tag"),
    ],
)
def test_highest_matching_version_is_installed(versions: str, want: str) -> None:
    tags = ["latest", "v1.9.0", "v1.10.0", "v1.11.0-rc.1", "nightly"]
    assert package_for(Dependency("r.io/f", versions), tags) == want


def test_a_function_is_named_after_its_repository() -> None:
    assert name_for("r.io/team/function_x:v1", []) == "function-x"
    assert name_for("r.io/team/f:v1", ["f"]) == "team-f"
    with pytest.raises(DependencyUnresolved, match="install it manually"):
        name_for("r.io/team/f:v1", ["f", "team-f"])

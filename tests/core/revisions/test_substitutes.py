"""Substitutes: built-in versions that run in place of packages."""

from __future__ import annotations

import pytest

from kanister_py.core.errors import FunctionVersionNotFound
from kanister_py.core.revisions.substitutes import (
    choose_for_package,
    own_package_function,
    substitute_for,
)
from kanister_py.wiring import read_functions

ENTRIES = read_functions().registry
THEIRS = "xpkg.crossplane.io/crossplane-contrib/function-auto-ready"
OURS = "xpkg.example.org/kanister-py/function-auto-ready"


@pytest.mark.parametrize(
    ("package", "tag", "is_ours", "want"),
    [
        pytest.param(OURS, "v0.2.0", False, "v0.2.0", id="a package of ours"),
        pytest.param(THEIRS, "v0.2.0", True, "v0.2.0", id="with the annotation to run in process"),
        pytest.param(THEIRS, "v0.7.1", False, "v0.1.0", id="of others, if all run in process"),
        pytest.param(THEIRS, "v0.2.0", False, "v0.1.0", id="an older one of others"),
        pytest.param(THEIRS, "", True, "v0.1.0", id="no tag follows the stable version"),
    ],
)
def test_tag_is_a_version_of_the_packages_owner(
    package: str, tag: str, is_ours: bool, want: str
) -> None:
    choice = choose_for_package(ENTRIES, package, tag, is_ours=is_ours)
    assert str(choice.chosen.version) == want


def test_version_of_another_package_is_not_a_built_in_version() -> None:
    with pytest.raises(FunctionVersionNotFound, match=r"v0\.7\.1"):
        choose_for_package(ENTRIES, THEIRS, "v0.7.1", is_ours=True)


def test_record_lists_the_releases_that_a_version_replaces() -> None:
    stated = substitute_for(ENTRIES, "crossplane-contrib/function-auto-ready", "v0.7.9")
    assert stated is not None
    assert (str(stated.entry.version), stated.is_stated) == ("v0.1.0", True)
    other = substitute_for(ENTRIES, "crossplane-contrib/function-auto-ready", "v0.2.0")
    assert other is not None
    assert (other.is_stated, other.ranges) == (False, ("~0.7",))
    assert substitute_for(ENTRIES, "painters/function-paint", "v1.0.0") is None


@pytest.mark.parametrize(
    ("repository", "is_ours", "want"),
    [
        pytest.param("kanister-py/function-auto-ready", False, "function-auto-ready", id="ours"),
        pytest.param("crossplane-contrib/function-auto-ready", False, "", id="theirs"),
        pytest.param(
            "crossplane-contrib/function-auto-ready", True, "function-auto-ready", id="said to be"
        ),
        pytest.param("", False, "function-auto-ready", id="no package, so by its name"),
        pytest.param("painters/function-auto-ready", False, "", id="somebody else's"),
    ],
)
def test_package_is_our_own_by_repository_or_annotation(
    repository: str, is_ours: bool, want: str
) -> None:
    function = own_package_function(ENTRIES, "function-auto-ready", repository, is_ours=is_ours)
    assert function == want

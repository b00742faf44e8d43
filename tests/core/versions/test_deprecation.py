from __future__ import annotations

import pytest

from kanister_py.core.versions.deprecation import Listing, Support, support_of
from kanister_py.core.versions.semver import parse_version as parse

LISTING = Listing(since=parse("1.2.0"), deprecated_in=parse("1.4.0"), removed_in=parse("1.6.0"))


@pytest.mark.parametrize(
    ("release", "want"),
    [
        pytest.param("1.1.9", Support.PLANNED, id="a release before there was such a version"),
        pytest.param("1.2.0", Support.SERVED, id="the release that brings it"),
        pytest.param("1.3.9", Support.SERVED, id="the release before deprecation"),
        pytest.param("1.4.0-rc.1", Support.SERVED, id="a pre-release of the deprecating one"),
        pytest.param("1.4.0", Support.DEPRECATED, id="the release that deprecates"),
        pytest.param("1.5.9", Support.DEPRECATED, id="the last one that serves it"),
        pytest.param("1.6.0", Support.REMOVED, id="the release that removes"),
        pytest.param("2.0.0", Support.REMOVED, id="every later release"),
    ],
)
def test_a_version_runs_through_its_whole_deprecation_window(release: str, want: Support) -> None:
    assert support_of(LISTING, parse(release)) is want


def test_version_without_boundaries_is_supported() -> None:
    assert support_of(Listing(), parse("0.1.0")) is Support.SERVED

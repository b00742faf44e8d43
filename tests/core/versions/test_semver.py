from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanister_py.core.errors import InvalidVersion
from kanister_py.core.versions.semver import (
    InvalidRange,
    Version,
    is_range,
    parse_range,
    parse_version,
)

NUMBERS = st.integers(0, 99)
PRERELEASES = st.sampled_from(["", "rc.1", "rc.2", "rc.10", "alpha", "alpha.1", "0", "1.x"])


@st.composite
def version_texts(draw: st.DrawFn) -> str:
    bare = f"{draw(NUMBERS)}.{draw(NUMBERS)}.{draw(NUMBERS)}"
    prerelease = draw(PRERELEASES)
    return f"{bare}-{prerelease}" if prerelease else bare


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("v0.1.0", "v0.1.0", id="as we print it"),
        pytest.param("0.1.0", "v0.1.0", id="without the v"),
        pytest.param("v1.0.0-rc.1", "v1.0.0-rc.1", id="a pre-release"),
        pytest.param("1.0.0-0.alpha-7", "v1.0.0-0.alpha-7", id="a pre-release with hyphens"),
    ],
)
def test_a_version_is_printed_with_its_v(text: str, want: str) -> None:
    assert str(parse_version(text)) == want


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        pytest.param("v1", "write v1.0.0 or the range ~1", id="one number"),
        pytest.param("1.2", "write v1.2.0 or the range ~1.2", id="two numbers"),
        pytest.param("v1.0.0+build", "write v1.0.0", id="build metadata"),
        pytest.param("latest", "write a version such as v1.2.3 or v1.2.3-rc.1", id="a word"),
        pytest.param("V1.0.0", "write v1.0.0", id="a capital V"),
        pytest.param(" v1.0.0", "write v1.0.0", id="a space before it"),
        pytest.param("", "write a version such as v1.2.3, or leave it out", id="nothing"),
        pytest.param(
            "v01.0.0", "write a version such as v1.2.3 or v1.2.3-rc.1", id="a leading zero"
        ),
        pytest.param(
            "1.0.0-01", "write a version such as v1.2.3 or v1.2.3-rc.1", id="a zero in a number"
        ),
        pytest.param(
            "\u0661.0.0",
            "write a version such as v1.2.3 or v1.2.3-rc.1",
            id="digits of another script",
        ),
        pytest.param("1.0.0\n", "write 1.0.0", id="a line break after it"),
        pytest.param("9" * 200 + ".0.0", "", id="longer than any version"),
    ],
)
def test_invalid_version_is_refused_with_a_suggestion(text: str, hint: str) -> None:
    with pytest.raises(InvalidVersion) as refused:
        parse_version(text)
    assert refused.value.suggestion == hint
    assert refused.value.reason == "InvalidVersion"


def test_versions_have_the_precedence_of_semver() -> None:
    ordered = [
        "1.0.0-1",
        "1.0.0-2",
        "1.0.0-10",
        "1.0.0-alpha",
        "1.0.0-alpha.1",
        "1.0.0-alpha.beta",
        "1.0.0-rc.2",
        "1.0.0-rc.11",
        "1.0.0",
        "1.0.1-rc.1",
        "1.0.9",
        "1.0.10",
        "1.9.0",
        "1.10.0",
    ]
    backwards = list(reversed(ordered))
    assert sorted(backwards, key=parse_version) == ordered


@given(version_texts())
def test_spellings_of_a_version_are_equal(text: str) -> None:
    with_v, without = parse_version(f"v{text}"), parse_version(text)
    assert with_v == without
    assert hash(with_v) == hash(without)
    assert parse_version(str(with_v)) == with_v
    assert with_v.bare == text


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        pytest.param("~1.2", ["1.2.0", "1.2.9"], ["1.1.9", "1.3.0"], id="~ with two numbers"),
        pytest.param("~1.2.3", ["1.2.3", "1.2.9"], ["1.2.2", "1.3.0"], id="~ with three"),
        pytest.param("~1", ["1.0.0", "1.9.9"], ["0.9.0", "2.0.0"], id="~ with one"),
        pytest.param("^1.2.3", ["1.2.3", "1.9.0"], ["1.2.2", "2.0.0"], id="^ above one"),
        pytest.param("^0.2.3", ["0.2.3", "0.2.9"], ["0.2.2", "0.3.0"], id="^ below one"),
        pytest.param("^0.0.3", ["0.0.3"], ["0.0.2", "0.0.4"], id="^ on the last number"),
        pytest.param("^0.0", ["0.0.0", "0.0.9"], ["0.1.0"], id="^0.0"),
        pytest.param("^0", ["0.0.0", "0.9.9"], ["1.0.0"], id="^0"),
        pytest.param(">1.2", ["1.3.0"], ["1.2.9"], id="> with two numbers"),
        pytest.param("<=1.2", ["1.2.9", "0.1.0"], ["1.3.0"], id="<= with two numbers"),
        pytest.param("=1.2", ["1.2.0", "1.2.9"], ["1.3.0"], id="= with two numbers"),
        pytest.param("!=1.2", ["1.1.0", "1.3.0"], ["1.2.5"], id="!= with two numbers"),
        pytest.param("!=1.2.0", ["1.2.1"], ["1.2.0"], id="!="),
        pytest.param(">=0.1.0 <1.0.0", ["0.1.0", "0.9.9"], ["1.0.0"], id="space means and"),
        pytest.param(">=0.1.0,<1.0.0", ["0.1.0"], ["1.0.0"], id="comma means and"),
        pytest.param(">= 0.1.0 , < 1.0.0", ["0.1.0"], ["1.0.0"], id="spaces where people put them"),
        pytest.param("1.0.0 || ~2.0", ["1.0.0", "2.0.1"], ["1.0.1"], id="|| means or"),
        pytest.param(">v0.1.0", ["v0.2.0"], ["v0.1.0"], id="with the v"),
        pytest.param(">=1.0.0", ["1.1.0"], ["1.1.0-rc.1"], id="no pre-release unless it is named"),
        pytest.param(
            ">=1.1.0-rc.1", ["1.1.0-rc.2", "1.1.0"], ["1.2.0-rc.1"], id="pre-releases when named"
        ),
    ],
)
def test_range_contains_its_versions(text: str, inside: list[str], outside: list[str]) -> None:
    assert is_range(text)
    range_ = parse_range(text)
    assert [version for version in inside if parse_version(version) not in range_] == []
    assert [version for version in outside if parse_version(version) in range_] == []


@pytest.mark.parametrize("text", ["~", "||", ">=1.0.0 ||", "1.2 || ~1", ">x", "^1.0.0+b", "~1.2.x"])
def test_invalid_range_is_refused(text: str) -> None:
    with pytest.raises((InvalidRange, InvalidVersion)):
        parse_range(text)


@given(version_texts(), version_texts())
def test_bounds_agree_with_the_order_of_versions(low: str, other: str) -> None:
    bound, version = parse_version(low), parse_version(other)
    if version.is_prerelease and (bound.base != version.base or not bound.is_prerelease):
        assert version not in parse_range(f">={low}")
    else:
        assert (version in parse_range(f">={low}")) is (version >= bound)
        assert (version in parse_range(f"<{low}")) is (version < bound)
    assert isinstance(version, Version)

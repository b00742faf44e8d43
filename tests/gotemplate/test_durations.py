"""Durations as Go 1.26 parses them, at the limits of precision and range."""

from __future__ import annotations

import re

import pytest

from kanister_py.gotemplate.durations import nanoseconds_of


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("0.3333333333333333333h", 1_200_000_000_000, id="rounded up on the way"),
        pytest.param("1.9999999999999999999m", 119_999_999_999, id="a digit too many"),
        pytest.param("-9223372036854775808ns", -(1 << 63), id="the lowest"),
        pytest.param(f"1.{'0' * 5000}1s", 1_000_000_000, id="noughts behind the point"),
    ],
)
def test_a_duration_has_the_same_value_as_in_go(text: str, want: int) -> None:
    assert nanoseconds_of(text) == want


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("9" * 19, f'invalid duration "{"9" * 19}"', id="too large, and of no unit"),
        pytest.param("9" * 19 + "x", f'invalid duration "{"9" * 19}x"', id="of no known unit"),
        pytest.param("1.5", 'missing unit in duration "1.5"', id="no unit"),
        pytest.param("3x", 'unknown unit "x" in duration "3x"', id="an unknown unit"),
        pytest.param("\x7f", 'invalid duration "\x7f"', id="the last sign of ASCII"),
        pytest.param("é", r'invalid duration "\xc3\xa9"', id="beyond ASCII"),
        pytest.param("\udc80", r'invalid duration "\x80"', id="a byte that is no UTF-8"),
        pytest.param("\ud800", r'invalid duration "\xed\xa0\x80"', id="half a sign"),
    ],
)
def test_an_invalid_duration_has_the_same_message_as_in_go(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(words)}$"):
        nanoseconds_of(text)

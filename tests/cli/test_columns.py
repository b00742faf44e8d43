"""Texts on a terminal: what may be seen of them, and how much room they take."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanister_py.cli.columns import clean, cut, padded, width_of


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("plain", "plain", id="plain"),
        pytest.param("", "", id="nothing"),
        pytest.param("\x1b[31mred\x1b[0m and \x1b[1;4mloud", "red and loud", id="colours"),
        pytest.param("a\x1b[2J\x1b[Hb\x1b[10Ac", "abc", id="a cursor on its way"),
        pytest.param("\x1b]0;title\x07x\x1b]8;;http://a\x1b\\y", "xy", id="titles and links"),
        pytest.param("\x1bP1$r\x1b\\z\x1bcq\x1b", "zq", id="other escapes, one of them broken off"),
        pytest.param("bell\x07 null\x00 del\x7f c1\x9b31m", "bell null del c131m", id="controls"),
        pytest.param("10%\r20%\r30%\r", "30%", id="a progress bar that redraws itself"),
        pytest.param("one\r\n", "one", id="a line from Windows"),
        pytest.param("a\tb", "a b", id="a tab"),
        pytest.param("abc\u202edef\u200b\u2066x", "abcdefx", id="what turns the direction"),
        pytest.param("bad \udcff byte", "bad  byte", id="half of a sign"),
        pytest.param("日本語 e\u0301 ✓\ufe0f", "日本語 e\u0301 ✓", id="signs of the world"),
    ],
)
def test_nothing_in_a_log_line_steers_the_terminal(text: str, want: str) -> None:
    assert clean(text) == want


def test_a_line_of_ten_megabytes_is_not_looked_at_to_its_end() -> None:
    assert len(clean("x" * 10_000_000)) < 10_000
    assert len(clean("é" * 10_000_000)) < 10_000


@pytest.mark.parametrize(
    ("text", "width", "want"),
    [
        pytest.param("abc", 3, "abc", id="fits to the column"),
        pytest.param("abcd", 3, "ab…", id="one too many"),
        pytest.param("日本語", 6, "日本語", id="wide signs that fit"),
        pytest.param("日本語", 5, "日本…", id="wide signs"),
        pytest.param("日本語", 4, "日…", id="half a wide sign is none"),
        pytest.param(
            "e\u0301e\u0301e\u0301", 3, "e\u0301e\u0301e\u0301", id="accents take no room"
        ),
        pytest.param("ab cdef", 4, "ab…", id="no blank before the ellipsis"),
        pytest.param("abc", 1, "…", id="a single column"),
        pytest.param("abc", 0, "", id="no column at all"),
        pytest.param("", 0, "", id="nothing in nothing"),
    ],
)
def test_a_text_is_cut_to_its_columns(text: str, width: int, want: str) -> None:
    assert cut(text, width) == want


@given(st.text(), st.integers(0, 40))
def test_no_text_is_wider_than_asked(text: str, width: int) -> None:
    shown = cut(clean(text), width)
    assert width_of(shown) <= width
    assert width_of(padded(shown, width)) == width
    assert clean(shown) == shown

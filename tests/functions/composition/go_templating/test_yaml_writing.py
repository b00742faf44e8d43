from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanister_py.functions.composition.go_templating.yaml_reading import from_yaml
from kanister_py.functions.composition.go_templating.yaml_writing import Bareword, written

LONG = "k" * 129


@pytest.mark.parametrize(
    ("value", "want"),
    [
        pytest.param([[], {}, [{}]], "- []\n- {}\n- - {}\n", id="what is empty"),
        pytest.param(
            {"a": [[{"b": [[], None]}]]},
            "a:\n    - - b:\n            - []\n            - null\n",
            id="a list in a map in lists",
        ),
        pytest.param(
            [{"a": {"b": 1}, "c": 2}],
            "- a:\n    b: 1\n  c: 2\n",
            id="a map in a list, whose own maps stand at the next fourth blank",
        ),
        pytest.param({"a\nb": 1}, "? |-\n    a\n    b\n: 1\n", id="a key of two lines"),
        pytest.param(
            {"a\nb": {"c": 1, "d": 2}, "e": 3},
            "? |-\n    a\n    b\n:   c: 1\n    d: 2\ne: 3\n",
            id="a map behind a key of two lines",
        ),
        pytest.param(
            [{LONG: [1, {"c": 2}]}],
            f"- ? {LONG}\n  : - 1\n    - c: 2\n",
            id="a list behind a long key, in a list",
        ),
        pytest.param({LONG: {}, "z": []}, f"? {LONG}\n: {{}}\nz: []\n", id="nothing at long keys"),
        pytest.param({"é" * 64: 1}, f"{'é' * 64}: 1\n", id="a key of 128 bytes"),
        pytest.param({"é" * 65: 1}, f"? {'é' * 65}\n: 1\n", id="a key of 130 bytes"),
        pytest.param({"a: b": 1, "yes": 2, "": 3}, '\'a: b\': 1\n"yes": 2\n"": 3\n', id="quotes"),
    ],
)
def test_layout_of_maps_and_lists(value: Any, want: str) -> None:
    assert written(value) == want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("nginx:1.27", "nginx:1.27", id="an image"),
        pytest.param("a -b ---", "a -b ---", id="dashes inside"),
        pytest.param("On", '"On"', id="a word that some read as true"),
        pytest.param("On and on", "On and on", id="such a word with others"),
        pytest.param("-", "'-'", id="a dash"),
        pytest.param("-x", "-x", id="a dash before a word"),
        pytest.param("? x", "'? x'", id="a question mark and a blank"),
        pytest.param("?x", "?x", id="a question mark before a word"),
        pytest.param("a:", "'a:'", id="a colon at the end"),
        pytest.param("a #", "'a #'", id="what a comment begins with"),
        pytest.param("a#b", "a#b", id="a hash inside"),
        pytest.param("--- a", "'--- a'", id="what a document begins with"),
        pytest.param("...", "'...'", id="what a document ends with"),
        pytest.param("*", "'*'", id="a star"),
        pytest.param(" a", "' a'", id="a blank before"),
        pytest.param("a ", "'a '", id="a blank behind"),
        pytest.param("it's: x", "'it''s: x'", id="a quote within quotes"),
        pytest.param("'x", "'''x'", id="a quote first"),
        pytest.param(
            '\0\a\b\v\f\r\x1b\x7f\ufeff\ud800"\\\t',
            r'"\0\a\b\v\f\r\e\x7F\uFEFF\uD800\"\\\t"',
            id="signs nobody sees",
        ),
        pytest.param("x\u2028y'", "'x\u2028    y'''", id="an end of a line from elsewhere"),
        pytest.param("x\x85\u2028y'", '"x\\N\\Ly\'"', id="the end of a line that nobody sees"),
        pytest.param("x \u2029y", r'"x \Py"', id="a blank before such an end"),
        pytest.param("x\n\n", "|+\n    x\n", id="many ends"),
        pytest.param(" x\n\ny", "|4-\n     x\n\n    y", id="blanks before the first line"),
        pytest.param("\n", "|4+\n", id="an empty line"),
        pytest.param("x\n\u2028y\n", "|\n    x\n\u2028    y", id="two kinds of lines"),
        pytest.param("x\n\ty\x85z\n", r'"x\n\ty\Nz\n"', id="three kinds of lines"),
        pytest.param("x \ny", r'"x \ny"', id="a blank at the end of a line"),
        pytest.param("x\ny ", r'"x\ny "', id="a blank at the end of all lines"),
        pytest.param("x\r\ny\n", r'"x\r\ny\n"', id="lines from Windows"),
        pytest.param("wait...", "wait...", id="dots at the end"),
        pytest.param("x\nwait...\n", "|\n    x\n    wait...", id="dots at the end of the lines"),
    ],
)
def test_quotes_of_texts(text: str, want: str) -> None:
    assert written({"a": text}).removesuffix("\n") == f"a: {want}"


def test_key_with_unusual_line_break_stays_on_its_line() -> None:
    assert written({"x\x85y": 1}) == '"x\\Ny": 1\n'


def test_bareword_has_no_quotes() -> None:
    assert written([Bareword("2024-01-01"), "2024-01-01"]) == '- 2024-01-01\n- "2024-01-01"\n'


# Not generated: unusual line breaks, which are parsed as normal ones; lone surrogates, which cannot
# be parsed; `<<`, which is a merge key; and blocks that start with a blank, whose indentation
# indicator is always four.
TEXTS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\x85\u2028\u2029")
    | st.sampled_from(list(" \n\t:#-'\"?*&!%@`,[]{}|>~=.0123456789exyn"))
).filter(lambda text: text != "<<" and ("\n" not in text or text[0] not in " \n"))


@given(
    st.recursive(
        TEXTS | st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1),
        lambda children: st.lists(children) | st.dictionaries(TEXTS, children),
    )
)
def test_any_value_is_parsed_back(value: Any) -> None:
    assert from_yaml(written(value), lambda _: None) == value

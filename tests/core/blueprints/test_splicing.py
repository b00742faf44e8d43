from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kanister_py.core.blueprints.splicing import Edit, NewKey, NewName, NewValue, apply_edits
from kanister_py.core.yaml.documents import parse_documents


def change(text: str, *edits: Edit) -> str | None:
    documents = parse_documents(text)
    return apply_edits(text, documents, [(documents[0], edit) for edit in edits])


VALUE = NewValue(("a", "v"), "v0.1.0", "v0.2.0")


class TestEdit:
    @pytest.mark.parametrize(
        "text",
        [
            pytest.param("a:\n  v: v0.1.0\n", id="plain"),
            pytest.param("a:\n  v: 'v0.1.0' # old\n", id="in quotes, with a comment"),
            pytest.param('a:\n  v: "v0.1.0"\n', id="in double quotes"),
            pytest.param("a:\r\n  v: v0.1.0\r\nb: é\r\n", id="with the line ends of Windows"),
            pytest.param("# é😀\na: {é: 😀, v: v0.1.0}", id="in a flow map, no line end"),
            pytest.param("a:\n  v: &x v0.1.0\n", id="anchored"),
            pytest.param("a:\n  v: !!str v0.1.0\n", id="tagged"),
            pytest.param("a:\n  v: >-\n    v0.1.0\n\nb: 1\n", id="in a folded block"),
            pytest.param("a:\n  ? v\n  : v0.1.0\nb: v0.1.0\n", id="with a complex key"),
            pytest.param("\n\n---\n# c\na: {v: v0.1.0}\n---\nb: v0.1.0\n", id="in a stream"),
            pytest.param('{"a": {"v": "v0.1.0"}}', id="in JSON"),
        ],
    )
    def test_changes_no_other_byte(self, text: str) -> None:
        assert change(text, VALUE) == text.replace("v0.1.0", "v0.2.0", 1)

    def test_renames_a_key(self) -> None:
        text = "a:\n  'to' : x # to\n  other: to\n"
        expected = "a:\n  'recipient' : x # to\n  other: to\n"
        assert change(text, NewName(("a", "to"), "recipient")) == expected

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            pytest.param(
                "a:\n- func: F # c\n  x: 1\n", "a:\n- v: v1\n  func: F # c\n  x: 1\n", id="block"
            ),
            pytest.param(
                "a:\r\n  - func: F\r\n", "a:\r\n  - v: v1\r\n    func: F\r\n", id="Windows"
            ),
            pytest.param("a: [{func: F}]\n", "a: [{v: v1, func: F}]\n", id="flow"),
            pytest.param("a:\n- x: 1\n  func: F", "a:\n- x: 1\n  v: v1\n  func: F", id="not first"),
        ],
    )
    def test_adds_a_key(self, text: str, expected: str) -> None:
        assert change(text, NewKey(("a", 0, "func"), "v", "v1")) == expected


class TestNothingIsChanged:
    @pytest.mark.parametrize(
        "text",
        [
            pytest.param("b: &x v0.1.0\na: {v: *x}\n", id="an alias"),
            pytest.param("a: {v: &x v0.1.0}\nb: *x\n", id="an anchor with an alias"),
            pytest.param("b: &x {v: v0.1.0}\na: *x\n", id="a shared map"),
            pytest.param("b: &x {v: v0.1.0}\na:\n  <<: *x\n", id="a merged map"),
            pytest.param('a: {v: "v0\\x2e1.0"}\n', id="an escaped text"),
            pytest.param("a: {w: v0.1.0}\n", id="a missing key"),
        ],
    )
    def test_if_the_value_cannot_be_changed_alone(self, text: str) -> None:
        assert change(text, VALUE) is None

    def test_if_the_new_name_would_not_be_text(self) -> None:
        assert change("a: {to: 1}\n", NewName(("a", "to"), "on")) is None

    def test_if_the_new_name_exists(self) -> None:
        assert change("a: {to: 1, at: 2}\n", NewName(("a", "to"), "at")) is None


def test_aliases_change_with_their_anchor() -> None:
    text = "a: {v: &x v0.1.0}\nb: *x\n"
    both = (VALUE, NewValue(("b",), "v0.1.0", "v0.2.0"))
    assert change(text, *both) == "a: {v: &x v0.2.0}\nb: *x\n"


@given(
    st.recursive(
        st.sampled_from(["v0.1.0", "x", 1, None, "é", "on", "long " * 30, "two\nlines", "# no"]),
        lambda inner: (
            st.lists(inner, min_size=1, max_size=3)
            | st.dictionaries(st.sampled_from(["a", "b", "é", "yes"]), inner, min_size=1)
        ),
        max_leaves=12,
    ),
    st.sampled_from([None, True, False]),
    st.data(),
)
def test_any_unique_text_can_be_changed(tree: Any, style: bool | None, data: st.DataObject) -> None:
    text = yaml.safe_dump({"root": tree}, allow_unicode=True, default_flow_style=style)
    (document,) = parse_documents(text)
    paths = [path for path, value in leaves(document.value) if value == "v0.1.0"]
    if not paths:
        return
    path = data.draw(st.sampled_from(paths))
    result = apply_edits(text, [document], [(document, NewValue(path, "v0.1.0", "v0.2.0"))])
    if "&" in text:  # the dumper wrote aliases
        return
    assert result is not None
    assert len(result) == len(text)
    assert sum(one != other for one, other in zip(text, result, strict=True)) == 1


def leaves(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[Any, Any]]:
    if isinstance(value, dict):
        return [leaf for key, child in value.items() for leaf in leaves(child, (*path, key))]
    if isinstance(value, list):
        return [leaf for key, child in enumerate(value) for leaf in leaves(child, (*path, key))]
    return [(path, value)]

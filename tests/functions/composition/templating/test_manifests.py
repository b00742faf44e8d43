from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanister_py.core.errors import InvalidDocument
from kanister_py.core.yaml.documents import dump_yaml, parse_documents
from kanister_py.functions.composition.answering import Refused
from kanister_py.functions.composition.templating.manifests import parse_simple, read_manifests

DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
  labels:
    app: web
    yes: on
# a remark
spec:
  replicas: 3
  template:
    spec:
      containers:
      - name: a
        image: docker.io/a/b:1.2.3
        args:
        - --x=1
        - foo

        env:
          - name: A
            value: 'b c'
          - name: B
            value: "1"
      volumes: []
      nothing:
      f: 1e3
      t: 12:30:45
      d: 2024-01-01T00:00:00Z
      m: hello big world, again
  last: -5
"""


def in_full(text: str) -> list[Any]:
    return [document.root.value for document in parse_documents(text, repeated_keys_win=True)]


def test_simple_document_uses_the_fast_parser() -> None:
    assert parse_simple(DEPLOYMENT) == in_full(DEPLOYMENT)[0]


MORE_THAN_PLAIN = {
    "a text over several lines": "a: |\n  b\n  c\n",
    "a text that goes on": "a: b\n  c\n",
    "quotes with something to unquote": 'a: "b\\n"\n',
    "a map in one line": "a: {b: c}\n",
    "an anchor": "a: &x b\nc: *x\n",
    "a tag": "a: !!str 5\n",
    "a merge": "a: &x {b: c}\nd:\n  <<: *x\n",
    "a remark behind a value": "a: b # c\n",
    "a colon inside": "a: b: c\n",
    "a tab": "a:\tb\n",
    "a list of lists": "a:\n- - b\n",
    "a list at the top": "- a\n",
    "the end of a document": "a: b\n...\n",
    "not a number that JSON knows": "a: .inf\n",
    "a key that is nothing": "null: a\n",
    "letters beyond ASCII": "a: é\n",
    "deeper than it should be": "a: b\n  c: d\n",
    "less deep than it began": "a:\n    b: c\n  d: e\n",
}


@pytest.mark.parametrize("text", MORE_THAN_PLAIN.values(), ids=MORE_THAN_PLAIN)
def test_other_documents_use_the_full_parser(text: str) -> None:
    assert parse_simple(text) is None


WORDS = st.text("ab1. -:#'\"{}[]&*!|>%@,~_/?yn\n\té0", max_size=12)
LINES = st.lists(
    st.builds(
        lambda indent, dash, key, colon, value: f"{' ' * indent}{dash}{key}{colon}{value}",
        st.sampled_from([0, 0, 1, 2, 2, 4]),
        st.sampled_from(["", "", "- "]),
        st.sampled_from(["a", "b", "a-b", "no", "1", "~", "kind"]),
        st.sampled_from([": ", ":", ":  ", " "]),
        st.one_of(
            WORDS,
            st.sampled_from(
                ["", "1", "-1", "1.5", "on", "null", "{}", "[]", "'x y'", '"z"', "x y"]
            ),
        ),
    ),
    max_size=6,
)


@given(LINES)
def test_fast_parser_agrees_with_the_full_parser(lines: list[str]) -> None:
    text = "\n".join(lines) + "\n"
    plain = parse_simple(text)
    if plain is not None:
        assert [plain] == in_full(text)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(min_size=1, max_size=6), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(st.dictionaries(st.text("abc", min_size=1, max_size=4), VALUES, min_size=1, max_size=4))
def test_manifest_is_parsed_back(data: dict[str, Any]) -> None:
    data["kind"] = "Thing"
    text = dump_yaml(data)
    try:
        want = in_full(text)
    except InvalidDocument:
        return  # a character that YAML does not take
    assert read_manifests(f"---\n{text}---\n# nothing\n---\n{text}") == want * 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("a: [1\n", "error converting YAML to JSON", id="no YAML"),
        pytest.param("- a\n", "cannot unmarshal array", id="a list"),
        pytest.param("5\n", "cannot unmarshal number", id="a number"),
        pytest.param("text\n", "cannot unmarshal string", id="a text"),
        pytest.param("a: 1\na: 2\n", "is missing in '{\"a\":2}'", id="without a kind"),
        pytest.param("kind: 5\n", "'Kind' is missing", id="a kind that is no text"),
        pytest.param("a: " + "[" * 5000, "error converting YAML", id="nested without end"),
    ],
)
def test_invalid_manifest_is_rejected(text: str, message: str) -> None:
    with pytest.raises(Refused, match="cannot decode manifest") as caught:
        read_manifests(text)
    assert message in str(caught.value)


def test_directive_applies_to_its_document() -> None:
    assert read_manifests("%YAML 1.1\n---\nkind: A\n") == [{"kind": "A"}]


def test_documents_that_share_lines_share_no_values() -> None:
    first, second = read_manifests("kind: A\nx: {}\n---\nkind: A\nx: {}\n")
    assert first["x"] is not second["x"]

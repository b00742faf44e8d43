from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from kanister_py.core.errors import InvalidDocument, Problem
from kanister_py.core.yaml.documents import (
    MAX_BYTES,
    Document,
    Node,
    parse_document,
    parse_documents,
    text_of_path,
)

RECORD = Path(__file__).with_name("recorded_yaml.jsonl")
ANSWERS = [json.loads(line) for line in RECORD.read_bytes().splitlines()]

# Intended differences, with their reasons.
DIFFERENT = {
    "%YAML 1.2\n---\na: yes\n": "a file that says YAML 1.2 is read by the same rules",
    'a: "\\/"\n': "the escape \\/ is YAML 1.2 and means what it says",
    "a: 1\n...\nb: 2\n": "what comes after the end is an error instead of being dropped",
    "{a: b}\n{c: d}\n": "what comes after the end is an error instead of being dropped",
    "---\n---\na: 1\n": "every document of a stream is read, empty ones are left out",
}


def with_64_bit_numbers(value: Any) -> Any:
    """Convert numbers that do not fit into 64 bits to floats, as Go does for JSON."""
    if isinstance(value, dict):
        return {key: with_64_bit_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [with_64_bit_numbers(item) for item in value]
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return float(value)
    return value


def same(one: Any, other: Any) -> bool:
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


class TestKubernetesYaml:
    """YAML has the same values as in Kubernetes' tools."""

    @pytest.mark.parametrize(
        "answer", [answer for answer in ANSWERS if answer["yaml"] not in DIFFERENT]
    )
    def test_value_equals_the_recorded_one(self, answer: dict[str, Any]) -> None:
        if "error" in answer:
            with pytest.raises(InvalidDocument):
                parse_documents(answer["yaml"], repeated_keys_win=True)
            return
        documents = parse_documents(answer["yaml"], repeated_keys_win=True)
        want = with_64_bit_numbers(answer["json"])
        if want is None:
            assert documents == []
        else:
            assert same(documents[0].value, want), documents[0].value

    def test_record_is_long_enough(self) -> None:
        assert len(ANSWERS) > 1000
        assert {answer["yaml"] for answer in ANSWERS} >= set(DIFFERENT)

    @pytest.mark.parametrize(
        "text",
        [
            answer["yaml"]
            for answer in ANSWERS
            if "already set in map" in answer.get("strict", "") and "<<" not in answer["yaml"]
        ],
    )
    def test_repeated_key_is_refused_in_a_file(self, text: str) -> None:
        with pytest.raises(InvalidDocument) as refused:
            parse_documents(text)
        assert "is repeated in one map" in refused.value.problems[0].message

    def test_key_that_overrides_a_merged_one_is_not_repeated(self) -> None:
        document = parse_document("base: &b {x: 1}\nmine:\n  <<: *b\n  x: 2\n")
        assert document.value == {"base": {"x": 1}, "mine": {"x": 2}}

    @pytest.mark.parametrize("text", sorted(DIFFERENT))
    def test_differences_from_go_are_never_silent(self, text: str) -> None:
        answer = next(answer for answer in ANSWERS if answer["yaml"] == text)
        try:
            values: Any = [document.value for document in parse_documents(text)]
        except InvalidDocument:
            assert "error" not in answer
        else:
            assert values != [answer.get("json")]

    @pytest.mark.parametrize(
        ("text", "value"),
        [
            ("a: |\n  one\n  two", "one\ntwo\n"),
            ("a: >\n  one\n  two", "one two\n"),
            ("a: |-\n  one", "one"),
            ("a: |+\n  one\n\n", "one\n\n"),
            ("a: 'one'", "one"),
        ],
    )
    def test_block_at_the_end_of_a_file_has_a_line_break(self, text: str, value: str) -> None:
        assert parse_document(text).value == {"a": value}


def bomb() -> str:
    lines = ["a: &a [x,x,x,x,x,x,x,x,x,x]"]
    lines += [
        f"{after}: &{after} [{','.join([f'*{before}'] * 10)}]"
        for before, after in zip("abcdefghijk", "bcdefghijkl", strict=True)
    ]
    return "\n".join(lines)


def bomb_of_merges() -> str:
    lines = ["a0: &a0 {" + ",".join(f"k{n}: 1" for n in range(100)) + "}"]
    lines += [f"a{n + 1}: &a{n + 1}\n  <<: [{','.join([f'*a{n}'] * 100)}]" for n in range(100)]
    return "\n".join(lines)


BAD = {
    "a bracket that is never closed": ("a: [1\nb: 2\n", 2, "Not valid YAML"),
    "a tab as indentation": ("a:\n\tb: 1\n", 2, "Not valid YAML"),
    "a key given twice": ("a: 1\nb: 2\na: 3\n", 3, "is repeated in one map, first on line 1"),
    "a control character": ("a: é\nb: x\x01y\n", 2, "U+0001 is not allowed"),
    "half of a surrogate pair": ("a: \ud800\n", 1, "U+D800 is not allowed"),
    "Latin-1": (b"a: 1\nb: caf\xe9\n", 2, "Not UTF-8: byte 0xe9"),
    "UTF-16": ("a: 1\n".encode("utf-16"), 1, "Not UTF-8"),
    "an alias bomb": (bomb(), 6, "aliases included; split the file"),
    "a bomb of merges": (bomb_of_merges(), 5, "aliases included; split the file"),
    "an alias to nothing": ("a: *b\n", 1, "no anchor before it"),
    "an alias to itself": ("a: &a\n  - *a\n", 2, "is inside the value of its own anchor"),
    "ten thousand brackets": ("[" * 10_000, 1, "Nested deeper than 100 levels"),
    "ten thousand dashes": ("- " * 10_000 + "x", 1, "Nested deeper than 100 levels"),
    "ten thousand maps": ("{a: " * 10_000, 1, "Nested deeper than 100 levels"),
    "a map as a key": ("{a: b}: c\n", 1, "A key must be text, found a map"),
    "nothing as a key": ("a: 1\n~: 2\n", 2, "A key must be text, found nothing"),
    "no number that JSON holds": ("a: .nan\n", 1, ".nan is not a number"),
    "a tag that does not fit": ("a: !!int x\n", 1, "The tag !!int does not fit 'x'"),
    "a merge of no map": ("a:\n  <<: 1\n", 2, "requires a map"),
}


class TestABadFile:
    @pytest.mark.parametrize(("text", "line", "want"), BAD.values(), ids=BAD.keys())
    def test_is_refused_with_its_line(self, text: str | bytes, line: int, want: str) -> None:
        with pytest.raises(InvalidDocument) as refused:
            parse_documents(text, "bad.yaml")
        (problem,) = refused.value.problems
        assert problem.file == "bad.yaml"
        assert problem.line == line
        assert want in problem.message
        assert "\n" not in str(problem)

    def test_reports_every_problem_before_a_syntax_error(self) -> None:
        text = "a: .nan\nb:\n  c: 1\n  c: 2\nd: !!int x\n? {}\n: 1\ne: [\n"
        with pytest.raises(InvalidDocument) as refused:
            parse_documents(text)
        places = [(problem.line, problem.path) for problem in refused.value.problems]
        assert places == [(1, "a"), (4, "b.c"), (5, "d"), (9, "")]

    def test_reports_at_most_a_hundred_problems(self) -> None:
        with pytest.raises(InvalidDocument) as refused:
            parse_documents("a: .nan\n---\n" * 1000)
        assert len(refused.value.problems) == 100

    def test_too_large_file_is_refused_unread(self) -> None:
        with pytest.raises(InvalidDocument, match="Larger than 4 MiB"):
            parse_documents(b"\xff" * (MAX_BYTES + 1))

    @pytest.mark.parametrize("name", ["an alias bomb", "a bomb of merges", "ten thousand brackets"])
    def test_costs_less_than_a_second_and_200_megabytes(self, name: str) -> None:
        script = (
            "import resource, sys\n"
            "resource.setrlimit(resource.RLIMIT_AS, (200 << 20, 200 << 20))\n"
            "resource.setrlimit(resource.RLIMIT_CPU, (1, 1))\n"
            "from kanister_py.core.errors import InvalidDocument\n"
            "from kanister_py.core.yaml.documents import parse_documents\n"
            "try:\n"
            "    parse_documents(sys.stdin.read())\n"
            "except InvalidDocument as error:\n"
            "    print(error)\n"
        )
        text = BAD[name][0]
        assert isinstance(text, str)
        child = subprocess.run(
            [sys.executable, "-c", script], input=text, capture_output=True, text=True, check=False
        )
        assert (child.returncode, child.stderr) == (0, "")
        assert BAD[name][2] in child.stdout


class TestPlaces:
    TEXT = "first: é\nactions:\n  backup:\n    phases:\n    - func: KubeTask\n      name: 'a'\n"

    def test_offsets_select_the_characters_of_a_value(self) -> None:
        document = parse_document(self.TEXT)
        node = document.node_at(["actions", "backup", "phases", 0, "func"])
        assert node is not None
        assert self.TEXT[node.place.start : node.place.end] == "KubeTask"
        assert (node.place.line, node.place.column) == (5, 13)

    def test_place_of_a_missing_path_is_that_of_its_parent(self) -> None:
        document = parse_document(self.TEXT)
        assert document.place_of(["actions", "backup", "phases"]).line == 4
        assert document.place_of(["actions", "backup", "deferPhase", "func"]).line == 3

    def test_paths_are_formatted(self) -> None:
        assert text_of_path(["actions", "a b", "phases", 1, "args"]) == (
            'actions["a b"].phases[1].args'
        )

    @pytest.mark.parametrize("source", ["\ufeffa: 1\n", b"\xef\xbb\xbfa: 1\n"])
    def test_byte_order_mark_does_not_count_as_a_column(self, source: str | bytes) -> None:
        assert parse_document(source).place_of(["a"]).column == 1

    def test_places_count_from_the_start_of_the_file(self) -> None:
        _first, second = parse_documents("a: 1\n---\nb: 2\n")
        assert second.place_of(["b"]).line == 3


class TestOneDocument:
    @pytest.mark.parametrize("text", ["", "# nothing\n", "---\n---\n", "null\n"])
    def test_empty_text_is_refused(self, text: str) -> None:
        with pytest.raises(InvalidDocument, match="Found nothing in it"):
            parse_document(text)

    def test_two_documents_are_refused(self) -> None:
        with pytest.raises(InvalidDocument, match="Found 2 documents"):
            parse_document("a: 1\n---\nb: 1\n")


scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(-(2.0**53), 2.0**53)
    | st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Cn"]), max_size=12)
)
trees = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("abyn<=1 ", max_size=4), inner)
    ),
    max_leaves=12,
)
marks = st.sampled_from(
    [*"[]{}:,-?&*!|>'\"%@#\n\n  \tab1", "<<", "---\n", "...\n", "&a ", "*a ", "!!int ", "\r\n"]
)


def nodes_of(node: Node) -> list[Node]:
    return [node, *(below for child in node.children.values() for below in nodes_of(child))]


class TestGeneratedTexts:
    @given(st.text())
    @example("\ud800")
    @example("\x85")
    def test_any_text_is_parsed_or_refused(self, text: str) -> None:
        self.read(text)

    @given(st.binary())
    @example(b"\xef\xbb\xbf")
    def test_any_bytes_are_parsed_or_refused(self, data: bytes) -> None:
        self.read(data)

    @given(st.lists(marks, max_size=40).map("".join))
    @example("a: &a\n  <<: *a\n")
    @example("- &a !!int\n- *a ")
    def test_any_punctuation_is_parsed_or_refused(self, text: str) -> None:
        self.read(text)

    @staticmethod
    def read(source: str | bytes) -> None:
        documents: list[Document] = []
        problems: Sequence[Problem] = ()
        try:
            documents = parse_documents(source, "some.yaml")
        except InvalidDocument as error:
            problems = error.problems
            assert problems
        assert all(problem.message and problem.line for problem in problems)
        for document in documents:
            json.dumps(document.value, allow_nan=False)

    @given(trees)
    def test_json_is_parsed_as_json(self, tree: Any) -> None:
        text = json.dumps(tree, ensure_ascii=False)
        documents = parse_documents(text)
        value = documents[0].value if documents else None
        # Kubernetes converts 1.0 in JSON to a whole number.
        assert value == tree

    @given(trees)
    def test_place_of_every_scalar_is_correct(self, tree: Any) -> None:
        text = yaml.safe_dump(tree, allow_unicode=True)
        for document in parse_documents(text):
            for node in nodes_of(document.root):
                if not node.children and not node.style and node.value not in ([], {}):
                    again = parse_documents(text[node.place.start : node.place.end])
                    assert (again[0].value if again else None) == node.value

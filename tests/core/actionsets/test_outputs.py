"""Outputs in the log of a command."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kanister_py.core.actionsets.outputs import (
    MARKER,
    MAX_OUTPUT_BYTES,
    LogLines,
    LogTail,
    Output,
    OutputParser,
    Piece,
    parse_output,
)
from kanister_py.core.errors import UsageError


def read(*chunks: bytes) -> tuple[OutputParser, list[Piece]]:
    parser = OutputParser()
    pieces: list[Piece] = []
    for chunk in chunks:
        pieces += parser.feed(chunk)
    return parser, pieces + parser.finish()


def log_of(pieces: list[Piece]) -> bytes:
    return b"".join(piece for piece in pieces if isinstance(piece, bytes))


def line(key: str, value: str) -> bytes:
    return MARKER + b" " + json.dumps({"key": key, "value": value}).encode() + b"\n"


def test_output_lines_are_separated_from_the_log() -> None:
    parser, pieces = read(b"hello\n" + line("size", "42") + b"bye\n")
    assert parser.outputs == {"size": "42"}
    assert pieces == [b"hello\n", Output("size", "42"), b"bye\n"]


def test_text_before_the_marker_is_a_log_line() -> None:
    _, pieces = read(b"progress 10% " + line("k", "v") + b"next\n")
    assert log_of(pieces) == b"progress 10% \nnext\n"


def test_the_last_value_of_a_key_wins() -> None:
    assert read(line("k", "1") + line("k", "2"))[0].outputs == {"k": "2"}


def test_last_output_needs_no_newline() -> None:
    assert read(line("k", "v").rstrip(b"\n"))[0].outputs == {"k": "v"}


def test_incomplete_marker_at_the_end_is_log_text() -> None:
    assert log_of(read(b"a\n###Phase-", b"out")[1]) == b"a\n###Phase-out"


def test_output_line_may_have_a_windows_line_end() -> None:
    assert read(line("k", "v").replace(b"\n", b"\r\n"))[0].outputs == {"k": "v"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(b'{"key":"k","value":"v"}', Output("k", "v"), id="no space"),
        pytest.param(b'  {"KEY":"k","Value":"v","x":1} ', Output("k", "v"), id="any case"),
        pytest.param(b'{"key":"k"}', Output("k", ""), id="no value"),
        pytest.param(b'{"key":"k","value":null}', Output("k", ""), id="null is empty"),
        pytest.param(b'{"key":"k","value":"\xff"}', Output("k", "\ufffd"), id="not UTF-8"),
        pytest.param(b'{"key":"k","value":"\\ud800"}', Output("k", "\ufffd"), id="half a pair"),
        pytest.param(b'{"key":"k","value":"<&>\\u003c"}', Output("k", "<&><"), id="escapes of Go"),
    ],
)
def test_output_line_is_parsed_as_leniently_as_in_kanister(text: bytes, expected: Output) -> None:
    assert parse_output(text) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param(b"{not json", "property name", id="no JSON"),
        pytest.param(b"", "Expecting value", id="nothing"),
        pytest.param(b'{"key":"k","value":1}', "value is a number", id="a number"),
        pytest.param(b'{"key":["k"],"value":"v"}', "key is a list", id="a list as key"),
        pytest.param(b'["k","v"]', "a list instead of", id="a list"),
        pytest.param(b"NaN", "NaN is not JSON", id="not a number"),
        pytest.param(b"[" * 200_000, "nested too deeply", id="a bomb of brackets"),
        pytest.param(b"9" * 5000, "digits", id="a huge number"),
        pytest.param(b'{"key":"k","value":"v"} trailing', "Extra data", id="text after it"),
    ],
)
def test_invalid_output_line_is_reported_with_the_reason(text: bytes, reason: str) -> None:
    parser, pieces = read(MARKER + text + b"\nafter\n" + line("k", "v"))
    assert parser.error is not None
    assert parser.error.reason == "OutputUnreadable"
    assert parser.error.message.startswith("Failed to unmarshal key-value pair: ")
    assert reason in parser.error.message
    assert parser.error in pieces
    assert log_of(pieces) == b"after\n"
    assert parser.outputs == {"k": "v"}


def test_first_invalid_line_is_the_error() -> None:
    parser, _ = read(MARKER + b"{a\n" + MARKER + b"1\n")
    assert parser.error is not None
    assert parser.error.reason == "OutputUnreadable"
    assert "property name" in parser.error.message


def test_outputs_beyond_the_limit_are_an_error_instead_of_truncated() -> None:
    half = "x" * (MAX_OUTPUT_BYTES // 2 + 1)
    parser, _ = read(line("a", half) + line("a", half) + line("b", half))
    assert parser.error is not None
    assert parser.error.reason == "OutputTooLarge"
    assert parser.outputs == {"a": half}


def test_endless_output_line_is_an_error_with_limited_memory() -> None:
    parser = OutputParser()
    parser.feed(MARKER)
    for _ in range(200):
        parser.feed(b'"' + b"x" * 100_000)
    assert parser._line is not None
    assert len(parser._line) < 4 * 1024 * 1024
    (piece,) = parser.finish()
    assert isinstance(piece, UsageError)
    assert piece.reason == "OutputTooLarge"


def test_binary_log_is_passed_through_unchanged() -> None:
    junk = bytes(range(256)) * 1000
    assert log_of(read(junk[:777], junk[777:])[1]) == junk


class TestChunks:
    """Lines that are split across chunks are parsed like complete lines."""

    @given(
        st.lists(
            st.one_of(
                st.builds(line, st.text("ab", max_size=2), st.text(max_size=4)),
                st.sampled_from([b"##", b"###Phase-output###", b"\n", MARKER + b"{\n", b"x\n"]),
                st.binary(max_size=6),
            ),
            max_size=8,
        ).map(b"".join),
        st.lists(st.integers(min_value=0, max_value=200), max_size=6),
    )
    def test_result_does_not_depend_on_chunk_boundaries(self, data: bytes, cuts: list[int]) -> None:
        outputs_at_once, pieces_at_once = read(data)
        edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
        parts, parts_pieces = read(*(data[a:b] for a, b in itertools.pairwise(edges)))
        assert parts.outputs == outputs_at_once.outputs
        assert (parts.error is None) == (outputs_at_once.error is None)
        assert log_of(parts_pieces) == log_of(pieces_at_once)


def test_tail_has_the_last_lines_that_are_not_blank() -> None:
    tail = LogTail(lines=3)
    for data in (b"1\n2\n\n3", b"3\n", b"\n4\n  \n5"):
        tail.feed(data)
    assert tail.lines() == ("33", "4", "5")
    assert tail.text() == "33\n4\n5"


def test_tail_of_a_long_log_needs_limited_memory() -> None:
    tail = LogTail(lines=2, max_bytes=1000)
    for number in range(100_000):
        tail.feed(f"line {number}\n".encode())
    tail.feed(b"z" * 10_000_000)
    assert len(tail._tail) <= 4 * 1000
    assert tail.lines() == ("z" * 1000,)
    tail.feed(b"\nend\n")
    assert tail.lines()[-1] == "end"


@given(st.integers(min_value=1, max_value=25))
def test_log_lines_do_not_depend_on_chunk_boundaries(size: int) -> None:
    log = "one\r\n\ntwo äöü\nthree".encode()
    written: list[str] = []
    lines = LogLines(written.append)
    for at in range(0, len(log), size):
        lines.feed(log[at : at + size])
    lines.finish()
    assert written == ["one", "", "two äöü", "three"]


def test_very_long_line_is_passed_on_completely() -> None:
    written: list[str] = []
    lines = LogLines(written.append)
    lines.feed(b"x" * 200_000 + b"\ny")
    lines.finish()
    assert ("".join(written[:-1]), written[-1]) == ("x" * 200_000, "y")
    assert max(map(len, written)) == 64 * 1024

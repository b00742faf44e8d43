from __future__ import annotations

import io
import unicodedata
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanister_py.cli.output import (
    Cell,
    Tint,
    error_lines,
    has_colours,
    put_printed,
    shown,
    table,
    text_of,
    width_of,
    write_text,
)
from kanister_py.core.errors import Fault, FunctionNotRegistered, InvalidDocument, NoMatch, Problem
from kanister_py.core.kube.printable import printable
from kanister_py.core.yaml.documents import dump_yaml, parse_document


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)


def test_colours_are_for_terminals_only() -> None:
    assert shown(Tint("yes", "green"), Terminal()) == "\x1b[32myes\x1b[0m"
    assert shown(Tint("yes", "green"), io.StringIO()) == "yes"


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_the_environment_turns_colours_off(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    assert not has_colours(Terminal())


def test_columns_are_aligned() -> None:
    rows: list[Sequence[Cell]] = [
        ("KubeTask", Tint("stable", "green")),
        ("日本", "x"),
        ("e\u0301", "y\x1b"),
    ]
    assert [text_of(line).rstrip() for line in table(("NAME", "STATUS"), rows)] == [
        "NAME      STATUS",
        "KubeTask  stable",
        "日本      x",
        "e\u0301         y\\x1b",
    ]


def test_markdown_cells_cannot_break_the_table() -> None:
    assert table(("A",), [("x|y\nz",)], markdown=True)[2] == "| x\\|y<br>z |"


def test_each_problem_of_a_document_has_a_line() -> None:
    problems = [Problem("b.yaml", 3, 1, "actions", "Is required"), Problem("a.yaml", 1, 1, "", "x")]
    assert [*map(text_of, error_lines(InvalidDocument(problems)))] == [
        "error: a.yaml:1:1: x",
        "error: b.yaml:3:1: actions: Is required",
    ]


def test_user_errors_and_defects_have_different_messages() -> None:
    def message_of(error: Exception) -> str:
        return "|".join(map(text_of, error_lines(error)))

    assert (
        message_of(FunctionNotRegistered("X"))
        == "error: Requested function {X} has not been registered"
    )
    assert "defect of kanister-py: Fault: broken" in message_of(Fault("broken"))
    assert message_of(OSError(28, "No space left on device", "j.log")) == (
        "error: j.log: No space left on device"
    )


def test_missing_definitions_are_reported_with_their_fix() -> None:
    (ours,) = error_lines(NoMatch('no matches for kind "ActionSet" in version "cr.kanister.io/v1"'))
    assert text_of(ours).endswith("; `kanister-py crds install` installs missing definitions")
    (theirs,) = error_lines(NoMatch('no matches for kind "Bucket" in version "acme.example/v1"'))
    assert "crds install" not in text_of(theirs)


def test_errors_escape_control_characters() -> None:
    (line,) = error_lines(FunctionNotRegistered("\x1b[2J\u202egnp"))
    assert text_of(line) == r"error: Requested function {\x1b[2J\u202egnp} has not been registered"


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("plain", "plain", id="plain"),
        pytest.param("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m", id="colours"),
        pytest.param("a\x1b[2J\x1b[H", r"a\x1b[2J\x1b[H", id="a cursor on its way"),
        pytest.param("\x1b]0;title\x07x", r"\x1b]0;title\x07x", id="titles"),
        pytest.param("c1\x9b31m", r"c1\x9b31m", id="controls of eight bits"),
        pytest.param("10%\r20%\n", r"10%\r20%\n", id="ends of lines"),
        pytest.param("abc\u202edef\u200b", r"abc\u202edef\u200b", id="what turns the direction"),
        pytest.param("bad \udcff byte", r"bad \udcff byte", id="half of a sign"),
        pytest.param("日本語\u3000e\u0301 ✓", "日本語\u3000e\u0301 ✓", id="signs of the world"),
    ],
)
def test_control_characters_are_written_as_escapes(text: str, want: str) -> None:
    assert printable(text) == want
    assert text_of(["", Tint(text, "red")]) == want
    assert shown(Tint(text, "red"), Terminal()) == f"\x1b[31m{want}\x1b[0m"


@given(st.text())
def test_shown_lines_escape_control_characters(text: str) -> None:
    assert not {unicodedata.category(character) for character in text_of(text)} & {
        "Cc",
        "Cf",
        "Cs",
        "Co",
    }
    assert width_of(text) == width_of(text_of(text))


def test_lines_of_pods_are_escaped_on_a_terminal_only() -> None:
    pipe, screen = io.StringIO(), Terminal()
    for stream in (pipe, screen):
        put_printed("backup/\x07 | ", "\x1b[2Jred", stream)
    assert pipe.getvalue() == "backup/\\x07 | \x1b[2Jred\n"
    assert screen.getvalue() == "backup/\\x07 | \\x1b[2Jred\n"


def test_documents_are_escaped_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for stream, want in ((io.StringIO(), "a: \u202eb\n\tc\n"), (Terminal(), "a: \\u202eb\n\tc\n")):
        monkeypatch.setattr("sys.stdout", stream)
        write_text("a: \u202eb\n\tc\n")
        assert stream.getvalue() == want


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.text(st.characters(exclude_categories=["C"]) | st.sampled_from("\n\t"))
    | st.sampled_from(["y", "on", "No", "1e3", "0o17", "12:30", "1_000", "~", ".nan", "<<", "="]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(st.characters(exclude_categories=["C"])), inner, max_size=4)
    ),
)


@settings(deadline=None)
@given(st.dictionaries(st.text(st.characters(exclude_categories=["C"])), PLAIN, min_size=1))
def test_yaml_output_can_be_read_back(value: object) -> None:
    assert parse_document(dump_yaml(value)).value == value

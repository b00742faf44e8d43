from __future__ import annotations

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanister_py.cli.output import error_lines, has_colours, paint, table
from kanister_py.core.errors import Fault, FunctionNotRegistered, InvalidDocument, NoMatch, Problem
from kanister_py.core.objects.documents import dump_yaml, parse_document


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)


def test_colours_are_for_terminals_only() -> None:
    assert paint("yes", "green", Terminal()) == "\x1b[32myes\x1b[0m"
    assert paint("yes", "green", io.StringIO()) == "yes"


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_whoever_wants_no_colours_gets_none(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    assert not has_colours(Terminal())


def test_columns_line_up_whatever_is_in_them() -> None:
    lines = table(("NAME", "STATUS"), [("KubeTask", "\x1b[32mstable\x1b[0m"), ("日本", "x")])
    assert lines[1].index("\x1b[32m") == lines[0].index("STATUS")
    assert lines[2] == "日本      x     "


def test_markdown_cells_cannot_break_the_table() -> None:
    assert table(("A",), [("x|y\nz",)], markdown=True)[2] == "| x\\|y<br>z |"


def test_each_problem_of_a_document_has_a_line() -> None:
    problems = [Problem("b.yaml", 3, 1, "actions", "Is required"), Problem("a.yaml", 1, 1, "", "x")]
    assert list(error_lines(InvalidDocument(problems))) == [
        "error: a.yaml:1:1: x",
        "error: b.yaml:3:1: actions: Is required",
    ]


def test_a_mistake_of_the_user_and_a_defect_of_ours_read_differently() -> None:
    assert list(error_lines(FunctionNotRegistered("X"))) == ["error: Function X is not registered"]
    assert "defect of kanister-py: Fault: broken" in next(iter(error_lines(Fault("broken"))))
    assert next(iter(error_lines(OSError(28, "No space left on device", "j.log")))) == (
        "error: j.log: No space left on device"
    )


def test_a_cluster_without_our_definitions_is_told_how_it_gets_them() -> None:
    (ours,) = error_lines(NoMatch('no matches for kind "ActionSet" in version "cr.kanister.io/v1"'))
    assert ours.endswith("; `kanister-py crds install` makes the definitions that are missing")
    (theirs,) = error_lines(NoMatch('no matches for kind "Bucket" in version "acme.example/v1"'))
    assert "crds install" not in theirs


def test_a_name_out_of_a_file_cannot_steer_the_terminal_through_an_error() -> None:
    assert list(error_lines(FunctionNotRegistered("\x1b[2J\u202egnp"))) == [
        r"error: Function \x1b[2J\u202egnp is not registered"
    ]


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
def test_what_is_written_as_yaml_is_read_back_as_it_was(value: object) -> None:
    assert parse_document(dump_yaml(value)).value == value

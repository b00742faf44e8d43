from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kanister_py.cli.main import ALIASES, COMMANDS, main, module_of
from kanister_py.cli.parser import CommandLineError, Parser
from tests.conftest import CommandLine


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert [name for name in COMMANDS if f"  {name} " not in out] == []


def test_help_is_printed_without_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert capsys.readouterr().out.startswith("usage: kanister-py")


@pytest.mark.parametrize("command", [*COMMANDS, *ALIASES])
def test_each_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "--help"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"usage: kanister-py {ALIASES.get(command, command)}")
    assert err == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(["lnt"], "Unknown command 'lnt'; did you mean lint?", id="a near command"),
        pytest.param(["--verbos"], "Unknown flag '--verbos'", id="an unknown flag"),
        pytest.param(["functions"], "The following arguments are required: VERB", id="no verb"),
        pytest.param(
            ["profile", "vaildate"],
            "must be one of create, validate, found 'vaildate'; did you mean validate?",
            id="a near verb",
        ),
        pytest.param(
            ["plan", "x", "y", "-o", "jsn"], "found 'jsn'; did you mean json?", id="a near choice"
        ),
        pytest.param(
            ["functions", "list", "-o", "xml"],
            "must be one of table, wide, name, json, yaml, markdown, found 'xml'",
            id="a bad choice",
        ),
    ],
)
def test_malformed_command_line_exits_with_64(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 64
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert len(err.splitlines()) == 1


def test_version_is_that_of_the_installed_package(kanister: CommandLine) -> None:
    assert kanister("--version").out == "kanister-py 0.2.0\n"


def test_reader_that_goes_away_is_not_an_error(plugin_folder: Path) -> None:
    command = f"{sys.executable} -m kanister_py functions list -o json | head -c 1"
    done = subprocess.run(
        ["bash", "-c", command],
        env={**os.environ, "PYTHONPATH": str(plugin_folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("{", "")


def shell(command: str) -> subprocess.CompletedProcess[str]:
    words = command.replace("kanister-py", f"{sys.executable} -m kanister_py")
    return subprocess.run(["bash", "-c", words], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("unbuffered", ["", "PYTHONUNBUFFERED=1 "], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize("words", ["--help", "functions list"])
def test_output_to_a_closed_stdout_is_an_error(words: str, unbuffered: str) -> None:
    done = shell(f"{unbuffered}kanister-py {words} >&-")
    message = "error: Standard output is closed, so the output was lost\n"
    assert (done.returncode, done.stderr.splitlines(keepends=True)[-1]) == (1, message)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("command", "code"),
    [
        pytest.param("kanister-py --help >&- 2>&-", 1, id="no output at all"),
        pytest.param("kanister-py lint - <&- 2>/dev/null", 0, id="no standard input"),
        pytest.param("echo | kanister-py lint - >&- 2>/dev/null", 0, id="no output to lose"),
    ],
)
def test_a_closed_stream_is_an_empty_one(command: str, code: int) -> None:
    done = shell(command)
    assert (done.returncode, done.stderr) == (code, "")


@pytest.mark.parametrize("words", ["--help", "functions list"])
def test_full_disk_is_reported_in_one_line(words: str) -> None:
    done = shell(f"kanister-py {words} >/dev/full")
    assert (done.returncode, done.stderr) == (1, "error: No space left on device\n")


def test_defect_is_reported_in_one_line_without_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(COMMANDS, "nosuchmodule", "is not there")
    assert main(["nosuchmodule"]) == 1
    err = capsys.readouterr().err
    assert "This is a defect of kanister-py: ModuleNotFoundError" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(
            ["functions", "list", "--al"],
            "kanister-py functions list: Unknown flag --al; did you mean --all",
            id="a slip after a verb",
        ),
        pytest.param(
            ["actionset", "create", "--objcts", "x"],
            "kanister-py actionset create: Unknown flag --objcts; did you mean --objects",
            id="a slip in a flag with a value",
        ),
        pytest.param(
            ["functions", "describe", "KubeTask@"],
            "kanister-py functions describe: Name a function",
            id="what a command finds out itself",
        ),
        pytest.param(
            ["render", "\x1b[2J", "--\x07"],
            r"Unknown flag --\x07",
            id="what would steer a terminal",
        ),
    ],
)
def test_malformed_command_line_names_the_verb_and_a_suggestion(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == 64
    assert message in capsys.readouterr().err


# The flags of the programs that these commands replace, with the letters used there.
_SHORT_FLAGS_OF_ORIGINALS = {
    ("render", "-a"),  # crossplane render --function-annotations
    ("render", "-c"),  # crossplane render --include-context
    ("render", "-e"),
    ("render", "-f"),  # crossplane render --project-file
    ("render", "-o"),  # crossplane render --observed-resources
    ("render", "-r"),
    ("render", "-s"),  # crossplane render --required-schemas
    ("render", "-x"),
    ("actionset create", "-A"),  # kanctl create actionset --name
    ("actionset create", "-f"),  # kanctl create actionset --from
    ("actionset create", "-v"),  # kanctl create actionset --pvc
    ("schedule create", "-v"),
}


def short_flags() -> Iterator[tuple[str, str, str]]:
    """Yield command, short flag and meaning for each short flag of each command."""

    def flags_of(parser: Any, command: str) -> Iterator[tuple[str, str, str]]:
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                for verb, verb_parser in action.choices.items():
                    yield from flags_of(verb_parser.load(), f"{command} {verb}")
            for flag in action.option_strings:
                if len(flag) == 2:
                    yield command, flag, action.dest

    for command in COMMANDS:
        parser = Parser(prog=command, environment={})
        module_of(command).add_arguments(parser)
        yield from flags_of(parser, command)


def test_a_short_flag_means_the_same_in_all_commands() -> None:
    meanings: dict[str, set[str]] = {}
    for command, flag, meaning in short_flags():
        if (command, flag) not in _SHORT_FLAGS_OF_ORIGINALS:
            # Flags that may be repeated are stored in the plural.
            meanings.setdefault(flag, set()).add(meaning.removesuffix("s"))
    assert {flag: names for flag, names in meanings.items() if len(names) > 1} == {}


class TestTheEnvironment:
    """Environment variables are defaults of flags."""

    def parser(self, **environment: str) -> Parser:
        parser = Parser(prog="kanister-py lint", environment=environment)
        parser.add_argument("--target-release")
        parser.add_argument("--only-removed", action="store_true")
        parser.add_argument("--ignore", action="append", default=[])
        parser.add_argument("--output", choices=["table", "json"], default="table")
        parser.add_argument("--most", type=int)
        return parser

    def test_variable_is_the_default_of_a_flag(self) -> None:
        args = self.parser(
            KANISTER_PY_LINT_TARGET_RELEASE="1.2.0",
            KANISTER_PY_LINT_ONLY_REMOVED="true",
            KANISTER_PY_LINT_IGNORE="one, two",
            KANISTER_PY_LINT_OUTPUT="json",
            KANISTER_PY_LINT_MOST="3",
        ).parse_args([])
        assert vars(args) == {
            "target_release": "1.2.0",
            "only_removed": True,
            "ignore": ["one", "two"],
            "output": "json",
            "most": 3,
        }

    def test_flags_override_variables(self) -> None:
        parser = self.parser(KANISTER_PY_LINT_OUTPUT="json")
        assert parser.parse_args(["--output", "table"]).output == "table"

    @pytest.mark.parametrize(
        ("name", "value", "problem"),
        [
            pytest.param("ONLY_REMOVED", "maybe", "must be true or false", id="no boolean"),
            pytest.param("OUTPUT", "xml", "must be one of table, json", id="no such choice"),
            pytest.param("MOST", "many", "invalid int value", id="no number"),
        ],
    )
    def test_invalid_value_is_refused_with_its_variable(
        self, name: str, value: str, problem: str
    ) -> None:
        with pytest.raises(CommandLineError, match=problem) as refused:
            self.parser(**{f"KANISTER_PY_LINT_{name}": value}).parse_args([])
        assert f"KANISTER_PY_LINT_{name}" in str(refused.value)

    def test_help_names_the_environment_variables(self) -> None:
        assert "KANISTER_PY_LINT_TARGET_RELEASE" in self.parser().format_help()

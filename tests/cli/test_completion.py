from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kanister_py.cli.completion import words_after
from kanister_py.cli.main import COMMANDS
from tests.conftest import CommandLine


def test_the_first_word_is_a_command() -> None:
    assert set(COMMANDS) <= set(words_after([""]))


@pytest.mark.parametrize(
    ("words", "want"),
    [
        pytest.param(["functions", ""], "describe", id="a verb"),
        pytest.param(["function", ""], "describe", id="a verb, under the other name"),
        pytest.param(["functions", "list", ""], "--output", id="a flag"),
        pytest.param(["functions", "list", "-o", ""], "markdown", id="a value of a flag"),
        pytest.param(["completion", ""], "bash", id="a choice"),
    ],
)
def test_later_words_are_verbs_flags_and_values(words: list[str], want: str) -> None:
    assert want in words_after(words)


@pytest.mark.usefixtures("with_plugin")
def test_names_of_functions_are_completed() -> None:
    assert "Notify" in words_after(["functions", "describe", ""])


def test_bash_script_completes(kanister: CommandLine, tmp_path: Path) -> None:
    script = tmp_path / "completion.bash"
    script.write_text(kanister("completion", "bash").out)
    asks = (
        f'kanister-py() {{ {sys.executable} -m kanister_py "$@"; }}; source {script}; '
        "COMP_WORDS=(kanister-py functions desc); COMP_CWORD=2; _kanister_py; "
        'echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "-c", asks], capture_output=True, text=True, check=True, timeout=180
    )
    assert done.stdout.split() == ["describe"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script(kanister: CommandLine, shell: str) -> None:
    done = kanister("completion", shell)
    assert done.code == 0
    assert "kanister-py completion words" in done.out

"""Plain outputs: printed by the shell only where `kando` would print the same."""

from __future__ import annotations

import subprocess

import pytest

from kanister_py.embedded.pods.node_setup import PLAIN_OUTPUT
from kanister_py.kando import command

LEFT = 9
"""How the shell ends here where it leaves an output to kando."""


def printed(*words: str) -> tuple[int, str]:
    script = f"{PLAIN_OUTPUT}exit {LEFT}"
    done = subprocess.run(
        ["sh", "-c", script, "kando", *words], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    ("key", "value"),
    [
        pytest.param("greeting", "Hello, world!", id="a sentence"),
        pytest.param("a_1", "", id="nothing"),
        pytest.param("key", "~ %s $HOME `id` * [a] 'b' #;&|<>?", id="what a shell has means for"),
        pytest.param("key", "  two  spaces  ", id="spaces"),
        pytest.param("_", "help", id="a word that asks for help elsewhere"),
    ],
)
def test_a_plain_output_is_what_kando_prints(
    key: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(["output", key, value]) == 0
    assert printed("output", key, value) == (0, capsys.readouterr().out)


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("output", "key", 'say "hi"'), id="quotes"),
        pytest.param(("output", "key", "a\\b"), id="a backslash"),
        pytest.param(("output", "key", "two\nlines"), id="lines"),
        pytest.param(("output", "key", "a\ttab"), id="a tab"),
        pytest.param(("output", "key", "größer"), id="letters beyond ASCII"),
        pytest.param(("output", "key", "-v"), id="a flag"),
        pytest.param(("output", "-v", "x"), id="a flag for a key"),
        pytest.param(("output", "a-b", "x"), id="a key that is refused"),
        pytest.param(("output", "", "x"), id="no key"),
        pytest.param(("output", "schlüssel", "x"), id="a key beyond ASCII"),
        pytest.param(("output", "key"), id="too few words"),
        pytest.param(("output", "key", "a", "b"), id="too many words"),
        pytest.param(("location", "delete", "x"), id="another command"),
        pytest.param((), id="no words"),
    ],
)
def test_everything_else_is_left_to_kando(words: tuple[str, ...]) -> None:
    assert printed(*words) == (LEFT, "")

"""Print a completion script for a shell.

source <(kanister-py completion bash)
source <(kanister-py completion zsh)
kanister-py completion fish | source
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from importlib.resources import files
from typing import Any

from kanister_py.cli.main import ALIASES, COMMANDS, PROGRAM, module_of
from kanister_py.cli.output import put
from kanister_py.cli.parser import Parser

_SHELLS = ("bash", "zsh", "fish")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=[*_SHELLS, "words"], metavar="bash|zsh|fish")
    parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    if args.shell == "words":
        for word in words_after(args.words):
            put(word)
    else:
        script = files("kanister_py.cli").joinpath("completion_scripts", args.shell)
        sys.stdout.write(script.read_text(encoding="utf-8"))
    return 0


def words_after(words: list[str]) -> Iterable[str]:
    """Return the completions of the last of these words."""
    if len(words) <= 1:
        return [*COMMANDS, "--help", "--version"]
    command = ALIASES.get(words[0], words[0])
    if command not in COMMANDS:
        return []
    parser = Parser(prog=f"{PROGRAM} {command}", environment={})
    module_of(command).add_arguments(parser)
    return _choices_of(parser, words[1:])


def _choices_of(parser: argparse.ArgumentParser, words: list[str]) -> Iterable[str]:
    before = words[-2] if len(words) > 1 else ""
    words_found: list[str] = []
    for action in parser._actions:  # noqa: SLF001 - argparse has no public list of flags
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - argparse has no public name for it
            verbs: dict[str, Any] = action.choices
            if words[0] in verbs and len(words) > 1:
                return [*_choices_of(verbs[words[0]].load(), words[1:]), *_function_names(words)]
            words_found += verbs
        elif before and before in action.option_strings and action.nargs != 0:
            return [str(choice) for choice in action.choices or ()]
        elif action.help != argparse.SUPPRESS:
            words_found += action.option_strings
            words_found += [
                str(choice) for choice in action.choices or () if not action.option_strings
            ]
    return words_found


def _function_names(words: list[str]) -> Iterable[str]:
    if words[0] not in ("describe", "diff") or words[-1].startswith("-"):
        return ()
    from kanister_py.wiring import read_functions

    return read_functions().registry.names

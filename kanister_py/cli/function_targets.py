"""Composition functions that a command line names: built-in, as a class, program or address."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Sequence
from typing import Any, NamedTuple

from kanister_py.cli.parser import CommandLineError, Parser
from kanister_py.core.compositions.endpoints import (
    builtin_endpoint,
    exec_endpoint,
    python_endpoint,
)
from kanister_py.core.errors import FunctionNotRegistered, UsageError
from kanister_py.core.registry.choose import choose_version
from kanister_py.core.registry.entries import FunctionKind, FunctionRevision
from kanister_py.executor.python_functions import load_python_function
from kanister_py.wiring import read_functions


def invalid_target(target: str, problem: str) -> UsageError:
    """Return the error for a text that does not name a composition function."""
    return UsageError(
        f"{target!r} is not a composition function: {problem}; name an installed function "
        "(function-auto-ready), a class (module:Class), or a program (-- COMMAND)",
        reason="InvalidTarget",
    )


class DashParser(Parser):
    """Parser that stores the words after `--` in `command`, and those before it in `before`."""

    def parse_known_args(  # type: ignore[override]  # argparse overloads on its namespace
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        words = list(args or ())
        command: list[str] = []
        if "--" in words:
            at = words.index("--")
            words, command = words[:at], words[at + 1 :]
            if not command:
                self.error("-- must be followed by a program and its arguments")
        parsed, unknown_words = super().parse_known_args(words, namespace)
        parsed.command, parsed.before = command, words
        return parsed, unknown_words


class Target(NamedTuple):
    """A composition function, as a revision that a runner can call."""

    title: str
    revision: FunctionRevision
    is_remote: bool = False


def target_of(name: str, command: Sequence[str]) -> Target:
    """Return the function of a name or a program. It must exist, but need not be running."""
    if command:
        if name:
            raise CommandLineError(
                f"Name either the function {name!r} or a program after --, not both"
            )
        if shutil.which(command[0]) is None:
            raise invalid_target(command[0], "the program does not exist")
        return Target(command[0], _revision(command[0].rpartition("/")[2], exec_endpoint(command)))
    head, colon, tail = name.partition(":")
    if "//" in name or (colon and name.rpartition(":")[2].isdigit()):
        return Target(name, _revision(name, name), is_remote=True)
    if colon:
        parts = [*head.split("."), *tail.partition("@")[0].split(".")]
        if not all(part.isidentifier() for part in parts):
            raise invalid_target(name, "it is not of the form module:Class or module:Class@v0.1.0")
        endpoint = python_endpoint(name)
        # Load the class now, so that its problems are reported before the first call.
        load_python_function(endpoint, read_functions().registry)
        return Target(name, _revision(name, endpoint))
    return _registered(name)


def _registered(name: str) -> Target:
    function, _, version = name.partition("@")
    try:
        entry = choose_version(
            read_functions().registry,
            function,
            version or None,
            strict=True,
            kind=FunctionKind.COMPOSITION,
        ).chosen
    except FunctionNotRegistered as error:
        near = f", only {' and '.join(error.near)}" if error.near else ""
        problem = "; ".join([f"no such function is installed{near}", *error.broken_plugins])
        raise invalid_target(name, problem) from None
    title = f"{entry.function} {entry.version}"
    endpoint = builtin_endpoint(entry.function, str(entry.version))
    return Target(title, _revision(entry.function, endpoint))


def _revision(function: str, endpoint: str) -> FunctionRevision:
    return FunctionRevision(function, function, 1, is_healthy=True, endpoint=endpoint)


def megabytes(text: str) -> int:
    """Parse a number of megabytes; return bytes."""
    if text.isascii() and text.isdigit() and 0 < int(text) <= 2047:
        return int(text) * 1024 * 1024
    raise argparse.ArgumentTypeError(f"must be from 1 to 2047 megabytes, found {text!r}")

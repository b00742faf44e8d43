"""Entry point: the command that is meant, and the code with which its process ends."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from keyword import iskeyword
from types import ModuleType

from kanister_py.cli import exit_codes
from kanister_py.cli.parser import CommandLineError, Parser, ShowHelp, nearest_among
from kanister_py.cli.streams import has_lost_output, open_streams

PROGRAM = "kanister-py"

# A command's module is imported when the command is given: start-up is paid for by
# every call in a loop.
COMMANDS = {
    "run": "Run an action of a blueprint and follow it to its end",
    "functions": "List functions, versions and deprecations",
    "lint": "Find deprecated, removed and unknown versions, and mistakes",
    "upgrade": "Rewrite blueprints to the versions that replace old ones",
    "plan": "Say what an action would do, without doing it",
    "graph": "Draw phases and the data that flow between them",
    "rbac": "Print the smallest roles that a blueprint needs",
    "render": "Compose the resources of an XR, without a cluster or containers",
    "serve": "Publish the versions over HTTP",
    "controller": "Run the ActionSets of a cluster, in place of Kanister's controller",
    "cleanup": "Stop a controller's runs and release its objects, before it is uninstalled",
    "actionset": "Create, list, follow, retry and cancel ActionSets on a cluster",
    "top": "Watch all runs of a cluster",
    "schedule": "Make ActionSets again and again: create, list and steer Schedules",
    "restore": "Restore from a backup of a Schedule, or of an ActionSet",
    "export": "Write down what a lost cluster is restored with on another one",
    "import": "Take in what was exported",
    "revisions": "See, compare, switch and collect revisions of compositions and functions",
    "xr": "Show composite resources with the resources that they are composed of",
    "profile": "Make Profiles, and find out whether their stores can be used",
    "location": "Look at what is in the store of a Profile",
    "crds": "Print, install and upgrade the definitions of our resources",
    "schema": "Print JSON Schemas of our documents, for editors",
    "completion": "Print a completion script for a shell",
    "version": "Print the version of this program and of controllers on a cluster",
}
ALIASES = {"function": "functions"}
# For programs: as stable as the others, and of no use to people.
HIDDEN = {"internal": "Speak a protocol on stdin and stdout"}

_INTRODUCTION = """\
Versioned functions for Kubernetes data workflows and compositions.

Start here:
  kanister-py functions list               what there is, and what is deprecated
  kanister-py functions describe KubeTask  the arguments of one function
  kanister-py lint blueprints/             would these still run?
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line, and say with which code the process ends."""
    if argv is None:
        open_streams()
    words = list(sys.argv[1:] if argv is None else argv)
    return _finish(_ending_of(words))


def _ending_of(words: list[str]) -> int:
    try:
        return _run(words)
    except CommandLineError as error:
        from kanister_py.cli.output import say

        program = error.program or PROGRAM
        say(f"{program}: {error}{'' if str(error).endswith('?') else ';'} see {program} --help")
        return exit_codes.USAGE
    except KeyboardInterrupt:
        sys.stderr.write("Cancelled\n")
        return exit_codes.CANCELLED
    except Exception as error:  # noqa: BLE001 - no traceback reaches a user, whatever happened
        return _failed(error)


def _finish(code: int) -> int:
    """Flush stdout, and fail if output was lost: at interpreter exit errors come too late."""
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _failed(error)
    if has_lost_output(sys.stdout):
        from kanister_py.core.errors import UsageError

        return code or _failed(UsageError("Standard output is closed, so the output was lost"))
    return code


def _run(words: list[str]) -> int:
    try:
        return _run_command(words)
    except ShowHelp as asked:
        text = asked.text
    sys.stdout.write(text)
    return exit_codes.FINE


def _run_command(words: list[str]) -> int:
    command, rest = _command_of(words)
    module = module_of(command)
    parser = Parser(prog=f"{PROGRAM} {command}", description=module.__doc__ or "")
    module.add_arguments(parser)
    args = parser.parse_args(rest)
    try:
        with _traced_as_asked(args):
            code: int = module.run(args)
    except CommandLineError as error:
        verb = getattr(args, "verb", "")
        error.program = error.program or f"{parser.prog} {verb}".rstrip()
        raise
    return code


def _traced_as_asked(args: argparse.Namespace) -> AbstractContextManager[None]:
    """Trace a command that was asked to; nothing is loaded for all others."""
    wanted = getattr(args, "tracing", None)
    if wanted is None or os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return nullcontext()
    if not wanted and os.environ.get("OTEL_TRACES_EXPORTER") != "otlp":
        return nullcontext()
    from kanister_py.wiring import traced

    return traced()


def _command_of(words: list[str]) -> tuple[str, list[str]]:
    if not words or words[0] in ("-h", "--help", "help"):
        if words[1:] and not words[1].startswith("-"):
            return _command_of([*words[1:], "--help"])
        raise ShowHelp(_help())
    if words[0] == "--version":
        from kanister_py.functions.builtin import installed_release

        raise ShowHelp(f"{PROGRAM} {installed_release().bare}\n")
    command = ALIASES.get(words[0], words[0])
    if command not in COMMANDS and command not in HIDDEN:
        meant = nearest_among(command, [*COMMANDS, *ALIASES])
        what = "flag" if command.startswith("-") else "command"
        raise CommandLineError(f"Unknown {what} {words[0]!r}{meant}", PROGRAM)
    return command, words[1:]


def module_of(command: str) -> ModuleType:
    # One of the commands is a word of Python's own.
    name = f"{command}_" if iskeyword(command) else command
    return import_module(f"kanister_py.cli.{name}")


def _help() -> str:
    width = max(len(name) for name in COMMANDS) + 2
    lines = [f"usage: {PROGRAM} COMMAND …", "", _INTRODUCTION, "Commands:"]
    lines += [f"  {name:{width}}{summary}" for name, summary in COMMANDS.items()]
    lines += [
        "",
        f"{PROGRAM} COMMAND --help says more. Data goes to stdout, everything else to stderr.",
        "Exit codes: 0 fine, 1 failed, 64 a command line that cannot be read, 130 cancelled.",
        "",
    ]
    return "\n".join(lines)


def _failed(error: Exception) -> int:
    from kanister_py.cli.output import say_error

    say_error(error)
    if os.environ.get("KANISTER_PY_TRACEBACK"):
        import traceback

        traceback.print_exception(error)
    return exit_codes.FAILED

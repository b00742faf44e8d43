"""Entry point: choice of the command, help, and exit codes."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from keyword import iskeyword
from types import ModuleType

from kanister_py.cli import exit_codes
from kanister_py.cli.output import say, say_error
from kanister_py.cli.parser import CommandLineError, Parser, ShowHelp, suggestion
from kanister_py.cli.streams import has_lost_output, open_streams
from kanister_py.core.errors import UsageError

PROGRAM = "kanister-py"

# The module of a command is imported when the command is used, to keep start-up short.
COMMANDS = {
    "run": "Run an action of a blueprint and show its progress",
    "functions": "List and compare functions and versions; serve, test and create functions",
    "lint": "Find deprecated, removed and unknown versions, and mistakes",
    "upgrade": "Change blueprints to the replacements of old versions",
    "plan": "Show the effects of an action without running it",
    "graph": "Draw phases and the data flow between them",
    "rbac": "Print the smallest Roles that a blueprint needs",
    "render": "Compose the resources of an XR without a cluster or containers",
    "serve": "Publish functions and versions over HTTP",
    "controller": "Run the ActionSets of a cluster, instead of Kanister's controller",
    "cleanup": "Stop the runs of a controller and release its objects before uninstalling",
    "actionset": "Create, list, watch, retry and cancel ActionSets on a cluster",
    "top": "Show all runs of a cluster, updated live",
    "schedule": "Create, list and control Schedules, which create ActionSets by time",
    "restore": "Restore from a backup of a Schedule, or of an ActionSet",
    "export": "Export backups and their definitions for another cluster",
    "import": "Import an export into a cluster",
    "revisions": "List, compare, switch and delete revisions of compositions and functions",
    "xr": "Show composite resources with the resources that they are composed of",
    "profile": "Create Profiles and test their object stores",
    "location": "List the objects in the store of a Profile",
    "crds": "Print, install and upgrade CustomResourceDefinitions",
    "schema": "Print JSON Schemas of documents, for editors",
    "completion": "Print a completion script for a shell",
    "version": "Print the version of this program and of controllers on a cluster",
}
ALIASES = {"function": "functions"}
# For other programs, so not shown in the help; as stable as the other commands.
HIDDEN = {"internal": "Answer requests of other programs on stdin and stdout"}

_INTRODUCTION = """\
Versioned functions for Kubernetes data workflows and compositions.

Start here:
  kanister-py functions list               list functions, versions and deprecations
  kanister-py functions describe KubeTask  show the arguments of one function
  kanister-py lint blueprints/             check blueprints before they run
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code."""
    if argv is None:
        open_streams()
    words = list(sys.argv[1:] if argv is None else argv)
    return _finish(_ending_of(words))


def _ending_of(words: list[str]) -> int:
    try:
        return _run(words)
    except CommandLineError as error:
        program = error.program or PROGRAM
        say(f"{program}: {error}{'' if str(error).endswith('?') else ';'} see {program} --help")
        return exit_codes.USAGE
    except KeyboardInterrupt:
        sys.stderr.write("Cancelled\n")
        return exit_codes.CANCELLED
    except Exception as error:  # noqa: BLE001 - users get a message, never a traceback
        return _failed(error)


def _finish(code: int) -> int:
    """Flush stdout, and fail if output was lost: at interpreter exit errors come too late."""
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _failed(error)
    if has_lost_output(sys.stdout):
        return code or _failed(UsageError("Standard output is closed, so the output was lost"))
    return code


def _run(words: list[str]) -> int:
    try:
        return _run_command(words)
    except ShowHelp as request:
        text = request.text
    sys.stdout.write(text)
    return exit_codes.FINE


def _run_command(words: list[str]) -> int:
    command, arguments = _command_of(words)
    module = module_of(command)
    parser = Parser(prog=f"{PROGRAM} {command}", description=module.__doc__ or "")
    module.add_arguments(parser)
    args = parser.parse_args(arguments)
    try:
        with _tracing(args):
            code: int = module.run(args)
    except CommandLineError as error:
        verb = getattr(args, "verb", "")
        error.program = error.program or f"{parser.prog} {verb}".rstrip()
        raise
    return code


def _tracing(args: argparse.Namespace) -> AbstractContextManager[None]:
    """Trace the command if a flag or a variable enables it; else OpenTelemetry is not imported."""
    tracing = getattr(args, "tracing", None)
    if tracing is None or os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return nullcontext()
    if not tracing and os.environ.get("OTEL_TRACES_EXPORTER") != "otlp":
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
        hint = suggestion(command, [*COMMANDS, *ALIASES])
        kind = "flag" if command.startswith("-") else "command"
        raise CommandLineError(f"Unknown {kind} {words[0]!r}{hint}", PROGRAM)
    return command, words[1:]


def module_of(command: str) -> ModuleType:
    # `import` is a keyword of Python, so its module has another name.
    name = f"{command}_" if iskeyword(command) else command
    return import_module(f"kanister_py.cli.{name}")


def _help() -> str:
    width = max(len(name) for name in COMMANDS) + 2
    lines = [f"usage: {PROGRAM} COMMAND …", "", _INTRODUCTION, "Commands:"]
    lines += [f"  {name:{width}}{summary}" for name, summary in COMMANDS.items()]
    lines += [
        "",
        f"{PROGRAM} COMMAND --help explains a command. Data goes to stdout, messages to stderr.",
        "Exit codes: 0 success, 1 failure, 64 malformed command line, 130 cancelled.",
        "",
    ]
    return "\n".join(lines)


def _failed(error: Exception) -> int:
    say_error(error)
    if os.environ.get("KANISTER_PY_TRACEBACK"):
        traceback.print_exception(error)
    return exit_codes.FAILED

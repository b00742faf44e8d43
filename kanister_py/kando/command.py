"""Command line of `kando`, and the command `output`.

Only the other commands import the library of object stores.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

EXIT_ERROR = 69
EXIT_ENDED = 143

USAGE = """\
kando: set outputs of a phase, and move data to and from a location

  kando output <key> <value>
  kando location push <file|->  --path/-s PATH --profile/-p JSON [--output-name/-o NAME]
  kando location pull <file|->  --path/-s PATH --profile/-p JSON [--kopia-snapshot/-k JSON]
  kando location delete         --path/-s PATH --profile/-p JSON [--kopia-snapshot/-k JSON]
  kando chronicle push <command> --artifact-path/-s FILE --profile-path/-p FILE
                                 [--env-dir/-e FOLDER] [--frequency/-f 1m]
  kando chronicle pull <file|->  --path/-s PATH --profile/-p JSON

Paths are relative to location.prefix in the bucket of the profile. delete removes all
objects whose path starts with PATH. chronicle push stores the output of a command
periodically, and chronicle pull returns the newest. The exit code of all errors is 69.

If KANDO_LOCATIONS is set, a folder below it replaces every bucket and folder of a profile:
no requests are sent, and credentials are ignored.
"""

_PLACE = {"-s": "path", "-p": "profile", "-o": "output-name", "-k": "kopia-snapshot"}
_FLAGS = {
    "output": {},
    "location push": {key: _PLACE[key] for key in ("-s", "-p", "-o")},
    "location pull": {key: _PLACE[key] for key in ("-s", "-p", "-k")},
    "location delete": {key: _PLACE[key] for key in ("-s", "-p", "-k")},
    "chronicle push": {
        "-p": "profile-path",
        "-s": "artifact-path",
        "-e": "env-dir",
        "-f": "frequency",
    },
    "chronicle pull": {key: _PLACE[key] for key in ("-s", "-p")},
}
_EVERYWHERE = {"-v": "verbosity"}
_WORDS = {"output": 2, "location delete": 0}
_GROUPS = ("location", "chronicle", "stream", "process")
_NEEDS_KOPIA = "needs kopia, which is not supported: use `location push` with an object store"
_NOT_OFFERED = {
    "stream": _NEEDS_KOPIA,
    "process": "is not supported: run the command itself, or one KubeTask per command",
}


class KandoError(Exception):
    """Error that ends kando; its message is logged by the phase."""


def main(arguments: list[str] | None = None) -> int:
    """Run a command line, and return the exit code."""
    try:
        command, words, flags = parse(sys.argv[1:] if arguments is None else arguments)
        if not command:
            sys.stdout.write(USAGE)
        elif command == "output":
            write_output(*words)
        else:
            from kanister_py.kando.running import run

            run(command, words, flags)
        sys.stdout.flush()
    except KandoError as error:
        sys.stderr.write(f"Error: {error}\n")
        return EXIT_ERROR
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        sys.stderr.write(f"Error: {place}{error.strerror or error}\n")
        return EXIT_ERROR
    return 0


def parse(arguments: list[str]) -> tuple[str, list[str], dict[str, str]]:
    """Split a command line into command, arguments and flags. No command means help."""
    words, flags = list[str](), dict[str, str]()
    left = iter(arguments)
    for argument in left:
        if argument in {"-h", "--help"} or (argument == "help" and not words):
            return "", [], {}
        if argument == "--":
            words += left
        elif argument == "-" or not argument.startswith("-"):
            words.append(argument)
        else:
            name, value = _flag(argument, left, _flags_of(words))
            flags[name] = value
    if not words:
        return "", [], {}
    command = _command_of(words)
    _flags_of([*words, ""])
    operands = words[len(command.split()) :]
    expected = _WORDS.get(command, 1)
    if len(operands) != expected and not (command == "chronicle push" and operands):
        raise KandoError(f"{command} takes {expected} argument(s), got {len(operands)}")
    return command, operands, flags


def _command_of(words: list[str]) -> str:
    """Return the command at the start of the arguments, which may be incomplete."""
    return " ".join(words[: 2 if words and words[0] in _GROUPS else 1])


def _flags_of(words: list[str]) -> dict[str, str]:
    """Return the flags of the command; none while its name is incomplete."""
    command = _command_of(words)
    is_whole = len(words) >= (2 if words and words[0] in _GROUPS else 1)
    if is_whole and command not in _FLAGS:
        why = _NOT_OFFERED.get(words[0])
        raise KandoError(f"{words[0]} {why}" if why else f'unknown command "{command}"')
    return _FLAGS.get(command, {})


def _flag(argument: str, left: Iterator[str], short: dict[str, str]) -> tuple[str, str]:
    flags = {**short, **_EVERYWHERE}
    name, equals, value = argument.partition("=")
    if not argument.startswith("--") and len(argument) > 2 and argument[:2] in flags:
        name, equals, value = argument[:2], "=", argument[2:].removeprefix("=")
    full = flags.get(name) or name.removeprefix("--")
    if full not in flags.values() or (name not in flags and not name.startswith("--")):
        raise KandoError(f"unknown flag: {name}")
    if not equals:
        next_argument = next(left, None)
        if next_argument is None:
            raise KandoError(f"flag needs an argument: {name}")
        value = next_argument
    return full, value


def write_output(key: str, value: str) -> None:
    """Print the line from which the outputs of the phase are read."""
    plain = key.replace("_", "a")
    if not (plain.isascii() and plain.isalnum()):
        raise KandoError(f"key {key!r} may contain only letters, digits and underscores")
    sys.stdout.write(f'###Phase-output###: {{"key":"{key}","value":{json.dumps(value)}}}\n')

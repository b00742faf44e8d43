"""Parser of command lines: flags, their values, and defaults from environment variables."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from kanister_py.core.errors import did_you_mean
from kanister_py.core.kube.durations import InvalidDuration, parse_seconds
from kanister_py.core.kube.names import dns_label_problem
from kanister_py.core.kube.quantities import InvalidQuantity, parse_size

if TYPE_CHECKING:
    from datetime import datetime

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"", "0", "false", "no", "off"})

_MAX_PARTITION_LENGTH: Final = 30


class CommandLineError(Exception):
    """A malformed command line. `program` is the command whose help explains it."""

    def __init__(self, message: str, program: str = "") -> None:
        super().__init__(message)
        self.program = program


class ShowHelp(Exception):
    """A request for a help text, which ends the command."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class Parser(argparse.ArgumentParser):
    """Parser of flags, with environment variables as their defaults.

    `KANISTER_PY_LINT_TARGET_RELEASE` is the default of `--target-release` of
    `kanister-py lint`. The variable of a repeatable flag is split at commas.
    """

    def __init__(
        self,
        *,
        environment: Mapping[str, str] | None = None,
        module: str = "",
        **options: Any,
    ) -> None:
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        options.setdefault("allow_abbrev", False)
        self._environment = os.environ if environment is None else environment
        self._module = module
        super().__init__(**options)

    def load(self) -> Parser:
        """Import the module of this parser's verb, if it has one, and add its flags.

        Modules of other verbs are not imported.
        """
        if self._module:
            module, self._module = import_module(self._module), ""
            self.description = module.__doc__
            module.add_arguments(self)
        return self

    def environment_name(self, action: argparse.Action) -> str:
        """Return the environment variable for a flag."""
        command = self.prog.split()[1:2]
        return "_".join(["KANISTER_PY", *command, action.dest]).upper().replace("-", "_")

    def _take_from_environment(self, action: argparse.Action) -> None:
        name = self.environment_name(action)
        text = self._environment.get(name)
        if text is None:
            return
        if action.nargs == 0:
            action.default = self._truth(name, text)
        elif type(action).__name__ == "_ExtendAction":
            action.default = self._value(name, action, text)
        elif isinstance(action.default, list) or action.nargs in ("*", "+"):
            values = [part.strip() for part in text.split(",") if part.strip()]
            action.default = [self._value(name, action, part) for part in values]
        else:
            action.default = self._value(name, action, text)
        action.required = False

    def _truth(self, name: str, text: str) -> bool:
        if text.casefold() in _TRUE:
            return True
        if text.casefold() in _FALSE:
            return False
        return self.error(f"{name} in the environment must be true or false, found {text!r}")

    def _value(self, name: str, action: argparse.Action, text: str) -> Any:
        try:
            value = self._get_value(action, text)
        except argparse.ArgumentError as error:
            self.error(f"{name} in the environment: {error.message}")
        if action.choices is not None and value not in action.choices:
            choices = ", ".join(str(choice) for choice in action.choices)
            self.error(f"{name} in the environment must be one of {choices}, found {text!r}")
        return value

    def format_help(self) -> str:
        text = super().format_help()
        flags = [
            action for action in self._actions if action.option_strings and action.dest != "help"
        ]
        if not flags:
            return text
        first = flags[0]
        example = f"{self.environment_name(first)} for {first.option_strings[-1]}"
        return f"{text}\nEnvironment variables set defaults for flags, such as {example}.\n"

    def print_help(self, file: Any = None) -> None:  # noqa: ARG002 - argparse's signature
        raise ShowHelp(self.format_help())

    def error(self, message: str) -> NoReturn:
        raise CommandLineError(message[:1].upper() + message[1:], self.prog)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            choices = [str(choice) for choice in action.choices]
            hint = suggestion(str(value), choices)
            raise argparse.ArgumentError(
                action, f"must be one of {', '.join(choices)}, found {value!r}{hint}"
            )

    def _unknown(self, word: str) -> NoReturn:
        flag = word.partition("=")[0]
        if not flag.startswith("-"):
            self.error(f"unexpected {word!r}")
        flags = [flag for action in self._actions for flag in action.option_strings]
        self.error(f"unknown flag {flag}{suggestion(flag, flags)}")

    def parse_known_args(  # type: ignore[override]  # argparse overloads on its namespace
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        self.load()
        for action in self._actions:
            if action.option_strings and action.dest not in ("help", argparse.SUPPRESS):
                self._take_from_environment(action)
        args_found, unknown_words = super().parse_known_args(args, namespace)
        if unknown_words:
            self._unknown(unknown_words[0])
        return args_found, unknown_words


def add_verbs(parser: argparse.ArgumentParser, parser_class: type[Parser] = Parser) -> Any:
    return parser.add_subparsers(
        dest="verb", required=True, metavar="VERB", prog=parser.prog, parser_class=parser_class
    )


def switch(group: Any, *flags: str, **options: Any) -> None:
    """Add a flag without a value."""
    group.add_argument(*flags, action="store_true", **options)


def repeated(group: Any, *flags: str, **options: Any) -> None:
    """Add a flag that may be given several times."""
    group.add_argument(*flags, action="append", default=[], **options)


def add_output(group: Any, formats: Sequence[str], default: str = "") -> None:
    """Add `-o/--output`; the default is the first format."""
    group.add_argument(
        "-o",
        "--output",
        choices=formats,
        default=default or formats[0],
        help="default: %(default)s",
    )


def add_tracing_argument(group: Any) -> None:
    switch(
        group,
        "--tracing",
        help="send spans of runs, phases, steps, rounds and calls over OTLP, as the OTEL_* "
        "variables configure; OTEL_TRACES_EXPORTER=otlp enables it, too; needs kanister-py[otel]",
    )


def suggestion(text: str, words: Sequence[str]) -> str:
    """Return `; did you mean …` with the words most like `text`, or an empty text."""
    from kanister_py.core.yaml.documents import nearest  # imports yaml, which --help must not

    return did_you_mean(nearest(text, words))


def suggestion_or_list(text: str, words: Iterable[str]) -> str:
    """Return a suggestion as `suggestion` does, else a list of all words."""
    words = [*words]
    return suggestion(text, words) or f"; there are {', '.join(words)}"


def seconds(text: str) -> float:
    """Parse a duration such as `1m30s`."""
    try:
        return parse_seconds(text)
    except InvalidDuration:
        raise argparse.ArgumentTypeError(
            f"must be a duration such as 30s or 1m30s, found {text!r}"
        ) from None


def moment(text: str) -> datetime:
    """Parse a time such as `2026-03-28T12:00:00Z`."""
    from kanister_py.core.actionsets.status import parse_time  # pydantic, slow to import

    time = parse_time(text)
    if time is None:
        raise argparse.ArgumentTypeError(
            f"must be a time such as 2026-03-28T12:00:00Z, found {text!r}"
        )
    return time


def seconds_from(minimum: str, maximum: str = "") -> Callable[[str], float]:
    """Return a parser of durations between two bounds."""

    def read(text: str) -> float:
        duration = seconds(text)
        if seconds(minimum) <= duration and (not maximum or duration <= seconds(maximum)):
            return duration
        bounds = f"from {minimum} to {maximum}" if maximum else f"of {minimum} or more"
        raise argparse.ArgumentTypeError(f"must be a duration {bounds}, found {text!r}")

    return read


def whole_number(minimum: int, maximum: int, title: str = "a whole number") -> Callable[[str], int]:
    """Return a parser of whole numbers between two bounds."""

    def read(text: str) -> int:
        is_number = text.isascii() and text.isdigit() and len(text) <= len(str(maximum))
        if is_number and minimum <= int(text) <= maximum:
            return int(text)
        raise argparse.ArgumentTypeError(
            f"must be {title} from {minimum} to {maximum}, found {text!r}"
        )

    return read


def size(text: str) -> int:
    """Parse a size such as `8Mi`."""
    try:
        bytes_ = parse_size(text)
    except InvalidQuantity:
        bytes_ = 0
    if not 1 <= bytes_ < 1 << 31:
        raise argparse.ArgumentTypeError(f"must be a size such as 8Mi, below 2Gi, found {text!r}")
    return bytes_


port = whole_number(0, 65535, "a port")


def network(text: str) -> str:
    """Parse an IP address or a network in CIDR notation."""
    try:
        return str(ip_network(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"must be an address such as 10.0.0.7 or a network such as 10.0.0.0/24: {error}"
        ) from None


def namespace(text: str) -> str:
    """Check the name of a namespace."""
    if not dns_label_problem(text):
        return text
    hint = "; for several namespaces, repeat the flag" if "," in text else ""
    raise argparse.ArgumentTypeError(
        "must be the name of a namespace: at most 63 lower case letters, digits and '-', neither "
        f"starting nor ending with '-', found {text!r}{hint}"
    )


def partition(text: str) -> str:
    """Check the value of the label that names a partition; empty for no partition."""
    if not text or (not dns_label_problem(text) and len(text) <= _MAX_PARTITION_LENGTH):
        return text
    raise argparse.ArgumentTypeError(
        f"must be at most {_MAX_PARTITION_LENGTH} lower case letters, digits and '-', neither "
        f"starting nor ending with '-', found {text!r}"
    )


def path(text: str) -> Path:
    """Return a path of a file or a folder."""
    return Path(text)


def pair(text: str) -> tuple[str, str]:
    """Parse `KEY=VALUE`."""
    key, sign, value = text.partition("=")
    if key and sign:
        return key, value
    raise argparse.ArgumentTypeError(f"must be KEY=VALUE, found {text!r}")


def several(read: Callable[[str], Any]) -> Callable[[str], list[Any]]:
    """Return a parser of comma-separated values, for `action="extend"`."""
    return lambda text: [read(part.strip()) for part in text.split(",") if part.strip()]


def pairs(text: str) -> list[tuple[str, str]]:
    """Parse `KEY=VALUE,…`, for `action="extend"`; in `a=1,2,b=3` the value of a is `1,2`."""
    parts: list[str] = []
    for part in text.split(","):
        if "=" in part or not parts:
            parts.append(part)
        else:
            parts[-1] += f",{part}"
    return [(key.strip(), value) for key, value in map(pair, parts)]

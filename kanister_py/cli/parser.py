"""Command lines: flags, their values, and the environment in place of flags not given."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NoReturn

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"", "0", "false", "no", "off"})

_LONGEST_PARTITION: Final = 30


class CommandLineError(Exception):
    """The command line cannot be read; `program` is the command that it is for."""

    def __init__(self, message: str, program: str = "") -> None:
        super().__init__(message)
        self.program = program


class ShowHelp(Exception):
    """The user asked for a text, and nothing else is to be done."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class Parser(argparse.ArgumentParser):
    """Parser of flags on the command line, with those that are missing from the environment.

    `--target-release` of `kanister-py lint` may come from
    `KANISTER_PY_LINT_TARGET_RELEASE`; a flag that may be given several times is
    split at commas there.
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
        """Take flags and description from the module of a verb, if it has one of its own.

        What one verb does not need is not imported for it.
        """
        if self._module:
            module, self._module = import_module(self._module), ""
            self.description = module.__doc__
            module.add_arguments(self)
        return self

    def environment_name(self, action: argparse.Action) -> str:
        """Say which variable stands in for a flag."""
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
            values = [each.strip() for each in text.split(",") if each.strip()]
            action.default = [self._value(name, action, each) for each in values]
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
            known = ", ".join(str(each) for each in action.choices)
            self.error(f"{name} in the environment must be one of {known}, found {text!r}")
        return value

    def format_help(self) -> str:
        text = super().format_help()
        flags = [each for each in self._actions if each.option_strings and each.dest != "help"]
        if not flags:
            return text
        first = flags[0]
        example = f"{first.option_strings[-1]} from {self.environment_name(first)}"
        return f"{text}\nFlags that are not given come from the environment: {example}.\n"

    def print_help(self, file: Any = None) -> None:  # noqa: ARG002 - argparse's signature
        raise ShowHelp(self.format_help())

    def error(self, message: str) -> NoReturn:
        raise CommandLineError(message[:1].upper() + message[1:], self.prog)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            known = [str(each) for each in action.choices]
            meant = nearest_among(str(value), known)
            raise argparse.ArgumentError(
                action, f"must be one of {', '.join(known)}, found {value!r}{meant}"
            )

    def _unknown(self, word: str) -> NoReturn:
        flag = word.partition("=")[0]
        if not flag.startswith("-"):
            self.error(f"unexpected {word!r}")
        known = [each for action in self._actions for each in action.option_strings]
        self.error(f"unknown flag {flag}{nearest_among(flag, known)}")

    def parse_known_args(  # type: ignore[override]  # argparse overloads on its namespace
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        self.load()
        for action in self._actions:
            if action.option_strings and action.dest not in ("help", argparse.SUPPRESS):
                self._take_from_environment(action)
        found, rest = super().parse_known_args(args, namespace)
        if rest:
            self._unknown(rest[0])
        return found, rest


def add_verbs(parser: argparse.ArgumentParser, parser_class: type[Parser] = Parser) -> Any:
    return parser.add_subparsers(
        dest="verb", required=True, metavar="VERB", prog=parser.prog, parser_class=parser_class
    )


def switch(group: Any, *flags: str, **more: Any) -> None:
    """Take a flag that is given, or not."""
    group.add_argument(*flags, action="store_true", **more)


def repeated(group: Any, *flags: str, **more: Any) -> None:
    """Take a flag that may be given several times."""
    group.add_argument(*flags, action="append", default=[], **more)


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
        help="send a span of each run, phase, step, round and call over OTLP, to where the OTEL_* "
        "variables say; also switched on by OTEL_TRACES_EXPORTER=otlp; wants kanister-py[otel]",
    )


def nearest_among(text: str, known: Sequence[str]) -> str:
    """Ask whether one of the known words is meant; nothing if none is near."""
    # Loaded for mistakes alone.
    from kanister_py.core.errors import did_you_mean
    from kanister_py.core.yaml.documents import nearest

    return did_you_mean(nearest(text, known))


def meant_among(text: str, known: Iterable[str]) -> str:
    """Say which of the known words is meant, perhaps, or else which there are."""
    known = [*known]
    return nearest_among(text, known) or f"; there are {', '.join(known)}"


def seconds(text: str) -> float:
    """Read a duration such as `1m30s`."""
    from kanister_py.core.kube.durations import InvalidDuration, parse_seconds

    try:
        return parse_seconds(text)
    except InvalidDuration:
        raise argparse.ArgumentTypeError(
            f"must be a duration such as 30s or 1m30s, found {text!r}"
        ) from None


def moment(text: str) -> datetime:
    """Parse a time such as `2026-03-28T12:00:00Z`."""
    from kanister_py.core.actionsets.status import parse_time

    time = parse_time(text)
    if time is None:
        raise argparse.ArgumentTypeError(
            f"must be a time such as 2026-03-28T12:00:00Z, found {text!r}"
        )
    return time


def seconds_from(least: str, most: str = "") -> Callable[[str], float]:
    """Make what reads a duration between two bounds."""

    def read(text: str) -> float:
        found = seconds(text)
        if seconds(least) <= found and (not most or found <= seconds(most)):
            return found
        bounds = f"from {least} to {most}" if most else f"of {least} or more"
        raise argparse.ArgumentTypeError(f"must be a duration {bounds}, found {text!r}")

    return read


def whole(least: int, most: int, what: str = "a whole number") -> Callable[[str], int]:
    """Make what reads a whole number between two bounds."""

    def read(text: str) -> int:
        is_number = text.isascii() and text.isdigit() and len(text) <= len(str(most))
        if is_number and least <= int(text) <= most:
            return int(text)
        raise argparse.ArgumentTypeError(f"must be {what} from {least} to {most}, found {text!r}")

    return read


def size(text: str) -> int:
    """Read how large something may be, such as `8Mi`."""
    from kanister_py.core.kube.quantities import InvalidQuantity, parse_size

    try:
        found = parse_size(text)
    except InvalidQuantity:
        found = 0
    if not 1 <= found < 1 << 31:
        raise argparse.ArgumentTypeError(f"must be a size such as 8Mi, below 2Gi, found {text!r}")
    return found


port = whole(0, 65535, "a port")


def network(text: str) -> str:
    """Parse an IP address or a network in CIDR notation."""
    from ipaddress import ip_network

    try:
        return str(ip_network(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"must be an address such as 10.0.0.7 or a network such as 10.0.0.0/24: {error}"
        ) from None


def namespace(text: str) -> str:
    """Read the name of a namespace."""
    from kanister_py.core.kube.names import dns_label_problem

    if not dns_label_problem(text):
        return text
    many = "; for several namespaces give the flag several times" if "," in text else ""
    raise argparse.ArgumentTypeError(
        "must be the name of a namespace: lower case letters, digits and '-', the first and the "
        f"last no '-', at most 63 in all, found {text!r}{many}"
    )


def partition(text: str) -> str:
    """Read the value of the label that names a partition; empty for none."""
    from kanister_py.core.kube.names import dns_label_problem

    if not text or (not dns_label_problem(text) and len(text) <= _LONGEST_PARTITION):
        return text
    raise argparse.ArgumentTypeError(
        f"must be lower case letters, digits and '-', the first and the last no '-', at most "
        f"{_LONGEST_PARTITION} in all, found {text!r}"
    )


def path(text: str) -> Path:
    """Read the path of a file or a folder."""
    from pathlib import Path

    return Path(text)


def pair(text: str) -> tuple[str, str]:
    """Read `KEY=VALUE`."""
    key, sign, value = text.partition("=")
    if key and sign:
        return key, value
    raise argparse.ArgumentTypeError(f"must be KEY=VALUE, found {text!r}")


def object_reference(text: str) -> str:
    """Check a reference to an object; in which namespace it is, is settled later."""
    from kanister_py.core.actionsets.references import parse_object_reference

    return _checked(text, parse_object_reference)


def named_reference(text: str) -> str:
    """Check `REF=NAMESPACE/NAME`, likewise."""
    from kanister_py.core.actionsets.references import parse_named_reference

    return _checked(text, parse_named_reference)


def place(text: str) -> str:
    """Check `NAMESPACE/NAME`, likewise."""
    from kanister_py.core.actionsets.references import parse_place

    return _checked(text, parse_place)


def _checked(text: str, parse: Callable[[str], object]) -> str:
    from kanister_py.core.errors import UsageError

    try:
        parse(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(error.message) from None
    return text


def several(read: Callable[[str], Any]) -> Callable[[str], list[Any]]:
    """Make what reads values with commas between them, for `action="extend"`."""
    return lambda text: [read(each.strip()) for each in text.split(",") if each.strip()]


def pairs(text: str) -> list[tuple[str, str]]:
    """Read `KEY=VALUE,…`, for `action="extend"`: of `a=1,2,b=3` the value of a is `1,2`."""
    parts: list[str] = []
    for each in text.split(","):
        if "=" in each or not parts:
            parts.append(each)
        else:
            parts[-1] += f",{each}"
    return [(key.strip(), value) for key, value in map(pair, parts)]

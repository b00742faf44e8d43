"""How is a command line read, with the environment standing in for flags that are not given?"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"", "0", "false", "no", "off"})


class CommandLineError(Exception):
    """The command line cannot be read."""


class ShowHelp(Exception):
    """The user asked for a text, and nothing else is to be done."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class Parser(argparse.ArgumentParser):
    """Reads flags from the command line, and those it lacks from the environment.

    `--target-release` of `kanister-py lint` may come from
    `KANISTER_PY_LINT_TARGET_RELEASE`; a flag that may be given several times is
    split at commas there.
    """

    def __init__(self, *, environment: Mapping[str, str] | None = None, **options: Any) -> None:
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        options.setdefault("allow_abbrev", False)
        self._environment = os.environ if environment is None else environment
        super().__init__(**options)

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
        elif isinstance(action.default, list) or action.nargs in ("*", "+") or _appends(action):
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
        raise CommandLineError(f"{self.prog}: {_sentence(message)}; see {self.prog} --help")

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        if status:
            raise CommandLineError(message or "")
        raise ShowHelp(message or "")

    def parse_known_args(  # type: ignore[override]  # argparse overloads on its namespace
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        for action in self._actions:
            if action.option_strings and action.dest not in ("help", argparse.SUPPRESS):
                self._take_from_environment(action)
        return super().parse_known_args(args, namespace)


def _appends(action: argparse.Action) -> bool:
    return type(action).__name__ in ("_AppendAction", "_ExtendAction")


def seconds(text: str) -> float:
    """Read a duration such as `1m30s`."""
    from kanister_py.core.objects.durations import InvalidDuration, parse_seconds

    try:
        return parse_seconds(text)
    except InvalidDuration:
        raise argparse.ArgumentTypeError(
            f"must be a duration such as 30s or 1m30s, found {text!r}"
        ) from None


def _sentence(message: str) -> str:
    return message[:1].upper() + message[1:]


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


port = whole(0, 65535, "a port")


def namespace(text: str) -> str:
    """Read the name of a namespace."""
    from kanister_py.core.objects.names import why_not_a_dns_label

    if not why_not_a_dns_label(text):
        return text
    many = "; for several namespaces give the flag several times" if "," in text else ""
    raise argparse.ArgumentTypeError(
        "must be the name of a namespace: lower case letters, digits and '-', the first and the "
        f"last no '-', at most 63 in all, found {text!r}{many}"
    )

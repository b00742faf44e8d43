"""Printing as in Go: `fmt.Sprint`, `fmt.Sprintln` and `fmt.Sprintf`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kanister_py.gotemplate.limits import Context
from kanister_py.gotemplate.types import INTEGERS, Kind
from kanister_py.gotemplate.values import (
    SIZED_INTEGERS,
    Struct,
    Value,
    required_type,
    type_of,
)
from kanister_py.gotemplate.verbs import NO_FLAGS, Flags, Printer

_TOO_LARGE = 1_000_000
# Most printed values are strings and integers without flags. This table has a fast formatter
# for these classes, with the result of `%v`.
Show = Callable[[Any], str]
_WHOLE: Mapping[type, Show] = dict.fromkeys((int, *SIZED_INTEGERS), int.__repr__)
FAST_FORMATTERS: Mapping[type, Show] = {**_WHOLE, bool: lambda value: "true" if value else "false"}


def sprint(*values: Value, context: Context | None = None) -> str:
    """Format values as `print` does: with a space between two that are not strings."""
    if len(values) == 1:
        formatter = FAST_FORMATTERS.get(type(values[0]))
        if formatter is not None:
            return formatter(values[0])
    printer = Printer(context)
    was_text = True
    for position, value in enumerate(values):
        is_text = isinstance(value, str)
        if position and not is_text and not was_text:
            printer.write(" ")
        printer.argument(value, "v")
        was_text = is_text
    return printer.text()


def sprintln(*values: Value, context: Context | None = None) -> str:
    """Format values as `println` does: with spaces between all of them, and a newline."""
    printer = Printer(context)
    for position, value in enumerate(values):
        if position:
            printer.write(" ")
        printer.argument(value, "v")
    printer.write("\n")
    return printer.text()


def sprintf(format: str, *values: Value, context: Context | None = None) -> str:  # noqa: A002 - Go's own word for it
    """Format values as `printf` does."""
    printer = Printer(context)
    _Directives(printer, format, values).run()
    return printer.text()


def text_of(value: Value, context: Context | None = None) -> str:
    """Format one value as an action of a template does."""
    kind = type(value)
    if kind is str:
        assert isinstance(value, str)
        return value
    if value is None:
        return "<no value>"
    formatter = FAST_FORMATTERS.get(kind)
    if formatter is not None:
        return formatter(value)
    printer = Printer(context)
    printer.argument(printable(value), "v")
    return printer.text()


def show(value: Value) -> str:
    """Format one value as `%v` does."""
    return value if type(value) is str else sprint(value)


def printable(value: Value) -> Value:
    """Return the value that an action prints: for a pointer, the value it points to."""
    if isinstance(value, Struct) and value.go_type.kind is Kind.POINTER:
        return value.pointed_at()
    return value


class _Directives:
    """Formatter of one format string with its operands."""

    __slots__ = ("at", "format", "is_reordered", "number", "number_is_good", "printer", "values")

    def __init__(self, printer: Printer, format: str, values: Sequence[Value]) -> None:  # noqa: A002 - Go's own word for it
        self.printer = printer
        self.format = format
        self.values = values
        self.at = 0
        self.number = 0
        self.is_reordered = False
        self.number_is_good = True

    def run(self) -> None:
        text, printer = self.format, self.printer
        while True:
            percent = text.find("%", self.at)
            if percent < 0:
                if self.at < len(text):
                    printer.write(text[self.at :])
                break
            if percent > self.at:
                printer.write(text[self.at : percent])
            self.at = percent + 1
            printer.flags = Flags()
            if not self.directive(printer.flags):
                printer.write("%!(NOVERB)")
                break
        if not self.is_reordered and self.number < len(self.values):
            self.extra()

    def extra(self) -> None:
        printer = self.printer
        printer.flags = NO_FLAGS
        printer.write("%!(EXTRA ")
        for position, value in enumerate(self.values[self.number :]):
            if position:
                printer.write(", ")
            if value is None:
                printer.write("<nil>")
            else:
                printer.write(f"{required_type(value).name}=")
                printer.argument(value, "v")
        printer.write(")")

    def directive(self, flags: Flags) -> bool:
        """Print one directive; return False if the format ends before its verb."""
        text = self.format
        self.number_is_good = True
        while self.at < len(text) and text[self.at] in _FLAG_NAMES:
            setattr(flags, _FLAG_NAMES[text[self.at]], True)
            self.at += 1
        after_index = self.argument_index()
        after_index = self.width(flags, after_index=after_index)
        after_index = self.precision(flags, after_index=after_index)
        if not after_index:
            self.argument_index()
        if self.at >= len(text):
            return False
        verb = text[self.at]
        self.at += 1
        self.verb(verb, flags)
        return True

    def verb(self, verb: str, flags: Flags) -> None:
        printer = self.printer
        if verb == "%":
            printer.write("%")
        elif not self.number_is_good:
            printer.write(f"%!{verb}(BADINDEX)")
        elif self.number >= len(self.values):
            printer.write(f"%!{verb}(MISSING)")
        else:
            if verb in "vw":
                flags.sharp_v, flags.sharp = flags.sharp, False
                flags.plus_v, flags.plus = flags.plus, False
            value = self.values[self.number]
            self.number += 1
            printer.argument(value, verb)

    def argument_index(self) -> bool:
        """Skip an argument index such as `[2]`, if there is one."""
        text = self.format
        if text[self.at : self.at + 1] != "[":
            return False
        self.is_reordered = True
        end = text.find("]", self.at)
        if len(text) - self.at < 3 or end < 0:
            self.number_is_good = False
            self.at += 1
            return False
        digits = text[self.at + 1 : end]
        self.at = end + 1
        number = _small_number(digits)
        if number is None:
            self.number_is_good = False
            return False
        if 1 <= number <= len(self.values):
            self.number = number - 1
        else:
            self.number_is_good = False
        return True

    def number_here(self) -> int | None:
        """Read the digits at this position. A number that is too large ends the format."""
        text, start = self.format, self.at
        end = start
        while end < len(text) and "0" <= text[end] <= "9":
            end += 1
        if end == start:
            return None
        number = _small_number(text[start:end])
        self.at = len(text) if number is None else end
        return number

    def from_argument(self) -> int | None:
        """Read a width or precision from an operand."""
        if self.number >= len(self.values):
            return None
        value = self.values[self.number]
        self.number += 1
        go_type = type_of(value)
        if go_type is None or go_type.kind not in INTEGERS:
            return None
        return int(value) if abs(value) <= _TOO_LARGE else None

    def width(self, flags: Flags, *, after_index: bool) -> bool:
        if self.format[self.at : self.at + 1] == "*":
            self.at += 1
            flags.width = self.from_argument()
            if flags.width is None:
                self.printer.write("%!(BADWIDTH)")
            elif flags.width < 0:
                flags.width = -flags.width
                flags.minus = True
                flags.zero = False
            return False
        flags.width = self.number_here()
        if after_index and flags.width is not None:
            self.number_is_good = False
        return after_index

    def precision(self, flags: Flags, *, after_index: bool) -> bool:
        # A point at the very end of the format is a verb, not a precision.
        if self.at + 1 >= len(self.format) or self.format[self.at] != ".":
            return after_index
        self.at += 1
        if after_index:
            self.number_is_good = False
        after_index = self.argument_index()
        if self.format[self.at : self.at + 1] == "*":
            self.at += 1
            flags.precision = self.from_argument()
            if flags.precision is not None and flags.precision < 0:
                flags.precision = None
            if flags.precision is None:
                self.printer.write("%!(BADPREC)")
            return False
        flags.precision = self.number_here() or 0
        return after_index


_FLAG_NAMES = {"#": "sharp", "0": "zero", "+": "plus", "-": "minus", " ": "space"}


def _small_number(digits: str) -> int | None:
    if not digits or not (digits.isascii() and digits.isdigit()):
        return None
    digits = digits.lstrip("0")
    # As in Go, one more digit than that is still accepted.
    return int(digits or 0) if len(digits) < 9 and int(digits[:-1] or 0) <= _TOO_LARGE else None

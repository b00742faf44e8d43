"""How does Go print a value? `fmt.Sprint`, `fmt.Sprintln` and `fmt.Sprintf`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from kanister_py.gotemplate.limits import Context
from kanister_py.gotemplate.numbers import format_float
from kanister_py.gotemplate.quoting import (
    can_backquote,
    is_print,
    quote,
    quote_rune,
)
from kanister_py.gotemplate.values import (
    COMPLEXES,
    FLOATS,
    INTEGERS,
    SIGNED,
    GoType,
    Int8,
    Int16,
    Int32,
    Int64,
    Kind,
    Struct,
    Uint,
    Uint8,
    Uint16,
    Uint32,
    Uint64,
    Uintptr,
    Value,
    from_bytes,
    is_nil,
    to_bytes,
    type_name,
    type_of,
)

_MAX_RUNE = 0x10FFFF
_TOO_LARGE = 1_000_000
# Where everything that is no nil pointer lives, as far as templates can see.
_ADDRESS = 0xC000012345

# Most of what is printed are texts and whole numbers, with no flags. That is no work:
# each class here with what writes its values as `%v` does.
Show = Callable[[Any], str]
_WHOLE: Mapping[type, Show] = dict.fromkeys(
    (int, Int8, Int16, Int32, Int64, Uint, Uint8, Uint16, Uint32, Uint64, Uintptr), int.__repr__
)
SHOWN_AT_ONCE: Mapping[type, Show] = {**_WHOLE, bool: lambda value: "true" if value else "false"}
_SHOWN_BY_VERB: Mapping[str, Mapping[type, Show]] = {
    "v": {**SHOWN_AT_ONCE, str: str},
    "s": {str: str},
    "d": _WHOLE,
    "q": {str: quote},
}
_PLAIN_VERB = re.compile(f"%([{''.join(_SHOWN_BY_VERB)}])")


def sprint(*values: Value, context: Context | None = None) -> str:
    """The values as `print` writes them: a space between two that are no strings."""
    if len(values) == 1:
        show_at_once = SHOWN_AT_ONCE.get(type(values[0]))
        if show_at_once is not None:
            return show_at_once(values[0])
    printer = _Printer(context)
    was_text = True
    for position, value in enumerate(values):
        is_text = isinstance(value, str)
        if position and not is_text and not was_text:
            printer.write(" ")
        printer.argument(value, "v")
        was_text = is_text
    return printer.text()


def sprintln(*values: Value, context: Context | None = None) -> str:
    """The values as `println` writes them: a space between any two, a newline at the end."""
    printer = _Printer(context)
    for position, value in enumerate(values):
        if position:
            printer.write(" ")
        printer.argument(value, "v")
    printer.write("\n")
    return printer.text()


def sprintf(format: str, *values: Value, context: Context | None = None) -> str:  # noqa: A002 - Go's own word for it
    """The values as `printf` writes them."""
    pieces = _plain_pieces(format, values)
    if pieces is not None:
        if context is not None:
            context.check_size(sum(map(len, pieces)))
        return "".join(pieces)
    printer = _Printer(context)
    _Directives(printer, format, values).run()
    return printer.text()


def _plain_pieces(format: str, values: Sequence[Value]) -> list[str] | None:  # noqa: A002 - as above
    """What a format without flags makes of texts and whole numbers; None: there is more to it."""
    if len(format) > _LONGEST_KEPT:
        return None
    pieces = _cut_at_verbs(format)
    if pieces is None or len(pieces) != 2 * len(values) + 1:
        return None
    shown = pieces.copy()
    for at, value in enumerate(values):
        show_at_once = _SHOWN_BY_VERB[pieces[2 * at + 1]].get(type(value))
        if show_at_once is None:
            return None
        shown[2 * at + 1] = show_at_once(value)
    return shown


# Templates have few formats, and use them often.
@lru_cache(maxsize=1024)
def _cut_at_verbs(format: str) -> list[str] | None:  # noqa: A002 - as above
    """Texts and verbs of a format by turns; None: some percent sign has more to it than a verb."""
    pieces = _PLAIN_VERB.split(format)
    return None if any("%" in text for text in pieces[::2]) else pieces


_LONGEST_KEPT = 256


def text_of(value: Value, context: Context | None = None) -> str:
    """One value as an action of a template writes it."""
    kind = type(value)
    if kind is str:
        assert isinstance(value, str)
        return value
    if value is None:
        return "<no value>"
    show_at_once = SHOWN_AT_ONCE.get(kind)
    if show_at_once is not None:
        return show_at_once(value)
    printer = _Printer(context)
    printer.argument(printable(value), "v")
    return printer.text()


def show(value: Value) -> str:
    """One value as `%v` writes it."""
    return value if type(value) is str else sprint(value)


def printable(value: Value) -> Value:
    """What an action prints for a value: behind a pointer, what it points at."""
    if isinstance(value, Struct) and value.go_type.kind is Kind.POINTER:
        return value.pointed_at()
    return value


class _Flags:
    """What stands between the percent sign and the verb."""

    __slots__ = (
        "minus",
        "plus",
        "plus_v",
        "precision",
        "sharp",
        "sharp_v",
        "space",
        "width",
        "zero",
    )

    def __init__(self) -> None:
        self.width: int | None = None
        self.precision: int | None = None
        self.minus = False
        self.plus = False
        self.sharp = False
        self.space = False
        self.zero = False
        self.plus_v = False
        self.sharp_v = False


_NO_FLAGS = _Flags()


class _Printer:
    """Text in the making."""

    __slots__ = ("_context", "_parts", "_size", "flags", "is_erring")

    def __init__(self, context: Context | None) -> None:
        self._context = context
        self._parts: list[str] = []
        self._size = 0
        self.flags = _NO_FLAGS
        self.is_erring = False

    def text(self) -> str:
        return "".join(self._parts)

    def write(self, text: str) -> None:
        self._parts.append(text)
        # Counted even when empty: a list of many lists of nothing must end, too.
        self._size += len(text) + 1
        if self._context is not None and self._size > self._context.size:
            self._context.check_size(self._size)

    def pad(self, text: str, *, may_zero: bool = True) -> None:
        """Write a text, at least as wide as asked for."""
        flags = self.flags
        missing = (flags.width or 0) - len(text)
        if missing > 0:
            if flags.minus:
                text += " " * missing
            else:
                text = ("0" if flags.zero and may_zero else " ") * missing + text
        self.write(text)

    # Arguments

    def argument(self, value: Value, verb: str) -> None:
        """One operand of a verb."""
        if value is None:
            if verb in "Tv":
                self.pad("<nil>")
            else:
                self.bad_verb(verb, None)
        elif verb == "T":
            self.pad(self.cut(_type(value).name))
        elif verb == "p":
            self.pointer(value, verb)
        else:
            self.value(value, verb, 0)

    def bad_verb(self, verb: str, value: Value) -> None:
        if value is None:
            self.write(f"%!{verb}(<nil>)")
            return
        self.is_erring = True
        self.write(f"%!{verb}({_type(value).name}=")
        self.value(value, "v", 0)
        self.write(")")
        self.is_erring = False

    def value(self, value: Value, verb: str, depth: int) -> None:
        """A value at some depth inside of others; 0 is an operand itself."""
        kind = type(value)
        if kind is str:
            self.string(value, verb)
        elif value is None:
            self.write("interface {}(nil)" if self.flags.sharp_v else "<nil>")
        elif kind is bool:
            self.boolean(value, verb)
        elif kind is int:
            self.integer(value, verb)
        elif kind is float:
            self.real(value, verb)
        elif self.is_erring or not self.says_itself(value, verb):
            self.typed(value, verb, depth)

    def says_itself(self, value: Value, verb: str) -> bool:
        """Has the value a method that prints it, and was it right to use it?"""
        if verb == "w":
            self.bad_verb(verb, value)
            return True
        if self.flags.sharp_v:
            say = getattr(value, "go_syntax", None)
            if say is not None:
                self.pad(self.cut(say()))
                return True
        elif verb in "vsxXq":
            say = getattr(value, "go_string", None)
            if say is not None:
                self.string(say(), verb)
                return True
        return False

    def typed(self, value: Value, verb: str, depth: int) -> None:
        go_type = _type(value)
        kind = go_type.kind
        if self._context is not None and kind in _CONTAINERS:
            self._context.spend(_CONTAINER_STEPS)
        if kind is Kind.STRING:
            self.string(value, verb)
        elif kind in INTEGERS:
            self.integer(value, verb)
        elif kind in FLOATS:
            self.real(value, verb)
        elif kind in COMPLEXES:
            self.complex_number(value, verb)
        elif kind is Kind.MAP:
            self.mapping(value, verb, depth)
        elif isinstance(value, bytes):
            self.byte_slice(value, verb, depth)
        elif kind is Kind.SLICE:
            self.items(go_type.name, value, verb, depth)
        elif isinstance(value, Struct) and (depth == 0 or kind is Kind.STRUCT):
            self.structure(value, verb, depth)
        elif kind in (Kind.POINTER, Kind.FUNC):
            self.pointer(value, verb)
        else:
            # A struct that keeps its insides to itself and has nothing to say.
            self.write(f"{go_type.name}{{}}" if self.flags.sharp_v else "{}")

    # Kinds

    def boolean(self, value: bool, verb: str) -> None:
        if verb in "tv":
            self.pad("true" if value else "false")
        else:
            self.bad_verb(verb, value)

    def integer(self, value: int, verb: str) -> None:
        is_signed = type(value) is int or _type(value).kind in SIGNED
        if verb == "v" and self.flags.sharp_v and not is_signed:
            self.pad(self.in_base(value, 16, verb, sharp=True), may_zero=False)
        elif verb in _BASES:
            self.pad(self.in_base(value, _BASES[verb], verb), may_zero=False)
        elif verb == "c":
            code = value if 0 <= value <= _MAX_RUNE else 0xFFFD
            self.pad(chr(0xFFFD if 0xD800 <= code <= 0xDFFF else code))
        elif verb == "q":
            self.pad(quote_rune(value, ascii_only=self.flags.plus))
        elif verb == "U":
            self.pad(self.unicode(value), may_zero=False)
        else:
            self.bad_verb(verb, value)

    def in_base(self, value: int, base: int, verb: str, *, sharp: bool | None = None) -> str:
        flags = self.flags
        sharp = flags.sharp if sharp is None else sharp
        is_negative = value < 0
        digits = format(abs(int(value)), _FORMATS[base])
        if verb == "X":
            digits = digits.upper()
        if flags.precision is not None:
            if flags.precision == 0 and value == 0:
                return ""
            digits = digits.zfill(flags.precision)
        elif flags.zero and not flags.minus and flags.width:
            signs = 1 if is_negative or flags.plus or flags.space else 0
            digits = digits.zfill(flags.width - signs)
        if sharp:
            if base == 2:
                digits = "0b" + digits
            elif base == 16:
                digits = ("0X" if verb == "X" else "0x") + digits
            elif base == 8 and digits[0] != "0":
                digits = "0" + digits
        if verb == "O":
            digits = "0o" + digits
        if is_negative:
            return "-" + digits
        return ("+" if flags.plus else " " if flags.space else "") + digits

    def unicode(self, value: int) -> str:
        code = value & 0xFFFF_FFFF_FFFF_FFFF
        text = f"U+{code:0{max(self.flags.precision or 4, 4)}X}"
        if self.flags.sharp and code <= _MAX_RUNE and is_print(chr(code)):
            text += f" '{chr(code)}'"
        return text

    def real(self, value: float, verb: str) -> None:
        bits = 64 if type(value) is float or _type(value).kind is Kind.FLOAT64 else 32
        if verb not in _FLOAT_VERBS:
            self.bad_verb(verb, value)
            return
        self.pad_number(self.float_text(float(value), verb, bits, plus=self.flags.plus))

    def float_text(self, value: float, verb: str, bits: int, *, plus: bool) -> str:
        flags = self.flags
        shape, precision = _FLOAT_VERBS[verb]
        if flags.precision is not None:
            precision = flags.precision
        text = format_float(value, shape, precision, bits)
        if text == "NaN":
            return f"+{text}" if plus else f" {text}" if flags.space else text
        sign = "-" if text[0] == "-" else "+"
        text = text.lstrip("+-")
        if flags.sharp and verb != "b" and text != "Inf":
            text = _with_point(text, shape, precision)
        if sign == "+" and text != "Inf" and not plus:
            return " " + text if flags.space else text
        if sign == "+" and not plus:
            return " " + text if flags.space else sign + text
        return sign + text

    def pad_number(self, text: str) -> None:
        """Zeros go between the sign and the digits, and never before Inf or NaN."""
        flags = self.flags
        is_number = text[-1] not in "fN"
        width = flags.width or 0
        if is_number and flags.zero and not flags.minus and text[0] in "+-" and width > len(text):
            self.write(text[0] + text[1:].rjust(width - 1, "0"))
        else:
            self.pad(text, may_zero=is_number)

    def complex_number(self, value: complex, verb: str) -> None:
        bits = 32 if _type(value).kind is Kind.COMPLEX64 else 64
        if verb not in _FLOAT_VERBS:
            self.bad_verb(verb, value)
            return
        self.write("(")
        self.pad_number(self.float_text(value.real, verb, bits, plus=self.flags.plus))
        self.pad_number(self.float_text(value.imag, verb, bits, plus=True))
        self.write("i)")

    def cut(self, text: str) -> str:
        precision = self.flags.precision
        return text if precision is None else text[:precision]

    def string(self, value: str, verb: str) -> None:
        text = str(value)
        if verb == "s" or (verb == "v" and not self.flags.sharp_v):
            self.pad(self.cut(text))
        elif verb in "vq":
            self.quoted(text)
        elif verb in "xX":
            self.hexadecimal(to_bytes(text), verb)
        else:
            self.bad_verb(verb, value)

    def quoted(self, text: str) -> None:
        text = self.cut(text)
        if self.flags.sharp and can_backquote(text):
            self.pad(f"`{text}`")
        else:
            self.pad(quote(text, ascii_only=self.flags.plus))

    def hexadecimal(self, data: bytes, verb: str) -> None:
        flags = self.flags
        if flags.precision is not None:
            data = data[: flags.precision]
        prefix = f"0{verb}" if flags.sharp else ""
        if flags.space:
            text = " ".join(f"{prefix}{byte:02x}" for byte in data)
        else:
            text = prefix + data.hex() if data else ""
        self.pad(text.upper() if verb == "X" else text)

    def byte_slice(self, value: bytes, verb: str, depth: int) -> None:
        if verb == "s":
            self.pad(self.cut(from_bytes(value)))
        elif verb in "xX":
            self.hexadecimal(value, verb)
        elif verb == "q":
            self.quoted(from_bytes(value))
        else:
            name = "[]byte" if depth == 0 and verb in "vd" else "[]uint8"
            items = [Uint8(each) for each in value]
            self.items(name, items, verb, depth, nil=is_nil(value))

    def items(
        self, name: str, items: Sequence[Value], verb: str, depth: int, *, nil: bool | None = None
    ) -> None:
        is_syntax = self.flags.sharp_v
        if is_syntax and (is_nil(items) if nil is None else nil):
            self.write(f"{name}(nil)")
            return
        self.write(f"{name}{{" if is_syntax else "[")
        for position, item in enumerate(items):
            if position:
                self.write(", " if is_syntax else " ")
            self.value(item, verb, depth + 1)
        self.write("}" if is_syntax else "]")

    def mapping(self, value: dict[Any, Value], verb: str, depth: int) -> None:
        is_syntax = self.flags.sharp_v
        name = _type(value).name
        if is_syntax and is_nil(value):
            self.write(f"{name}(nil)")
            return
        self.write(f"{name}{{" if is_syntax else "map[")
        for position, key in enumerate(sorted_keys(value)):
            if position:
                self.write(", " if is_syntax else " ")
            self.value(key, verb, depth + 1)
            self.write(":")
            self.value(value[key], verb, depth + 1)
        self.write("}" if is_syntax else "]")

    def structure(self, value: Struct, verb: str, depth: int) -> None:
        flags = self.flags
        if value.go_type.kind is Kind.POINTER:
            self.write("&")
            depth += 1
        struct = value.struct
        self.write(f"{struct.name}{{" if flags.sharp_v else "{")
        for position, field in enumerate(struct.fields.values()):
            if position:
                self.write(", " if flags.sharp_v else " ")
            if flags.plus_v or flags.sharp_v:
                self.write(f"{field.name}:")
            self.value(value.value_of(field), verb, depth + 1)
        self.write("}")

    def pointer(self, value: Value, verb: str) -> None:
        kind = _type(value).kind
        if kind not in (Kind.FUNC, Kind.MAP, Kind.POINTER, Kind.SLICE):
            self.bad_verb(verb, value)
            return
        address = 0 if is_nil(value) else _ADDRESS
        if verb == "v":
            if self.flags.sharp_v:
                shown = hex(address) if address else "nil"
                self.write(f"({_type(value).name})({shown})")
            elif not address:
                self.pad("<nil>")
            else:
                self.pad(self.in_base(address, 16, "v", sharp=not self.flags.sharp))
        elif verb == "p":
            self.pad(self.in_base(address, 16, "v", sharp=not self.flags.sharp))
        elif verb in "bodxX":
            self.pad(self.in_base(address, _BASES[verb], verb), may_zero=False)
        else:
            self.bad_verb(verb, value)


_CONTAINERS = frozenset((Kind.MAP, Kind.SLICE, Kind.STRUCT))
# A list of twice the same list, of twice the same, is small to keep and endless to print.
_CONTAINER_STEPS = 5
_BASES = {"v": 10, "d": 10, "b": 2, "o": 8, "O": 8, "x": 16, "X": 16}
_FORMATS = {10: "d", 2: "b", 8: "o", 16: "x"}
# Which shape and which precision does a verb ask for?
_FLOAT_VERBS = {
    "v": ("g", -1),
    "b": ("b", -1),
    "g": ("g", -1),
    "G": ("G", -1),
    "x": ("x", -1),
    "X": ("X", -1),
    "f": ("f", 6),
    "F": ("f", 6),
    "e": ("e", 6),
    "E": ("E", 6),
}


def _with_point(text: str, shape: str, precision: int) -> str:
    """A float's text with a decimal point, and the zeros `#` keeps."""
    wanted = 0
    if shape in "gGx":
        wanted = 6 if precision < 0 else precision
    marks = "pP" if shape in "xX" else "eEpP"
    end = next((at for at, char in enumerate(text) if char in marks), len(text))
    body, tail = text[:end], text[end:]
    has_point = "." in body
    seen = body.replace(".", "").lstrip("0")
    if shape == "x":
        # The x of 0x counts as a digit in Go, as does all that follows.
        seen = body.replace(".", "")[1:]
    wanted -= len(seen)
    if not has_point:
        if body == "0":
            wanted -= 1
        body += "."
    return body + "0" * max(wanted, 0) + tail


def _type(value: Value) -> GoType:
    go_type = type_of(value)
    if go_type is None:
        raise TypeError("an untyped nil has no type")
    return go_type


def sorted_keys(value: dict[Any, Value]) -> list[Any]:
    """A map's keys in the order in which Go prints them and ranges over them."""
    try:
        return sorted(value)
    except TypeError:  # keys of several types, in a map[interface {}]...
        return sorted(value, key=lambda key: (type_name(key), str(key)))


class _Directives:
    """A format string on its way through its operands."""

    __slots__ = ("at", "format", "is_reordered", "number", "number_is_good", "printer", "values")

    def __init__(self, printer: _Printer, format: str, values: Sequence[Value]) -> None:  # noqa: A002 - Go's own word for it
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
            printer.flags = _Flags()
            if not self.directive(printer.flags):
                printer.write("%!(NOVERB)")
                break
        if not self.is_reordered and self.number < len(self.values):
            self.extra()

    def extra(self) -> None:
        printer = self.printer
        printer.flags = _NO_FLAGS
        printer.write("%!(EXTRA ")
        for position, value in enumerate(self.values[self.number :]):
            if position:
                printer.write(", ")
            if value is None:
                printer.write("<nil>")
            else:
                printer.write(f"{_type(value).name}=")
                printer.argument(value, "v")
        printer.write(")")

    def directive(self, flags: _Flags) -> bool:
        """Print what stands after one percent sign; False if the text ends before the verb."""
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

    def verb(self, verb: str, flags: _Flags) -> None:
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
        """Step over an index such as `[2]`, if there is one."""
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
        """The digits at this point; a number beyond all use eats the whole format, as in Go."""
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
        """A width or precision that is itself an operand."""
        if self.number >= len(self.values):
            return None
        value = self.values[self.number]
        self.number += 1
        go_type = type_of(value)
        if go_type is None or go_type.kind not in INTEGERS:
            return None
        return int(value) if abs(value) <= _TOO_LARGE else None

    def width(self, flags: _Flags, *, after_index: bool) -> bool:
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

    def precision(self, flags: _Flags, *, after_index: bool) -> bool:
        # A point at the very end is no precision but the verb.
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
    number = 0
    for digit in digits:
        if number > _TOO_LARGE:
            return None
        number = number * 10 + int(digit)
    return number

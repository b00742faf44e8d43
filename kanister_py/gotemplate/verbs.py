"""Verbs of `printf`: formatting of one value by a verb and its flags."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kanister_py.gotemplate.limits import Context
from kanister_py.gotemplate.numbers import format_float
from kanister_py.gotemplate.quoting import can_backquote, is_print, quote, quote_rune
from kanister_py.gotemplate.types import INTEGERS, SIGNED, Kind
from kanister_py.gotemplate.values import (
    Struct,
    Uint8,
    Value,
    from_bytes,
    is_nil,
    required_type,
    sorted_keys,
    to_bytes,
)

# The address of all pointers that are not nil, as templates see it.
_ADDRESS = 0xC000012345


class Flags:
    """Flags, width and precision between the percent sign and the verb."""

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


NO_FLAGS = Flags()


class Printer:
    """Formatted output that is being built."""

    __slots__ = ("_context", "_parts", "_size", "flags", "is_erring")

    def __init__(self, context: Context | None) -> None:
        self._context = context
        self._parts: list[str] = []
        self._size = 0
        self.flags = NO_FLAGS
        self.is_erring = False

    def text(self) -> str:
        return "".join(self._parts)

    def write(self, text: str) -> None:
        self._parts.append(text)
        # Empty texts count as well: nested lists of empty values must reach the limit, too.
        self._size += len(text) + 1
        if self._context is not None and self._size > self._context.size:
            self._context.check_size(self._size)

    def pad(self, text: str, *, may_zero: bool = True) -> None:
        """Write a text, padded to the requested width."""
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
        """Format one operand of a verb."""
        if value is None:
            if verb in "Tv":
                self.pad("<nil>")
            else:
                self.bad_verb(verb, None)
        elif verb == "T":
            self.pad(self.cut(required_type(value).name))
        elif verb == "p":
            self.pointer(value, verb)
        else:
            self.value(value, verb, 0)

    def bad_verb(self, verb: str, value: Value) -> None:
        if value is None:
            self.write(f"%!{verb}(<nil>)")
            return
        self.is_erring = True
        self.write(f"%!{verb}({required_type(value).name}=")
        self.value(value, "v", 0)
        self.write(")")
        self.is_erring = False

    def value(self, value: Value, verb: str, depth: int) -> None:
        """Format a value; `depth` is its nesting below the operand, which has depth 0."""
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
        elif self.is_erring or not self.print_by_method(value, verb):
            self.typed(value, verb, depth)

    def print_by_method(self, value: Value, verb: str) -> bool:
        """Format a value by its own method, if it has one for this verb."""
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
        go_type = required_type(value)
        kind = go_type.kind
        if self._context is not None and kind in _CONTAINERS:
            self._context.spend(_CONTAINER_STEPS)
        if kind is Kind.STRING:
            self.string(value, verb)
        elif kind in INTEGERS:
            self.integer(value, verb)
        elif kind is Kind.FLOAT64:
            self.real(value, verb)
        elif kind is Kind.COMPLEX128:
            self.complex_number(value, verb)
        elif kind is Kind.MAP:
            self.mapping(value, verb, depth)
        elif isinstance(value, bytes):
            self.byte_slice(value, verb, depth)
        elif kind is Kind.SLICE:
            self.items(go_type.name, value, verb, depth)
        elif isinstance(value, Struct) and (depth == 0 or kind is Kind.STRUCT):
            self.structure(value, verb, depth)
        elif kind is Kind.POINTER:
            self.pointer(value, verb)
        else:
            # A struct with unexported fields and no method.
            self.write(f"{go_type.name}{{}}" if self.flags.sharp_v else "{}")

    # Kinds

    def boolean(self, value: bool, verb: str) -> None:
        if verb in "tv":
            self.pad("true" if value else "false")
        else:
            self.bad_verb(verb, value)

    def integer(self, value: int, verb: str) -> None:
        is_signed = type(value) is int or required_type(value).kind in SIGNED
        if verb == "v" and self.flags.sharp_v and not is_signed:
            self.pad(_in_base(value, 16, verb, self.flags, sharp=True), may_zero=False)
        elif verb in _BASES:
            self.pad(_in_base(value, _BASES[verb], verb, self.flags), may_zero=False)
        elif verb == "c":
            code = value if 0 <= value <= _MAX_RUNE else 0xFFFD
            self.pad(chr(0xFFFD if 0xD800 <= code <= 0xDFFF else code))
        elif verb == "q":
            self.pad(quote_rune(value, ascii_only=self.flags.plus))
        elif verb == "U":
            self.pad(_unicode_text(value, self.flags), may_zero=False)
        else:
            self.bad_verb(verb, value)

    def real(self, value: float, verb: str) -> None:
        if verb not in _FLOAT_VERBS:
            self.bad_verb(verb, value)
            return
        self.pad_number(_float_text(float(value), verb, self.flags, plus=self.flags.plus))

    def pad_number(self, text: str) -> None:
        """Pad with zeros between the sign and the digits, but not before Inf or NaN."""
        flags = self.flags
        is_number = text[-1] not in "fN"
        width = flags.width or 0
        if is_number and flags.zero and not flags.minus and text[0] in "+-" and width > len(text):
            self.write(text[0] + text[1:].rjust(width - 1, "0"))
        else:
            self.pad(text, may_zero=is_number)

    def complex_number(self, value: complex, verb: str) -> None:
        if verb not in _FLOAT_VERBS:
            self.bad_verb(verb, value)
            return
        self.write("(")
        self.pad_number(_float_text(value.real, verb, self.flags, plus=self.flags.plus))
        self.pad_number(_float_text(value.imag, verb, self.flags, plus=True))
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
            items = [Uint8(byte) for byte in value]
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
        name = required_type(value).name
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
        for position, name in enumerate(struct.fields):
            if position:
                self.write(", " if flags.sharp_v else " ")
            if flags.plus_v or flags.sharp_v:
                self.write(f"{name}:")
            self.value(value[name], verb, depth + 1)
        self.write("}")

    def pointer(self, value: Value, verb: str) -> None:
        kind = required_type(value).kind
        if kind not in (Kind.MAP, Kind.POINTER, Kind.SLICE):
            self.bad_verb(verb, value)
            return
        address = 0 if is_nil(value) else _ADDRESS
        if verb == "v":
            if self.flags.sharp_v:
                shown = hex(address) if address else "nil"
                self.write(f"({required_type(value).name})({shown})")
            elif not address:
                self.pad("<nil>")
            else:
                self.pad(_in_base(address, 16, "v", self.flags, sharp=not self.flags.sharp))
        elif verb == "p":
            self.pad(_in_base(address, 16, "v", self.flags, sharp=not self.flags.sharp))
        elif verb in "bodxX":
            self.pad(_in_base(address, _BASES[verb], verb, self.flags), may_zero=False)
        else:
            self.bad_verb(verb, value)


_CONTAINERS = frozenset((Kind.MAP, Kind.SLICE, Kind.STRUCT))
# A list that contains the same list twice, and so on, is small in memory and exponential to print.
_CONTAINER_STEPS = 5
_BASES = {"v": 10, "d": 10, "b": 2, "o": 8, "O": 8, "x": 16, "X": 16}


# Numbers

_MAX_RUNE = 0x10FFFF
_FORMATS = {10: "d", 2: "b", 8: "o", 16: "x"}
# Default format and precision of the verbs.
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


def _in_base(value: int, base: int, verb: str, flags: Flags, *, sharp: bool | None = None) -> str:
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


def _unicode_text(value: int, flags: Flags) -> str:
    code = value & 0xFFFF_FFFF_FFFF_FFFF
    text = f"U+{code:0{max(flags.precision or 4, 4)}X}"
    if flags.sharp and code <= _MAX_RUNE and is_print(chr(code)):
        text += f" '{chr(code)}'"
    return text


def _float_text(value: float, verb: str, flags: Flags, *, plus: bool) -> str:
    shape, precision = _FLOAT_VERBS[verb]
    if flags.precision is not None:
        precision = flags.precision
    text = format_float(value, shape, precision)
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


def _with_point(text: str, shape: str, precision: int) -> str:
    """Add a decimal point to a float's text, and the zeros that the flag `#` keeps."""
    digits = 0
    if shape in "gGx":
        digits = 6 if precision < 0 else precision
    marks = "pP" if shape in "xX" else "eEpP"
    end = next((at for at, char in enumerate(text) if char in marks), len(text))
    body, tail = text[:end], text[end:]
    has_point = "." in body
    seen = body.replace(".", "").lstrip("0")
    if shape == "x":
        # Go counts the x of 0x and everything after it as digits.
        seen = body.replace(".", "")[1:]
    digits -= len(seen)
    if not has_point:
        if body == "0":
            digits -= 1
        body += "."
    return body + "0" * max(digits, 0) + tail

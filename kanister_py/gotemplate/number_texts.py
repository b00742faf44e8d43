"""Texts of numbers under the flags of a verb, as `fmt` writes them."""

from __future__ import annotations

from kanister_py.gotemplate.numbers import format_float
from kanister_py.gotemplate.quoting import is_print

MAX_RUNE = 0x10FFFF
_FORMATS = {10: "d", 2: "b", 8: "o", 16: "x"}
# The shape and the precision that a verb asks for.
FLOAT_VERBS = {
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


class Flags:
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


NO_FLAGS = Flags()


def in_base(value: int, base: int, verb: str, flags: Flags, *, sharp: bool | None = None) -> str:
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


def unicode_text(value: int, flags: Flags) -> str:
    code = value & 0xFFFF_FFFF_FFFF_FFFF
    text = f"U+{code:0{max(flags.precision or 4, 4)}X}"
    if flags.sharp and code <= MAX_RUNE and is_print(chr(code)):
        text += f" '{chr(code)}'"
    return text


def float_text(value: float, verb: str, flags: Flags, *, plus: bool) -> str:
    shape, precision = FLOAT_VERBS[verb]
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

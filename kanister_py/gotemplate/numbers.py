"""Numbers as text: parsing and formatting as Go does."""

from __future__ import annotations

import math
import re
import struct
from typing import Final

_INT = re.compile(
    r"([+-]?)(?:0[xX]([0-9a-fA-F_]+)|0[bB]([01_]+)|0[oO]([0-7_]+)|0([0-7_]+)|(0|[1-9][0-9_]*))"
)
_BASES = (16, 2, 8, 8, 10)
_FLOAT = re.compile(r"[+-]?(?:[0-9_]+(?:\.[0-9_]*)?|\.[0-9_]+)(?:[eE][+-]?[0-9_]+)?")
_HEX_FLOAT = re.compile(
    r"[+-]?0[xX](?:[0-9a-fA-F_]+(?:\.[0-9a-fA-F_]*)?|\.[0-9a-fA-F_]+)[pP][+-]?[0-9_]+"
)
_SPECIAL = re.compile(r"[+-]?(?:inf|infinity)|nan", re.IGNORECASE)

# From this power of ten on, the shortest form of a float has an exponent.
_SHORTEST_PLAIN: Final = 6

MIN_INT64: Final = -(1 << 63)
MAX_INT64: Final = (1 << 63) - 1
MAX_UINT64: Final = (1 << 64) - 1


def _is_well_separated(text: str) -> bool:
    """Check that underscores are only between digits, or between a base prefix and its digits."""
    if "_" not in text:
        return True
    unsigned = text.lstrip("+-").lower()
    digit = "[0-9a-f]" if unsigned[:2] == "0x" else "[0-9]"
    if unsigned[:2] in ("0b", "0o", "0x"):
        unsigned = f"0{unsigned[2:]}"
    return re.search(f"(?<!{digit})_|_(?!{digit})", unsigned) is None


def read_int(text: str) -> int | None:
    """Parse an integer of any size, with Go's base prefixes; None if the text is no integer."""
    match = _INT.fullmatch(text)
    if match is None or not _is_well_separated(text):
        return None
    for base, digits in zip(_BASES, match.groups()[1:], strict=True):
        if digits is not None:
            plain = digits.replace("_", "")
            if not plain:
                return None
            value = int(plain, base)
            return -value if match.group(1) == "-" else value
    return None


def read_float(text: str) -> float | None:
    """Parse a float64; None if the text is no number or its value is too large."""
    if not _is_well_separated(text):
        return None
    plain = text.replace("_", "")
    if _FLOAT.fullmatch(text):
        value = float(plain)
    elif _HEX_FLOAT.fullmatch(text):
        try:
            value = float.fromhex(plain)
        except OverflowError:
            return None
    else:
        return float(text) if _SPECIAL.fullmatch(text) else None
    return None if math.isinf(value) else value


# Formatting


def format_float(value: float, verb: str = "g", precision: int = -1, bits: int = 64) -> str:
    """Format a float as Go's strconv.FormatFloat; a precision of -1 means the shortest text."""
    if value != value:  # noqa: PLR0124 - tests for NaN without a function call
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if verb in "eE":
        return _exponent_form(value, verb, precision, bits)
    if verb == "f":
        return _plain_form(value, precision, bits)
    if verb in "gG":
        return _general_form(value, verb, precision, bits)
    if verb in "xX":
        return _hex_form(value, verb, precision)
    return _binary_form(value)


def _digits_of(value: float, bits: int) -> tuple[str, int]:
    """Return the shortest digits that identify the float, and the position of its decimal point."""
    text = repr(abs(value)) if bits == 64 else _shortest_float32(abs(value))
    mantissa, _, exponent = text.partition("e")
    integer, _, part = mantissa.partition(".")
    point = len(integer) + int(exponent or 0)
    digits = (integer + part).lstrip("0")
    point -= len(integer + part) - len(digits)
    digits = digits.rstrip("0")
    return (digits, point) if digits else ("0", 1)


def _shortest_float32(value: float) -> str:
    for precision in range(1, 10):
        text = f"{value:.{precision - 1}e}"
        if struct.unpack("f", struct.pack("f", float(text)))[0] == value:
            return text
    return repr(value)


def _sign(value: float) -> str:
    return "-" if math.copysign(1.0, value) < 0 else ""


def _scientific(value: float, digits: str, power: int, mark: str) -> str:
    mantissa = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
    return f"{_sign(value)}{mantissa}{mark}{'-' if power < 0 else '+'}{abs(power):02d}"


def _rounded(value: float, precision: int) -> tuple[str, int]:
    """Return the digits of a float, rounded to `precision` decimals, and its power of ten."""
    mantissa, _, exponent = f"{abs(value):.{precision}e}".partition("e")
    return mantissa.replace(".", ""), int(exponent)


def _exponent_form(value: float, verb: str, precision: int, bits: int) -> str:
    if precision >= 0:
        return _scientific(value, *_rounded(value, precision), verb)
    digits, point = _digits_of(value, bits)
    return _scientific(value, digits, point - 1 if value else 0, verb)


def _plain_form(value: float, precision: int, bits: int) -> str:
    if precision >= 0:
        return f"{_sign(value)}{abs(value):.{precision}f}"
    digits, point = _digits_of(value, bits)
    if point <= 0:
        text = "0." + "0" * -point + digits
    elif point >= len(digits):
        text = digits + "0" * (point - len(digits))
    else:
        text = f"{digits[:point]}.{digits[point:]}"
    return _sign(value) + ("0" if not value else text)


def _general_form(value: float, verb: str, precision: int, bits: int) -> str:
    """Format for `%g`: without exponent if the exponent is small."""
    if precision < 0:
        _, point = _digits_of(value, bits)
        power = point - 1 if value else 0
        if power < -4 or power >= _SHORTEST_PLAIN:
            return _exponent_form(value, "e" if verb == "g" else "E", -1, bits)
        return _plain_form(value, -1, bits)
    precision = precision or 1
    digits, power = _rounded(value, precision - 1)
    digits = digits.rstrip("0") or "0"
    limit = precision
    if limit > len(digits) and len(digits) >= power + 1:
        limit = len(digits)
    if power < -4 or power >= limit:
        return _scientific(value, digits, power, "e" if verb == "g" else "E")
    return _sign(value) + f"{abs(value):.{max(len(digits) - power - 1, 0)}f}"


def _hex_form(value: float, verb: str, precision: int) -> str:
    if value == 0:
        mantissa, power = 0, 0
    else:
        fraction, power = math.frexp(abs(value))
        mantissa, power = int(math.ldexp(fraction, 53)), power - 1
    # The 52 bits after the point are 13 hexadecimal digits.
    if precision >= 0 and precision < 13:
        drop = 4 * (13 - precision)
        half = 1 << (drop - 1)
        dropped = mantissa & ((1 << drop) - 1)
        mantissa >>= drop
        if dropped > half or (dropped == half and mantissa & 1):
            mantissa += 1
        mantissa <<= drop
        if mantissa >> 53:
            mantissa >>= 1
            power += 1
    digits = f"{mantissa & ((1 << 52) - 1):013x}"
    digits = digits.rstrip("0") if precision < 0 else digits[:precision].ljust(precision, "0")
    text = f"0x{mantissa >> 52}{'.' if digits else ''}{digits}p"
    text = f"{_sign(value)}{text}{'-' if power < 0 else '+'}{abs(power):02d}"
    return text.upper() if verb == "X" else text


def _binary_form(value: float) -> str:
    width, bias = 52, 1023
    if value == 0:
        mantissa, power = 0, 1 - bias - width
    else:
        fraction, exponent = math.frexp(abs(value))
        power = max(exponent - 1, 1 - bias) - width
        mantissa = int(math.ldexp(fraction, exponent - power))
    return f"{_sign(value)}{mantissa}p{'-' if power < 0 else '+'}{abs(power)}"

"""Kubernetes quantities, such as `100m`, `1.5Gi`, `2e3`."""

from __future__ import annotations

import re
from decimal import ROUND_UP, Context, Decimal, localcontext
from typing import Final, NamedTuple

from kanister_py.core.errors import Unusable


class InvalidQuantity(Unusable, reason="InvalidQuantity"):
    """A string is not a valid quantity."""

    wording = "{what!r} is not a quantity: {why}"


BINARY_SUFFIXES: Final = {f"{prefix}i": 1 << 10 * power for power, prefix in enumerate("KMGTPE", 1)}
"""Factors of the suffixes `Ki` to `Ei`."""
DECIMAL_SUFFIXES: Final = {
    "n": -9,
    "u": -6,
    "m": -3,
    "": 0,
    "k": 3,
    "M": 6,
    "G": 9,
    "T": 12,
    "P": 15,
    "E": 18,
}
"""Powers of ten of the suffixes `n` to `E`."""
_TEXT: Final = re.compile(
    r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+|)"
)
_BIG: Final = Decimal(2**63 - 1)
_SMALLEST: Final = Decimal("1e-9")
_MOST_CHARACTERS: Final = 256
# More digits than any quantity has, so that arithmetic is exact.
_EXACT: Final = Context(prec=1300)


class Quantity(NamedTuple):
    """An exact amount, and the family of suffixes in which it was written.

    `family` is `binary` (`Ki`), `decimal` (`k`) or `exponent` (`e3`).
    """

    value: Decimal
    family: str

    def __int__(self) -> int:
        """Return the amount as a whole number, rounded away from zero."""
        return int(self.value.to_integral_value(ROUND_UP))

    def __str__(self) -> str:
        return format_quantity(self)


def parse_quantity(text: str) -> Quantity:
    """Parse a quantity.

    As in Kubernetes, values are rounded away from zero to billionths, and values with a
    binary suffix are capped at 2^63-1.
    """
    if not text:
        raise InvalidQuantity(text, "it is empty")
    if len(text) > _MOST_CHARACTERS:
        raise InvalidQuantity(f"{text[:32]}...", f"longer than {_MOST_CHARACTERS} characters")
    match = _TEXT.fullmatch(text)
    if match is None:
        raise InvalidQuantity(
            text,
            r"must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        )
    number, suffix = match.groups()
    with localcontext(_EXACT):
        value = Decimal(number)
        family = "decimal"
        if suffix in BINARY_SUFFIXES:
            family = "binary"
            value *= BINARY_SUFFIXES[suffix]
            # As in Kubernetes, less than one unit with a binary suffix becomes decimal.
            if value != 0 and value.copy_abs() < 1:
                family = "decimal"
        elif suffix in DECIMAL_SUFFIXES:
            value = value.scaleb(DECIMAL_SUFFIXES[suffix])
        else:
            family = "exponent"
            exponent = int(suffix[1:])
            if not -1000 < exponent < 1000:
                raise InvalidQuantity(text, "its exponent is out of range")
            value = value.scaleb(exponent)
        if family == "binary" and value.copy_abs() > _BIG:
            value = _BIG.copy_sign(value)
        rounded = value.copy_abs().quantize(_SMALLEST, ROUND_UP)
        return Quantity(rounded.copy_sign(value).normalize(), family)


def parse_size(text: str) -> int:
    """Parse a size such as `8Mi` to bytes."""
    value = parse_quantity(text).value
    if value < 0 or value != value.to_integral_value():
        raise InvalidQuantity(text, "it is not a whole number of bytes")
    return int(value)


def format_quantity(quantity: Quantity) -> str:
    """Format a quantity in canonical form: no fraction, the largest suffix that fits."""
    value = quantity.value
    if value == 0:
        return "0"
    sign = "-" if value < 0 else ""
    left = value.copy_abs()
    if quantity.family == "binary" and left == left.to_integral_value() and left >= 1:
        units = int(left)
        for suffix, size in reversed(BINARY_SUFFIXES.items()):
            if units % size == 0:
                return f"{sign}{units // size}{suffix}"
        return f"{sign}{units}"
    with localcontext(_EXACT):
        scaled = left.scaleb(9).to_integral_value(ROUND_UP)
    exponent = -9
    digits = int(scaled)
    while digits % 1000 == 0 and (exponent < 18 or quantity.family == "exponent"):
        digits //= 1000
        exponent += 3
    if quantity.family == "exponent":
        return f"{sign}{digits}e{exponent}" if exponent else f"{sign}{digits}"
    suffix = next(name for name, power in DECIMAL_SUFFIXES.items() if power == exponent)
    return f"{sign}{digits}{suffix}"


def in_units(size: float) -> str:
    """Format a size as restic does: `2.941 KiB`."""
    if size < 1024:
        return f"{size:.0f} B"
    power = min(4, (int(size).bit_length() - 1) // 10)
    return f"{size / 1024**power:.3f} {'KMGT'[power - 1]}iB"

"""Quantities such as `1.5Gi` as doubles.

The double is made of digits and a power of ten, not rounded from the exact amount: the
last digit may differ, and does in the same places as in Kubernetes.
"""

from __future__ import annotations

from typing import Final

from kanister_py.functions.composition.patch_and_transform.values import (
    MAX_INT64,
    Unresolved,
    as_float,
)
from kanister_py.patterns import pattern_of

_TEXT: Final = pattern_of(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?P<point>\.(?P<part>[0-9]*))?"
    r"(?P<suffix>[eEinumkKMGTP]*[-+]?[0-9]*)"
)
_EXPONENT: Final = pattern_of(r"[eE]([+-]?[0-9]+)")
_POWERS_OF_TEN: Final = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_POWERS_OF_TWO: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
# The digits of the smallest amount there is, a billionth.
_NANO: Final = 9
_MAX_DIGITS: Final = 18
_MAX_EXPONENT: Final = (1 << 31) - 1
# Longer numbers come from nobody's hand, and take long.
_MAX_LENGTH: Final = 1000


def approximate_amount(text: str) -> float:
    """Give the double nearest to a quantity, within a unit or so in the last place."""
    found = _TEXT.fullmatch(text)
    if found is None or not text or len(text) > _MAX_LENGTH:
        raise Unresolved(
            "quantities must match the regular expression "
            "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        )
    suffix = found["suffix"]
    exponent = _power_of_ten(suffix)
    if exponent is None and suffix not in _POWERS_OF_TWO:
        raise Unresolved("unable to parse quantity's suffix")
    part = found["part"] or ""
    if not found["whole"] and not part:
        raise Unresolved("unable to parse numeric part of quantity")
    sign = -1 if found["sign"] == "-" else 1
    whole = found["whole"].lstrip("0") or "0"
    digits, scale = int(whole + part), len(part)
    if exponent is None:
        power = _POWERS_OF_TWO[suffix]
        digits <<= power
        # What is read exactly and at once is not rounded up to billionths.
        is_plain = not part and len(whole) + power * 3 // 10 + 1 <= 15
        if not is_plain:
            digits, scale = _in_billionths(digits, scale)
            digits = min(digits, MAX_INT64 * 10**scale)
    else:
        scale -= exponent
        is_plain = len(whole) + len(part) <= _MAX_DIGITS and scale <= _NANO
        if not is_plain:
            digits, scale = _in_billionths(digits, scale)
    return _times_power_of_ten(as_float(sign * digits), -scale)


def _power_of_ten(suffix: str) -> int | None:
    if suffix in _POWERS_OF_TEN:
        return _POWERS_OF_TEN[suffix]
    found = _EXPONENT.fullmatch(suffix)
    if found is None or len(found[1]) > _MAX_DIGITS:
        return None
    return max(min(int(found[1]), _MAX_EXPONENT), -_MAX_EXPONENT)


def _in_billionths(digits: int, scale: int) -> tuple[int, int]:
    """Round away from zero to billionths; what is too large for a double stays as it is."""
    if digits == 0 or scale < -400:
        return digits, scale
    if scale <= _NANO:
        return digits * 10 ** (_NANO - scale), _NANO
    if scale - _NANO > len(str(digits)):
        return 1, _NANO
    return -(-digits // 10 ** (scale - _NANO)), _NANO


def _times_power_of_ten(base: float, power: int) -> float:
    return base if power == 0 or base == 0 else base * float(f"1e{max(min(power, 400), -400)}")

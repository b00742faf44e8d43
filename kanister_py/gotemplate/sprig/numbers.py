"""Arithmetic and conversion."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from decimal import Context as DecimalContext
from decimal import Decimal, DecimalException

from kanister_py.gotemplate.functions import Function, GoError, go_function
from kanister_py.gotemplate.limits import Context
from kanister_py.gotemplate.numbers import MAX_INT64, MIN_INT64, format_float
from kanister_py.gotemplate.sprig.conversions import (
    bounded_decimal,
    cut_to_int,
    show,
    to_float64,
    to_int64,
    wrapped,
)
from kanister_py.gotemplate.values import Value, type_of

ToInt = Callable[[Value], int]
ToFloat = Callable[[Value], float]

_ZERO_DIVISION = "runtime error: integer divide by zero"


def _divided(one: int, other: int) -> int:
    """Divide and round towards zero, where Python would round down."""
    if other == 0:
        raise GoError(_ZERO_DIVISION)
    quotient = abs(one) // abs(other)
    return wrapped(quotient if (one < 0) == (other < 0) else -quotient)


def _remainder(one: int, other: int) -> int:
    """Return the remainder, with the sign of the dividend."""
    if other == 0:
        raise GoError(_ZERO_DIVISION)
    remainder = abs(one) % abs(other)
    return -remainder if one < 0 else remainder


def _product(numbers: list[int]) -> int:
    product = 1
    for number in numbers:
        product = wrapped(product * number)
    return product


@go_function("func(interface{}) int64", context=True)
def to_decimal(context: Context, value: Value) -> int:
    """Parse octal digits."""
    text = show(value, context)
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits or len(digits) > 40 or any(digit not in "01234567" for digit in digits):
        return 0
    number = int(text, 8)
    return number if MIN_INT64 <= number <= MAX_INT64 else 0


def _stepped(start: int, stop: int, step: int) -> list[int]:
    if (stop < start and step >= 0) or (stop >= start and step <= 0):
        return []
    return list(range(start, stop, step))


@go_function("func(int) []int")
def until(count: int) -> list[int]:
    return _stepped(0, count, -1 if count < 0 else 1)


@go_function("func(int, int, int) []int")
def until_step(start: int, stop: int, step: int) -> list[int]:
    return _stepped(start, stop, step)


@go_function("func(...int) string")
def seq(*bounds: int) -> str:
    """Return a sequence as the shell's seq: end; start and end; or start, step and end."""
    if len(bounds) == 1:
        start, step, end = 1, 1 if bounds[0] >= 1 else -1, bounds[0]
    elif len(bounds) == 2:
        start, end = bounds
        step = 1 if end >= start else -1
    elif len(bounds) == 3:
        start, step, end = bounds
        if end < start and step > 0:
            return ""
    else:
        return ""
    beyond = -1 if end < start else 1
    return " ".join(map(str, _stepped(start, end + beyond, step)))


def _rounded(value: float, places: int, round_on: float) -> float:
    try:
        power = math.pow(10, places)
    except OverflowError:
        power = math.inf
    digit = power * value
    if not math.isfinite(digit) or power == 0:
        return digit / power if power else math.nan
    fraction = math.modf(digit)[0]
    integer = math.ceil(digit) if fraction >= round_on else math.floor(digit)
    # Python's ceil and floor return an int, which has no negative zero.
    return math.copysign(float(integer), digit if integer == 0 else integer) / power


def _floor(value: float) -> float:
    return float(math.floor(value)) if math.isfinite(value) and value else value


def _ceil(value: float) -> float:
    if not math.isfinite(value) or not value:
        return value
    return math.copysign(float(math.ceil(value)), value)


_DECIMALS = DecimalContext(prec=400, Emax=999_999, Emin=-999_999)


def _exact(number: float) -> Decimal:
    if not math.isfinite(number):
        raise GoError(f"Cannot create a Decimal from {format_float(number)}")
    return Decimal(repr(number))


def _quotient(one: Decimal, other: Decimal) -> Decimal:
    """Divide with sixteen decimals, rounded half away from zero."""
    if not other:
        raise GoError("decimal division by 0")
    scaled = _DECIMALS.divide(_DECIMALS.scaleb(one, 16), other)
    half = Decimal("0.5") if scaled >= 0 else Decimal("-0.5")
    return _DECIMALS.scaleb(Decimal(int(scaled + half)), -16)


def _decimal_function(
    to_float: ToFloat, operation: Callable[[Decimal, Decimal], Decimal], *, starts_at_zero: bool
) -> Function:
    """Build a function over decimals, so that 0.1 + 0.2 is 0.3."""

    def compute(*values: Value) -> float:
        numbers = [_exact(to_float(value)) for value in values]
        result = Decimal(0) if starts_at_zero else numbers.pop(0)
        try:
            for number in numbers:
                result = operation(result, number)
        except DecimalException as error:
            raise GoError("decimal out of range") from error
        # Go's decimals have no negative zero, while numbers that underflow keep their sign.
        return float(result) if result else 0.0

    signature = "func(...interface{}) float64"
    if not starts_at_zero:
        signature = "func(interface{}, ...interface{}) float64"
    return go_function(signature)(compute)


def _arithmetic(to_int: ToInt, to_float: ToFloat) -> Mapping[str, Function]:
    """Build the functions that first convert their arguments to numbers, with these converters."""
    of_any = "func(interface{}) "
    of_two = "func(interface{}, interface{}) int64"
    of_many = "func(interface{}, ...interface{}) int64"
    return {
        "add": go_function("func(...interface{}) int64")(
            lambda *values: wrapped(sum(map(to_int, values)))
        ),
        "add1": go_function(of_any + "int64")(lambda value: wrapped(to_int(value) + 1)),
        "atoi": go_function("func(string) int")(bounded_decimal),
        "biggest": go_function(of_many)(lambda *values: max(map(to_int, values))),
        "ceil": go_function(of_any + "float64")(lambda value: _ceil(to_float(value))),
        "div": go_function(of_two)(lambda one, other: _divided(to_int(one), to_int(other))),
        "float64": go_function(of_any + "float64")(to_float),
        "floor": go_function(of_any + "float64")(lambda value: _floor(to_float(value))),
        "int": go_function(of_any + "int")(to_int),
        "int64": go_function(of_any + "int64")(to_int),
        "max": go_function(of_many)(lambda *values: max(map(to_int, values))),
        "min": go_function(of_many)(lambda *values: min(map(to_int, values))),
        "mod": go_function(of_two)(lambda one, other: _remainder(to_int(one), to_int(other))),
        "mul": go_function(of_many)(lambda *values: _product([to_int(value) for value in values])),
        "round": go_function("func(interface{}, int, ...float64) float64")(
            lambda value, places, *on: _rounded(to_float(value), places, on[0] if on else 0.5)
        ),
        "sub": go_function(of_two)(lambda one, other: wrapped(to_int(one) - to_int(other))),
        "toDecimal": to_decimal,
        "until": until,
        "untilStep": until_step,
    }


def _chosen(to_float: ToFloat, choose: Callable[[list[float]], float]) -> Function:
    def compute(*values: Value) -> float:
        numbers = [to_float(value) for value in values]
        return math.nan if any(map(math.isnan, numbers)) else choose(numbers)

    return go_function("func(interface{}, ...interface{}) float64")(compute)


def _newer(to_float: ToFloat) -> Mapping[str, Function]:
    return {
        "add1f": go_function("func(interface{}) float64")(
            lambda value: float(_exact(to_float(value)) + 1)
        ),
        "addf": _decimal_function(to_float, _DECIMALS.add, starts_at_zero=True),
        "divf": _decimal_function(to_float, _quotient, starts_at_zero=False),
        "maxf": _chosen(to_float, max),
        "minf": _chosen(to_float, min),
        "mulf": _decimal_function(to_float, _DECIMALS.multiply, starts_at_zero=False),
        "seq": seq,
        "subf": _decimal_function(to_float, _DECIMALS.subtract, starts_at_zero=False),
    }


# Conversions of sprig 3: texts may have a base prefix, and named types are 0.

_PLAIN_NAMES = frozenset(
    {"int", "int8", "int16", "int32", "int64", "uint", "uint8", "uint16", "uint32", "uint64"}
)


def cast_to_int(value: Value) -> int:
    if type(value) is str:
        return _parse_with_base(_without_zero_decimals(value))
    if isinstance(value, bool):
        return int(value)
    go_type = type_of(value)
    name = go_type.name if go_type else ""
    if name in _PLAIN_NAMES or name in ("time.Weekday", "time.Month"):
        return wrapped(int(value))
    return cut_to_int(value) if name == "float64" else 0


def cast_to_float(value: Value) -> float:
    if type(value) is str or isinstance(value, bool):
        return to_float64(value)
    go_type = type_of(value)
    name = go_type.name if go_type else ""
    if name in _PLAIN_NAMES or name in ("float64", "time.Weekday", "time.Month"):
        return float(value)
    return 0.0


def _without_zero_decimals(text: str) -> str:
    """Remove zero decimals: 1.00 becomes 1, but 1.50 is unchanged."""
    integer, point, decimals = text.partition(".")
    return integer if point and decimals.strip("0") == "" and decimals else text


def _parse_with_base(text: str) -> int:
    sign = -1 if text.startswith("-") else 1
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits or not digits.isascii() or digits != digits.strip() or len(digits) > 80:
        return 0
    base = {"0x": 16, "0b": 2, "0o": 8}.get(digits[:2].lower(), 10)
    body = digits[2:] if base != 10 else digits
    if base == 10 and len(digits) > 1 and digits[0] == "0":
        base, body = 8, digits[1:]
    if base != 10:
        body = body.removeprefix("_")
    if not body or body[0] in "+-_":
        return 0
    try:
        number = sign * int(body, base)
    except ValueError:
        return 0
    return number if MIN_INT64 <= number <= MAX_INT64 else 0


OF_BLUEPRINTS = _arithmetic(to_int64, to_float64)
NEWER = _newer(to_float64)
OF_COMPOSITIONS = {**_arithmetic(cast_to_int, cast_to_float), **_newer(cast_to_float)}

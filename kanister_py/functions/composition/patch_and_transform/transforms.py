"""Transforms of a value between two fields.

A transform is validated once and becomes a function that maps a value to a value.
Internally, a Python float is a double and an int is an int64.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from kanister_py.core.kube.quantities import BINARY_SUFFIXES, DECIMAL_SUFFIXES
from kanister_py.functions.composition.patch_and_transform.fields import STRICT
from kanister_py.functions.composition.patch_and_transform.problems import (
    Problem,
    check_operand,
    first_problem,
    invalid,
    quoted,
    required,
)
from kanister_py.functions.composition.patch_and_transform.string_transforms import (
    check_string,
    compile_strict_string,
    compile_string,
    expression_of,
    regexp_problem,
)
from kanister_py.functions.composition.patch_and_transform.values import (
    MAX_INT64,
    MIN_INT64,
    Config,
    Resolve,
    Unresolved,
    as_decoded,
    as_float,
    as_floats,
    go_type,
    int64_of,
    never,
    wrapped_int64,
)
from kanister_py.gotemplate.errors import LimitExceeded
from kanister_py.gotemplate.functions import GoError
from kanister_py.gotemplate.limits import Context
from kanister_py.gotemplate.numbers import format_float, read_float
from kanister_py.gotemplate.sprig.jsons import decode
from kanister_py.gotemplate.values import to_bytes


def compile_transforms(transforms: Sequence[Config]) -> Resolve:
    """Return a function that applies a sequence of transforms."""
    steps = []
    for at, transform in enumerate(transforms):
        resolve, prefix = _compile_transform(transform)
        steps.append((resolve, f"transform at index {at} returned error: {prefix}"))

    def resolve_all(value: Any) -> Any:
        prefix = ""
        try:
            for resolve, prefix in steps:  # noqa: B007 - the prefix of the failed transform
                value = resolve(value)
        except Unresolved as error:
            raise Unresolved(f"{prefix}{error}") from error
        return value

    return resolve_all


def _compile_transform(transform: Config) -> tuple[Resolve, str]:
    """Prepare one transform, and return it with the prefix of its errors."""
    kind = transform.get("type", "")
    compile_ = (_STRICT_COMPILERS if transform.get(STRICT) else _COMPILERS).get(kind)
    if compile_ is None:
        return never(f"transform type {kind} is not supported"), ""
    config = transform.get(kind)
    if config is None:
        return never(f"given transform type {kind} requires configuration"), ""
    return compile_(config), f"{kind} transform could not resolve: "


def check_transform(transform: Config) -> Problem | None:
    """Return the problem of a transform, without running anything."""
    kind = transform.get("type", "")
    check = _CHECKS.get(kind)
    if check is None:
        return invalid("type", kind, "unknown transform type", _CHECKS)
    config = transform.get(kind)
    if config is None:
        return required(kind, f"given transform type {kind} requires configuration")
    problem = check(config)
    return problem and problem.inside(kind)


_OPERANDS: Final = {
    kind: (operand, f"must specify a value if a {name} math transform is specified")
    for kind, operand, name in (
        ("Multiply", "multiply", "multiply"),
        ("ClampMin", "clampMin", "clamp min"),
        ("ClampMax", "clampMax", "clamp max"),
    )
}


def _check_math(config: Config) -> Problem | None:
    return check_operand(config, "math transform", _OPERANDS)


def _compile_math(config: Config, whole_of: Callable[[int], Any] = wrapped_int64) -> Resolve:
    problem = _check_math(config)
    if problem is not None:
        return never(str(problem))
    kind = config["type"]
    operand: int = config[_OPERANDS[kind][0]]

    def resolve(value: Any) -> Any:
        if type(value) not in (int, float):
            raise Unresolved(
                f"input is required to be a number for math transformer, got {go_type(value)}"
            )
        if kind == "Multiply":
            product = value * (float(operand) if type(value) is float else operand)
            return product if type(value) is float else whole_of(product)
        number = int64_of(value) if type(value) is float else value
        is_beyond = number < operand if kind == "ClampMin" else number > operand
        return operand if is_beyond else value

    return resolve


def _check_map(config: Config) -> Problem | None:
    if config:
        return None
    return required("pairs", "at least one pair must be specified if a map transform is specified")


def _compile_map(config: Config, typed: Resolve = as_floats) -> Resolve:
    pairs = {key: typed(result) for key, result in config.items()}

    def resolve(value: Any) -> Any:
        if type(value) is not str:
            raise Unresolved(f"type {go_type(value)} is not supported for map transform")
        if value not in pairs:
            raise Unresolved(f"key {value} is not found in map")
        result = pairs[value]
        if result is None:
            # The original drops null values but keeps their keys, and then fails to decode them.
            raise Unresolved(
                f"value for key {value} is not valid JSON: unexpected end of JSON input"
            )
        return result

    return resolve


def _check_match(config: Config) -> Problem | None:
    patterns = config.get("patterns")
    if not patterns:
        return required(
            "patterns", "at least one pattern must be specified if a match transform is specified"
        )
    return first_problem("patterns", patterns, _check_pattern)


def _check_pattern(pattern: Config) -> Problem | None:
    kind = pattern.get("type", "")
    if kind in ("literal", ""):
        if "literal" not in pattern:
            return required("literal", "literal pattern type requires a literal")
    elif kind == "regexp":
        if "regexp" not in pattern:
            return required("regexp", "regexp pattern type requires a regexp")
        if regexp_problem(pattern["regexp"]):
            return invalid("regexp", pattern["regexp"], "invalid regexp")
    else:
        return invalid("type", kind, "unknown pattern type", ("literal", "regexp"))
    return None


def _compile_match(config: Config, typed: Resolve = as_floats) -> Resolve:
    patterns = [
        (_compile_pattern(pattern), typed(pattern.get("result")))
        for pattern in config.get("patterns", ())
    ]
    falls_back_to_input = config.get("fallbackTo") == "Input"
    fallback = typed(config.get("fallbackValue"))

    def resolve(value: Any) -> Any:
        for at, (matches, result) in enumerate(patterns):
            try:
                if matches(value):
                    return result
            except Unresolved as error:
                raise Unresolved(f"cannot match pattern at index {at}: {error}") from error
        if not falls_back_to_input:
            return fallback
        if "fallbackValue" in config:
            raise Unresolved("cannot set both a fallback value and the fallback to input flag")
        return value

    return resolve


def _compile_pattern(pattern: Config) -> Callable[[Any], bool]:
    kind = pattern.get("type", "")
    if kind not in ("literal", "regexp"):
        return never(f"unsupported pattern type '{kind}'")
    if kind not in pattern:
        return never(f"{kind} is required by type {kind}")
    text: str = pattern[kind]
    if kind == "literal":
        return lambda value: _text_to_match(value) == text
    problem = regexp_problem(text)
    if problem:
        return never(f"cannot compile regexp: {problem}")
    expression = expression_of(text)

    def matches(value: Any) -> bool:
        if value is None:
            raise Unresolved("unsupported input type 'null'")
        is_match: bool = expression.matches(to_bytes(_text_to_match(value)))
        return is_match

    return matches


def _text_to_match(value: Any) -> str:
    if type(value) is not str:
        raise Unresolved(f"unsupported input type '{go_type(value)}'")
    return value


# Conversions


_FORMATS: Final = ("none", "quantity", "json")
_TYPES: Final = ("string", "bool", "int", "int64", "float64", "object", "array")


def check_convert(config: Config) -> Problem | None:
    if config.get("format", "none") not in _FORMATS:
        return invalid("format", config["format"], "invalid format", _FORMATS)
    kind = config.get("toType", "")
    if kind not in _TYPES:
        return invalid("toType", kind, "invalid type", _TYPES)
    return None


def compile_convert(config: Config) -> Resolve:
    problem = check_convert(config)
    if problem is not None:
        return never(str(problem))
    format_ = config.get("format", "none")
    target = "int64" if config["toType"] == "int" else config["toType"]

    def resolve(value: Any) -> Any:
        source = go_type(value)
        if type(value) not in (str, bool, int, float):
            raise Unresolved(f"invalid input type {source}")
        if source == target:
            return value
        convert = _CONVERSIONS.get((source, target, format_))
        if convert is None:
            raise Unresolved(
                f"conversion from {source} to {target} is not supported with format {format_}"
            )
        return convert(value)

    return resolve


def _not_parsed(function: str, text: str, why: str = "invalid syntax") -> Unresolved:
    return Unresolved(f"strconv.{function}: parsing {quoted(text)}: {why}")


def _parsed_int(text: str) -> int:
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not (digits.isascii() and digits.isdigit()):
        raise _not_parsed("ParseInt", text)
    plain = digits.lstrip("0") or "0"
    value = int(plain) if len(plain) < 20 else MAX_INT64 + 2
    if text[0] == "-":
        value = -value
    if not MIN_INT64 <= value <= MAX_INT64:
        raise _not_parsed("ParseInt", text, "value out of range")
    return value


def _parsed_bool(text: str) -> bool:
    if text in ("1", "t", "T", "TRUE", "true", "True"):
        return True
    if text in ("0", "f", "F", "FALSE", "false", "False"):
        return False
    raise _not_parsed("ParseBool", text)


def _parsed_float(text: str) -> float:
    value = read_float(text)
    if value is not None:
        return value
    try:
        is_too_large = math.isinf(float(text)) and text.isascii()
    except ValueError:
        is_too_large = text.lstrip("+-")[:2].lower() == "0x" and _is_hex_float(text)
    raise _not_parsed(
        "ParseFloat", text, "value out of range" if is_too_large else "invalid syntax"
    )


def _is_hex_float(text: str) -> bool:
    try:
        float.fromhex(text)
    except OverflowError:
        return "p" in text.lower()
    except ValueError:
        return False
    return False


def _float_as_text(value: float) -> str:
    return format_float(value, "f")


def _read_json(text: str) -> Any:
    try:
        return decode(text, Context())
    except GoError as error:
        raise Unresolved(error.text) from error
    except LimitExceeded as error:
        raise Unresolved("the JSON is too large") from error


def _json_of(kind: type, text: str) -> Any:
    value = _read_json(text)
    if value is not None and type(value) is not kind:
        word = _JSON_WORDS[type(value)]
        raise Unresolved(f"json: cannot unmarshal {word} into Go value of type {go_type(kind())}")
    return value


# Quantities such as `1.5Gi` as doubles. The double is computed from digits and a power of
# ten, not rounded from the exact amount: the last digit may differ, in the same cases as in
# Kubernetes.

_TEXT: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?P<point>\.(?P<part>[0-9]*))?"
    r"(?P<suffix>[eEinumkKMGTP]*[-+]?[0-9]*)"
)
_EXPONENT: Final = re.compile(r"[eE]([+-]?[0-9]+)")
# The number of decimal places of the smallest amount, a billionth.
_NANO: Final = 9
_MAX_DIGITS: Final = 18
_MAX_EXPONENT: Final = (1 << 31) - 1
# Longer numbers are not realistic, and slow to process.
_MAX_LENGTH: Final = 1000


def approximate_amount(text: str) -> float:
    """Convert a quantity to a double, with an error of about one unit in the last place."""
    match = _TEXT.fullmatch(text) if 0 < len(text) <= _MAX_LENGTH else None
    if match is None:
        raise Unresolved(
            "quantities must match the regular expression "
            "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        )
    suffix = match["suffix"]
    exponent = _power_of_ten(suffix)
    if exponent is None and suffix not in BINARY_SUFFIXES:
        raise Unresolved("unable to parse quantity's suffix")
    part = match["part"] or ""
    if not match["whole"] and not part:
        raise Unresolved("unable to parse numeric part of quantity")
    sign = -1 if match["sign"] == "-" else 1
    whole_digits = match["whole"].lstrip("0") or "0"
    digits, scale = int(whole_digits + part), len(part)
    if exponent is None:
        factor = BINARY_SUFFIXES[suffix]
        digits *= factor
        # Amounts on this exact, fast path are not rounded up to billionths.
        is_plain = not part and len(whole_digits) + (factor.bit_length() - 1) * 3 // 10 + 1 <= 15
        if not is_plain:
            digits, scale = _in_billionths(digits, scale)
            digits = min(digits, MAX_INT64 * 10**scale)
    else:
        scale -= exponent
        is_plain = len(whole_digits) + len(part) <= _MAX_DIGITS and scale <= _NANO
        if not is_plain:
            digits, scale = _in_billionths(digits, scale)
    return _times_power_of_ten(as_float(sign * digits), -scale)


def _power_of_ten(suffix: str) -> int | None:
    if suffix in DECIMAL_SUFFIXES:
        return DECIMAL_SUFFIXES[suffix]
    match = _EXPONENT.fullmatch(suffix)
    if match is None or len(match[1]) > _MAX_DIGITS:
        return None
    return max(min(int(match[1]), _MAX_EXPONENT), -_MAX_EXPONENT)


def _in_billionths(digits: int, scale: int) -> tuple[int, int]:
    """Round away from zero to billionths; amounts too large for a double are unchanged."""
    if digits == 0 or scale < -400:
        return digits, scale
    if scale <= _NANO:
        return digits * 10 ** (_NANO - scale), _NANO
    if scale - _NANO > len(str(digits)):
        return 1, _NANO
    return -(-digits // 10 ** (scale - _NANO)), _NANO


def _times_power_of_ten(base: float, power: int) -> float:
    return base if power == 0 or base == 0 else base * float(f"1e{max(min(power, 400), -400)}")


_JSON_WORDS: Final = {
    bool: "bool",
    str: "string",
    float: "number",
    list: "array",
    dict: "object",
}
_CONVERSIONS: Final[Mapping[tuple[str, str, str], Resolve]] = {
    ("string", "int64", "none"): _parsed_int,
    ("string", "bool", "none"): _parsed_bool,
    ("string", "float64", "none"): _parsed_float,
    ("string", "float64", "quantity"): approximate_amount,
    ("string", "object", "json"): partial(_json_of, dict),
    ("string", "array", "json"): partial(_json_of, list),
    ("int64", "string", "none"): str,
    ("int64", "bool", "none"): lambda value: value == 1,
    ("int64", "float64", "none"): as_float,
    ("bool", "string", "none"): lambda value: "true" if value else "false",
    ("bool", "int64", "none"): int,
    ("bool", "float64", "none"): float,
    ("float64", "string", "none"): _float_as_text,
    ("float64", "int64", "none"): int64_of,
    ("float64", "bool", "none"): lambda value: value == 1.0,
}

_COMPILERS: Final[Mapping[str, Callable[[Any], Resolve]]] = {
    "math": _compile_math,
    "map": _compile_map,
    "match": _compile_match,
    "string": compile_string,
    "convert": compile_convert,
}
_STRICT_COMPILERS: Final[Mapping[str, Callable[[Any], Resolve]]] = {
    **_COMPILERS,
    "math": partial(_compile_math, whole_of=as_decoded),
    "map": partial(_compile_map, typed=as_decoded),
    "match": partial(_compile_match, typed=as_decoded),
    "string": compile_strict_string,
}
_CHECKS: Final[Mapping[str, Callable[[Any], Problem | None]]] = {
    "math": _check_math,
    "map": _check_map,
    "match": _check_match,
    "string": check_string,
    "convert": check_convert,
}

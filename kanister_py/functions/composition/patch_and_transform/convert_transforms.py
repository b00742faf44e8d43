"""Transforms of type convert: from one type of a value to another."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from kanister_py.functions.composition.patch_and_transform.amounts import approximate_amount
from kanister_py.functions.composition.patch_and_transform.problems import (
    Problem,
    invalid,
    quoted,
)
from kanister_py.functions.composition.patch_and_transform.values import (
    MAX_INT64,
    MIN_INT64,
    Config,
    Resolve,
    Unresolved,
    as_float,
    go_type,
    int64_of,
    never,
)

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
    from kanister_py.gotemplate.numbers import read_float

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
    from kanister_py.gotemplate.numbers import format_float

    return format_float(value, "f")


def _read_json(text: str) -> Any:
    from kanister_py.gotemplate import Context, GoError
    from kanister_py.gotemplate.errors import LimitExceeded
    from kanister_py.gotemplate.sprig.jsons import decode

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


_JSON_WORDS: Final = {
    bool: "bool", str: "string", float: "number", list: "array", dict: "object",
}  # fmt: skip
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

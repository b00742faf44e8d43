"""What becomes of a value on its way from one field to another?

Each transform is checked once, and made into a call that takes a value and gives one.
Inside, a Python float is a double and an int an int64.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from kanister_py.functions.composition.patch_and_transform.amounts import approximate_amount
from kanister_py.functions.composition.patch_and_transform.problems import (
    Problem,
    invalid,
    quoted,
    required,
)
from kanister_py.functions.composition.patch_and_transform.values import (
    MAX_INT64,
    MIN_INT64,
    Unresolved,
    as_float,
    as_floats,
    go_type,
    int64_of,
    wrapped_int64,
)

Resolve: TypeAlias = Callable[[Any], Any]
Config: TypeAlias = Mapping[str, Any]

MAX_TEXT: Final = 16 * 1024 * 1024
"""How long a text may become; formats and separators of a few letters can ask for gigabytes."""


def compile_transforms(transforms: Sequence[Config]) -> Resolve:
    """Make one call of a row of transforms."""
    steps = []
    for at, transform in enumerate(transforms):
        resolve, told = _compile_transform(transform)
        steps.append((resolve, f"transform at index {at} returned error: {told}"))

    def resolve_all(value: Any) -> Any:
        told = ""
        try:
            for resolve, told in steps:  # noqa: B007 - the last one tells why it failed
                value = resolve(value)
        except Unresolved as error:
            raise Unresolved(f"{told}{error}") from error
        return value

    return resolve_all


def _compile_transform(transform: Config) -> tuple[Resolve, str]:
    """Make one transform ready, and say how it begins to tell why it failed."""
    kind = transform.get("type", "")
    compile_ = _COMPILERS.get(kind)
    if compile_ is None:
        return _never(f"transform type {kind} is not supported"), ""
    config = transform.get(kind)
    if config is None:
        return _never(f"given transform type {kind} requires configuration"), ""
    return compile_(config), f"{kind} transform could not resolve: "


def _never(why: str) -> Resolve:
    def refuse(_: Any) -> Any:
        raise Unresolved(why)

    return refuse


def check_transform(transform: Config) -> Problem | None:
    """Say what a transform lacks before anything is run."""
    kind = transform.get("type", "")
    check = _CHECKS.get(kind)
    if check is None:
        return invalid("type", kind, "unknown transform type")
    config = transform.get(kind)
    if config is None:
        return required(kind, f"given transform type {kind} requires configuration")
    problem = check(config)
    return problem and problem.inside(kind)


# Math


def _check_math(config: Config) -> Problem | None:
    kind = config.get("type", "")
    if not kind:
        return required("type", "math transform type is required")
    if kind not in _OPERANDS:
        return invalid("type", kind, "unknown math transform type")
    operand, name = _OPERANDS[kind]
    if operand not in config:
        return required(operand, f"must specify a value if a {name} math transform is specified")
    return None


_OPERANDS: Final = {
    "Multiply": ("multiply", "multiply"),
    "ClampMin": ("clampMin", "clamp min"),
    "ClampMax": ("clampMax", "clamp max"),
}


def _compile_math(config: Config) -> Resolve:
    problem = _check_math(config)
    if problem is not None:
        return _never(str(problem))
    kind = config["type"]
    operand: int = config[_OPERANDS[kind][0]]

    def resolve(value: Any) -> Any:
        if type(value) not in (int, float):
            raise Unresolved(
                f"input is required to be a number for math transformer, got {go_type(value)}"
            )
        if kind == "Multiply":
            product = value * (float(operand) if type(value) is float else operand)
            return product if type(value) is float else wrapped_int64(product)
        whole = int64_of(value) if type(value) is float else value
        is_beyond = whole < operand if kind == "ClampMin" else whole > operand
        return operand if is_beyond else value

    return resolve


# Map


def _check_map(config: Config) -> Problem | None:
    if config:
        return None
    return required("pairs", "at least one pair must be specified if a map transform is specified")


def _compile_map(config: Config) -> Resolve:
    pairs = {key: as_floats(each) for key, each in config.items()}

    def resolve(value: Any) -> Any:
        if type(value) is not str:
            raise Unresolved(f"type {go_type(value)} is not supported for map transform")
        if value not in pairs:
            raise Unresolved(f"key {value} is not found in map")
        found = pairs[value]
        if found is None:
            # A null never reaches the map, only its key does.
            raise Unresolved(
                f"value for key {value} is not valid JSON: unexpected end of JSON input"
            )
        return found

    return resolve


# Match


def _check_match(config: Config) -> Problem | None:
    patterns = config.get("patterns")
    if not patterns:
        return required(
            "patterns", "at least one pattern must be specified if a match transform is specified"
        )
    for at, pattern in enumerate(patterns):
        problem = _check_pattern(pattern)
        if problem is not None:
            return problem.inside(f"patterns[{at}]")
    return None


def _check_pattern(pattern: Config) -> Problem | None:
    kind = pattern.get("type", "")
    if kind in ("literal", ""):
        if "literal" not in pattern:
            return required("literal", "literal pattern type requires a literal")
    elif kind == "regexp":
        if "regexp" not in pattern:
            return required("regexp", "regexp pattern type requires a regexp")
        if _regexp_problem(pattern["regexp"]):
            return invalid("regexp", pattern["regexp"], "invalid regexp")
    else:
        return invalid("type", kind, "unknown pattern type")
    return None


def _compile_match(config: Config) -> Resolve:
    patterns = [
        (_compile_pattern(pattern), as_floats(pattern.get("result")))
        for pattern in config.get("patterns", ())
    ]
    falls_back_to_input = config.get("fallbackTo") == "Input"
    fallback = as_floats(config.get("fallbackValue"))

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
        return _never(f"unsupported pattern type '{kind}'")
    if kind not in pattern:
        return _never(f"{kind} is required by type {kind}")
    text: str = pattern[kind]
    if kind == "literal":
        return lambda value: _text_to_match(value) == text
    problem = _regexp_problem(text)
    if problem:
        return _never(f"cannot compile regexp: {problem}")
    expression = _expression(text)
    from kanister_py.gotemplate.values import to_bytes

    def matches(value: Any) -> bool:
        if value is None:
            raise Unresolved("unsupported input type 'null'")
        found: bool = expression.matches(to_bytes(_text_to_match(value)))
        return found

    return matches


def _text_to_match(value: Any) -> str:
    if type(value) is not str:
        raise Unresolved(f"unsupported input type '{go_type(value)}'")
    return value


def _expression(pattern: str) -> Any:
    # Loaded where it is needed: most patches have no regular expressions.
    from kanister_py.gotemplate.sprig.regex import Expression

    return Expression(pattern)


def _regexp_problem(pattern: str) -> str:
    """Say what is wrong with a regular expression; nothing if nothing is."""
    from kanister_py.gotemplate import GoError

    try:
        _expression(pattern)
    except GoError as error:
        return error.text
    return ""


# String


def _check_string(config: Config) -> Problem | None:
    kind = config.get("type", "")
    if not kind:
        return required("type", "string transform type is required")
    if kind not in _STRING_OPERANDS:
        return invalid("type", kind, "unknown string transform type")
    operand, detail = _STRING_OPERANDS[kind]
    if operand not in config:
        return required(operand, detail)
    if kind == "Replace" and not config["replace"].get("search"):
        return required("replace.search", "replace transform requires a search")
    if kind == "Regexp":
        match = config["regexp"].get("match", "")
        if not match:
            return required("regexp.match", "regexp transform requires a match")
        if _regexp_problem(match):
            return invalid("regexp.match", match, "invalid regexp")
    return None


_STRING_OPERANDS: Final = {
    "Format": ("fmt", "format transform requires a format"),
    "Convert": ("convert", "convert transform requires a conversion type"),
    "TrimPrefix": ("trim", "trim transform requires a trim value"),
    "TrimSuffix": ("trim", "trim transform requires a trim value"),
    "Regexp": ("regexp", "regexp transform requires a regexp"),
    "Join": ("join", "join transform requires a join"),
    "Replace": ("replace", "replace transform requires a replace"),
}


def _compile_string(config: Config) -> Resolve:
    kind = config.get("type", "")
    if kind not in _STRING_OPERANDS:
        return _never(f"type {kind} is not supported for string transform type")
    operand = _STRING_OPERANDS[kind][0]
    if operand not in config:
        return _never(f"string transform of type {kind} {operand} is not set")
    return _STRING_COMPILERS[kind](config[operand])


def formatted(format_: str, values: Sequence[Any]) -> str:
    """Print values as Sprintf does."""
    from kanister_py.gotemplate import Context
    from kanister_py.gotemplate.errors import LimitExceeded
    from kanister_py.gotemplate.printing import sprintf

    try:
        return sprintf(format_, *map(_printable, values), context=Context())
    except LimitExceeded as error:
        raise _too_long() from error


def _too_long() -> Unresolved:
    return Unresolved(f"the text would have more than {MAX_TEXT} bytes")


def _printable(value: Any) -> Any:
    kind = type(value)
    if kind is int:
        from kanister_py.gotemplate.values import Int64

        return Int64(value)
    if kind is list:
        return [_printable(each) for each in value]
    if kind is dict:
        return {key: _printable(each) for key, each in value.items()}
    return value


def _shown(value: Any) -> str:
    """Give the text of a value, as `%v` prints it."""
    return value if type(value) is str else formatted("%v", (value,))


def compile_format(format_: str) -> Callable[[Sequence[Any]], str]:
    """Make a call that prints values as Sprintf does."""
    pieces = _PLAIN_VERB.split(format_)
    if any("%" in piece for piece in pieces):
        return lambda values: formatted(format_, values)
    template = "%s".join(pieces)

    def format_texts(values: Sequence[Any]) -> str:
        # By far the most formats put texts in a row, which is no work.
        for each in values:
            if type(each) is not str:
                return formatted(format_, values)
        if len(values) != len(pieces) - 1:
            return formatted(format_, values)
        if len(template) + sum(map(len, values)) > MAX_TEXT:
            raise _too_long()
        return template % tuple(values)

    return format_texts


_PLAIN_VERB: Final = re.compile("%[sv]")


def _compile_format(format_: str) -> Resolve:
    print_ = compile_format(format_)
    return lambda value: print_((value,))


def _compile_trim(trim: str, *, is_prefix: bool) -> Resolve:
    if is_prefix:
        return lambda value: _shown(value).removeprefix(trim)
    return lambda value: _shown(value).removesuffix(trim)


def _compile_regexp(config: Config) -> Resolve:
    pattern = config.get("match", "")
    group = config.get("group", 0)
    problem = _regexp_problem(pattern)
    if problem:
        return _never(f"could not compile regexp: {problem}")
    expression = _expression(pattern)
    from kanister_py.gotemplate import Context
    from kanister_py.gotemplate.values import from_bytes, to_bytes

    def resolve(value: Any) -> str:
        data = to_bytes(_shown(value))
        spans = next(expression.find_all(data, Context()), ())
        if not 0 <= group < len(spans):
            raise Unresolved(f"regexp {quoted(pattern)} had no matches for group {group}")
        start, end = spans[group]
        return from_bytes(data[start:end]) if start >= 0 else ""

    return resolve


def _compile_join(config: Config) -> Resolve:
    separator = config.get("separator", "")
    from kanister_py.gotemplate.values import byte_length, from_bytes, to_bytes

    def resolve(value: Any) -> str:
        if type(value) is not list:
            raise Unresolved("could not parse input array")
        texts = [_shown(each) for each in value]
        if sum(map(byte_length, texts)) + len(texts) * byte_length(separator) > MAX_TEXT:
            raise _too_long()
        joined = "".join(text + separator for text in texts)
        # The last separator is taken off again, but only one byte of it.
        return from_bytes(to_bytes(joined)[:-1]) if separator else joined

    return resolve


def _compile_replace(config: Config) -> Resolve:
    search, replacement = config.get("search", ""), config.get("replace", "")

    def resolve(value: Any) -> str:
        text = _shown(value)
        grown = text.count(search) * (len(replacement) - len(search))
        if len(text) + grown > MAX_TEXT:
            raise _too_long()
        return text.replace(search, replacement)

    return resolve


def _compile_string_convert(kind: str) -> Resolve:
    convert = _CONVERSIONS_OF_TEXT.get(kind)
    return convert or _never(f"type {kind} is not supported for string convert")


def to_json(value: Any) -> str:
    """Write a value as JSON, as encoding/json does."""
    from kanister_py.gotemplate import Context, GoError
    from kanister_py.gotemplate.errors import LimitExceeded
    from kanister_py.gotemplate.sprig.jsons import encode

    try:
        return encode(value, Context())
    except GoError as error:
        raise Unresolved(error.text) from error
    except LimitExceeded as error:
        raise _too_long() from error


def _to_json(value: Any) -> str:
    try:
        return to_json(value)
    except Unresolved as error:
        raise Unresolved(f"cannot marshal to JSON: {error}") from error


def _upper(value: Any) -> str:
    text = _shown(value)
    if text.isascii():
        return text.upper()
    from kanister_py.gotemplate.sprig.words import upper

    return upper(text)


def _lower(value: Any) -> str:
    text = _shown(value)
    if text.isascii():
        return text.lower()
    from kanister_py.gotemplate.sprig.words import lower

    return lower(text)


def _to_base64(value: Any) -> str:
    from kanister_py.gotemplate.sprig.encoding import encode_base64
    from kanister_py.gotemplate.values import to_bytes

    return encode_base64(to_bytes(_shown(value)))


def _from_base64(value: Any) -> str:
    from kanister_py.gotemplate import GoError
    from kanister_py.gotemplate.sprig.encoding import decode_base64
    from kanister_py.gotemplate.values import from_bytes

    try:
        return from_bytes(decode_base64(_shown(value)))
    except GoError as error:
        raise Unresolved(f"string is not valid base64: {error.text}") from error


def _bytes_to_hash(value: Any, failure: str) -> bytes:
    from kanister_py.gotemplate.values import to_bytes

    if type(value) is str:
        return to_bytes(value)
    try:
        return to_bytes(_to_json(value))
    except Unresolved as error:
        raise Unresolved(f"{failure}: {error}") from error


def _hashed(algorithm: str, value: Any) -> str:
    import hashlib

    data = _bytes_to_hash(value, "cannot generate hash")
    return hashlib.new(algorithm, data, usedforsecurity=False).hexdigest()


def _adler32(value: Any) -> str:
    return str(zlib.adler32(_bytes_to_hash(value, "unable to generate Adler checksum")))


_CONVERSIONS_OF_TEXT: Final[Mapping[str, Resolve]] = {
    "ToUpper": _upper,
    "ToLower": _lower,
    "ToJson": _to_json,
    "ToBase64": _to_base64,
    "FromBase64": _from_base64,
    "ToSha1": partial(_hashed, "sha1"),
    "ToSha256": partial(_hashed, "sha256"),
    "ToSha512": partial(_hashed, "sha512"),
    "ToAdler32": _adler32,
}
_STRING_COMPILERS: Final[Mapping[str, Callable[[Any], Resolve]]] = {
    "Format": _compile_format,
    "Convert": _compile_string_convert,
    "TrimPrefix": partial(_compile_trim, is_prefix=True),
    "TrimSuffix": partial(_compile_trim, is_prefix=False),
    "Regexp": _compile_regexp,
    "Join": _compile_join,
    "Replace": _compile_replace,
}

# Convert


def _check_convert(config: Config) -> Problem | None:
    if config.get("format", "none") not in ("none", "quantity", "json"):
        return invalid("format", config["format"], "invalid format")
    kind = config.get("toType", "")
    if kind not in ("string", "bool", "int", "int64", "float64", "object", "array"):
        return invalid("toType", kind, "invalid type")
    return None


def _compile_convert(config: Config) -> Resolve:
    problem = _check_convert(config)
    if problem is not None:
        return _never(str(problem))
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

_COMPILERS: Final[Mapping[str, Callable[[Any], Resolve]]] = {
    "math": _compile_math,
    "map": _compile_map,
    "match": _compile_match,
    "string": _compile_string,
    "convert": _compile_convert,
}
_CHECKS: Final[Mapping[str, Callable[[Any], Problem | None]]] = {
    "math": _check_math,
    "map": _check_map,
    "match": _check_match,
    "string": _check_string,
    "convert": _check_convert,
}

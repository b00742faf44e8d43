"""Transforms of type string: formats, conversions, trims, regular expressions, joins."""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from kanister_py.functions.composition.patch_and_transform.problems import (
    Problem,
    check_operand,
    invalid,
    quoted,
    required,
)
from kanister_py.functions.composition.patch_and_transform.values import (
    MAX_TEXT,
    Config,
    Resolve,
    Unresolved,
    never,
    too_long,
    written,
)
from kanister_py.gotemplate.errors import LimitExceeded
from kanister_py.gotemplate.functions import GoError
from kanister_py.gotemplate.limits import Context
from kanister_py.gotemplate.printing import sprintf
from kanister_py.gotemplate.sprig import words
from kanister_py.gotemplate.sprig.encoding import decode_base64, encode_base64
from kanister_py.gotemplate.sprig.regex import Expression
from kanister_py.gotemplate.values import Int64, byte_length, from_bytes, to_bytes


def expression_of(pattern: str) -> Any:
    return Expression(pattern)


def regexp_problem(pattern: str) -> str:
    """Return the problem of a regular expression; empty if it is valid."""
    try:
        expression_of(pattern)
    except GoError as error:
        return error.text
    return ""


def check_string(config: Config) -> Problem | None:
    problem = check_operand(config, "string transform", _STRING_OPERANDS)
    if problem is not None:
        return problem
    kind = config["type"]
    if kind == "Replace" and not config["replace"].get("search"):
        return required("replace.search", "replace transform requires a search")
    if kind == "Regexp":
        match = config["regexp"].get("match", "")
        if not match:
            return required("regexp.match", "regexp transform requires a match")
        if regexp_problem(match):
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


def compile_strict_string(config: Config) -> Resolve:
    """Like `compile_string`, but a join removes the complete last separator."""
    joins = config.get("type") == "Join" and "join" in config
    return _compile_join(config["join"], is_strict=True) if joins else compile_string(config)


def compile_string(config: Config) -> Resolve:
    kind = config.get("type", "")
    if kind not in _STRING_OPERANDS:
        return never(f"type {kind} is not supported for string transform type")
    operand = _STRING_OPERANDS[kind][0]
    if operand not in config:
        return never(f"string transform of type {kind} {operand} is not set")
    return _STRING_COMPILERS[kind](config[operand])


def formatted(format_: str, values: Sequence[Any]) -> str:
    """Format values like Sprintf."""
    try:
        return sprintf(format_, *map(_printable, values), context=Context())
    except LimitExceeded as error:
        raise too_long() from error


def _printable(value: Any) -> Any:
    kind = type(value)
    if kind is int:
        return Int64(value)
    if kind is list:
        return [_printable(element) for element in value]
    if kind is dict:
        return {key: _printable(member) for key, member in value.items()}
    return value


def shown(value: Any) -> str:
    """Format a value like `%v`."""
    return value if type(value) is str else formatted("%v", (value,))


def compile_format(format_: str) -> Callable[[Sequence[Any]], str]:
    """Return a function that formats values like Sprintf."""
    pieces = _PLAIN_VERB.split(format_)
    if any("%" in piece for piece in pieces):
        return lambda values: formatted(format_, values)
    template = "%s".join(pieces)

    def format_texts(values: Sequence[Any]) -> str:
        # Most formats only concatenate texts, which is fast.
        for part in values:
            if type(part) is not str:
                return formatted(format_, values)
        if len(values) != len(pieces) - 1:
            return formatted(format_, values)
        if len(template) + sum(map(len, values)) > MAX_TEXT:
            raise too_long()
        return template % tuple(values)

    return format_texts


_PLAIN_VERB: Final = re.compile("%[sv]")


def _compile_format(format_: str) -> Resolve:
    print_ = compile_format(format_)
    return lambda value: print_((value,))


def _compile_regexp(config: Config) -> Resolve:
    pattern = config.get("match", "")
    group = config.get("group", 0)
    problem = regexp_problem(pattern)
    if problem:
        return never(f"could not compile regexp: {problem}")
    expression = expression_of(pattern)

    def resolve(value: Any) -> str:
        data = to_bytes(shown(value))
        spans = next(expression.find_all(data, Context()), ())
        if not 0 <= group < len(spans):
            raise Unresolved(f"regexp {quoted(pattern)} had no matches for group {group}")
        start, end = spans[group]
        return from_bytes(data[start:end]) if start >= 0 else ""

    return resolve


def _compile_join(config: Config, *, is_strict: bool = False) -> Resolve:
    separator = config.get("separator", "")

    def resolve(value: Any) -> str:
        if type(value) is not list:
            raise Unresolved("could not parse input array")
        texts = [shown(element) for element in value]
        if sum(map(byte_length, texts)) + len(texts) * byte_length(separator) > MAX_TEXT:
            raise too_long()
        if is_strict:
            return str(separator.join(texts))
        joined = "".join(text + separator for text in texts)
        # Only the last byte of the trailing separator is removed.
        return from_bytes(to_bytes(joined)[:-1]) if separator else joined

    return resolve


def _compile_replace(config: Config) -> Resolve:
    search, replacement = config.get("search", ""), config.get("replace", "")

    def resolve(value: Any) -> str:
        text = shown(value)
        grown = text.count(search) * (len(replacement) - len(search))
        if len(text) + grown > MAX_TEXT:
            raise too_long()
        return text.replace(search, replacement)

    return resolve


def _to_json(value: Any) -> str:
    try:
        return written(value)
    except Unresolved as error:
        raise Unresolved(f"cannot marshal to JSON: {error}") from error


def _cased(method: str, value: Any) -> str:
    text = shown(value)
    if text.isascii():
        return str(getattr(text, method)())
    return words.upper(text) if method == "upper" else words.lower(text)


def _to_base64(value: Any) -> str:
    return encode_base64(to_bytes(shown(value)))


def _from_base64(value: Any) -> str:
    try:
        return from_bytes(decode_base64(shown(value)))
    except GoError as error:
        raise Unresolved(f"string is not valid base64: {error.text}") from error


def _bytes_to_hash(value: Any, failure: str) -> bytes:
    if type(value) is str:
        return to_bytes(value)
    try:
        return to_bytes(_to_json(value))
    except Unresolved as error:
        raise Unresolved(f"{failure}: {error}") from error


def _hashed(algorithm: str, value: Any) -> str:
    data = _bytes_to_hash(value, "cannot generate hash")
    return hashlib.new(algorithm, data, usedforsecurity=False).hexdigest()


def _adler32(value: Any) -> str:
    return str(zlib.adler32(_bytes_to_hash(value, "unable to generate Adler checksum")))


_CONVERSIONS_OF_TEXT: Final[Mapping[str, Resolve]] = {
    "ToUpper": partial(_cased, "upper"),
    "ToLower": partial(_cased, "lower"),
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
    "Convert": lambda kind: (
        _CONVERSIONS_OF_TEXT.get(kind) or never(f"type {kind} is not supported for string convert")
    ),
    "TrimPrefix": lambda trim: lambda value: shown(value).removeprefix(trim),
    "TrimSuffix": lambda trim: lambda value: shown(value).removesuffix(trim),
    "Regexp": _compile_regexp,
    "Join": _compile_join,
    "Replace": _compile_replace,
}

"""JSON: encoding and decoding as Go's encoding/json does, with its error messages."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from kanister_py.gotemplate.functions import Function, GoError, go_function
from kanister_py.gotemplate.layouts import format_time
from kanister_py.gotemplate.limits import Context
from kanister_py.gotemplate.numbers import format_float
from kanister_py.gotemplate.quoting import quote_rune
from kanister_py.gotemplate.sprig.encoding import encode_base64
from kanister_py.gotemplate.sprig.words import runes
from kanister_py.gotemplate.times import Time
from kanister_py.gotemplate.types import INTEGERS, Field, GoType, Kind, is_immutable
from kanister_py.gotemplate.values import Struct, Value, from_bytes, is_nil, to_bytes, type_of

_KEYS = frozenset({Kind.STRING, *INTEGERS})
"""Kinds of keys that JSON can have."""

# The depth at which Go starts to look for values that contain themselves, and the depth that
# Python can handle.
_MAX_DEPTH = 150

_UNESCAPED = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_ESCAPES = {char: f"\\{letter}" for letter, char in _UNESCAPED.items() if char != "/"}
_NEEDS_ESCAPE = re.compile('[\x00-\x1f"\\\\\u2028\u2029\udc80-\udcff]')
_NEEDS_ESCAPE_IN_HTML = re.compile('[\x00-\x1f"\\\\<>&\u2028\u2029\udc80-\udcff]')


def _escaped(match: re.Match[str]) -> str:
    char = match.group()
    if char in _ESCAPES:
        return _ESCAPES[char]
    # A byte that is not UTF-8 is written as an escaped replacement character.
    return "\\ufffd" if "\udc80" <= char <= "\udcff" else f"\\u{ord(char):04x}"


class _Encoder:
    """Encoder of one value, which counts its output against the limits."""

    def __init__(self, context: Context, *, indent: str = "", escapes_html: bool = True) -> None:
        self.context = context
        self.indent = indent
        self.pattern = _NEEDS_ESCAPE_IN_HTML if escapes_html else _NEEDS_ESCAPE
        self.parts: list[str] = []
        self.size = 0

    def encode(self, value: Value) -> str:
        self._value(value, 0)
        return "".join(self.parts)

    def _write(self, text: str) -> None:
        self.size += len(text)
        self.context.check_size(self.size)
        self.parts.append(text)

    def _text(self, text: str) -> str:
        return f'"{self.pattern.sub(_escaped, text)}"'

    def _value(self, value: Value, depth: int) -> None:
        self.context.spend(1)
        if depth > _MAX_DEPTH:
            raise GoError("json: unsupported value: encountered a cycle")
        if isinstance(value, str):
            self._write(self._text(value))
        elif is_nil(value):
            self._write("null")
        elif isinstance(value, Time):
            self._write(f'"{_rfc3339(value)}"')
        else:
            self._of_type(value, type_of(value), depth)

    def _of_type(self, value: Value, go_type: GoType | None, depth: int) -> None:
        assert go_type is not None
        marshal = go_type.methods.get("MarshalJSON")
        kind = go_type.kind
        if marshal is not None:
            self._write(_as_text(marshal(value)))
        elif kind is Kind.BOOL:
            self._write("true" if value else "false")
        elif kind in INTEGERS:
            self._write(str(int(value)))
        elif kind is Kind.FLOAT64:
            self._write(_number(value))
        elif isinstance(value, bytes):
            self._write(f'"{encode_base64(value)}"')
        elif kind is Kind.MAP and go_type.key is not None and go_type.key.kind in _KEYS:
            self._map(value, depth)
        elif kind is Kind.SLICE:
            self._list(value, depth)
        elif isinstance(value, Struct):
            self._members(struct_members(value), depth)
        elif kind in (Kind.STRUCT, Kind.POINTER):
            self._write("{}")  # a struct without exported fields
        else:
            raise GoError(f"json: unsupported type: {go_type.name}")

    def _map(self, value: dict[Any, Any], depth: int) -> None:
        texts = {key if isinstance(key, str) else str(int(key)): key for key in value}
        self._members([(text, value[texts[text]]) for text in sorted(texts, key=to_bytes)], depth)

    def _members(self, members: list[tuple[str, Value]], depth: int) -> None:
        if not members:
            self._write("{}")
            return
        colon = ": " if self.indent else ":"
        self._write("{")
        for position, (name, member) in enumerate(members):
            self._line(position, depth + 1)
            self._write(self._text(name) + colon)
            self._value(member, depth + 1)
        self._line(0, depth)
        self._write("}")

    def _list(self, items: list[Any], depth: int) -> None:
        if not items:
            self._write("[]")
            return
        self._write("[")
        for position, item in enumerate(items):
            self._line(position, depth + 1)
            self._value(item, depth + 1)
        self._line(0, depth)
        self._write("]")

    def _line(self, position: int, depth: int) -> None:
        comma = "," if position else ""
        self._write(f"{comma}\n{self.indent * depth}" if self.indent else comma)


def _as_text(value: Any) -> str:
    return from_bytes(value) if isinstance(value, bytes) else str(value)


def _rfc3339(moment: Time) -> str:
    if not 0 <= moment.civil().year <= 9999:
        raise GoError("Time.MarshalJSON: year outside of range [0,9999]")
    return format_time(moment, "2006-01-02T15:04:05.999999999Z07:00")


def _number(value: float) -> str:
    if not math.isfinite(value):
        raise GoError(f"json: unsupported value: {format_float(value)}")
    size = abs(value)
    if size == 0 or 1e-6 <= size < 1e21:
        return format_float(value, "f")
    text = format_float(value, "e")
    # Go writes e-09 as e-9.
    return f"{text[:-2]}{text[-1]}" if text[-4:-1] == "e-0" else text


def struct_members(value: Struct) -> list[tuple[str, Value]]:
    """Return the members of the JSON object for a struct, in the order of its fields."""
    members: dict[str, Value] = {}
    own: set[str] = set()
    for field in value.struct.fields.values():
        name, options = _tag(field)
        if name == "-" and not options:
            continue
        if field.embedded and not name:
            inner = value[field.name]
            if isinstance(inner, Struct):
                inner_members = struct_members(inner)
                members |= {key: member for key, member in inner_members if key not in own}
            continue
        content = value[field.name]
        own.add(name or field.name)
        if "omitempty" in options and _is_omitted(content):
            members.pop(name or field.name, None)
            continue
        members[name or field.name] = str(content) if "string" in options else content
    return list(members.items())


def _tag(field: Field) -> tuple[str, list[str]]:
    name, *options = field.json.split(",")
    return name, options


def _is_omitted(value: Value) -> bool:
    """Return True if `omitempty` omits a value. Structs are never omitted, even if empty."""
    return not value


def encode(value: Value, context: Context, *, indent: str = "", escapes_html: bool = True) -> str:
    """Encode a value as encoding/json does. Raises GoError with its messages."""
    if indent or not escapes_html or not isinstance(value, Struct):
        return _Encoder(context, indent=indent, escapes_html=escapes_html).encode(value)
    # Many blueprints write the same profile repeatedly.
    text = value.memo.get("json")
    if text is None:
        text = _Encoder(context).encode(value)
        if is_immutable(value.go_type):
            value.memo["json"] = text
    return text


# Decoding

_SPACE = " \t\r\n"
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?", re.ASCII)
_PLAIN = re.compile(r'[^"\\\x00-\x1f]*')
_LITERALS: dict[str, Any] = {"true": True, "false": False, "null": None}


class _Decoder:
    """Decoder of one JSON text with Go's error messages."""

    def __init__(self, text: str, context: Context) -> None:
        self.text = text
        self.at = 0
        self.context = context

    def decode(self) -> Value:
        value = self._value("looking for beginning of value", 0)
        self._skip_space()
        if self.at < len(self.text):
            raise self._invalid("after top-level value")
        return value

    def _skip_space(self) -> None:
        while self.at < len(self.text) and self.text[self.at] in _SPACE:
            self.at += 1

    def _invalid(self, where: str, *, may_be_space: bool = True) -> GoError:
        """Build an error; without `may_be_space`, the end of the text is reported as a space."""
        if self.at >= len(self.text):
            if may_be_space:
                return GoError("unexpected end of JSON input")
            return GoError(f"invalid character ' ' {where}")
        return GoError(f"invalid character {_format_character(self.text[self.at])} {where}")

    def _value(self, where: str, depth: int) -> Value:
        self.context.spend(1)
        if depth > _MAX_DEPTH:
            raise GoError("exceeded max depth")
        self._skip_space()
        char = self.text[self.at : self.at + 1]
        if char == "{":
            return self._object(depth)
        if char == "[":
            return self._array(depth)
        if char == '"':
            return self._string()
        if char == "-" or (char.isdecimal() and char.isascii()):
            return self._number()
        for word, value in _LITERALS.items():
            if char == word[0]:
                return self._literal(word, value)
        raise self._invalid(where)

    def _literal(self, word: str, value: Value) -> Value:
        for letter in word:
            if self.text[self.at : self.at + 1] != letter:
                raise self._invalid(f"in literal {word} (expecting '{letter}')", may_be_space=False)
            self.at += 1
        return value

    def _number(self) -> float:
        match = _NUMBER.match(self.text, self.at)
        if match is None:
            self.at += 1
            raise self._invalid("in numeric literal", may_be_space=False)
        text = match.group()
        self.at = match.end()
        following = self.text[self.at : self.at + 1]
        if following == "." or following in ("e", "E"):
            self.at += 1
            if following == ".":
                raise self._invalid("after decimal point in numeric literal", may_be_space=False)
            if self.text[self.at : self.at + 1] in ("+", "-"):
                self.at += 1
            raise self._invalid("in exponent of numeric literal", may_be_space=False)
        number = float(text)
        if math.isinf(number):
            raise GoError(f"json: cannot unmarshal number {text} into Go value of type float64")
        return number

    def _string(self) -> str:
        self.at += 1
        parts = []
        while True:
            match = _PLAIN.match(self.text, self.at)
            assert match is not None
            parts.append(match.group())
            self.at = match.end()
            char = self.text[self.at : self.at + 1]
            if char == '"':
                self.at += 1
                return runes("".join(parts))
            if char != "\\":
                raise self._invalid("in string literal")
            self.at += 1
            parts.append(self._escape())

    def _escape(self) -> str:
        char = self.text[self.at : self.at + 1]
        if char in _UNESCAPED and char:
            self.at += 1
            return _UNESCAPED[char]
        if char != "u":
            raise self._invalid("in string escape code", may_be_space=False)
        code = self._code_unit()
        if 0xD800 <= code < 0xDC00 and self.text[self.at : self.at + 2] == "\\u":
            before = self.at
            self.at += 1
            low = self._code_unit()
            if 0xDC00 <= low < 0xE000:
                return chr(0x10000 + (code - 0xD800) * 0x400 + low - 0xDC00)
            self.at = before
        return "\ufffd" if 0xD800 <= code < 0xE000 else chr(code)

    def _code_unit(self) -> int:
        self.at += 1
        start = self.at
        for _ in range(4):
            if self.text[self.at : self.at + 1] not in set("0123456789abcdefABCDEF"):
                raise self._invalid("in \\u hexadecimal character escape", may_be_space=False)
            self.at += 1
        return int(self.text[start : self.at], 16)

    def _parts(self, end: str, after: str) -> Iterator[None]:
        """Yield before each member of a list or object, until its end."""
        self.at += 1
        self._skip_space()
        char = self.text[self.at : self.at + 1]
        while char != end:
            yield
            self._skip_space()
            char = self.text[self.at : self.at + 1]
            if char not in (",", end):
                raise self._invalid(after)
            self.at += char == ","
        self.at += 1

    def _array(self, depth: int) -> list[Any]:
        parts = self._parts("]", "after array element")
        return [self._value("looking for beginning of value", depth + 1) for _ in parts]

    def _object(self, depth: int) -> dict[str, Any]:
        members: dict[str, Any] = {}
        for _ in self._parts("}", "after object key:value pair"):
            self._skip_space()
            if self.text[self.at : self.at + 1] != '"':
                raise self._invalid("looking for beginning of object key string")
            key = self._string()
            self._skip_space()
            if self.text[self.at : self.at + 1] != ":":
                raise self._invalid("after object key")
            self.at += 1
            members[key] = self._value("looking for beginning of value", depth + 1)
        return members


def _format_character(char: str) -> str:
    """Format a character for an error message: its first byte, in single quotes."""
    return "'\"'" if char == '"' else quote_rune(to_bytes(char)[0])


def decode(text: str, context: Context) -> Value:
    """Decode JSON as encoding/json does for an interface{}. Raises GoError with its messages."""
    return _Decoder(text, context).decode()


def _writer(**how: Any) -> Function:
    def write(context: Context, value: Value) -> str:
        return encode(value, context, **how)

    return go_function("func(interface{}) (string, error)", context=True)(write)


def _without_errors(function: Function, signature: str, fallback: Value) -> Function:
    """Build a variant of a function that returns `fallback` instead of an error."""
    attempt = function.call

    def call(context: Context, value: Value) -> Value:
        try:
            return attempt(context, value)
        except GoError:
            return fallback

    return go_function(signature, context=True)(call)


must_to_json, must_to_pretty_json = _writer(), _writer(indent="  ")
to_raw_json = _writer(escapes_html=False)


@go_function("func(string) (interface{}, error)", context=True)
def must_from_json(context: Context, text: str) -> Value:
    return decode(text, context)


OF_BLUEPRINTS = {
    "toJson": _without_errors(must_to_json, "func(interface{}) string", ""),
    "toPrettyJson": _without_errors(must_to_pretty_json, "func(interface{}) string", ""),
}
NEWER = {
    "fromJson": _without_errors(must_from_json, "func(string) interface{}", None),
    "mustFromJson": must_from_json,
    "mustToJson": must_to_json,
    "mustToPrettyJson": must_to_pretty_json,
    "mustToRawJson": to_raw_json,
    "toRawJson": to_raw_json,
}

"""Strings: slicing, joining, searching, changing case."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kanister_py.gotemplate.functions import Function, GoError, go_function
from kanister_py.gotemplate.limits import Context
from kanister_py.gotemplate.quoting import quote
from kanister_py.gotemplate.sprig import words
from kanister_py.gotemplate.sprig.conversions import SPACES, is_list, show, text_of, texts_of
from kanister_py.gotemplate.values import Value, from_bytes, to_bytes

_one = go_function("func(string) string")
_two = go_function("func(string, string) string")
_TRIM_ALL = _two(lambda cut, text: text.strip(cut))


@go_function("func(int, string) string")
def repeat(count: int, text: str) -> str:
    if count < 0:
        raise GoError("strings: negative Repeat count")
    return text * count


@go_function("func(int, string) string")
def indent(spaces: int, text: str) -> str:
    pad: str = repeat(spaces, " ")
    return pad + text.replace("\n", "\n" + pad)


@go_function("func(string, string, string) string")
def replace(old: str, new: str, text: str) -> str:
    return text.replace(old, new)


def _out_of_range(bounds: str) -> GoError:
    return GoError(f"runtime error: slice bounds out of range {bounds}")


def _cut_until(data: bytes, end: int) -> bytes:
    if end < 0:
        raise _out_of_range(f"[:{end}]")
    if end > len(data):
        raise _out_of_range(f"[:{end}] with length {len(data)}")
    return data[:end]


@go_function("func(int, string) string")
def trunc_of_blueprints(length: int, text: str) -> str:
    data = to_bytes(text)
    return text if len(data) <= length else from_bytes(_cut_until(data, length))


@go_function("func(int, string) string")
def trunc(length: int, text: str) -> str:
    """Truncate a text; a negative length keeps its end."""
    data = to_bytes(text)
    if length < 0 < len(data) + length:
        return from_bytes(data[length:])
    return from_bytes(data[:length]) if 0 <= length < len(data) else text


@go_function("func(int, int, string) string")
def substr(start: int, end: int, text: str) -> str:
    """Return a part of a text; a negative start means its beginning, an invalid end its end."""
    data = to_bytes(text)
    if start < 0:
        return from_bytes(_cut_until(data, end))
    if end < 0 or end > len(data):
        if start > len(data):
            raise _out_of_range(f"[{start}:{len(data)}]")
        return from_bytes(data[start:])
    if start > end:
        raise _out_of_range(f"[{start}:{end}]")
    return from_bytes(data[start:end])


@go_function("func(int, string) string")
def abbrev(width: int, text: str) -> str:
    return text if width < 4 else words.abbreviate(text, 0, width) or ""


@go_function("func(int, int, string) string")
def abbrev_both(left: int, right: int, text: str) -> str:
    if right < 4 or (left > 0 and right < 7):
        return text
    return words.abbreviate(text, left, right) or ""


@go_function("func(int, string) string")
def wrap(width: int, text: str) -> str:
    return words.wrap(text, width, "", cuts_long_words=False)


@go_function("func(int, string, string) string")
def wrap_with(width: int, line_end: str, text: str) -> str:
    return words.wrap(text, width, line_end, cuts_long_words=True)


def _joined(shown: Callable[[Value, Context], str]) -> Function:
    def joined(context: Context, *values: Value) -> str:
        return " ".join([shown(value, context) for value in values if value is not None])

    return go_function("func(...interface{}) string", context=True)(joined)


def split_text(text: str, separator: str, limit: int = -1) -> list[str]:
    """Split as Go's SplitN: "" splits between characters, a limit of 0 returns nothing."""
    if limit == 0:
        return []
    if separator:
        return text.split(separator, limit - 1 if limit > 0 else -1)
    chars = list(text)
    if 0 < limit < len(chars):
        return [*chars[: limit - 1], "".join(chars[limit - 1 :])]
    return chars


def _numbered(parts: list[str]) -> dict[str, str]:
    return {f"_{position}": part for position, part in enumerate(parts)}


@go_function("func(string, interface{}) string", context=True)
def join(context: Context, separator: str, values: Value) -> str:
    return separator.join(texts_of(values, context))


@go_function("func(interface{}) []string", context=True)
def sort_alpha(context: Context, values: Value) -> list[str]:
    if not is_list(values):
        return [text_of(values, context)]
    texts = texts_of(values, context)
    return sorted(texts) if all(map(str.isascii, texts)) else sorted(texts, key=to_bytes)


_COMMON = {
    "hello": go_function("func() string")(lambda: "Hello!"),
    "abbrev": abbrev,
    "abbrevboth": abbrev_both,
    "cat": _joined(show),
    "contains": go_function("func(string, string) bool")(lambda part, text: part in text),
    "hasPrefix": go_function("func(string, string) bool")(
        lambda prefix, text: text.startswith(prefix)
    ),
    "hasSuffix": go_function("func(string, string) bool")(
        lambda suffix, text: text.endswith(suffix)
    ),
    "indent": indent,
    "initials": _one(words.initials),
    "join": join,
    "lower": _one(words.lower),
    "nindent": go_function("func(int, string) string")(lambda *args: "\n" + indent(*args)),
    "nospace": _one(words.without_spaces),
    "plural": go_function("func(string, string, int) string")(
        lambda one, many, count: one if count == 1 else many
    ),
    "quote": _joined(lambda value, context: quote(text_of(value, context))),
    "repeat": repeat,
    "replace": replace,
    "sortAlpha": sort_alpha,
    "split": go_function("func(string, string) map[string]string")(
        lambda separator, text: _numbered(split_text(text, separator))
    ),
    "splitList": go_function("func(string, string) []string")(
        lambda separator, text: split_text(text, separator)
    ),
    "splitn": go_function("func(string, int, string) map[string]string")(
        lambda separator, limit, text: _numbered(split_text(text, separator, limit))
    ),
    "squote": _joined(lambda value, context: f"'{show(value, context)}'"),
    "substr": substr,
    "swapcase": _one(words.swap_case),
    "title": _one(words.title),
    "toString": go_function("func(interface{}) string", context=True)(
        lambda context, value: text_of(value, context)
    ),
    "toStrings": go_function("func(interface{}) []string", context=True)(
        lambda context, values: texts_of(values, context)
    ),
    "trim": _one(lambda text: text.strip(SPACES)),
    "trimAll": _TRIM_ALL,
    "trimPrefix": _two(lambda prefix, text: text.removeprefix(prefix)),
    "trimSuffix": _two(lambda suffix, text: text.removesuffix(suffix)),
    "trimall": _TRIM_ALL,
    "untitle": _one(words.untitle),
    "upper": _one(words.upper),
    "wrap": wrap,
    "wrapWith": wrap_with,
}

OF_BLUEPRINTS = {
    **_COMMON,
    "camelcase": _one(words.capitalized_in_blueprints),
    "kebabcase": _one(partial(words.delimited_in_blueprints, joint="-")),
    "snakecase": _one(partial(words.delimited_in_blueprints, joint="_")),
    "trunc": trunc_of_blueprints,
}

OF_COMPOSITIONS = {
    **_COMMON,
    "camelcase": _one(words.capitalized),
    "kebabcase": _one(partial(words.delimited, joint="-")),
    "snakecase": _one(partial(words.delimited, joint="_")),
    "trunc": trunc,
}

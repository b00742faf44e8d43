"""Texts: cutting, joining, searching, changing case."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kanister_py.gotemplate.functions import Function, GoError, go_function
from kanister_py.gotemplate.limits import Context
from kanister_py.gotemplate.quoting import quote
from kanister_py.gotemplate.sprig import words
from kanister_py.gotemplate.sprig.conversions import SPACES, is_list, show, text_of, texts_of
from kanister_py.gotemplate.values import Value, byte_length, from_bytes, to_bytes


@go_function("func(string) string")
def trim(text: str) -> str:
    return text.strip(SPACES)


@go_function("func(string, string) string")
def trim_all(cut: str, text: str) -> str:
    return text.strip(cut)


@go_function("func(string, string) string")
def trim_prefix(prefix: str, text: str) -> str:
    return text.removeprefix(prefix)


@go_function("func(string, string) string")
def trim_suffix(suffix: str, text: str) -> str:
    return text.removesuffix(suffix)


def _repeated(context: Context, count: int, text: str) -> str:
    if count < 0:
        raise GoError("strings: negative Repeat count")
    context.check_size(count * byte_length(text))
    return text * count


@go_function("func(int, string) string", context=True)
def repeat(context: Context, count: int, text: str) -> str:
    return _repeated(context, count, text)


@go_function("func(int, string) string", context=True)
def indent(context: Context, spaces: int, text: str) -> str:
    return _indented(context, spaces, text)


@go_function("func(int, string) string", context=True)
def nindent(context: Context, spaces: int, text: str) -> str:
    return "\n" + _indented(context, spaces, text)


def _indented(context: Context, spaces: int, text: str) -> str:
    pad = _repeated(context, spaces, " ")
    context.check_size(byte_length(text) + spaces * (text.count("\n") + 1))
    return pad + text.replace("\n", "\n" + pad)


@go_function("func(string, string, string) string", context=True)
def replace(context: Context, old: str, new: str, text: str) -> str:
    growth = byte_length(new) - byte_length(old)
    if growth > 0:
        context.check_size(byte_length(text) + growth * (text.count(old) if old else len(text) + 1))
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
    """A negative length keeps the end."""
    data = to_bytes(text)
    if length < 0 < len(data) + length:
        return from_bytes(data[length:])
    return from_bytes(data[:length]) if 0 <= length < len(data) else text


@go_function("func(int, int, string) string")
def substr(start: int, end: int, text: str) -> str:
    """A negative start means from the beginning, an end that cannot be means to the end."""
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


@go_function("func(int, string, string) string", context=True)
def wrap_with(context: Context, width: int, line_end: str, text: str) -> str:
    lines = byte_length(text) // max(width, 1) + 1
    context.check_size(byte_length(text) + lines * byte_length(line_end))
    return words.wrap(text, width, line_end, cuts_long_words=True)


@go_function("func(...interface{}) string", context=True)
def quoted(context: Context, *values: Value) -> str:
    return " ".join([quote(text_of(each, context)) for each in values if each is not None])


@go_function("func(...interface{}) string", context=True)
def single_quoted(context: Context, *values: Value) -> str:
    return " ".join([f"'{show(each, context)}'" for each in values if each is not None])


@go_function("func(...interface{}) string", context=True)
def cat(context: Context, *values: Value) -> str:
    return " ".join(show(each, context) for each in values if each is not None)


def split_text(text: str, separator: str, limit: int = -1) -> list[str]:
    """Go's SplitN: an empty separator splits between characters, a limit of 0 gives nothing."""
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


@go_function("func(string, string) map[string]string")
def split(separator: str, text: str) -> dict[str, str]:
    return _numbered(split_text(text, separator))


@go_function("func(string, int, string) map[string]string")
def splitn(separator: str, limit: int, text: str) -> dict[str, str]:
    return _numbered(split_text(text, separator, limit))


@go_function("func(string, string) []string")
def split_list(separator: str, text: str) -> list[str]:
    return split_text(text, separator)


@go_function("func(string, interface{}) string", context=True)
def join(context: Context, separator: str, values: Value) -> str:
    texts = texts_of(values, context)
    context.check_size(sum(map(byte_length, texts)) + byte_length(separator) * len(texts))
    return separator.join(texts)


@go_function("func(interface{}) []string", context=True)
def sort_alpha(context: Context, values: Value) -> list[str]:
    if not is_list(values):
        return [text_of(values, context)]
    texts = texts_of(values, context)
    # Comparing goes through what two texts have in common, for each of them again and again.
    context.spend(sum(map(len, texts)) * len(texts).bit_length() // 256)
    return sorted(texts) if all(map(str.isascii, texts)) else sorted(texts, key=to_bytes)


@go_function("func(string, string, int) string")
def plural(one: str, many: str, count: int) -> str:
    return one if count == 1 else many


@go_function("func(interface{}) string", context=True)
def to_string(context: Context, value: Value) -> str:
    return text_of(value, context)


@go_function("func(interface{}) []string", context=True)
def to_strings(context: Context, values: Value) -> list[str]:
    return texts_of(values, context)


def _text_function(change: Callable[[str], str], steps: int = 1) -> Function:
    """A text made of another, sign by sign: `steps` for each of them."""

    def changed(context: Context, text: str) -> str:
        context.spend(len(text) * steps)
        return change(text)

    return go_function("func(string) string", context=True)(changed)


_SLOW = 4
_SLOWEST = 10


_COMMON = {
    "hello": go_function("func() string")(lambda: "Hello!"),
    "abbrev": abbrev,
    "abbrevboth": abbrev_both,
    "cat": cat,
    "contains": go_function("func(string, string) bool")(lambda part, text: part in text),
    "hasPrefix": go_function("func(string, string) bool")(
        lambda prefix, text: text.startswith(prefix)
    ),
    "hasSuffix": go_function("func(string, string) bool")(
        lambda suffix, text: text.endswith(suffix)
    ),
    "indent": indent,
    "initials": _text_function(words.initials, _SLOW),
    "join": join,
    "lower": go_function("func(string) string")(words.lower),
    "nindent": nindent,
    "nospace": _text_function(words.without_spaces, _SLOW),
    "plural": plural,
    "quote": quoted,
    "repeat": repeat,
    "replace": replace,
    "sortAlpha": sort_alpha,
    "split": split,
    "splitList": split_list,
    "splitn": splitn,
    "squote": single_quoted,
    "substr": substr,
    "swapcase": _text_function(words.swap_case, _SLOW),
    "title": _text_function(words.title, _SLOW),
    "toString": to_string,
    "toStrings": to_strings,
    "trim": trim,
    "trimAll": trim_all,
    "trimPrefix": trim_prefix,
    "trimSuffix": trim_suffix,
    "trimall": trim_all,
    "untitle": _text_function(words.untitle, _SLOW),
    "upper": go_function("func(string) string")(words.upper),
    "wrap": wrap,
    "wrapWith": wrap_with,
}

OF_BLUEPRINTS = {
    **_COMMON,
    "camelcase": _text_function(words.capitalized_in_blueprints, _SLOW),
    "kebabcase": _text_function(partial(words.delimited_in_blueprints, joint="-"), _SLOWEST),
    "snakecase": _text_function(partial(words.delimited_in_blueprints, joint="_"), _SLOWEST),
    "trunc": trunc_of_blueprints,
}

OF_COMPOSITIONS = {
    **_COMMON,
    "camelcase": _text_function(words.capitalized, _SLOW),
    "kebabcase": _text_function(partial(words.delimited, joint="-"), _SLOWEST),
    "snakecase": _text_function(partial(words.delimited, joint="_"), _SLOWEST),
    "trunc": trunc,
}

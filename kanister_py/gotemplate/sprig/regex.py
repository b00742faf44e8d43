"""Regular expressions with the syntax and messages of Go's regexp package."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from kanister_py.gotemplate.functions import Function, GoError, go_function
from kanister_py.gotemplate.limits import Context
from kanister_py.gotemplate.quoting import can_backquote, quote
from kanister_py.gotemplate.values import from_bytes, to_bytes

Spans = tuple[tuple[int, int], ...]

# Error messages of the engine, and Go's messages for them.
_ERRORS: Mapping[str, str] = {
    "bad repetition operator": "invalid nested repetition operator",
    "invalid character class": "invalid character class",
    "invalid character class range": "invalid character class range",
    "invalid escape sequence": "invalid escape sequence",
    "invalid named capture group": "invalid named capture",
    "duplicate capture group name": "duplicate capture group name",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
    "invalid UTF-8": "invalid UTF-8",
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "trailing \\": "trailing backslash at end of expression",
    "unexpected )": "unexpected )",
}


# A match costs about as much as this number of template nodes.
_STEPS_OF_A_MATCH = 8


class Expression:
    """A compiled expression that matches the bytes of a text."""

    __slots__ = ("_regexp", "groups", "names")

    def __init__(self, pattern: str) -> None:
        # Imported on use: most templates have no regular expressions.
        import re2

        options = re2.Options()
        options.log_errors = False
        if "\\C" in pattern.replace("\\\\", ""):
            raise GoError("error parsing regexp: invalid escape sequence: `\\C`")
        try:
            self._regexp: Any = re2.compile(to_bytes(pattern), options)
        except re2.error as error:
            raise GoError(f"error parsing regexp: {_go_message(error, pattern)}") from error
        self.groups: int = self._regexp.groups
        self.names: dict[str, int] = {
            name.decode() if isinstance(name, bytes) else str(name): number
            for name, number in self._regexp.groupindex.items()
        }

    def matches(self, data: bytes) -> bool:
        return self._regexp.search(data) is not None

    def find_all(self, data: bytes, context: Context) -> Iterator[Spans]:
        """Yield all matches; an empty match directly after another one does not count."""
        at = 0
        end_of_last = -1
        while at <= len(data):
            context.spend(_STEPS_OF_A_MATCH)
            match = self._regexp.search(data, at)
            if match is None:
                return
            start, end = match.span()
            is_counted = end != at or start != end_of_last
            at = end if end != at else at + _width_at(data, at)
            end_of_last = end
            if is_counted:
                yield tuple(match.span(group) for group in range(self.groups + 1))


def _width_at(data: bytes, at: int) -> int:
    """Return the number of bytes of the character at `at`; 1 at the end, to move past it."""
    first = data[at] if at < len(data) else 0
    width = 1 if first < 0xC2 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4
    tail = data[at + 1 : at + width]
    return width if len(tail) == width - 1 and all(byte & 0xC0 == 0x80 for byte in tail) else 1


def _go_message(error: Exception, pattern: str) -> str:
    message = error.args[0] if error.args else ""
    text = message.decode("utf-8", "replace") if isinstance(message, bytes) else str(message)
    for prefix, ours in sorted(_ERRORS.items(), key=lambda entry: -len(entry[0])):
        if text == prefix or text.startswith(prefix + ": "):
            detail = text[len(prefix) + 2 :]
            if prefix in ("missing )", "missing ]", "unexpected )", "trailing \\"):
                detail = _place(prefix, detail, pattern)
            if prefix == "invalid character class range" and detail.startswith("[:"):
                detail = detail.partition(":]")[0] + ":]"
            return f"{ours}: `{detail}`"
    return f"{text}: `{pattern}`" if ":" not in text else text


def _place(message: str, detail: str, pattern: str) -> str:
    """Return the text that Go shows with an error: the pattern, the detail or nothing."""
    if message in ("missing )", "unexpected )"):
        return pattern
    return "" if message == "trailing \\" else detail


@lru_cache(maxsize=256)
def compiled(pattern: str) -> Expression:
    return Expression(pattern)


def _must_compile(pattern: str) -> Expression:
    """Compile an expression; an invalid one raises the error of a panic in Go."""
    try:
        return compiled(pattern)
    except GoError as error:
        shown = f"`{pattern}`" if can_backquote(pattern) else quote(pattern)
        raise GoError(f"regexp: Compile({shown}): {error.text}") from error


def _match(pattern: str, text: str) -> bool:
    return compiled(pattern).matches(to_bytes(text))


def _match_or_not(pattern: str, text: str) -> bool:
    try:
        return _match(pattern, text)
    except GoError:
        return False


Compile = Callable[[str], Expression]


def _find(compile_: Compile) -> Callable[..., str]:
    def find(context: Context, pattern: str, text: str) -> str:
        data = to_bytes(text)
        for spans in compile_(pattern).find_all(data, context):
            return from_bytes(data[slice(*spans[0])])
        return ""

    return find


def _find_all(compile_: Compile) -> Callable[..., Any]:
    def find_all(context: Context, pattern: str, text: str, limit: int) -> Any:
        expression = compile_(pattern)
        data = to_bytes(text)
        parts: list[str] = []
        if limit != 0:
            for spans in expression.find_all(data, context):
                parts.append(from_bytes(data[slice(*spans[0])]))
                if len(parts) == limit:
                    break
        return parts or None

    return find_all


def _split(compile_: Compile) -> Callable[..., Any]:
    def split(context: Context, pattern: str, text: str, limit: int) -> Any:
        expression = compile_(pattern)
        if limit == 0:
            return None
        data = to_bytes(text)
        if pattern and not data:
            return [""]
        parts: list[str] = []
        start = end = 0
        for spans in expression.find_all(data, context):
            if 0 < limit <= len(parts) + 1:
                break
            end = spans[0][0]
            if spans[0][1] != 0:
                parts.append(from_bytes(data[start:end]))
            start = spans[0][1]
        if end != len(data):
            parts.append(from_bytes(data[start:]))
        return parts

    return split


def _replace(compile_: Compile, *, is_literal: bool) -> Callable[..., str]:
    def replace(context: Context, pattern: str, text: str, replacement: str) -> str:
        expression = compile_(pattern)
        data = to_bytes(text)
        template = [replacement] if is_literal else list(_pieces(replacement, expression))
        plain = [to_bytes(piece) if isinstance(piece, str) else piece for piece in template]
        replaced = bytearray()
        end = 0
        for spans in expression.find_all(data, context):
            replaced += data[end : spans[0][0]]
            for piece in plain:
                replaced += piece if isinstance(piece, bytes) else _group(data, spans, piece)
            end = spans[0][1]
            context.check_size(len(replaced))
        return from_bytes(bytes(replaced + data[end:]))

    return replace


def _group(data: bytes, spans: Spans, number: int) -> bytes:
    if not 0 <= number < len(spans) or spans[number][0] < 0:
        return b""
    return data[slice(*spans[number])]


def _pieces(template: str, expression: Expression) -> Iterator[str | int]:
    """Yield the parts of a replacement: texts, and numbers of groups (-1 for unknown groups)."""
    at = 0
    while True:
        dollar = template.find("$", at)
        if dollar < 0:
            yield template[at:]
            return
        yield template[at:dollar]
        at = dollar + 1
        if template[at : at + 1] == "$":
            yield "$"
            at += 1
            continue
        name, end = _reference(template, at)
        if not name:
            yield "$"
            continue
        at = end
        if name.isascii() and name.isdigit() and (name == "0" or name[0] != "0"):
            yield int(name) if len(name) < 9 else -1
        else:
            yield expression.names.get(name, -1)


def _reference(template: str, at: int) -> tuple[str, int]:
    """Return the name after a dollar sign, which may be empty, and its end."""
    has_braces = template[at : at + 1] == "{"
    start = at + 1 if has_braces else at
    end = start
    while end < len(template) and (template[end].isalnum() or template[end] == "_"):
        end += 1
    name = template[start:end]
    if not has_braces:
        return name, end
    return (name, end + 1) if template[end : end + 1] == "}" else ("", at)


_QUOTED = frozenset("\\.+*?()|[]{}^$")


@go_function("func(string) string")
def quote_meta(text: str) -> str:
    return "".join("\\" + char if char in _QUOTED else char for char in text)


def _functions(compile_: Compile, *, prefix: str, can_fail: bool) -> dict[str, Function]:
    def declare(params: str, result: str, call: Callable[..., Any]) -> Function:
        result = f"({result}, error)" if can_fail else result
        return go_function(f"func({params}) {result}", context=True)(call)

    three = "string, string, string"
    with_limit = "string, string, int"
    return {
        f"{prefix}Find": declare("string, string", "string", _find(compile_)),
        f"{prefix}FindAll": declare(with_limit, "[]string", _find_all(compile_)),
        f"{prefix}ReplaceAll": declare(three, "string", _replace(compile_, is_literal=False)),
        f"{prefix}ReplaceAllLiteral": declare(three, "string", _replace(compile_, is_literal=True)),
        f"{prefix}Split": declare(with_limit, "[]string", _split(compile_)),
    }


OF_BLUEPRINTS: dict[str, Function] = {
    **_functions(_must_compile, prefix="regex", can_fail=False),
    "regexMatch": go_function("func(string, string) bool")(_match_or_not),
}
NEWER: dict[str, Function] = {
    **_functions(compiled, prefix="mustRegex", can_fail=True),
    "mustRegexMatch": go_function("func(string, string) (bool, error)")(_match),
    "regexQuoteMeta": quote_meta,
}

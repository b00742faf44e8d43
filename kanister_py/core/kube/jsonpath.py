"""JSONPath templates of kubectl, such as `{.spec.containers[*].image}`."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import chain
from typing import Any, Final, NamedTuple, TypeAlias

from kanister_py.core.errors import Unusable
from kanister_py.core.kube.field_paths import go_type
from kanister_py.gotemplate.numbers import format_float


class InvalidJSONPath(Unusable, reason="InvalidJSONPath"):
    """A JSONPath expression cannot be parsed or followed."""

    wording = "{why}"


_Step: TypeAlias = "Callable[[_Search, list[Any]], Iterable[Any]]"
_Node: TypeAlias = "_Step | str"
"""A step, or one of the keywords `range` and `end`."""
_Part: TypeAlias = "tuple[_Node, ...] | str"
"""Part of a template: plain text, or an expression in braces."""


class JSONPath(NamedTuple):
    """A parsed template, which can be evaluated repeatedly."""

    text: str
    parts: tuple[_Part, ...]

    def find(self, obj: Any, *, allow_missing: bool = False) -> list[list[Any]]:
        """Return the results of every part of the template.

        Raises `InvalidJSONPath` for a missing field unless `allow_missing` is set.
        """
        return _Search(self.text, allow_missing).block(self.parts, 0, [obj], depth=0)

    def render(self, obj: Any, *, allow_missing: bool = False) -> str:
        """Return the results as kubectl prints them: maps and lists as JSON, the rest as text."""
        results = self.find(obj, allow_missing=allow_missing)
        return "".join(" ".join(_printed(value) for value in values) for values in results)


@lru_cache(maxsize=512)
def parse_jsonpath(text: str) -> JSONPath:
    """Parse a template. Text outside braces is printed unchanged."""
    return JSONPath(text, tuple(_template(text)))


# Parsing


def _template(text: str) -> Iterator[_Part]:
    position = 0
    while position < len(text):
        start = text.find("{", position)
        if start < 0:
            yield text[position:]
            return
        if start > position:
            yield text[position:start]
        reader = _Reader(text, start + 1, is_inside_braces=True)
        yield tuple(reader.read())
        position = reader.at


def _expression(text: str) -> tuple[_Node, ...]:
    return tuple(_Reader(text, 0, is_inside_braces=False).read())


_WORD: Final = re.compile(r"[^ \t\r\n.,\[\]$@{}]*")
_FIELD: Final = re.compile(r"(?:\\.|\\\Z|[^ \t\r\n.,\[\]$@{}\\])*", re.DOTALL)
_NUMBER: Final = re.compile(r"[+-]?[\d.]*")
_QUOTED: Final = re.compile(r"""(["'])[^\n]*?(?<!\\)\1""")
_NAME_IN_BRACKETS: Final = re.compile(r"^'([^']*)'$")
_SLICE: Final = re.compile(r"^(-?[0-9]*)(:-?[0-9]*)?(:-?[0-9]*)?$")
_MOST_DIGITS: Final = 20  # of 64 bits, with a sign
_COMPARISON: Final = re.compile(r"^([^!<>=]+)([!<>=]+)(.+?)$")


class _Reader:
    def __init__(self, text: str, at: int, *, is_inside_braces: bool) -> None:
        self.text = text
        self.at = at
        self.is_inside_braces = is_inside_braces

    def failure(self, why: str) -> InvalidJSONPath:
        return InvalidJSONPath(self.text, why)

    def read(self) -> list[_Node]:
        nodes: list[_Node] = []
        while True:
            sign = self.text[self.at : self.at + 1]
            if not sign and not self.is_inside_braces:
                return nodes
            if sign in {"", "\r", "\n"}:
                raise self.failure("unclosed action")
            if sign == "}":
                self.at += 1
                return nodes
            self._read_one(sign, nodes)

    def _read_one(self, sign: str, nodes: list[_Node]) -> None:
        remaining = self.text[self.at :]
        if remaining.startswith("[?("):
            nodes.append(self._filter())
        elif remaining.startswith(".."):
            self._descent(nodes)
        elif sign in " @$":
            self.at += 1
        elif sign == "[":
            nodes.extend(self._brackets())
        elif sign in "\"'":
            nodes.append(self._quoted())
        elif sign == ".":
            self.at += 1
            nodes.append(self._field())
        elif sign in "+-" or sign.isdigit():
            nodes.append(self._number())
        elif sign == "_" or sign.isalpha():
            word = self._take(_WORD)
            nodes.append(_literal(word == "true") if word in {"true", "false"} else word)
        else:
            raise self.failure(f"unrecognized character in action: U+{ord(sign):04X} '{sign}'")

    def _take(self, pattern: re.Pattern[str]) -> str:
        """Consume and return the text that a pattern matches here, or an empty string."""
        match = pattern.match(self.text, self.at)
        if match is None:
            return ""
        self.at = match.end()
        return match[0]

    def _field(self) -> _Node:
        text = self._take(_FIELD)
        name = text.replace("\\", "")
        return _all_inside if text == "*" else lambda search, current: search.field(name, current)

    def _descent(self, nodes: list[_Node]) -> None:
        if nodes and nodes[-1] is _descent:
            raise self.failure("invalid multiple recursive descent")
        self.at += 2
        nodes.append(_descent)
        follows = self.text[self.at : self.at + 1]
        if follows == "_" or follows.isalnum():
            nodes.append(self._field())

    def _number(self) -> _Node:
        number = self._take(_NUMBER)
        try:
            return _literal(float(number) if "." in number else int(number))
        except ValueError as error:
            raise self.failure(f"cannot parse number {number}") from error

    def _quoted(self) -> _Step:
        quoted = self._take(_QUOTED)
        if not quoted:
            raise self.failure("unterminated quoted string")
        value = _ESCAPE.sub(partial(self._unescaped, quoted), quoted[1:-1])
        return lambda _search, _current: [value]

    def _unescaped(self, quoted: str, match: re.Match[str]) -> str:
        escape: str = match[1]
        if escape in _ESCAPES:
            return _ESCAPES[escape]
        if escape[0] in "xu" and len(escape) > 1:
            return chr(int(escape[1:], 16))
        if escape.isdigit() and len(escape) == 3:
            return chr(int(escape, 8))
        raise self.failure(f"unquote string {quoted} error invalid syntax")

    def _brackets(self) -> Sequence[_Node]:
        end = self.text.find("]", self.at)
        if end < 0 or "\n" in self.text[self.at : end]:
            raise self.failure("unterminated array")
        inside = self.text[self.at + 1 : end]
        self.at = end + 1
        if inside == "*":
            inside = ":"
        if "," in inside:
            parts = [_expression(f"[{part.strip(' ')}]") for part in inside.split(",")]
            return (lambda search, current: chain(*(search.walk(part, current) for part in parts)),)
        name = _NAME_IN_BRACKETS.match(inside)
        if name is not None:
            return _expression(f".{name[1]}")
        return (self._slice(inside),)

    def _slice(self, inside: str) -> _Step:
        match = _SLICE.match(inside)
        if match is None:
            raise self.failure(f"invalid array index {inside}")
        numbers: list[int | None] = []
        for raw in match.groups():
            number = (raw or "").lstrip(":")
            if number == "-" or len(number) > _MOST_DIGITS:
                raise self.failure(f"array index {number} is not a number")
            numbers.append(int(number) if number else None)
        start, end, step = numbers
        is_derived = not match[2]
        if is_derived:
            end = (start or 0) + 1
        return lambda search, current: (
            item for value in current for item in search.sliced(value, start, end, step, is_derived)
        )

    def _filter(self) -> _Step:
        start = self.at + len("[?(")
        at = start
        quote, is_closed = "", False
        while True:
            sign = self.text[at : at + 1]
            if sign in {"", "\n"}:
                raise self.failure("unterminated filter")
            at += 1
            if sign in "\"'":
                if not quote:
                    quote = sign
                elif sign == quote and self.text[at - 2] != "\\":
                    is_closed = True
            elif sign == ")" and bool(quote) == is_closed:
                break
        if self.text[at : at + 1] != "]":
            raise self.failure("unclosed array expect ]")
        inside = self.text[start : at - 1]
        self.at = at + 1
        comparison = _COMPARISON.match(inside)
        if comparison is None:
            left, sign, right = _expression(inside), "", _expression("")
        else:
            one, sign, other = comparison.groups()
            left, right = _expression(one), _expression(other)
        return lambda search, current: (
            item for value in current for item in search.filtered(value, left, sign, right)
        )


_ESCAPE: Final = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|[0-7]{3}|.)", re.DOTALL)
_ESCAPES: Final = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
    "'": "'",
    '"': '"',
}


# Evaluation


def _literal(value: float | bool) -> _Step:  # a constant step
    return lambda _search, current: [value for _ in current]


def _all_inside(_search: _Search, current: list[Any]) -> Iterable[Any]:
    return (inside for value in current for inside in _contents(value))


def _descent(_search: _Search, current: list[Any]) -> Iterable[Any]:
    return (descendant for value in current for descendant in _descendants(value))


class _Search(NamedTuple):
    text: str
    allow_missing: bool

    def failure(self, why: str) -> InvalidJSONPath:
        return InvalidJSONPath(self.text, why)

    def block(
        self, parts: Sequence[_Part], at: int, current: list[Any], depth: int
    ) -> list[list[Any]]:
        """Evaluate parts until the end of the block, and return the results."""
        results: list[list[Any]] = []
        while at < len(parts):
            part = parts[at]
            at += 1
            if isinstance(part, str):
                results.append([part])
                continue
            word = next((node for node in part if isinstance(node, str)), "")
            if word == "end":
                if depth == 0:
                    raise self.failure("not in range, nothing to end")
                return results
            if word == "range":
                end = self._end_of_block(parts, at)
                items = self.walk([node for node in part if not isinstance(node, str)], current)
                if not items:
                    # As in kubectl, the fields in the block must exist even without items.
                    self.block(parts, at, [None], depth + 1)
                for item in items:
                    results.extend(self.block(parts, at, [item], depth + 1))
                at = end
                continue
            results.append(self.walk(part, current))
        return results

    def _end_of_block(self, parts: Sequence[_Part], at: int) -> int:
        depth = 1
        for index in range(at, len(parts)):
            part = parts[index]
            for node in part if not isinstance(part, str) else ():
                depth += {"range": 1, "end": -1}.get(node, 0) if isinstance(node, str) else 0
            if depth == 0:
                return index + 1
        # The block is not closed: the following parts are also evaluated for the outer object.
        return at

    def walk(self, nodes: Sequence[_Node], current: list[Any]) -> list[Any]:
        for node in nodes:
            if isinstance(node, str):
                raise self.failure(f"unrecognized identifier {node}")
            current = [*node(self, current)]
        return current

    def field(self, name: str, current: list[Any]) -> list[Any]:
        if not current:
            return []
        values = [value[name] for value in current if isinstance(value, Mapping) and name in value]
        if not values and not self.allow_missing:
            raise self.failure(f"{name} is not found")
        return values

    def sliced(
        self, value: Any, start: int | None, end: int | None, step: int | None, is_derived: bool
    ) -> Sequence[Any]:
        """Return a slice. With `is_derived`, `end` was computed from a single index."""
        if value is None:
            return ()
        if not isinstance(value, list):
            raise self.failure(f"{go_type(value)} is not array or slice")
        length = len(value)
        start = start or 0
        if start < 0:
            start += length
        end = length if end is None else end
        if end < 0 or (end == 0 and is_derived):
            end += length
        if start == end:
            return ()
        if not 0 <= start < length:
            raise self.failure(f"array index out of bounds: index {start}, length {length}")
        if not 0 <= end <= length:
            raise self.failure(f"array index out of bounds: index {end - 1}, length {length}")
        if start > end:
            raise self.failure(f"starting index {start} is greater than ending index {end}")
        if step is not None and step <= 0:
            raise self.failure("step must be > 0")
        return value[start : end : step or 1]

    def filtered(
        self, value: Any, left: Sequence[_Node], sign: str, right: Sequence[_Node]
    ) -> Iterator[Any]:
        """Yield the items that match a comparison; without a sign, the items with `left`."""
        if not isinstance(value, list):
            text = "<invalid reflect.Value>" if value is None else _go_text(value)
            raise self.failure(f"{text} is not array or slice and cannot be filtered")
        for item in value:
            if not sign:
                if self._exists(left, item):
                    yield item
                continue
            lefts = self.walk(left, [item])
            if not lefts:
                continue
            rights = self.walk(right, [item]) if len(lefts) == 1 else ()
            if len(lefts) > 1 or len(rights) > 1:
                raise self.failure("can only compare one element at a time")
            if rights and self._compare(sign, lefts[0], rights[0]):
                yield item

    def _exists(self, nodes: Sequence[_Node], item: Any) -> bool:
        try:
            return bool(self.walk(nodes, [item]))
        except InvalidJSONPath:
            return False

    def _compare(self, sign: str, left: Any, right: Any) -> bool:
        kinds = {_basic_kind(left), _basic_kind(right)}
        if sign not in _COMPARISONS:
            raise self.failure(f"unrecognized filter operator {sign}")
        if "" in kinds:
            raise self.failure("invalid type for comparison")
        if len(kinds) > 1:
            raise self.failure("incompatible types for comparison")
        if kinds == {"bool"} and sign not in {"==", "!="}:
            raise self.failure("invalid type for comparison")
        return _COMPARISONS[sign](left, right)


_COMPARISONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _basic_kind(value: Any) -> str:
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind.__name__
    return ""


def _contents(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return list(value.values())
    if isinstance(value, list):
        return value
    if isinstance(value, str):
        return list(value.encode())
    return []


def _descendants(value: Any) -> Iterator[Any]:
    contents = _contents(value)
    if contents:
        yield value
        for inside in contents:
            yield from _descendants(inside)


# Printing


def _printed(value: Any) -> str:
    if isinstance(value, Mapping | list):
        text = json.dumps(
            _as_go_writes(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False
        )
        return "".join(_HTML.get(sign, sign) for sign in text)
    return "null" if value is None else _go_text(value)


def _as_go_writes(value: Any) -> Any:
    """Convert whole floats to integers: Go prints `2`, Python `2.0`."""
    if isinstance(value, Mapping):
        return {key: _as_go_writes(inside) for key, inside in value.items()}
    if isinstance(value, list):
        return [_as_go_writes(inside) for inside in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e21:
        return int(value)
    return value


# Go escapes these characters in JSON for use in HTML.
_HTML: Final = {
    "<": "\\u003c",
    ">": "\\u003e",
    "&": "\\u0026",
    "\u2028": "\\u2028",
    "\u2029": "\\u2029",
}


def _go_text(value: Any) -> str:
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _go_float(value)
    if isinstance(value, Mapping):
        inside = " ".join(f"{key}:{_go_text(value[key])}" for key in sorted(value))
        return f"map[{inside}]"
    if isinstance(value, list):
        return f"[{' '.join(map(_go_text, value))}]"
    return str(value)


def _go_float(value: float) -> str:
    if not value or 1e-4 <= abs(value) < 1e21:
        return f"{value:.0f}" if abs(value) >= 1e16 else repr(value).removesuffix(".0")
    return format_float(value, "e")

"""Parser of CEL: tokens and syntax trees."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

from kanister_py.core.kube.cel.values import MAX_INT, MAX_UINT, Failure, Limit, Uint

MAX_NESTING: Final = 64
"""Limit for the nesting of brackets and operators."""


class Node(NamedTuple):
    """A node of a syntax tree: its kind, its parts or value, and its position.

    Kinds: `value`, `name`, `select`, `index`, `call`, `list`, `map`, `and`, `or`,
    `chain` (operators of one rank, from the left), `not`, `negative`, `if`.
    """

    kind: str
    parts: tuple[Any, ...]
    position: int


T = TypeVar("T")


class _Token(NamedTuple):
    kind: str
    text: str
    position: int


_TOKENS: Final = re.compile(
    r"""
    (?P<space>[ \t\r\n\f]+|//[^\n]*)
  | (?P<string>[rR]?[bB]?[rR]?(?:\"\"\"|'''|"|'))
  | (?P<float>\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\.\d+(?:[eE][+-]?\d+)?)
  | (?P<int>(?:0[xX][0-9a-fA-F]+|\d+)[uU]?)
  | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<operator>&&|\|\||==|!=|<=|>=|[<>+\-*/%!?:.,()\[\]{}])
    """,
    re.VERBOSE | re.ASCII,
)
RESERVED: Final = frozenset(
    {
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    }
)
_RANKS: Final = {
    "||": 1,
    "&&": 2,
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">=", "in"), 3),
    "+": 4,
    "-": 4,
    **dict.fromkeys("*/%", 5),
}
_HIGHEST: Final = 5


def parse(text: str) -> Node:
    """Parse an expression."""
    parser = _Parser(text)
    node = parser.expression()
    parser.expect("end")
    return node


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._at = 0
        self._depth = 0

    @property
    def _next(self) -> _Token:
        return self._tokens[self._at]

    def _take(self, *texts: str) -> _Token | None:
        token = self._next
        if token.kind in ("operator", "word") and token.text in texts:
            self._at += 1
            return token
        return None

    def expect(self, text: str) -> _Token:
        token = self._next
        is_found = (
            token.kind == text
            if text in ("end", "name")
            else (token.kind, token.text) == ("operator", text)
        )
        if not is_found:
            expected = {"end": "the end", "name": "a name"}.get(text, f"`{text}`")
            actual = "the end" if token.kind == "end" else f"`{token.text[:20]}`"
            raise Failure(f"{expected} expected, found {actual}", token.position)
        self._at += 1
        return token

    def expression(self) -> Node:
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise Limit
        condition = self._binary(1)
        token = self._take("?")
        if token is not None:
            yes = self._binary(1)
            self.expect(":")
            condition = Node("if", (condition, yes, self.expression()), token.position)
        self._depth -= 1
        return condition

    def _binary(self, rank: int) -> Node:
        if rank > _HIGHEST:
            return self._unary()
        first = self._binary(rank + 1)
        operands: list[tuple[str, Node]] = []
        position = self._next.position
        while self._next.kind in ("operator", "word") and _RANKS.get(self._next.text) == rank:
            operator = self._next.text
            self._at += 1
            operands.append((operator, self._binary(rank + 1)))
        if not operands:
            return first
        if rank <= 2:
            kind = "or" if rank == 1 else "and"
            return Node(kind, ((first, *(operand for _, operand in operands)),), position)
        return Node("chain", (first, tuple(operands)), position)

    def _unary(self) -> Node:
        token = self._take("!", "-")
        if token is None:
            return self._member()
        count = 1
        while self._take(token.text):
            count += 1
        if token.text == "-" and count == 1 and self._next.kind == "number":
            number = self._next
            self._tokens[self._at] = number._replace(text="-" + number.text)
            return self._member()
        inner = self._member()
        if token.text == "!":
            # An even number of signs still requires a bool.
            return Node("not", (inner, count % 2 == 1), token.position)
        return Node("negative", (inner, count % 2 == 1), token.position)

    def _member(self) -> Node:
        node = self._primary()
        while True:
            position = self._next.position
            if self._take("."):
                is_optional = self._take("?") is not None
                name = self._next
                if name.kind not in ("name", "word"):
                    self.expect("name")
                self._at += 1
                if not is_optional and self._take("("):
                    node = Node("call", (name.text, node, self._arguments()), position)
                else:
                    node = Node("select", (node, name.text, is_optional), position)
            elif self._take("["):
                is_optional = self._take("?") is not None
                node = Node("index", (node, self.expression(), is_optional), position)
                self.expect("]")
            else:
                return node

    def _listed(
        self, end: str, read: Callable[[], T], *, may_end_with_comma: bool = True
    ) -> tuple[T, ...]:
        items: list[T] = []
        while not self._take(end):
            if items:
                self.expect(",")
                if may_end_with_comma and self._take(end):
                    break
            items.append(read())
        return tuple(items)

    def _arguments(self) -> tuple[Node, ...]:
        return self._listed(")", self.expression, may_end_with_comma=False)

    def _primary(self) -> Node:
        token = self._next
        self._at += 1
        match token.kind, token.text:
            case "number", _:
                return Node("value", (_number(token),), token.position)
            case "string", text:
                return Node("value", (text,), token.position)
            case "bytes", text:
                return Node("value", (text.encode("latin-1"),), token.position)
            case "word", "true" | "false" | "null" as text:
                return Node("value", (_CONSTANTS[text],), token.position)
            case "name", _:
                return self._name(token)
            case "operator", ".":
                return self._name(self.expect("name"))
            case "operator", "(":
                node = self.expression()
                self.expect(")")
                return node
            case "operator", "[":
                return Node("list", (self._listed("]", self._element),), token.position)
            case "operator", "{":
                return Node("map", (self._listed("}", self._entry),), token.position)
        actual = "the end" if token.kind == "end" else f"`{token.text[:20]}`"
        raise Failure(f"a value expected, found {actual}", token.position)

    def _name(self, token: _Token) -> Node:
        if token.text in RESERVED:
            raise Failure(f"`{token.text}` is a reserved word", token.position)
        if self._take("("):
            return Node("call", (token.text, None, self._arguments()), token.position)
        return Node("name", (token.text,), token.position)

    def _element(self) -> tuple[Node, bool]:
        is_optional = self._take("?") is not None
        return self.expression(), is_optional

    def _entry(self) -> tuple[Node, Node, bool]:
        key, is_optional = self._element()
        self.expect(":")
        return key, self.expression(), is_optional


_CONSTANTS: Final = {"true": True, "false": False, "null": None}


def _number(token: _Token) -> Any:
    text = token.text
    sign = -1 if text.startswith("-") else 1
    bare = text.lstrip("-")
    is_hex = bare[:2] in ("0x", "0X")
    if not is_hex and any(char in bare for char in ".eE"):
        value = sign * float(bare)
        if value in (float("inf"), float("-inf")):
            raise Failure("the number is out of range", token.position)
        return value
    is_unsigned = bare[-1] in "uU"
    digits = bare.rstrip("uU")
    number = sign * int(digits, 16 if is_hex else 10) if len(digits) < 64 else MAX_UINT + 1
    if is_unsigned and 0 <= number <= MAX_UINT:
        return Uint(number)
    if is_unsigned or not -MAX_INT - 1 <= number <= MAX_INT:
        raise Failure("the number is out of range", token.position)
    return number


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    at = 0
    while at < len(text):
        match = _TOKENS.match(text, at)
        if match is None:
            raise Failure(f"`{text[at]}` is not valid here", at)
        kind = match.lastgroup or ""
        if kind == "string":
            token, at = _string(text, match)
            tokens.append(token)
            continue
        if kind in ("int", "float"):
            tokens.append(_Token("number", match[0], at))
        elif kind == "name":
            is_word = match[0] in _CONSTANTS or match[0] == "in"
            tokens.append(_Token("word" if is_word else "name", match[0], at))
        elif kind == "operator":
            tokens.append(_Token("operator", match[0], at))
        at = match.end()
    tokens.append(_Token("end", "", len(text)))
    return tokens


_ESCAPES: Final = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    **{char: char for char in "\\?\"'`"},
}
_CODES: Final = re.compile(
    r"x([0-9a-fA-F]{2})|X([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})"
)


def _string(text: str, opened: re.Match[str]) -> tuple[_Token, int]:
    """Parse a string literal. The text of bytes is Latin-1, one character per byte."""
    prefix = opened[0].rstrip("\"'").lower()
    quotes = opened[0][len(prefix) :]
    is_raw, is_bytes = "r" in prefix, "b" in prefix
    start, at = opened.span()
    value = ""
    while not text.startswith(quotes, at):
        if at >= len(text) or (len(quotes) == 1 and text[at] in "\r\n"):
            raise Failure("the string does not end", start)
        char, behind = text[at], at + 1
        if char == "\\" and not is_raw:
            char, behind = _escaped(text, at, is_bytes=is_bytes)
        elif is_bytes:
            char = char.encode("utf-8", "surrogatepass").decode("latin-1")
        value += char
        at = behind
    return _Token("bytes" if is_bytes else "string", value, start), at + len(quotes)


def _escaped(text: str, at: int, *, is_bytes: bool) -> tuple[str, int]:
    char = text[at + 1 : at + 2]
    if char in _ESCAPES and char:
        return _ESCAPES[char], at + 2
    code = _CODES.match(text, at + 1)
    if code is None:
        raise Failure("unknown escape sequence", at)
    number = int(code[5], 8) if code[5] else int(code[0][1:], 16)
    is_character = char in "uU" and bool(char)
    if number > 0x10FFFF or 0xD800 <= number <= 0xDFFF or (is_bytes and is_character):
        raise Failure("the escape sequence is not a character", at)
    return chr(number), code.end()

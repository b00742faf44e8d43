"""Parser of Go's template grammar, with Go's error messages."""

from __future__ import annotations

import re
from collections.abc import Container
from typing import NoReturn

from kanister_py.gotemplate.errors import ParseError
from kanister_py.gotemplate.lexer import (
    ASSIGN,
    BOOL,
    CHARACTER,
    CLOSE,
    COMPLEX,
    DECLARE,
    DOT,
    END,
    ERROR,
    FIELD,
    KEYWORD,
    LEFT,
    NIL,
    NUMBER,
    OPEN,
    PIPE,
    RIGHT,
    SIGN,
    STRING,
    TEXT,
    VARIABLE,
    WORD,
    Token,
    tokens_of,
)
from kanister_py.gotemplate.limits import MAX_NESTING
from kanister_py.gotemplate.nodes import (
    Action,
    Block,
    Bool,
    Break,
    Chain,
    Command,
    Continue,
    Dot,
    Field,
    Identifier,
    If,
    Invocation,
    Nil,
    Node,
    Number,
    Pipe,
    Range,
    String,
    Text,
    Tree,
    Variable,
    With,
    place_in,
)
from kanister_py.gotemplate.numbers import MAX_INT64, MAX_UINT64, MIN_INT64, read_float, read_int
from kanister_py.gotemplate.quoting import InvalidSyntax, quote, unquote, unquote_rune

_OPERANDS = frozenset(
    (FIELD, WORD, STRING, VARIABLE, NUMBER, LEFT, DOT, BOOL, NIL, CHARACTER, COMPLEX)
)
_BRANCHES: dict[str, type[If | With | Range]] = {"if": If, "with": With, "range": Range}
_CONSTANTS = (Bool, String, Number, Nil, Dot)


def parse(text: str, functions: Container[str], name: str = "config") -> Tree:
    """Parse a template. Raises ParseError with Go's message.

    `functions` contains the names that may be called.
    """
    return _Parser(text, functions, name).parse()


class _Stop(Node):
    """`{{end}}` or `{{else}}`, which end a block. Never part of a tree."""

    __slots__ = ("word",)

    def __init__(self, at: int, word: str) -> None:
        self.at = at
        self.word = word

    def __str__(self) -> str:
        return f"{{{{{self.word}}}}}"


class _Parser:
    """Parser of one text.

    Go reports the line of the furthest token it has looked at, which is not always
    the wrong one; `furthest` is that token.
    """

    __slots__ = (
        "action_start",
        "at",
        "definitions",
        "depth",
        "functions",
        "furthest",
        "loops",
        "name",
        "text",
        "tokens",
        "variables",
    )

    def __init__(self, text: str, functions: Container[str], name: str) -> None:
        self.text = text
        self.name = name
        self.functions = functions
        self.tokens = tokens_of(
            text, are_loops_words="break" in functions or "continue" in functions
        )
        self.at = 0
        self.furthest = 0
        self.variables = ["$"]
        self.definitions: dict[str, Block] = {}
        self.loops = 0
        self.depth = 0
        self.action_start = -1

    # Errors

    def fail(self, why: str, token: int | None = None) -> NoReturn:
        seen = max(self.furthest, self.at - 1, 0) if token is None else token
        line, _ = place_in(self.text, self.tokens[min(seen, len(self.tokens) - 1)][2])
        raise ParseError(f"template: {self.name}:{line}: {why}", self.name, line)

    def unexpected(self, token: Token, context: str) -> NoReturn:
        kind, value, at, _ = token
        if kind == ERROR:
            line, _ = place_in(self.text, at)
            extra = ""
            if self.action_start >= 0:
                started, _ = place_in(self.text, self.action_start)
                if started != line:
                    extra = f" in action started at {self.name}:{started}"
                    if value.endswith(" action"):
                        extra = extra.removeprefix(" in action")
            self.fail(value + extra)
        self.fail(f"unexpected {_format_token(token)} in {context}")

    def next(self) -> Token:
        token = self.tokens[self.at]
        # The last token, END or ERROR, is returned repeatedly.
        if self.at < len(self.tokens) - 1:
            self.at += 1
        else:
            self.furthest = self.at
        return token

    def expect_close(self, context: str) -> Token:
        token = self.next()
        if token[0] != CLOSE:
            self.unexpected(token, context)
        return token

    # Blocks

    def parse(self) -> Tree:
        root = Block(0, [])
        nodes = root.nodes
        tokens = self.tokens
        while True:
            kind, value, at, _ = tokens[self.at]
            if kind == TEXT:
                self.at += 1
                nodes.append(Text(at, value))
            elif kind == OPEN:
                following = tokens[self.at + 1]
                if following[0] == KEYWORD and following[1] == "define":
                    self.at += 2
                    self.parse_definition()
                    continue
                node = self.parse_action()
                if type(node) is _Stop:
                    self.fail(f"unexpected {node}")
                nodes.append(node)
            elif kind == END:
                break
            else:
                self.next()
                self.unexpected(tokens[self.at], "input")
        self.define(self.name, root)
        return Tree(self.name, self.text, self.definitions)

    def define(self, name: str, body: Block) -> None:
        existing = self.definitions.get(name)
        if existing is None or existing.is_empty():
            self.definitions[name] = body
        elif not body.is_empty():
            self.fail(f"template: multiple definition of template {quote(name)}")

    def parse_definition(self) -> None:
        context = "define clause"
        token = self.next()
        self.action_start = -1
        name = self.template_name(token, context)
        self.expect_close(context)
        self.parse_body(name, context)

    def parse_body(self, name: str, context: str, here: int | None = None) -> None:
        """Parse the body of a definition, which has its own variables and loops."""
        outer, self.variables = self.variables, ["$"]
        loops, self.loops = self.loops, 0
        body, stop = self.parse_block()
        if stop.word != "end":
            self.fail(f"unexpected {stop} in {context}", here)
        self.define(name, body)
        self.variables, self.loops = outer, loops

    def parse_block(self) -> tuple[Block, _Stop]:
        """Parse up to the next `{{end}}` or `{{else}}`; return the nodes and that stop."""
        self.depth += 1
        if self.depth > MAX_NESTING:
            self.fail("max nesting depth exceeded")
        tokens = self.tokens
        block = Block(tokens[self.at][2], [])
        nodes = block.nodes
        while True:
            kind, value, at, _ = tokens[self.at]
            if kind == TEXT:
                self.at += 1
                nodes.append(Text(at, value))
            elif kind == OPEN:
                node = self.parse_action()
                if type(node) is _Stop:
                    self.depth -= 1
                    return block, node
                nodes.append(node)
            elif kind == END:
                self.furthest = self.at
                self.fail("unexpected EOF")
            else:
                token = self.next()
                self.unexpected(token, "input")

    def parse_action(self) -> Node:
        tokens = self.tokens
        self.action_start = tokens[self.at][2]
        self.at += 1
        kind, word, at, _ = tokens[self.at]
        node: Node
        if kind == KEYWORD and word != "define":
            self.at += 1
            node = self.parse_keyword(word, at)
        else:
            node = Action(at, self.parse_pipe("command", CLOSE))
        self.action_start = -1
        return node

    def parse_keyword(self, word: str, at: int) -> Node:
        if word == "end":
            return _Stop(self.expect_close("end")[2], word)
        if word == "else":
            kind, following, start, _ = self.tokens[self.at]
            if kind == KEYWORD and following in ("if", "with"):
                return _Stop(start, word)
            return _Stop(self.expect_close("else")[2], word)
        if word in _BRANCHES:
            return self.parse_branch(word)
        if word == "template":
            return self.parse_invocation()
        if word == "block":
            return self.parse_block_clause()
        token = self.next()
        if token[0] != CLOSE:
            self.unexpected(token, f"{{{{{word}}}}}")
        if self.loops == 0:
            self.fail(f"{{{{{word}}}}} outside {{{{range}}}}")
        return Break(at) if word == "break" else Continue(at)

    def parse_branch(self, word: str) -> Node:
        """Parse an `if`, `with` or `range` up to its end, including all its `else if`s."""
        variable_count = len(self.variables)
        first: If | With | Range | None = None
        last: If | With | Range | None = None
        while True:
            pipe = self.parse_pipe(word, CLOSE)
            if word == "range":
                self.loops += 1
            body, stop = self.parse_block()
            if word == "range":
                self.loops -= 1
            branch = _BRANCHES[word](pipe.at, pipe, body, None)
            if last is None:
                first = branch
            else:
                assert last.otherwise is not None
                last.otherwise.nodes.append(branch)
            last = branch
            if stop.word == "end":
                break
            kind, following, _, _ = self.tokens[self.at]
            if kind == KEYWORD and following == word and word != "range":
                self.at += 1
                branch.otherwise = Block(stop.at, [])
                continue
            branch.otherwise, stop = self.parse_block()
            if stop.word != "end":
                self.fail(f"expected end; found {stop}")
            break
        del self.variables[variable_count:]
        assert first is not None
        return first

    def parse_invocation(self) -> Node:
        context = "template clause"
        token = self.next()
        name = self.template_name(token, context)
        pipe = None
        if self.tokens[self.at][0] == CLOSE:
            self.at += 1
        else:
            pipe = self.parse_pipe(context, CLOSE)
        return Invocation(token[2], name, pipe)

    def parse_block_clause(self) -> Node:
        context = "block clause"
        token = self.next()
        name = self.template_name(token, context)
        pipe = self.parse_pipe(context, CLOSE)
        here = self.at - 1
        self.action_start = -1
        self.parse_body(name, context, here)
        return Invocation(token[2], name, pipe)

    def template_name(self, token: Token, context: str) -> str:
        if token[0] != STRING:
            self.unexpected(token, context)
        return self.unquoted(token)

    def unquoted(self, token: Token) -> str:
        try:
            return unquote(token[1])
        except InvalidSyntax as error:
            self.fail(str(error))

    # Pipelines

    def parse_pipe(self, context: str, end: int) -> Pipe:
        tokens = self.tokens
        pipe = Pipe(tokens[self.at][2])
        if tokens[self.at][0] == VARIABLE:
            self.parse_variables(pipe, context)
        commands = pipe.commands
        while True:
            token = tokens[self.at]
            if token[0] == end:
                self.at += 1
                break
            if token[0] not in _OPERANDS:
                self.next()
                self.unexpected(token, context)
            commands.append(self.parse_command())
        if not commands:
            self.fail(f"missing value for {context}")
        for stage, command in enumerate(commands[1:], 2):
            if isinstance(command.args[0], _CONSTANTS):
                self.fail(f"non executable command in pipeline stage {stage}")
        return pipe

    def parse_variables(self, pipe: Pipe, context: str) -> None:
        """Parse `$x :=`, `$x =` or `$i, $e :=` at the start of a pipeline, if there is one."""
        tokens = self.tokens
        while tokens[self.at][0] == VARIABLE:
            _, name, at, _ = tokens[self.at]
            if "." in name:
                return
            kind, sign, _, _ = tokens[self.at + 1]
            self.furthest = max(self.furthest, self.at + 1)
            if kind in (ASSIGN, DECLARE):
                pipe.is_assignment = kind == ASSIGN
                self.at += 2
                pipe.variables.append(Variable(at, [name]))
                self.variables.append(name)
                return
            if not (kind == SIGN and sign == ","):
                return
            self.at += 2
            pipe.variables.append(Variable(at, [name]))
            self.variables.append(name)
            if context != "range" or len(pipe.variables) >= 2:
                self.fail(f"too many declarations in {context}")
            self.furthest = max(self.furthest, self.at)
            if tokens[self.at][0] not in (VARIABLE, CLOSE, RIGHT):
                self.fail("range can only initialize variables")

    def parse_command(self) -> Command:
        tokens = self.tokens
        args: list[Node] = []
        command = Command(tokens[self.at][2], args)
        while True:
            node = self.parse_operand()
            if node is not None:
                args.append(node)
            kind, _, _, is_spaced = token = tokens[self.at]
            if kind in (CLOSE, RIGHT):
                break
            if kind == PIPE:
                self.at += 1
                break
            if is_spaced and kind in _OPERANDS:
                continue
            self.next()
            self.unexpected(token, "operand")
        if not args:
            self.fail("empty command")
        return command

    def parse_operand(self) -> Node | None:
        """Parse a term with the fields that follow it; None if there is no term here."""
        tokens = self.tokens
        kind, value, at, _ = tokens[self.at]
        if kind not in _OPERANDS:
            return None
        self.at += 1
        node: Node
        if kind == FIELD:
            names = value.split(".")
            del names[0]
            return Field(_position_of(at, names, 1), names)
        if kind == STRING:
            node = String(at, value, self.unquoted(tokens[self.at - 1]))
        elif kind == WORD:
            if value not in self.functions:
                self.fail(f"function {quote(value)} not defined")
            node = Identifier(at, value)
        elif kind == VARIABLE:
            names = value.split(".")
            if names[0] not in self.variables:
                self.fail(f"undefined variable {quote(names[0])}")
            return Variable(_position_of(at, names, 0), names)
        elif kind == LEFT:
            node = self.parse_parenthesis()
        else:
            node = self.parse_constant(kind, value, at)
        following = tokens[self.at]
        if following[0] == FIELD and not following[3]:
            names = following[1].split(".")
            del names[0]
            self.at += 1
            if isinstance(node, _CONSTANTS):
                # Go has already looked at the token after the fields.
                self.furthest = max(self.furthest, self.at)
                self.fail(f"unexpected . after term {quote(str(node))}")
            return Chain(following[2], node, names)
        return node

    def parse_parenthesis(self) -> Pipe:
        self.depth += 1
        if self.depth > MAX_NESTING:
            self.fail("max expression depth exceeded")
        pipe = self.parse_pipe("parenthesized pipeline", RIGHT)
        self.depth -= 1
        return pipe

    def parse_constant(self, kind: int, value: str, at: int) -> Node:
        if kind == DOT:
            return Dot(at)
        if kind == NIL:
            return Nil(at)
        if kind == BOOL:
            return Bool(at, is_true=value == "true")
        try:
            return number_of(kind, value, at)
        except ValueError as error:
            self.fail(str(error))


def _position_of(at: int, names: list[str], dots: int) -> int:
    """Return the position of a name: of the dot before its second part, if it has one."""
    return at + len(names[0]) + dots if len(names) > 1 else at


def _format_token(token: Token) -> str:
    """Format a token as Go's errors show it."""
    kind, value, _, _ = token
    if kind == END:
        return "EOF"
    if kind == ERROR:
        return value
    if kind in (KEYWORD, DOT, NIL):
        return f"<{value}>"
    if kind == FIELD:
        value = "." + value.split(".")[1]
    elif kind == VARIABLE:
        value = value.split(".")[0]
    if len(value.encode("utf-8", "surrogateescape")) > 10:
        return f"{quote(value[:10])}..."
    return quote(value)


# Numeric constants

_SIGN_BETWEEN = re.compile(r"(?<=[^eEpP+-])[+-]")


def number_of(kind: int, written: str, at: int) -> Number:
    """Build a numeric constant with all its possible types.

    Raises ValueError with Go's message.
    """
    number = Number(at, written)
    if kind == CHARACTER:
        code, tail = unquote_rune(written)
        if tail != "'":
            raise ValueError(f"malformed character constant: {written}")
        number.as_int = number.as_uint = code
        number.as_float = float(code)
    elif kind == COMPLEX:
        _settle_complex(number, _read_complex(written))
    elif written.endswith("i") and (imaginary := read_float(written[:-1])) is not None:
        _settle_complex(number, complex(0.0, imaginary))
    else:
        _settle_real(number)
    return number


def _settle_real(number: Number) -> None:
    written = number.written
    value = int(written) if written.isdigit() and written[0] != "0" else read_int(written)
    if value is not None:
        if MIN_INT64 <= value <= MAX_INT64:
            number.as_int = value
        if 0 <= value <= MAX_UINT64 and (written[0] not in "+-" or value == 0):
            number.as_uint = value
    if number.as_int is not None:
        number.as_float = float(number.as_int)
    elif number.as_uint is not None:
        number.as_float = float(number.as_uint)
    else:
        _settle_float(number)


def _settle_float(number: Number) -> None:
    value = read_float(number.written)
    if value is None:
        raise ValueError(f"illegal number syntax: {quote(number.written)}")
    if not any(char in number.written for char in ".eEpP"):
        raise ValueError(f"integer overflow: {quote(number.written)}")
    number.as_float = value
    _settle_whole(number, value)


def _settle_whole(number: Number, value: float) -> None:
    if value == int(value):
        if MIN_INT64 <= value <= MAX_INT64:
            number.as_int = int(value)
        if 0 <= value <= MAX_UINT64:
            number.as_uint = int(value)


def _settle_complex(number: Number, value: complex) -> None:
    number.as_complex = value
    if value.imag == 0:
        number.as_float = value.real
        _settle_whole(number, value.real)


def _read_complex(written: str) -> complex:
    sign = _SIGN_BETWEEN.search(written)
    if sign is not None:
        real = read_float(written[: sign.start()])
        imaginary = read_float(written[sign.start() : -1])
        if real is not None and imaginary is not None:
            return complex(real, imaginary)
    raise ValueError("syntax error scanning complex number")

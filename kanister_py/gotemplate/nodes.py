"""Nodes of a template's tree. The text of a node is used in error messages, as in Go."""

from __future__ import annotations

from kanister_py.gotemplate.quoting import quote


class Node:
    """A part of a template; `at` is its position in the text, in characters."""

    __slots__ = ("at",)

    def __init__(self, at: int) -> None:
        self.at = at

    def __str__(self) -> str:
        raise NotImplementedError


class Sign(Node):
    """A node with a fixed text."""

    __slots__ = ()
    sign = ""

    def __str__(self) -> str:
        return self.sign


class Text(Node):
    __slots__ = ("text",)

    def __init__(self, at: int, text: str) -> None:
        self.at = at
        self.text = text

    def __str__(self) -> str:
        return self.text


class _Names(Node):
    __slots__ = ("names",)

    def __init__(self, at: int, names: list[str]) -> None:
        self.at = at
        self.names = names


class Field(_Names):
    """`.A.B`"""

    __slots__ = ()

    def __str__(self) -> str:
        return "." + ".".join(self.names)


class Variable(_Names):
    """`$`, `$x`, `$x.A`: the first name includes the dollar sign."""

    __slots__ = ()

    def __str__(self) -> str:
        return ".".join(self.names)


class Dot(Sign):
    __slots__ = ()
    sign = "."


class Nil(Sign):
    __slots__ = ()
    sign = "nil"


class Bool(Node):
    __slots__ = ("is_true",)

    def __init__(self, at: int, *, is_true: bool) -> None:
        self.at = at
        self.is_true = is_true

    def __str__(self) -> str:
        return "true" if self.is_true else "false"


class String(Node):
    """A string constant: as written, and its value."""

    __slots__ = ("text", "written")

    def __init__(self, at: int, written: str, text: str) -> None:
        self.at = at
        self.written = written
        self.text = text

    def __str__(self) -> str:
        return self.written


class Number(Node):
    """A number as written, and its value as each Go type, None if it does not have that type."""

    __slots__ = ("as_complex", "as_float", "as_int", "as_uint", "written")

    def __init__(self, at: int, written: str) -> None:
        self.at = at
        self.written = written
        self.as_int: int | None = None
        self.as_uint: int | None = None
        self.as_float: float | None = None
        self.as_complex: complex | None = None

    def __str__(self) -> str:
        return self.written


class Identifier(Node):
    """The name of a function."""

    __slots__ = ("name",)

    def __init__(self, at: int, name: str) -> None:
        self.at = at
        self.name = name

    def __str__(self) -> str:
        return self.name


class Command(Node):
    """An operand, or a function with its arguments."""

    __slots__ = ("args",)

    def __init__(self, at: int, args: list[Node]) -> None:
        self.at = at
        self.args = args

    def __str__(self) -> str:
        return " ".join(f"({arg})" if type(arg) is Pipe else str(arg) for arg in self.args)


class Pipe(Node):
    """A pipeline of commands, optionally assigned to variables."""

    __slots__ = ("commands", "is_assignment", "variables")

    def __init__(self, at: int) -> None:
        self.at = at
        self.variables: list[Variable] = []
        self.is_assignment = False
        self.commands: list[Command] = []

    def __str__(self) -> str:
        text = " | ".join(map(str, self.commands))
        if not self.variables:
            return text
        sign = "=" if self.is_assignment else ":="
        return f"{', '.join(map(str, self.variables))} {sign} {text}"


class Chain(Node):
    """Fields of an expression that is not a plain field or variable: `(f x).A.B`."""

    __slots__ = ("names", "of")

    def __init__(self, at: int, of: Node, names: list[str]) -> None:
        self.at = at
        self.of = of
        self.names = names

    def __str__(self) -> str:
        of = f"({self.of})" if type(self.of) is Pipe else str(self.of)
        return f"{of}.{'.'.join(self.names)}"


class Action(Node):
    """`{{ pipeline }}`"""

    __slots__ = ("pipe",)

    def __init__(self, at: int, pipe: Pipe) -> None:
        self.at = at
        self.pipe = pipe

    def __str__(self) -> str:
        return f"{{{{{self.pipe}}}}}"


class Branch(Node):
    """`if`, `with` or `range`: a pipeline, a body, and optionally an `else` body."""

    __slots__ = ("body", "otherwise", "pipe")
    word = ""

    def __init__(self, at: int, pipe: Pipe, body: Block, otherwise: Block | None) -> None:
        self.at = at
        self.pipe = pipe
        self.body = body
        self.otherwise = otherwise

    def __str__(self) -> str:
        otherwise = "" if self.otherwise is None else f"{{{{else}}}}{self.otherwise}"
        return f"{{{{{self.word} {self.pipe}}}}}{self.body}{otherwise}{{{{end}}}}"


class If(Branch):
    __slots__ = ()
    word = "if"


class With(Branch):
    __slots__ = ()
    word = "with"


class Range(Branch):
    __slots__ = ()
    word = "range"


class Break(Sign):
    __slots__ = ()
    sign = "{{break}}"


class Continue(Sign):
    __slots__ = ()
    sign = "{{continue}}"


class Invocation(Node):
    """`{{template "name" pipeline}}`; also the place of a `block`."""

    __slots__ = ("name", "pipe")

    def __init__(self, at: int, name: str, pipe: Pipe | None) -> None:
        self.at = at
        self.name = name
        self.pipe = pipe

    def __str__(self) -> str:
        pipe = "" if self.pipe is None else f" {self.pipe}"
        return f"{{{{template {quote(self.name)}{pipe}}}}}"


class Block(Node):
    """A sequence of nodes."""

    __slots__ = ("nodes",)

    def __init__(self, at: int, nodes: list[Node]) -> None:
        self.at = at
        self.nodes = nodes

    def __str__(self) -> str:
        return "".join(map(str, self.nodes))

    def is_empty(self) -> bool:
        """Return True if the block contains only white space."""
        return all(type(node) is Text and not node.text.strip() for node in self.nodes)


def weight_of(node: Node) -> int:
    """Count the operands and texts of a node, at any depth."""
    weight = 0
    left: list[Node | None] = [node]
    while left:
        here = left.pop()
        if isinstance(here, Block):
            left += here.nodes
        elif isinstance(here, Branch):
            left += (here.pipe, here.body, here.otherwise)
        elif isinstance(here, Action | Invocation):
            left.append(here.pipe)
        elif isinstance(here, Pipe):
            left += here.commands
        elif isinstance(here, Command):
            left += here.args
        elif isinstance(here, Chain):
            weight += len(here.names)
            left.append(here.of)
        elif isinstance(here, Text):
            weight += 1 + len(here.text) // 64
        elif here is not None:
            weight += 1
    return weight


class Tree:
    """A parsed text: its own body, and the templates it defines by name.

    `definitions` includes the text's own body, under the name it was parsed with.
    """

    __slots__ = ("definitions", "name", "text")

    def __init__(self, name: str, text: str, definitions: dict[str, Block]) -> None:
        self.name = name
        self.text = text
        self.definitions = definitions


def place_in(text: str, at: int) -> tuple[int, int]:
    """Convert a position to its line, counted from one, and byte in that line, from zero."""
    start = text.rfind("\n", 0, at) + 1
    column = len(text[start:at].encode("utf-8", "surrogateescape"))
    return text.count("\n", 0, at) + 1, column

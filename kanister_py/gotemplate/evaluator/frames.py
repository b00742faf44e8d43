"""Frames: the state of a running template, and the base of the compilers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

from kanister_py.gotemplate.errors import ExecError
from kanister_py.gotemplate.limits import Context
from kanister_py.gotemplate.nodes import Node, place_in
from kanister_py.gotemplate.quoting import quote
from kanister_py.gotemplate.values import Value

if TYPE_CHECKING:
    from kanister_py.gotemplate.evaluator.program import Definition


class Compiler:
    """Compiler of one group of nodes; `definition` gives access to the other compilers."""

    def __init__(self, definition: Definition) -> None:
        self.definition = definition

    def error(self, node: Node, why: str, kind: type[ExecError] = ExecError) -> ExecError:
        context, tree, name = str(node), self.definition.tree, self.definition.name
        line, column = place_in(tree.text, node.at)
        message = (
            f"template: {tree.name}:{line}:{column}: executing {quote(name)} at <{context}>: {why}"
        )
        return kind(message, name, line, column, context, why)

    def failing(self, node: Node, why: str) -> Eval:
        """Compile an error that Go only reports when it evaluates the node."""

        def fail(_: Frame) -> NoReturn:
            raise self.error(node, why)

        return fail


class Frame:
    """State of one running template.

    `boxed` contains the slots of variables (-1 for the dot) whose value came out of a
    container of interfaces: Go distinguishes a nil in an interface from no value.
    """

    __slots__ = ("boxed", "context", "depth", "dot", "last", "out", "variables")

    def __init__(
        self, dot: Value, variables: list[Value], out: list[str], context: Context, depth: int
    ) -> None:
        self.dot = dot
        self.variables = variables
        self.out = out
        self.context = context
        self.depth = depth
        self.boxed: set[int] = set()
        self.last: Node | None = None


Eval = Callable[[Frame], Value]
PipedEval = Callable[[Frame, Value], Value]
# Executes a node; the result tells the enclosing loop how to continue.
Step = Callable[[Frame], int]
# Sets a variable; the flag is whether the value came out of an interface.
Setter = Callable[[Frame, Value, bool], None]
ON, BREAK, CONTINUE = 0, 1, 2

DOT = -1
LOOKUP_ERRORS = (KeyError, TypeError)
NO_VALUE = object()


class Undefined:
    """Value of a variable before its declaration."""

    def __bool__(self) -> bool:
        return False


UNDEFINED = Undefined()


def constantly(value: Value) -> Eval:
    return lambda _: value


def dot_of(frame: Frame) -> Value:
    return frame.dot

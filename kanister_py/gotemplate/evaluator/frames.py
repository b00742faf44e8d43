"""Frames: what a template has at hand while it is carried out, and the closures over it."""

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


class Part:
    """Maker of closures for one kind of nodes, of a definition whose parts know each other."""

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
        """A closure for what can only fail, and in Go does so when it is reached."""

        def fail(_: Frame) -> NoReturn:
            raise self.error(node, why)

        return fail


class Frame:
    """One template being carried out.

    `boxed` says where a value came out of a container of interfaces: there Go knows
    a nil from no value at all. It holds the slots of variables, and -1 for the dot.
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
Feed = Callable[[Frame, Value], Value]
# What carrying out a node leaves to the loop around it.
Step = Callable[[Frame], int]
# Puts a value into a variable, and notes whether it came out of an interface.
Setter = Callable[[Frame, Value, bool], None]
ON, BREAK, CONTINUE = 0, 1, 2

DOT = -1
NOT_THERE = (KeyError, TypeError)
NO_VALUE = object()


class Undefined:
    """What a variable holds before it is declared."""

    def __bool__(self) -> bool:
        return False


UNDEFINED = Undefined()


def constantly(value: Value) -> Eval:
    return lambda _: value


def dot_of(frame: Frame) -> Value:
    return frame.dot

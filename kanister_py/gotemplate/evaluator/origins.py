"""Origins of values, for error texts only: out of an interface or not, from which node."""

from __future__ import annotations

from kanister_py.gotemplate.evaluator.frames import DOT, Frame, Part
from kanister_py.gotemplate.nodes import (
    Chain,
    Command,
    Dot,
    Field,
    Identifier,
    Nil,
    Node,
    Pipe,
    Variable,
)
from kanister_py.gotemplate.types import Kind


class Origins(Part):
    """Where a value came from, asked once something is wrong."""

    def is_boxed(self, node: Node, frame: Frame) -> bool:
        """Say whether a nil came out of an interface; else it is no value at all."""
        if isinstance(node, Dot):
            return DOT in frame.boxed
        if isinstance(node, Variable) and len(node.names) == 1:
            return not frame.boxed.isdisjoint(self.definition.scope.slots(node.names[0]))
        if isinstance(node, Field):
            return self.definition.fields.walk(
                node, node.names, frame.dot, DOT in frame.boxed, frame
            )[1]
        if isinstance(node, Identifier):
            function = self.definition.functions.get(node.name)
            return function is not None and function.result.kind is Kind.INTERFACE
        if isinstance(node, Variable):
            start = self.definition.scope.variable(node)(frame)
            was_boxed = not frame.boxed.isdisjoint(self.definition.scope.slots(node.names[0]))
            return self.definition.fields.walk(node, node.names[1:], start, was_boxed, frame)[1]
        if isinstance(node, Chain):
            if self.definition.is_strict:
                return True
            return self.definition.fields.walk(
                node, node.names, self.definition.pipelines.operand(node.of)(frame), False, frame
            )[1]
        return False

    def last_of(self, node: Node, frame: Frame) -> Node:
        """Find the node that Go looked at last while it evaluated this one."""
        while True:
            if isinstance(node, Pipe):
                if not node.commands:
                    return node
                node = node.commands[-1]
            elif isinstance(node, Command):
                first = node.args[0]
                if (
                    isinstance(first, Identifier)
                    and first.name in ("and", "or")
                    and first.name not in self.definition.functions
                    and frame.last is not None
                ):
                    if frame.last is first:
                        return first
                    node = frame.last
                elif len(node.args) == 1:
                    node = first
                else:
                    node = node.args[-1]
            elif isinstance(node, Chain):
                if isinstance(node.of, Dot | Nil):
                    return node
                node = node.of
            else:
                return node

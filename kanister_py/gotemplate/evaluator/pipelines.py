"""Pipelines: commands that hand their value on to the next."""

from __future__ import annotations

from typing import NoReturn

from kanister_py.gotemplate.evaluator.frames import Eval, Feed, Frame, Part, dot_of
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
from kanister_py.gotemplate.values import Value


class Pipelines(Part):
    """Makes closures that give a value, out of pipelines and what stands in them."""

    def pipe(self, pipe: Pipe) -> Eval:
        commands = pipe.commands
        value_of = self.command(commands[0], pipe)
        for position, command in enumerate(commands[1:], 1):
            value_of = fed(value_of, self.fed_command(command, commands[position - 1]))
        if not pipe.variables:
            return value_of
        setters = [self.definition.scope.setter(each, pipe) for each in pipe.variables]
        if len(setters) == 1:
            put = setters[0]

            def assign(frame: Frame) -> Value:
                value = value_of(frame)
                put(frame, value, False)
                return value

            return assign

        def assign_all(frame: Frame) -> Value:
            value = value_of(frame)
            for each in setters:
                each(frame, value, False)
            return value

        return assign_all

    def command(self, command: Command, pipe: Pipe) -> Eval:
        """The first command of a pipeline."""
        args = command.args
        first = args[0]
        kind = type(first)
        if kind is Field or kind is Variable or kind is Chain:
            if len(args) == 1:
                return self.operand(first)
            return self.definition.calls.chain_call(first, args[1:])
        if isinstance(first, Identifier):
            return self.definition.calls.function_call(first, command, args[1:])
        if len(args) > 1:
            return self.failing(
                first if kind is not Pipe else pipe, f"can't give argument to non-function {first}"
            )
        if kind is Nil:
            return self.failing(first, "nil is not a command")
        return self.operand(first)

    def fed_command(self, command: Command, before: Command) -> Feed:
        """A command that gets the value of the one before it."""
        first = command.args[0]
        if isinstance(first, Identifier):
            return self.definition.calls.fed_function_call(first, command, command.args[1:], before)
        if (
            type(first) is Field
            or type(first) is Chain
            or (type(first) is Variable and len(first.names) > 1)
        ):
            return self.definition.calls.fed_chain_call(first, command.args[1:], before)

        def fail(frame: Frame, _: Value) -> NoReturn:
            at = self.definition.origins.last_of(before, frame) if type(first) is Pipe else first
            raise self.error(at, f"can't give argument to non-function {first}")

        return fail

    def operand(self, node: Node) -> Eval:
        """A node without arguments, where nothing is known about the wanted type."""
        if type(node) is Field:
            return self.definition.fields.field(node)
        if type(node) is Variable:
            value_of = self.definition.scope.variable(node)
            names = node.names[1:]
            return self.definition.fields.chain(node, value_of, names) if names else value_of
        if type(node) is Pipe:
            self.definition.scope.in_parentheses += 1
            value_of = self.pipe(node)
            self.definition.scope.in_parentheses -= 1
            return value_of
        if type(node) is Chain:
            if type(node.of) is Nil:
                return self.failing(node, f"indirection through explicit nil in {node}")
            return self.definition.fields.chain(node, self.operand(node.of), node.names)
        if type(node) is Identifier:
            return self.definition.calls.function_call(node, node, [])
        return dot_of if type(node) is Dot else self.definition.arguments.constant(node)


def fed(value_of: Eval, feed: Feed) -> Eval:
    return lambda frame: feed(frame, value_of(frame))

"""Pipelines: variables, chains of fields, and commands that pass on their value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from kanister_py.gotemplate.errors import ExecError, KeyMissing
from kanister_py.gotemplate.evaluator.frames import (
    DOT,
    LOOKUP_ERRORS,
    UNDEFINED,
    Compiler,
    Eval,
    Frame,
    PipedEval,
    Setter,
    dot_of,
)
from kanister_py.gotemplate.functions import Function, wrong_number
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
from kanister_py.gotemplate.quoting import quote
from kanister_py.gotemplate.types import ANY, STRING, GoType, Kind
from kanister_py.gotemplate.values import NilPointer, Struct, Value, type_of, zero

if TYPE_CHECKING:
    from kanister_py.gotemplate.evaluator.program import Definition


class Scope(Compiler):
    """Variables that are visible at a place of a definition."""

    def __init__(self, definition: Definition) -> None:
        super().__init__(definition)
        # The innermost variable is the last one.
        self.names: list[tuple[str, int]] = [("$", 0)]
        self.size = 1
        # Slots that are only set if an expression in parentheses is evaluated: see `variable`.
        self.conditional: set[int] = set()
        self.in_parentheses = 0

    def declare(self, name: str) -> int:
        slot = self.size
        self.size += 1
        self.names.append((name, slot))
        if self.in_parentheses:
            self.conditional.add(slot)
        return slot

    def slots(self, name: str) -> list[int]:
        """Return the slots that may have a name's value. The first slot that is set has it.

        There are several only if a declaration in parentheses may never be evaluated.
        """
        candidates = []
        for declared, slot in reversed(self.names):
            if declared == name:
                candidates.append(slot)
                if slot not in self.conditional:
                    break
        return candidates

    def setter(self, variable: Variable, pipe: Pipe, *, is_loop: bool = False) -> Setter:
        name = variable.names[0]
        # Variables of a loop have just been declared by the pipeline itself.
        is_known = pipe.is_assignment or is_loop
        slots = self.slots(name) if is_known else [self.declare(name)]

        if len(slots) == 1 and slots[0] not in self.conditional:
            only = slots[0]

            def put(frame: Frame, value: Value, is_boxed: bool) -> None:
                frame.variables[only] = value
                if is_boxed:
                    frame.boxed.add(only)
                elif frame.boxed:
                    frame.boxed.discard(only)

            return put
        is_declaration = not pipe.is_assignment

        def put_first(frame: Frame, value: Value, is_boxed: bool) -> None:
            for slot in slots:
                if is_declaration or frame.variables[slot] is not UNDEFINED:
                    frame.variables[slot] = value
                    (frame.boxed.add if is_boxed else frame.boxed.discard)(slot)
                    return
            raise self.error(
                self.definition.origins.last_of(pipe, frame), f"undefined variable: {name}"
            )

        return put_first

    def variable(self, node: Variable) -> Eval:
        name = node.names[0]
        slots = self.slots(name)
        if len(slots) == 1 and slots[0] not in self.conditional:
            only = slots[0]
            return lambda frame: frame.variables[only]

        def first(frame: Frame) -> Value:
            for slot in slots:
                value = frame.variables[slot]
                if value is not UNDEFINED:
                    return value
            raise self.error(node, f"undefined variable: {name}")

        return first


class Fields(Compiler):
    """Compiler of chains of fields."""

    def field(self, node: Field) -> Eval:
        names = node.names
        walk = self.walk

        if len(names) == 1:
            (one,) = names

            def field1(frame: Frame) -> Value:
                try:
                    return frame.dot[one]
                except LOOKUP_ERRORS:
                    return walk(node, names, frame.dot, DOT in frame.boxed, frame)[0]

            return field1

        def field_n(frame: Frame) -> Value:
            try:
                value = frame.dot
                for name in names:
                    value = value[name]
            except LOOKUP_ERRORS:
                return walk(node, names, frame.dot, DOT in frame.boxed, frame)[0]
            return value

        return field_n

    def chain(self, node: Node, value_of: Eval, names: list[str]) -> Eval:
        """Compile fields of the value of another closure."""
        walk = self.walk
        slots = self.definition.scope.slots(node.names[0]) if isinstance(node, Variable) else ()
        of = node.of if isinstance(node, Chain) else None

        def chained(frame: Frame) -> Value:
            start = value_of(frame)
            try:
                value = start
                for name in names:
                    value = value[name]
            except LOOKUP_ERRORS:
                is_boxed = bool(slots) and not frame.boxed.isdisjoint(slots)
                at = node if of is None else self.definition.origins.last_of(of, frame)
                return walk(at, names, start, is_boxed, frame)[0]
            return value

        return chained

    def walk(
        self,
        node: Node,
        names: Sequence[str],
        value: Value,
        is_boxed: bool,
        frame: Frame,
        call: Callable[[str, Function, Value], Value] | None = None,
    ) -> tuple[Value, bool]:
        """Follow fields exactly as Go does; also return whether the value came out of an interface.

        With `call`, the last name has arguments: it must be a method, and is called by
        `call`.
        """
        last = len(names) - 1
        for position, name in enumerate(names):
            if value is None and not is_boxed:
                if self.definition.is_strict:
                    raise self.error(node, f"nil data; no entry for key {quote(name)}")
                return None, False
            has_args = call is not None and position == last
            go_type = ANY if is_boxed else type_of(value)
            assert go_type is not None
            method = None if value is None else self.method(value, name)
            if method is not None:
                if has_args:
                    assert call is not None
                    return call(name, method, value), False
                wrong = wrong_number(name, method, 0, 0)
                if wrong:
                    raise self.error(node, wrong)
                value = self.definition.calls.invoke(node, name, method, [value], frame)
                is_boxed = method.result.kind is Kind.INTERFACE
                continue
            try:
                value, is_boxed = self.step_into(node, name, value, go_type, has_args=has_args)
            except ExecError as error:
                error.missing, error.available = name, _names_in(value)
                owner_type = type_of(value)
                error.kind = owner_type.name if owner_type is not None else "nil"
                # The start of a chain is not always part of the failed expression.
                if error.context.endswith("." + ".".join(names)):
                    error.owner = error.context.rsplit(".", len(names) - position)[0]
                raise
        return value, is_boxed

    def method(self, value: Value, name: str) -> Function | None:
        go_type = type_of(value)
        assert go_type is not None
        function = go_type.methods.get(name)
        return function if isinstance(function, Function) else None

    def step_into(
        self, node: Node, name: str, value: Value, go_type: GoType, *, has_args: bool
    ) -> tuple[Value, bool]:
        """Resolve one name of a chain: a field of a struct, or an entry of a map."""
        if value is None:
            raise self.error(node, f"nil pointer evaluating {go_type.name}.{name}")
        if isinstance(value, Struct):
            field = value.struct.field(name)
            if field is not None:
                if has_args:
                    raise self.error(
                        node, f"{name} has arguments but cannot be invoked as function"
                    )
                return value[name], field.type.kind is Kind.INTERFACE
        elif isinstance(value, NilPointer):
            pointed = value.go_type.elem
            if pointed is None or pointed.kind is not Kind.STRUCT or pointed.field(name):
                raise self.error(node, f"nil pointer evaluating {go_type.name}.{name}")
        elif isinstance(value, dict):
            map_type = type_of(value)
            assert map_type is not None
            if map_type.key is STRING or map_type.key is ANY:
                return self.entry(node, name, value, map_type, has_args=has_args)
        raise self.error(node, f"can't evaluate field {name} in type {go_type.name}")

    def entry(
        self, node: Node, name: str, value: dict[Any, Value], map_type: GoType, *, has_args: bool
    ) -> tuple[Value, bool]:
        if has_args:
            raise self.error(node, f"{name} is not a method but has arguments")
        elem = map_type.elem
        assert elem is not None
        if name in value:
            return value[name], elem.kind is Kind.INTERFACE
        if self.definition.is_strict:
            why = f"map has no entry for key {quote(name)}"
            raise self.error(node, why, KeyMissing)
        if self.definition.missing_key == "zero":
            return zero(elem), elem.kind is Kind.INTERFACE
        return None, False


def _names_in(value: Value) -> tuple[str, ...]:
    """List the names that can be read from a value."""
    pointed = value.go_type.elem if isinstance(value, NilPointer) else None
    struct = value.struct if isinstance(value, Struct) else pointed
    if struct is not None:
        return (*struct.fields, *struct.promoted)
    return tuple(str(key) for key in value) if isinstance(value, dict) else ()


class Origins(Compiler):
    """Origins of values, determined only after an error."""

    def is_boxed(self, node: Node, frame: Frame) -> bool:
        """Return True if a nil came out of an interface, False if it is no value at all."""
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
        """Return the node that Go evaluated last within this one."""
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


class Pipelines(Compiler):
    """Compiler of pipelines, their commands and operands."""

    def pipe(self, pipe: Pipe) -> Eval:
        commands = pipe.commands
        value_of = self.command(commands[0], pipe)
        for position, command in enumerate(commands[1:], 1):
            value_of = piped(value_of, self.piped_command(command, commands[position - 1]))
        if not pipe.variables:
            return value_of
        setters = [self.definition.scope.setter(variable, pipe) for variable in pipe.variables]

        def assign_all(frame: Frame) -> Value:
            value = value_of(frame)
            for setter in setters:
                setter(frame, value, False)
            return value

        return assign_all

    def command(self, command: Command, pipe: Pipe) -> Eval:
        """Compile the first command of a pipeline."""
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

    def piped_command(self, command: Command, before: Command) -> PipedEval:
        """Compile a command that gets the value of the previous one."""
        first = command.args[0]
        if isinstance(first, Identifier):
            return self.definition.calls.piped_function_call(
                first, command, command.args[1:], before
            )
        if (
            type(first) is Field
            or type(first) is Chain
            or (type(first) is Variable and len(first.names) > 1)
        ):
            return self.definition.calls.piped_chain_call(first, command.args[1:], before)

        def fail(frame: Frame, _: Value) -> NoReturn:
            at = self.definition.origins.last_of(before, frame) if type(first) is Pipe else first
            raise self.error(at, f"can't give argument to non-function {first}")

        return fail

    def operand(self, node: Node) -> Eval:
        """Compile a node without arguments where no type is expected."""
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
        return dot_of if type(node) is Dot else self.definition.calls.constant(node)


def piped(value_of: Eval, feed: PipedEval) -> Eval:
    return lambda frame: feed(frame, value_of(frame))

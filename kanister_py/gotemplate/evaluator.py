"""Carry a template out: its tree becomes Python closures, once, and they run many times.

The closures take the short way: a chain of fields is a few subscriptions, since
structs and maps are both dicts here. Whatever does not go that way - a method, a
missing key, a mistake - is walked again by the book, with Go's rules and texts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from kanister_py.gotemplate.builtins import (
    BUILTINS,
    Boxed,
    cut,
    item_at,
    length_of,
    prepare_argument,
)
from kanister_py.gotemplate.errors import ExecError, KeyMissing, LimitExceeded
from kanister_py.gotemplate.functions import Function, FunctionTable, GoError
from kanister_py.gotemplate.limits import Context
from kanister_py.gotemplate.nodes import (
    Action,
    Block,
    Bool,
    Branch,
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
from kanister_py.gotemplate.printing import SHOWN_AT_ONCE, show, sorted_keys, text_of
from kanister_py.gotemplate.quoting import quote
from kanister_py.gotemplate.values import (
    ANY,
    ANY_MAP,
    ANY_SLICE,
    BOOL,
    BYTES,
    COMPLEXES,
    FLOAT64,
    FLOATS,
    INT,
    INTEGERS,
    NILABLE,
    SIGNED,
    STRING,
    UNSIGNED,
    GoFunc,
    GoType,
    Kind,
    NilPointer,
    Struct,
    Uint8,
    Value,
    int_of_kind,
    is_assignable,
    type_of,
    wrap,
    zero,
)


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
_ON, _BREAK, _CONTINUE = 0, 1, 2

_DOT = -1
_NOT_THERE = (KeyError, TypeError)


class _Undefined:
    """What a variable holds before it is declared."""

    def __bool__(self) -> bool:
        return False


_UNDEFINED = _Undefined()


class Program:
    """A template's definitions as closures; each is compiled when it is first needed."""

    __slots__ = ("_compiled", "functions", "missing_key", "tree")

    def __init__(self, tree: Tree, functions: FunctionTable, missing_key: str) -> None:
        self.tree = tree
        self.functions = functions
        self.missing_key = missing_key
        self._compiled: dict[str, Routine] = {}

    def routine(self, name: str) -> Routine | None:
        found = self._compiled.get(name)
        if found is None:
            body = self.tree.definitions.get(name)
            if body is None:
                return None
            found = self._compiled[name] = Routine(self, name, body)
        return found


class Routine:
    """One definition, ready to run."""

    __slots__ = ("cost", "size", "steps")

    def __init__(self, program: Program, name: str, body: Block) -> None:
        compiler = _Compiler(program, name)
        self.steps = compiler.steps(body)
        self.cost = len(self.steps)
        self.size = compiler.size

    def run(self, data: Value, out: list[str], context: Context, depth: int) -> None:
        variables: list[Value] = [_UNDEFINED] * self.size
        variables[0] = data
        frame = Frame(data, variables, out, context, depth)
        for step in self.steps:
            step(frame)


class _Compiler:
    """Makes closures out of the nodes of one definition."""

    def __init__(self, program: Program, name: str) -> None:
        self.program = program
        self.tree = program.tree
        self.name = name
        self.functions = program.functions.by_name
        self.is_strict = program.missing_key == "error"
        self.missing_key = program.missing_key
        # Names in scope, innermost last, with their slots.
        self.scope: list[tuple[str, int]] = [("$", 0)]
        self.size = 1
        # Slots that are only filled if a parenthesis is reached: see `variable`.
        self.doubtful: set[int] = set()
        self.in_parentheses = 0

    # Failing

    def error(self, node: Node, why: str) -> ExecError:
        context = str(node)
        line, column = place_in(self.tree.text, node.at)
        message = (
            f"template: {self.tree.name}:{line}:{column}: "
            f"executing {quote(self.name)} at <{context}>: {why}"
        )
        return ExecError(message, self.name, line, column, context, why)

    def key_missing(self, node: Node, why: str, key: str) -> KeyMissing:
        failed = self.error(node, why)
        return KeyMissing(
            failed.message, self.name, failed.line, failed.column, failed.context, key
        )

    def failing(self, node: Node, why: str) -> Eval:
        """A closure for what can only fail, and in Go does so when it is reached."""

        def fail(_: Frame) -> NoReturn:
            raise self.error(node, why)

        return fail

    # Blocks

    def steps(self, block: Block) -> list[Step]:
        return [self.step(node) for node in block.nodes]

    def block(self, block: Block) -> Step:
        """The nodes of a block as one step; their variables end with it."""
        known = len(self.scope)
        steps = self.steps(block)
        del self.scope[known:]
        if len(steps) == 1:
            return steps[0]
        if not _may_jump(block):

            def run(frame: Frame) -> int:
                for step in steps:
                    step(frame)
                return _ON

            return run

        def run_until_jump(frame: Frame) -> int:
            for step in steps:
                jump = step(frame)
                if jump:
                    return jump
            return _ON

        return run_until_jump

    def step(self, node: Node) -> Step:
        if type(node) is Text:
            return _text_step(node.text)
        if type(node) is Action:
            return self.action(node)
        if type(node) is If:
            return self.condition(node)
        if type(node) is Range:
            return self.range(node)
        if type(node) is With:
            return self.narrowing(node)
        if type(node) is Invocation:
            return self.invocation(node)
        assert isinstance(node, Break | Continue)
        jump = _BREAK if type(node) is Break else _CONTINUE
        return lambda _: jump

    def action(self, node: Action) -> Step:
        pipe = node.pipe
        value_of = self.pipe(pipe)
        if pipe.variables:

            def assign(frame: Frame) -> int:
                value_of(frame)
                return _ON

            return assign

        def write(frame: Frame) -> int:
            value = value_of(frame)
            if type(value) is str:
                frame.out.append(value)
            elif value is None:
                frame.out.append("<no value>")
            elif type(value) in SHOWN_AT_ONCE:
                frame.out.append(SHOWN_AT_ONCE[type(value)](value))
            else:
                go_type = type_of(value)
                if go_type is not None and go_type.kind is Kind.FUNC:
                    raise self.error(node, f"can't print {node} of type {go_type.name}")
                frame.out.append(text_of(value, frame.context))
            return _ON

        return write

    def condition(self, node: If) -> Step:
        """An `if` with all its `else if`s, however many: one loop, no nesting."""
        known = len(self.scope)
        cases = []
        otherwise = None
        while True:
            value_of = self.pipe(node.pipe)
            cases.append((value_of, self.block(node.body)))
            rest = node.otherwise
            if rest is None:
                break
            following = rest.nodes[0] if len(rest.nodes) == 1 else None
            if not isinstance(following, If):
                otherwise = self.block(rest)
                break
            node = following
        del self.scope[known:]
        if len(cases) == 1:
            condition, body = cases[0]

            def choose(frame: Frame) -> int:
                if condition(frame):
                    return body(frame)
                return otherwise(frame) if otherwise is not None else _ON

            return choose

        def choose_first(frame: Frame) -> int:
            for holds, run in cases:
                if holds(frame):
                    return run(frame)
            return otherwise(frame) if otherwise is not None else _ON

        return choose_first

    def narrowing(self, node: With) -> Step:
        known = len(self.scope)
        value_of = self.pipe(node.pipe)
        body = self.block(node.body)
        otherwise = None if node.otherwise is None else self.block(node.otherwise)
        del self.scope[known:]

        def narrow(frame: Frame) -> int:
            value = value_of(frame)
            if not value:
                return otherwise(frame) if otherwise is not None else _ON
            dot, was_boxed = frame.dot, _DOT in frame.boxed
            frame.dot = value
            frame.boxed.discard(_DOT)
            jump = body(frame)
            frame.dot = dot
            if was_boxed:
                frame.boxed.add(_DOT)
            return jump

        return narrow

    def range(self, node: Range) -> Step:
        known = len(self.scope)
        pipe = node.pipe
        value_of = self.pipe(pipe)
        set_index, set_item = self.range_setters(pipe)
        body = self.block(node.body)
        otherwise = None if node.otherwise is None else self.block(node.otherwise)
        del self.scope[known:]
        cost = 1 + len(node.body.nodes)

        def loop(frame: Frame) -> int:
            value = value_of(frame)
            items, is_boxed = self.items_of(node, value, frame)
            context = frame.context
            dot, was_boxed = frame.dot, _DOT in frame.boxed
            ran = False
            for key, item in items:
                ran = True
                context.spend(cost)
                if set_index is not None:
                    set_index(frame, key, False)
                if set_item is not None:
                    set_item(frame, item, is_boxed)
                frame.dot = item
                if is_boxed:
                    frame.boxed.add(_DOT)
                else:
                    frame.boxed.discard(_DOT)
                jump = body(frame)
                context.count_output(frame.out)
                if jump == _BREAK:
                    break
            frame.dot = dot
            if was_boxed:
                frame.boxed.add(_DOT)
            else:
                frame.boxed.discard(_DOT)
            if not ran and otherwise is not None:
                return otherwise(frame)
            return _ON

        return loop

    def range_setters(self, pipe: Pipe) -> tuple[_Setter | None, _Setter | None]:
        """How do index and item get into their variables in each round?"""
        names = pipe.variables
        if not names:
            return None, None
        setters = [self.setter(each, pipe, is_loop=True) for each in names]
        if len(setters) == 1:
            return None, setters[0]
        return setters[0], setters[1]

    def items_of(self, node: Range, value: Value, frame: Frame) -> tuple[Any, bool]:
        """What does a range go over, and does each item come out of an interface?"""
        kind = type(value)
        if kind is list:
            return enumerate(value), True
        if kind is dict:
            return [(key, value[key]) for key in sorted_keys(value)], True
        if value is None:
            return (), False
        go_type = type_of(value)
        assert go_type is not None
        if go_type.kind is Kind.MAP:
            assert go_type.elem is not None
            return (
                [(key, value[key]) for key in sorted_keys(value)],
                go_type.elem.kind is Kind.INTERFACE,
            )
        if isinstance(value, bytes):
            return enumerate(map(Uint8, value)), False
        if go_type.kind is Kind.SLICE:
            assert go_type.elem is not None
            return enumerate(value), go_type.elem.kind is Kind.INTERFACE
        at = self.last_of(node.pipe, frame)
        if go_type.kind in INTEGERS:
            if len(node.pipe.variables) > 1:
                raise self.error(
                    at, f"can't use {show(value)} to iterate over more than one variable"
                )
            make = int if kind is int else kind
            return ((None, make(each)) for each in range(int(value))), False
        shown = value.pointed_at() if isinstance(value, Struct) else value
        raise self.error(at, f"range can't iterate over {show(shown)}")

    def invocation(self, node: Invocation) -> Step:
        value_of = self.pipe(node.pipe) if node.pipe is not None else None
        program = self.program

        def invoke(frame: Frame) -> int:
            routine = program.routine(node.name)
            if routine is None:
                raise self.error(node, f"template {quote(node.name)} not defined")
            context = frame.context
            if frame.depth >= context.depth:
                raise LimitExceeded(
                    "depth", f"templates invoke each other more than {context.depth} deep"
                )
            context.spend(routine.cost + 1)
            data = value_of(frame) if value_of is not None else None
            routine.run(data, frame.out, context, frame.depth + 1)
            context.count_output(frame.out)
            return _ON

        return invoke

    # Variables

    def declare(self, name: str) -> int:
        slot = self.size
        self.size += 1
        self.scope.append((name, slot))
        if self.in_parentheses:
            self.doubtful.add(slot)
        return slot

    def slots(self, name: str) -> list[int]:
        """Where might a name's value be? The first slot that is filled has it.

        More than one only if a declaration in parentheses may never be reached.
        """
        found = []
        for known, slot in reversed(self.scope):
            if known == name:
                found.append(slot)
                if slot not in self.doubtful:
                    break
        return found

    def slot(self, name: str) -> int | None:
        found = self.slots(name)
        return found[0] if found else None

    def setter(self, variable: Variable, pipe: Pipe, *, is_loop: bool = False) -> _Setter:
        name = variable.names[0]
        if pipe.is_assignment:
            slots = self.slots(name)
        elif is_loop:
            # Declared by the pipeline itself, just before.
            slots = self.slots(name)
        else:
            slots = [self.declare(name)]

        if len(slots) == 1 and slots[0] not in self.doubtful:
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
                if is_declaration or frame.variables[slot] is not _UNDEFINED:
                    frame.variables[slot] = value
                    (frame.boxed.add if is_boxed else frame.boxed.discard)(slot)
                    return
            raise self.error(self.last_of(pipe, frame), f"undefined variable: {name}")

        return put_first

    def variable(self, node: Variable) -> Eval:
        name = node.names[0]
        slots = self.slots(name)
        if len(slots) == 1 and slots[0] not in self.doubtful:
            only = slots[0]
            return lambda frame: frame.variables[only]

        def first(frame: Frame) -> Value:
            for slot in slots:
                value = frame.variables[slot]
                if value is not _UNDEFINED:
                    return value
            raise self.error(node, f"undefined variable: {name}")

        return first

    # Pipelines

    def pipe(self, pipe: Pipe) -> Eval:
        commands = pipe.commands
        value_of = self.command(commands[0], pipe)
        for position, command in enumerate(commands[1:], 1):
            value_of = _fed(value_of, self.fed_command(command, commands[position - 1]))
        if not pipe.variables:
            return value_of
        setters = [self.setter(each, pipe) for each in pipe.variables]
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
            return self.chain_call(first, args[1:], None)
        if isinstance(first, Identifier):
            return self.function_call(first, command, args[1:])
        if len(args) > 1:
            return self.failing(
                first if kind is not Pipe else pipe,
                f"can't give argument to non-function {first}",
            )
        if kind is Nil:
            return self.failing(first, "nil is not a command")
        return self.operand(first)

    def fed_command(self, command: Command, before: Command) -> Feed:
        """A command that gets the value of the one before it."""
        first = command.args[0]
        if isinstance(first, Identifier):
            return self.fed_function_call(first, command, command.args[1:], before)
        if (
            type(first) is Field
            or type(first) is Chain
            or (type(first) is Variable and len(first.names) > 1)
        ):
            return self.fed_chain_call(first, command.args[1:], before)

        def fail(frame: Frame, _: Value) -> NoReturn:
            at = self.last_of(before, frame) if type(first) is Pipe else first
            raise self.error(at, f"can't give argument to non-function {first}")

        return fail

    def operand(self, node: Node) -> Eval:
        """A node without arguments, where nothing is known about the wanted type."""
        kind = type(node)
        if kind is Field:
            assert isinstance(node, Field)
            return self.field(node)
        if kind is Variable:
            assert isinstance(node, Variable)
            if len(node.names) == 1:
                return self.variable(node)
            return self.chain(node, self.variable(node), node.names[1:])
        if kind is Pipe:
            assert isinstance(node, Pipe)
            self.in_parentheses += 1
            value_of = self.pipe(node)
            self.in_parentheses -= 1
            return value_of
        if kind is Chain:
            assert isinstance(node, Chain)
            if type(node.of) is Nil:
                return self.failing(node, f"indirection through explicit nil in {node}")
            return self.chain(node, self.operand(node.of), node.names)
        if kind is Identifier:
            assert isinstance(node, Identifier)
            return self.function_call(node, node, [])
        if kind is Dot:
            return _dot
        return self.constant(node)

    def constant(self, node: Node) -> Eval:
        if isinstance(node, String):
            return _constantly(node.text)
        if isinstance(node, Bool):
            return _constantly(node.is_true)
        if isinstance(node, Number):
            return self.ideal_number(node)
        return self.failing(node, f"can't evaluate command {quote(str(node))}")

    def ideal_number(self, node: Number) -> Eval:
        """A number where nothing but its own looks says what it is."""
        if node.as_complex is not None:
            return _constantly(node.as_complex)
        written = node.written
        if (
            node.as_float is not None
            and written[0] != "'"
            and not _is_hexadecimal_integer(written)
            and any(char in written for char in ".eEpP")
        ):
            return _constantly(node.as_float)
        if node.as_int is not None:
            return _constantly(node.as_int)
        return self.failing(node, f"{written} overflows int")

    # Fields

    def field(self, node: Field) -> Eval:  # noqa: C901 - a closure for each length: fields are hot
        names = node.names
        walk = self.walk

        if len(names) == 1:
            (one,) = names

            def field1(frame: Frame) -> Value:
                try:
                    return frame.dot[one]
                except _NOT_THERE:
                    return walk(node, names, frame.dot, _DOT in frame.boxed, frame)[0]

            return field1
        if len(names) == 2:
            one, two = names

            def field2(frame: Frame) -> Value:
                try:
                    return frame.dot[one][two]
                except _NOT_THERE:
                    return walk(node, names, frame.dot, _DOT in frame.boxed, frame)[0]

            return field2
        if len(names) == 3:
            one, two, three = names

            def field3(frame: Frame) -> Value:
                try:
                    return frame.dot[one][two][three]
                except _NOT_THERE:
                    return walk(node, names, frame.dot, _DOT in frame.boxed, frame)[0]

            return field3

        def field_n(frame: Frame) -> Value:
            try:
                value = frame.dot
                for name in names:
                    value = value[name]
            except _NOT_THERE:
                return walk(node, names, frame.dot, _DOT in frame.boxed, frame)[0]
            return value

        return field_n

    def chain(self, node: Node, value_of: Eval, names: list[str]) -> Eval:
        """Fields of what another closure gives."""
        walk = self.walk
        slots = self.slots(node.names[0]) if isinstance(node, Variable) else ()
        of = node.of if isinstance(node, Chain) else None

        def chained(frame: Frame) -> Value:
            start = value_of(frame)
            try:
                value = start
                for name in names:
                    value = value[name]
            except _NOT_THERE:
                is_boxed = bool(slots) and not frame.boxed.isdisjoint(slots)
                at = node if of is None else self.last_of(of, frame)
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
        """Follow fields by the book; says also whether the value came out of an interface.

        With `call`, the last name has arguments: it must be a method, and `call`
        calls it.
        """
        last = len(names) - 1
        for position, name in enumerate(names):
            if value is None and not is_boxed:
                if self.is_strict:
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
                wrong = _wrong_number(name, method, 0, 0)
                if wrong:
                    raise self.error(node, wrong)
                value = self.invoke(node, name, method, [value], frame)
                is_boxed = method.result.kind is Kind.INTERFACE
                continue
            value, is_boxed = self.step_into(node, name, value, go_type, has_args=has_args)
        return value, is_boxed

    def method(self, value: Value, name: str) -> Function | None:
        go_type = type_of(value)
        assert go_type is not None
        found = go_type.methods.get(name)
        return found if isinstance(found, Function) else None

    def step_into(
        self, node: Node, name: str, value: Value, go_type: GoType, *, has_args: bool
    ) -> tuple[Value, bool]:
        """One name along a chain: a field of a struct, or an entry of a map."""
        if value is None:
            raise self.error(node, f"nil pointer evaluating {go_type.name}.{name}")
        if isinstance(value, Struct):
            field = value.struct.field(name)
            if field is not None:
                if not field.is_exported:
                    raise self.error(
                        node, f"{name} is an unexported field of struct type {go_type.name}"
                    )
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
        if self.is_strict:
            raise self.key_missing(node, f"map has no entry for key {quote(name)}", name)
        if self.missing_key == "zero":
            return zero(elem), elem.kind is Kind.INTERFACE
        return None, False

    # Calls

    def chain_call(self, node: Node, args: list[Node], before: Command | None) -> Eval:
        feed = self._chain_call(node, args, before)
        return lambda frame: feed(frame, _NO_VALUE)

    def fed_chain_call(self, node: Node, args: list[Node], before: Command) -> Feed:
        return self._chain_call(node, args, before)

    def _chain_call(self, node: Node, args: list[Node], before: Command | None) -> Feed:
        """Fields whose last one gets arguments."""
        slots: Sequence[int] = ()
        start_of: Eval
        if isinstance(node, Field):
            start_of, names = _dot, node.names
            slots = (_DOT,)
        elif isinstance(node, Variable):
            start_of, names = self.variable(node), node.names[1:]
            slots = self.slots(node.names[0])
            if not names:
                return self._not_a_function(node)
        else:
            assert isinstance(node, Chain)
            start_of, names = self.operand(node.of), node.names
        compiled: dict[int, tuple[Function, Feed]] = {}

        def run(frame: Frame, final: Value) -> Value:
            start = start_of(frame)

            def call(name: str, method: Function, receiver: Value) -> Value:
                known = compiled.get(id(method))
                if known is None:
                    known = (
                        method,
                        self._method_call(node, name, method, args, before),
                    )
                    compiled[id(method)] = known
                return known[1](frame, (receiver, final))

            is_boxed = not frame.boxed.isdisjoint(slots)
            at = self.last_of(node.of, frame) if isinstance(node, Chain) else node
            return self.walk(at, names, start, is_boxed, frame, call)[0]

        return run

    def _not_a_function(self, node: Node) -> Feed:
        def fail(_frame: Frame, _value: Value) -> NoReturn:
            raise self.error(node, f"can't give argument to non-function {node}")

        return fail

    def _method_call(
        self, node: Node, name: str, method: Function, args: list[Node], before: Command | None
    ) -> Feed:
        has_final = before is not None
        given = len(args) + has_final
        wrong = _wrong_number(name, method, given, len(args))
        if wrong:

            def refuse(_frame: Frame, _pair: Value) -> NoReturn:
                raise self.error(node, wrong)

            return refuse
        evals = [self.argument(arg, _param(method, at)) for at, arg in enumerate(args)]
        last = args[-1] if args else node

        def run(frame: Frame, pair: Value) -> Value:
            receiver, final = pair
            values = [receiver, *[each(frame) for each in evals]]
            if before is not None:
                values.append(
                    self.fit(
                        final,
                        _param(method, given - 1),
                        before,
                        frame,
                        lambda: self.last_of(last, frame),
                    )
                )
            return self.invoke(node, name, method, values, frame)

        return run

    def invoke(
        self, node: Node, name: str, function: Function, values: list[Value], frame: Frame
    ) -> Value:
        """Call a function whose arguments are known to fit."""
        try:
            if function.wants_context:
                return function.run(frame.context, *values)
            return function.run(*values)
        except GoError as error:
            raise self.error(node, f"error calling {name}: {error}") from error

    def function_call(self, node: Identifier, at: Node, args: list[Node]) -> Eval:
        """A function at the start of a pipeline, or alone as an argument."""
        name = node.name
        function = self.functions.get(name)
        if function is None:
            special = self.special_call(node, at, args)
            if special is not None:
                return special
            function = _BUILTINS[name]
        wrong = _wrong_number(name, function, len(args), len(args))
        if wrong:
            return self.failing(node, wrong)
        return self.plain_call(at, name, function.run, self.arguments(function, args))

    def arguments(self, function: Function, args: list[Node]) -> list[Eval]:
        """What a function is called with, as far as it is written: its context comes first."""
        given = [self.argument(arg, _param(function, place)) for place, arg in enumerate(args)]
        return [_context, *given] if function.wants_context else given

    def plain_call(
        self, at: Node, name: str, call: Callable[..., Value], evals: list[Eval]
    ) -> Eval:
        """A closure for each usual number of arguments: calls are hot."""
        if len(evals) == 1:
            (only,) = evals

            def run1(frame: Frame) -> Value:
                try:
                    value = call(only(frame))
                except GoError as error:
                    raise self.error(at, f"error calling {name}: {error}") from error
                if type(value) is str and len(value) > frame.context.size:
                    frame.context.check_size(len(value))
                return value

            return run1
        if len(evals) == 2:
            one, two = evals

            def run2(frame: Frame) -> Value:
                try:
                    value = call(one(frame), two(frame))
                except GoError as error:
                    raise self.error(at, f"error calling {name}: {error}") from error
                if type(value) is str and len(value) > frame.context.size:
                    frame.context.check_size(len(value))
                return value

            return run2

        def run_n(frame: Frame) -> Value:
            try:
                value = call(*[each(frame) for each in evals])
            except GoError as error:
                raise self.error(at, f"error calling {name}: {error}") from error
            if type(value) is str and len(value) > frame.context.size:
                frame.context.check_size(len(value))
            return value

        return run_n

    def fed_function_call(  # noqa: C901 - a closure for each form: calls are hot
        self, node: Identifier, at: Command, args: list[Node], before: Command
    ) -> Feed:
        """A function that gets the value before it as its last argument."""
        name = node.name
        function = self.functions.get(name)
        if function is None:
            special = self.fed_special_call(node, at, args)
            if special is not None:
                return special
            function = _BUILTINS[name]
        given = len(args) + 1
        wrong = _wrong_number(name, function, given, len(args))
        if wrong:
            fail = self.failing(node, wrong)
            return lambda frame, _: fail(frame)
        evals = self.arguments(function, args)
        wanted = _param(function, given - 1)
        last = args[-1] if args else node
        fits_all = wanted is ANY
        plain = _PLAIN_CLASSES.get(wanted)
        call = function.run

        def run(frame: Frame, final: Value) -> Value:
            values = [each(frame) for each in evals]
            if not fits_all and type(final) is not plain:
                final = self.fit(final, wanted, before, frame, lambda: self.last_of(last, frame))
            try:
                value = call(*values, final)
            except GoError as error:
                raise self.error(at, f"error calling {name}: {error}") from error
            if type(value) is str and len(value) > frame.context.size:
                frame.context.check_size(len(value))
            return value

        if evals:
            return run

        def run_alone(frame: Frame, final: Value) -> Value:
            if not fits_all and type(final) is not plain:
                final = self.fit(final, wanted, before, frame, lambda: node)
            try:
                value = call(final)
            except GoError as error:
                raise self.error(at, f"error calling {name}: {error}") from error
            if type(value) is str and len(value) > frame.context.size:
                frame.context.check_size(len(value))
            return value

        return run_alone

    # Builtins that depend on how they are written

    def special_call(self, node: Identifier, at: Node, args: list[Node]) -> Eval | None:
        name = node.name
        if name in ("and", "or") and args:
            evals = [self.argument(arg, ANY) for arg in args]
            is_or = name == "or"

            def decide(frame: Frame) -> Value:
                value = None
                for each, arg in zip(evals, args, strict=True):
                    value = each(frame)
                    if bool(value) is is_or:
                        frame.last = arg
                        return value
                frame.last = args[-1]
                return value

            return decide
        if name == "len" and len(args) == 1:
            length = self.length(at, args[0])
            only = self.argument(args[0], ANY)
            return lambda frame: length(frame, only(frame))
        if name == "index" and len(args) == 2:
            return self.index(at, args)
        if name == "slice" and args:
            evals = [self.argument(arg, ANY) for arg in args]
            return lambda frame: self.cut(at, [each(frame) for each in evals], args, frame)
        if name == "call" and args:
            evals = [self.argument(arg, ANY) for arg in args]
            return lambda frame: self.call_value(
                at, str(args[0]), [each(frame) for each in evals], frame
            )
        return None

    def index(self, at: Node, args: list[Node]) -> Eval:
        item_of, key_of = (self.argument(arg, ANY) for arg in args)

        def run(frame: Frame) -> Value:
            item = item_of(frame)
            key = key_of(frame)
            if type(item) is dict and type(key) is str:
                return item.get(key)
            try:
                if item is None:
                    raise GoError("index of untyped nil")
                return item_at(item, key)
            except GoError as error:
                raise self.error(at, f"error calling index: {error}") from error

        return run

    def cut(self, at: Node, values: list[Value], nodes: list[Node], frame: Frame) -> Value:
        """What the builtin `slice` does: Go takes no index out of an interface here."""
        shown = [
            Boxed() if place and self.is_boxed(node, frame) else value
            for place, (value, node) in enumerate(zip(values, nodes, strict=True))
        ]
        try:
            return cut(*shown)
        except GoError as error:
            raise self.error(at, f"error calling slice: {error}") from error

    def length(self, at: Node, arg: Node) -> Feed:
        def run(frame: Frame, value: Value) -> int:
            try:
                if value is not None:
                    return length_of(value)
                if self.is_boxed(arg, frame):
                    raise GoError("len of nil pointer")
                raise GoError("reflect: call of reflect.Value.Type on zero Value")
            except GoError as error:
                raise self.error(at, f"error calling len: {error}") from error

        return run

    def fed_special_call(self, node: Identifier, at: Command, args: list[Node]) -> Feed | None:
        name = node.name
        if name in ("and", "or"):
            evals = [self.argument(arg, ANY) for arg in args]
            is_or = name == "or"

            def decide(frame: Frame, final: Value) -> Value:
                frame.last = node
                for each, arg in zip(evals, args, strict=True):
                    value = each(frame)
                    frame.last = arg
                    if bool(value) is is_or:
                        return value
                return final

            return decide
        if name == "len" and not args:
            # What comes down a pipeline has left its interface behind.
            return self.length(at, Pipe(at.at))
        if name == "slice":
            evals = [self.argument(arg, ANY) for arg in args]
            # What comes down a pipeline has left its interface behind.
            nodes = [*args, Pipe(at.at)]
            return lambda frame, final: self.cut(
                at, [*[each(frame) for each in evals], final], nodes, frame
            )
        if name == "call":
            evals = [self.argument(arg, ANY) for arg in args]
            called = str(args[0]) if args else None

            def run(frame: Frame, final: Value) -> Value:
                values = [*[each(frame) for each in evals], final]
                shown = called if called is not None else _final_name(values[0])
                return self.call_value(at, shown, values, frame)

            return run
        return None

    def call_value(self, at: Node, name: str, values: list[Value], frame: Frame) -> Value:
        """What the builtin `call` does: call a function that is a value."""
        target, *given = values
        try:
            if target is None:
                raise GoError("call of nil")
            go_type = type_of(target)
            assert go_type is not None
            if go_type.kind is not Kind.FUNC:
                raise GoError(f"non-function {name} of type {go_type.name}")
            function = (
                target.function
                if isinstance(target, GoFunc)
                else Function(go_type.name, _nil_function, context=False)
            )
            assert isinstance(function, Function)
            fixed = len(function.params) - function.is_variadic
            if function.is_variadic and len(given) < fixed:
                raise GoError(
                    f"wrong number of args for {name}: got {len(given)} want at least {fixed}"
                )
            if not function.is_variadic and len(given) != fixed:
                raise GoError(f"wrong number of args for {name}: got {len(given)} want {fixed}")
            ready = []
            for place, value in enumerate(given):
                try:
                    ready.append(prepare_argument(value, _param(function, place)))
                except GoError as error:
                    raise GoError(f"arg {place}: {error}") from error
            if function.wants_context:
                ready.insert(0, frame.context)
            return function.run(*ready)
        except GoError as error:
            raise self.error(at, f"error calling call: {error}") from error

    # Arguments

    def argument(self, node: Node, wanted: GoType) -> Eval:
        """An argument for a parameter of a known type."""
        if isinstance(node, _CONSTANTS):
            return self.constant_argument(node, wanted)
        if isinstance(node, Nil):
            if wanted.kind in NILABLE:
                return _constantly(zero(wanted))
            return self.failing(node, f"cannot assign nil to {wanted.name}")
        value_of = self.operand(node)
        if wanted is ANY:
            return value_of
        plain = _PLAIN_CLASSES.get(wanted)

        def checked(frame: Frame) -> Value:
            value = value_of(frame)
            if type(value) is plain:
                return value
            return self.fit(value, wanted, node, frame, lambda: self.last_of(node, frame))

        return checked

    def constant_argument(self, node: Node, wanted: GoType) -> Eval:
        kind = wanted.kind
        if wanted is ANY:
            return self.constant(node)
        found = _TAKES.get(kind)
        if found is None:
            return self.failing(node, f"can't handle {node} for arg of type {wanted.name}")
        take, expected = found
        value = take(node, kind)
        if value is None:
            return self.failing(node, f"expected {expected}; found {node}")
        return _constantly(wrap(wanted, value))

    def fit(
        self,
        value: Value,
        wanted: GoType,
        source: Node,
        frame: Frame,
        at: Callable[[], Node],
    ) -> Value:
        """A value as one of another type, if Go would assign it; else Go's complaint."""
        if value is None:
            if wanted.kind is Kind.INTERFACE and wanted is ANY:
                return None
            if self.is_boxed(source, frame):
                raise self.error(
                    at(), f"wrong type for value; expected {wanted.name}; got interface {{}}"
                )
            if wanted.kind in NILABLE:
                return zero(wanted)
            raise self.error(at(), f"invalid value; expected {wanted.name}")
        go_type = type_of(value)
        assert go_type is not None
        if is_assignable(go_type, wanted):
            return value
        if go_type.kind is Kind.POINTER and go_type.elem is not None:
            if isinstance(value, Struct) and is_assignable(go_type.elem, wanted):
                return value.pointed_at()
            if is_assignable(go_type.elem, wanted):
                raise self.error(at(), f"dereference of nil pointer of type {wanted.name}")
        raise self.error(at(), f"wrong type for value; expected {wanted.name}; got {go_type.name}")

    # For error texts only

    def is_boxed(self, node: Node, frame: Frame) -> bool:
        """Did a nil come out of an interface, or is it no value at all?"""
        if isinstance(node, Dot):
            return _DOT in frame.boxed
        if isinstance(node, Variable) and len(node.names) == 1:
            return not frame.boxed.isdisjoint(self.slots(node.names[0]))
        if isinstance(node, Field):
            return self.walk(node, node.names, frame.dot, _DOT in frame.boxed, frame)[1]
        if isinstance(node, Identifier):
            function = self.functions.get(node.name)
            return function is not None and function.result.kind is Kind.INTERFACE
        if isinstance(node, Variable):
            start = self.variable(node)(frame)
            was_boxed = not frame.boxed.isdisjoint(self.slots(node.names[0]))
            return self.walk(node, node.names[1:], start, was_boxed, frame)[1]
        if isinstance(node, Chain):
            if self.is_strict:
                return True
            return self.walk(node, node.names, self.operand(node.of)(frame), False, frame)[1]
        return False

    def last_of(self, node: Node, frame: Frame) -> Node:
        """Which node did Go look at last while it evaluated this one?"""
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
                    and first.name not in self.functions
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


_BUILTINS = BUILTINS.by_name
_JUMPS = (Break, Continue)
_CONSTANTS = (String, Number, Bool)
_Setter = Callable[[Frame, Value, bool], None]
_NO_VALUE = object()
# The one Python class that always has this type: no need to look closer.
_PLAIN_CLASSES: Mapping[GoType, type] = {
    STRING: str,
    INT: int,
    BOOL: bool,
    FLOAT64: float,
    BYTES: bytes,
    ANY_MAP: dict,
    ANY_SLICE: list,
}


def _may_jump(block: Block) -> bool:
    """May a `break` or `continue` in here end the block early?"""
    waiting = [block]
    while waiting:
        for node in waiting.pop().nodes:
            if isinstance(node, _JUMPS):
                return True
            if isinstance(node, Branch):
                if type(node) is not Range:
                    waiting.append(node.body)
                if node.otherwise is not None:
                    waiting.append(node.otherwise)
    return False


def _text_step(text: str) -> Step:
    def write(frame: Frame) -> int:
        frame.out.append(text)
        return _ON

    return write


def _fed(value_of: Eval, feed: Feed) -> Eval:
    return lambda frame: feed(frame, value_of(frame))


def _dot(frame: Frame) -> Value:
    return frame.dot


def _context(frame: Frame) -> Context:
    return frame.context


def _constantly(value: Value) -> Eval:
    return lambda _: value


def _nil_function(*_: Value) -> NoReturn:
    raise GoError("reflect.Value.Call: call of nil function")


def _final_name(value: Value) -> str:
    """What reflect.Value.String says of a value."""
    if type(value) is str:
        return value
    go_type = type_of(value)
    return "<invalid Value>" if go_type is None else f"<{go_type.name} Value>"


def _param(function: Function, place: int) -> GoType:
    params = function.params
    return params[place] if place < len(params) else params[-1]


def _wrong_number(name: str, function: Function, given: int, written: int) -> str:
    """Go's complaint about the number of arguments; empty if it is right."""
    wanted = len(function.params)
    if function.is_variadic:
        if given < wanted - 1:
            return f"wrong number of args for {name}: want at least {wanted - 1} got {written}"
    elif given != wanted:
        return f"wrong number of args for {name}: want {wanted} got {given}"
    return ""


def _is_hexadecimal_integer(written: str) -> bool:
    return (
        len(written) > 2
        and written[0] == "0"
        and written[1] in "xX"
        and not any(char in written for char in "pP")
    )


# What does a constant give where a certain kind is wanted? None: nothing.


def _take_text(node: Node, _: Kind) -> Value:
    return node.text if isinstance(node, String) else None


def _take_truth(node: Node, _: Kind) -> Value:
    return node.is_true if isinstance(node, Bool) else None


def _take_int(node: Node, kind: Kind) -> Value:
    if isinstance(node, Number) and node.as_int is not None:
        return int(int_of_kind(kind, node.as_int))
    return None


def _take_uint(node: Node, kind: Kind) -> Value:
    if isinstance(node, Number) and node.as_uint is not None:
        return int(int_of_kind(kind, node.as_uint))
    return None


def _take_float(node: Node, _: Kind) -> Value:
    return node.as_float if isinstance(node, Number) else None


def _take_complex(node: Node, _: Kind) -> Value:
    return node.as_complex if isinstance(node, Number) else None


_Take = Callable[[Node, Kind], Value]
_TAKES: Mapping[Kind, tuple[_Take, str]] = {
    Kind.STRING: (_take_text, "string"),
    Kind.BOOL: (_take_truth, "bool"),
    **dict.fromkeys(SIGNED, (_take_int, "integer")),
    **dict.fromkeys(UNSIGNED, (_take_uint, "unsigned integer")),
    **dict.fromkeys(FLOATS, (_take_float, "float")),
    **dict.fromkeys(COMPLEXES, (_take_complex, "complex")),
}

"""Programs: the definitions of a template, compiled statement by statement."""

from __future__ import annotations

from typing import Any

from kanister_py.gotemplate.errors import LimitExceeded
from kanister_py.gotemplate.evaluator.calls import Calls
from kanister_py.gotemplate.evaluator.frames import (
    BREAK,
    CONTINUE,
    DOT,
    ON,
    UNDEFINED,
    Compiler,
    Frame,
    Setter,
    Step,
)
from kanister_py.gotemplate.evaluator.pipelines import Fields, Origins, Pipelines, Scope
from kanister_py.gotemplate.functions import FunctionTable
from kanister_py.gotemplate.limits import Context
from kanister_py.gotemplate.nodes import (
    Action,
    Block,
    Break,
    Continue,
    If,
    Invocation,
    Node,
    Pipe,
    Range,
    Text,
    Tree,
    With,
    weight_of,
)
from kanister_py.gotemplate.printing import show, text_of
from kanister_py.gotemplate.quoting import quote
from kanister_py.gotemplate.types import INTEGERS, Kind
from kanister_py.gotemplate.values import Struct, Uint8, Value, sorted_keys, type_of


class Statements(Compiler):
    """Compiler of statements, which write output."""

    def steps(self, block: Block) -> list[Step]:
        return [self.step(node) for node in block.nodes]

    def block(self, block: Block) -> Step:
        """Compile the nodes of a block into one step; their variables end with the block."""
        outer_names = len(self.definition.scope.names)
        steps = self.steps(block)
        del self.definition.scope.names[outer_names:]
        if len(steps) == 1:
            return steps[0]

        def run_until_jump(frame: Frame) -> int:
            for step in steps:
                jump = step(frame)
                if jump:
                    return jump
            return ON

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
        jump = BREAK if type(node) is Break else CONTINUE
        return lambda _: jump

    def action(self, node: Action) -> Step:
        pipe = node.pipe
        value_of = self.definition.pipelines.pipe(pipe)
        if pipe.variables:

            def assign(frame: Frame) -> int:
                value_of(frame)
                return ON

            return assign

        def write(frame: Frame) -> int:
            frame.out.append(text_of(value_of(frame), frame.context))
            return ON

        return write

    def condition(self, node: If) -> Step:
        """Compile an `if` with all its `else if`s into one loop, so that they do not nest."""
        outer_names = len(self.definition.scope.names)
        cases = []
        otherwise = None
        while True:
            value_of = self.definition.pipelines.pipe(node.pipe)
            cases.append((value_of, self.block(node.body)))
            branch = node.otherwise
            if branch is None:
                break
            following = branch.nodes[0] if len(branch.nodes) == 1 else None
            if not isinstance(following, If):
                otherwise = self.block(branch)
                break
            node = following
        del self.definition.scope.names[outer_names:]

        def choose_first(frame: Frame) -> int:
            for holds, run in cases:
                if holds(frame):
                    return run(frame)
            return otherwise(frame) if otherwise is not None else ON

        return choose_first

    def narrowing(self, node: With) -> Step:
        outer_names = len(self.definition.scope.names)
        value_of = self.definition.pipelines.pipe(node.pipe)
        body = self.block(node.body)
        otherwise = None if node.otherwise is None else self.block(node.otherwise)
        del self.definition.scope.names[outer_names:]

        def narrow(frame: Frame) -> int:
            value = value_of(frame)
            if not value:
                return otherwise(frame) if otherwise is not None else ON
            dot, was_boxed = frame.dot, DOT in frame.boxed
            frame.dot = value
            frame.boxed.discard(DOT)
            jump = body(frame)
            frame.dot = dot
            if was_boxed:
                frame.boxed.add(DOT)
            return jump

        return narrow

    def range(self, node: Range) -> Step:
        outer_names = len(self.definition.scope.names)
        pipe = node.pipe
        value_of = self.definition.pipelines.pipe(pipe)
        set_index, set_item = self.range_setters(pipe)
        body = self.block(node.body)
        otherwise = None if node.otherwise is None else self.block(node.otherwise)
        del self.definition.scope.names[outer_names:]
        cost = 1 + weight_of(node.body)

        def loop(frame: Frame) -> int:
            value = value_of(frame)
            items, is_boxed = self.items_of(node, value, frame)
            context = frame.context
            dot, was_boxed = frame.dot, DOT in frame.boxed
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
                    frame.boxed.add(DOT)
                else:
                    frame.boxed.discard(DOT)
                jump = body(frame)
                context.count_output(frame.out)
                if jump == BREAK:
                    break
            frame.dot = dot
            if was_boxed:
                frame.boxed.add(DOT)
            else:
                frame.boxed.discard(DOT)
            if not ran and otherwise is not None:
                return otherwise(frame)
            return ON

        return loop

    def range_setters(self, pipe: Pipe) -> tuple[Setter | None, Setter | None]:
        """Compile the setters of index and item for the rounds of a loop."""
        names = pipe.variables
        if not names:
            return None, None
        setters = [self.definition.scope.setter(name, pipe, is_loop=True) for name in names]
        if len(setters) == 1:
            return None, setters[0]
        return setters[0], setters[1]

    def items_of(self, node: Range, value: Value, frame: Frame) -> tuple[Any, bool]:
        """Return the items of a range, and whether they come out of an interface."""
        kind = type(value)
        if value is None:
            return (), False
        go_type = type_of(value)
        assert go_type is not None
        is_boxed = go_type.elem is not None and go_type.elem.kind is Kind.INTERFACE
        if go_type.kind is Kind.MAP:
            return [(key, value[key]) for key in sorted_keys(value)], is_boxed
        if isinstance(value, bytes):
            return enumerate(map(Uint8, value)), False
        if go_type.kind is Kind.SLICE:
            return enumerate(value), is_boxed
        at = self.definition.origins.last_of(node.pipe, frame)
        if go_type.kind in INTEGERS:
            if len(node.pipe.variables) > 1:
                raise self.error(
                    at, f"can't use {show(value)} to iterate over more than one variable"
                )
            make = int if kind is int else kind
            return ((None, make(number)) for number in range(int(value))), False
        shown = value.pointed_at() if isinstance(value, Struct) else value
        raise self.error(at, f"range can't iterate over {show(shown)}")

    def invocation(self, node: Invocation) -> Step:
        value_of = self.definition.pipelines.pipe(node.pipe) if node.pipe is not None else None
        program = self.definition.program

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
            return ON

        return invoke


def _text_step(text: str) -> Step:
    def write(frame: Frame) -> int:
        frame.out.append(text)
        return ON

    return write


class Definition:
    """One definition that is being compiled, with its compilers."""

    def __init__(self, program: Program, name: str) -> None:
        self.program = program
        self.tree = program.tree
        self.name = name
        self.functions = program.functions.by_name
        self.missing_key = program.missing_key
        self.is_strict = program.missing_key == "error"
        self.scope = Scope(self)
        self.statements = Statements(self)
        self.pipelines = Pipelines(self)
        self.fields = Fields(self)
        self.calls = Calls(self)
        self.origins = Origins(self)


class Program:
    """Definitions of a template as closures; a definition is compiled on first use."""

    __slots__ = ("_compiled", "functions", "missing_key", "tree")

    def __init__(self, tree: Tree, functions: FunctionTable, missing_key: str) -> None:
        self.tree = tree
        self.functions = functions
        self.missing_key = missing_key
        self._compiled: dict[str, Routine] = {}

    def routine(self, name: str) -> Routine | None:
        compiled = self._compiled.get(name)
        if compiled is None:
            body = self.tree.definitions.get(name)
            if body is None:
                return None
            compiled = self._compiled[name] = Routine(self, name, body)
        return compiled


class Routine:
    """One compiled definition."""

    __slots__ = ("_body", "_cost", "size", "steps")

    def __init__(self, program: Program, name: str, body: Block) -> None:
        definition = Definition(program, name)
        self.steps = definition.statements.steps(body)
        self._body = body
        self._cost = 0
        self.size = definition.scope.size

    @property
    def cost(self) -> int:
        """Steps of one run, computed on first use because most definitions are never invoked."""
        if not self._cost:
            self._cost = 1 + weight_of(self._body)
        return self._cost

    def run(self, data: Value, out: list[str], context: Context, depth: int) -> None:
        variables: list[Value] = [UNDEFINED] * self.size
        variables[0] = data
        frame = Frame(data, variables, out, context, depth)
        for step in self.steps:
            step(frame)

"""Programs: the definitions of a template as closures, and what their makers share."""

from __future__ import annotations

from kanister_py.gotemplate.evaluator.arguments import Arguments
from kanister_py.gotemplate.evaluator.builtin_calls import BuiltinCalls
from kanister_py.gotemplate.evaluator.calls import Calls
from kanister_py.gotemplate.evaluator.fields import Fields
from kanister_py.gotemplate.evaluator.frames import UNDEFINED, Frame
from kanister_py.gotemplate.evaluator.origins import Origins
from kanister_py.gotemplate.evaluator.pipelines import Pipelines
from kanister_py.gotemplate.evaluator.scope import Scope
from kanister_py.gotemplate.evaluator.statements import Statements
from kanister_py.gotemplate.functions import FunctionTable
from kanister_py.gotemplate.limits import Context
from kanister_py.gotemplate.nodes import Block, Tree
from kanister_py.gotemplate.values import Value


class Definition:
    """One definition on its way to closures: what its parts share."""

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
        self.builtin_calls = BuiltinCalls(self)
        self.arguments = Arguments(self)
        self.origins = Origins(self)


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
        definition = Definition(program, name)
        self.steps = definition.statements.steps(body)
        self.cost = len(self.steps)
        self.size = definition.scope.size

    def run(self, data: Value, out: list[str], context: Context, depth: int) -> None:
        variables: list[Value] = [UNDEFINED] * self.size
        variables[0] = data
        frame = Frame(data, variables, out, context, depth)
        for step in self.steps:
            step(frame)

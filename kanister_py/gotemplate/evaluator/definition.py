"""Definitions: what the makers of closures share while they compile one template."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from kanister_py.gotemplate.errors import ExecError
from kanister_py.gotemplate.evaluator.arguments import Arguments
from kanister_py.gotemplate.evaluator.builtin_calls import BuiltinCalls
from kanister_py.gotemplate.evaluator.calls import Calls
from kanister_py.gotemplate.evaluator.fields import Fields
from kanister_py.gotemplate.evaluator.frames import Eval, Frame
from kanister_py.gotemplate.evaluator.origins import Origins
from kanister_py.gotemplate.evaluator.pipelines import Pipelines
from kanister_py.gotemplate.evaluator.scope import Scope
from kanister_py.gotemplate.evaluator.statements import Statements
from kanister_py.gotemplate.nodes import Node, place_in
from kanister_py.gotemplate.quoting import quote

if TYPE_CHECKING:
    from kanister_py.gotemplate.evaluator.program import Program


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

    def error(self, node: Node, why: str, kind: type[ExecError] = ExecError) -> ExecError:
        context = str(node)
        line, column = place_in(self.tree.text, node.at)
        message = (
            f"template: {self.tree.name}:{line}:{column}: "
            f"executing {quote(self.name)} at <{context}>: {why}"
        )
        return kind(message, self.name, line, column, context, why)

    def failing(self, node: Node, why: str) -> Eval:
        """A closure for what can only fail, and in Go does so when it is reached."""

        def fail(_: Frame) -> NoReturn:
            raise self.error(node, why)

        return fail

"""Arguments of a phase, held against what its function takes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kanister_py.core.blueprints.lint.context import Context
from kanister_py.core.blueprints.lint.findings import Finding, Rule, Severity, Spot
from kanister_py.core.blueprints.lint.signatures import (
    conditions_of,
    is_clear,
    may_be_template,
    outputs_of,
)
from kanister_py.core.blueprints.model import Phase
from kanister_py.core.registry.entries import FunctionEntry

MISSING = Rule(
    "argument-missing",
    Severity.ERROR,
    "A phase lacks an argument that its function requires.",
    "The phase fails before it does anything. `kanister-py functions describe` lists "
    "what a function requires, what it takes besides, and the defaults.",
)
UNKNOWN = Rule(
    "argument-unknown",
    Severity.ERROR,
    "A phase gives an argument that its function does not know.",
    "The phase fails before it does anything: a misspelt argument must not be "
    "overlooked. Names of arguments are exact, capitals included.",
)
MISTYPED = Rule(
    "argument-type",
    Severity.ERROR,
    "A phase gives an argument something that its function cannot take for it.",
    "Arguments are read as loosely as Kanister reads them: a number may be written as "
    "text, a list of one without its brackets. What is left over cannot be meant. Only "
    "what stands there is judged, never what a template will say.",
)
RULES = (MISSING, UNKNOWN, MISTYPED)

_BY_KIND = {"missing": MISSING, "unknown": UNKNOWN, "type": MISTYPED}
_FIRST_NAME = re.compile(r"[^.\[]+")


def check_arguments(
    spot: Spot, phase: Phase, entry: FunctionEntry, context: Context
) -> Iterator[Finding]:
    """Hold the args of a phase against the model of the version that it gets."""
    if any(may_be_template(name) for name in phase.args):
        return
    signature = context.signature(entry)
    if signature is not None and is_clear(signature, phase.args):
        return
    code = context.code(entry)
    if code is None:
        return
    from kanister_py.core.objects.weak import problems_of_args

    for problem in problems_of_args(code.Args, phase.args, _is_open):
        where = spot.at("args")
        name = _FIRST_NAME.match(problem.path)
        if problem.kind != "missing" and name is not None and name[0] in phase.args:
            where = where.at(name[0])
        yield where.finding(_BY_KIND[problem.kind], problem.message, version=str(entry.version))


def _is_open(value: object) -> bool:
    return isinstance(value, str) and may_be_template(value)


def condition_functions(entry: FunctionEntry, context: Context) -> tuple[str, ...] | None:
    """Say what conditions of a version may call besides Go's own functions, if that is known."""
    signature = context.signature(entry)
    if signature is not None:
        return signature.conditions
    code = context.code(entry)
    return None if code is None else conditions_of(code)


def declared_outputs(entry: FunctionEntry, context: Context) -> frozenset[str] | None:
    """Give the outputs that a version declares; None where only the blueprint knows them."""
    signature = context.signature(entry)
    if signature is not None:
        return signature.outputs
    code = context.code(entry)
    return None if code is None else outputs_of(code)

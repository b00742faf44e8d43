"""Would a function take the arguments that a phase gives it?"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from kanister_py.core.blueprints.lint.context import Context
from kanister_py.core.blueprints.lint.findings import Finding, Rule, Severity, Spot
from kanister_py.core.blueprints.model import Phase
from kanister_py.core.errors import ArgProblem, KanisterError
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
    model = _model_of(entry, context)
    if model is None or any(_may_be_template(name) for name in phase.args):
        return
    from kanister_py.core.objects.weak import problems_of_args

    for problem in problems_of_args(model, phase.args, _is_open):
        where = spot.at("args")
        name = _FIRST_NAME.match(problem.path)
        if problem.kind != "missing" and name is not None and name[0] in phase.args:
            where = where.at(name[0])
        yield where.finding(_BY_KIND[problem.kind], _said(problem), version=str(entry.version))


def _said(problem: ArgProblem) -> str:
    return problem.message


def _model_of(entry: FunctionEntry, context: Context) -> Any:
    if context.load is None or entry.target is None:
        return None
    try:
        return context.load(entry).Args
    except KanisterError:
        # Code that cannot be loaded is no fault of the blueprint's.
        return None


def _is_open(value: object) -> bool:
    return isinstance(value, str) and _may_be_template(value)


def _may_be_template(text: str) -> bool:
    return "{{" in text or "{%" in text


def declared_outputs(entry: FunctionEntry, context: Context) -> frozenset[str] | None:
    """Give the outputs that a version declares; None where only the blueprint knows them."""
    if context.load is None or entry.target is None:
        return None
    try:
        model = getattr(context.load(entry), "Outputs", None)
    except KanisterError:
        return None
    if model is None or model.model_config.get("extra") == "allow":
        return None
    fields: Mapping[str, Any] = model.model_fields
    return frozenset(field.alias or name for name, field in fields.items())

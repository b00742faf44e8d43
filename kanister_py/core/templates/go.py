"""Go templates of blueprints: the engine's, with the house's errors."""

from __future__ import annotations

from collections.abc import Container

from kanister_py.core.templates.errors import (
    KEY_MISSING,
    TemplateError,
    TemplateExecError,
    TemplateLimitExceeded,
    TemplateParseError,
)
from kanister_py.gotemplate.effects import NO_EFFECTS, Effects
from kanister_py.gotemplate.errors import ExecError, GoTemplateError, KeyMissing, LimitExceeded
from kanister_py.gotemplate.functions import NO_FUNCTIONS, FunctionTable
from kanister_py.gotemplate.limits import DEFAULT, Budget, Limits
from kanister_py.gotemplate.nodes import Tree
from kanister_py.gotemplate.parser import parse
from kanister_py.gotemplate.template import MissingKey, Template, compile_template
from kanister_py.gotemplate.values import Value
from kanister_py.values import NamedTuple


class GoTemplate(NamedTuple):
    """A parsed template, ready to be carried out over any data."""

    template: Template

    def execute(
        self,
        data: Value,
        effects: Effects = NO_EFFECTS,
        limits: Limits = DEFAULT,
        budget: Budget | None = None,
    ) -> str:
        """Say what the template makes of `data`."""
        try:
            return self.template.execute(data, effects, limits, budget)
        except GoTemplateError as error:
            raise template_error(error) from error


def compile_go(
    text: str,
    functions: FunctionTable = NO_FUNCTIONS,
    *,
    name: str = "config",
    missing_key: MissingKey = "error",
) -> GoTemplate:
    """Parse a text, or take what an earlier call made of it."""
    try:
        return GoTemplate(compile_template(text, functions, name=name, missing_key=missing_key))
    except GoTemplateError as error:
        raise template_error(error) from error


def parse_go(text: str, functions: Container[str]) -> Tree:
    """Read a text that may call these functions, without the functions themselves."""
    try:
        return parse(text, functions)
    except GoTemplateError as error:
        raise template_error(error) from error


def template_error(error: GoTemplateError) -> TemplateError:
    """Translate an error of the engine into the house's."""
    if isinstance(error, LimitExceeded):
        return TemplateLimitExceeded(error.limit, error.why, error.line)
    if not isinstance(error, ExecError):
        return TemplateParseError(error.message, error.line)
    reason = KEY_MISSING if isinstance(error, KeyMissing) else ""
    failed = TemplateExecError(error.message, error.line, error.why, error.context, reason=reason)
    failed.missing, failed.kind = error.missing, error.kind
    failed.owner, failed.there = error.owner, error.there
    return failed

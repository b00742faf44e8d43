"""Jinja2 templates, compiled once and cached."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from types import TracebackType
from typing import Any, Final, NamedTuple

from jinja2 import (
    Environment,
    Template,
    TemplateSyntaxError,
    UndefinedError,
    nodes,
)
from jinja2.exceptions import TemplateError as JinjaError
from jinja2.visitor import NodeTransformer

from kanister_py.core.errors import did_you_mean
from kanister_py.core.templates.errors import (
    TemplateExecError,
    TemplateParseError,
    TemplateUndefined,
)
from kanister_py.core.templates.jinja.filters import FILTERS, GLOBALS, TESTS
from kanister_py.core.templates.jinja.sandbox import BlueprintContext, BlueprintEnvironment, Missing
from kanister_py.core.templates.jinja.values import text_of
from kanister_py.core.templates.param_types import ROOT_NAMES
from kanister_py.core.templates.params import Params
from kanister_py.core.yaml.documents import nearest
from kanister_py.gotemplate.effects import NO_EFFECTS, Effects
from kanister_py.gotemplate.errors import LimitExceeded
from kanister_py.gotemplate.functions import GoError
from kanister_py.gotemplate.limits import DEFAULT, MAX_CHARACTERS, UNLIMITED, Context, Limits
from kanister_py.gotemplate.values import byte_length

NO_FUNCTIONS: Mapping[str, Callable[..., Any]] = {}
_MAX_CACHED = 2048

# Errors that Python raises for invalid operations on values.
_EXECUTION_ERRORS = (
    JinjaError,
    GoError,
    ArithmeticError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
)


class _ConcatToJoin(NodeTransformer):
    """Transformer of `a ~ b` into a join, so that values are joined in their printed form."""

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802 - Jinja2 calls it by this name
        self.generic_visit(node)
        items = nodes.List(node.nodes, lineno=node.lineno)
        return nodes.Filter(items, "join", [], [], None, None, lineno=node.lineno)


# The cost of templates with only these nodes is proportional to their size and data.
_CHEAP_NODES = (
    nodes.Template,
    nodes.Output,
    nodes.TemplateData,
    nodes.If,
    nodes.Const,
    nodes.Name,
    nodes.Getattr,
    nodes.Getitem,
    nodes.Test,
    nodes.Not,
    nodes.And,
    nodes.Or,
    nodes.CondExpr,
    nodes.Compare,
    nodes.Operand,
    nodes.Filter,
)
_CHEAP_FILTERS = frozenset(
    (
        "b64dec",
        "b64enc",
        "count",
        "d",
        "date",
        "default",
        "first",
        "float",
        "int",
        "last",
        "length",
        "lower",
        "string",
        "toJson",
        "toString",
        "tojson",
        "trim",
        "upper",
    )
)
_MAX_CHEAP_NODES = 200


def _is_costly(tree: nodes.Template) -> bool:
    """Return False if rendering is cheap for all data."""
    for number, node in enumerate(tree.find_all(nodes.Node)):
        if number > _MAX_CHEAP_NODES or not isinstance(node, _CHEAP_NODES):
            return True
        if isinstance(node, nodes.Filter) and node.name not in _CHEAP_FILTERS:
            return True
    return False


_LOADING_STATEMENTS: Mapping[type[nodes.Node], str] = {
    nodes.Include: "include",
    nodes.Import: "import",
    nodes.FromImport: "from … import",
    nodes.Extends: "extends",
}


def _check_statements(tree: nodes.Template) -> None:
    """Refuse statements that need a template loader."""
    for node in tree.find_all(tuple(_LOADING_STATEMENTS)):
        name = _LOADING_STATEMENTS[type(node)]
        raise TemplateSyntaxError(
            f"{name} is not supported: there are no other templates", node.lineno
        )


# Templates


@cache
def _environment() -> BlueprintEnvironment:
    environment = BlueprintEnvironment(
        undefined=Missing,
        finalize=text_of,
        autoescape=False,
        keep_trailing_newline=True,
        # Do not evaluate constants at compile time, where no limits apply.
        optimized=False,
        extensions=["jinja2.ext.loopcontrols"],
    )
    environment.filters = dict(FILTERS)
    environment.tests = dict(TESTS)
    environment.globals = dict(GLOBALS)
    return environment


class JinjaTemplate(NamedTuple):
    """Compiled template.

    `execute` does not limit time and memory: check `is_costly` first.
    """

    template: Template
    is_costly: bool

    def execute(
        self,
        data: Params | Mapping[str, Any],
        effects: Effects = NO_EFFECTS,
        limits: Limits = DEFAULT,
        functions: Mapping[str, Callable[..., Any]] = NO_FUNCTIONS,
    ) -> str:
        """Render the template with parameters, or with a mapping of top-level names.

        `functions` are additional functions for this template.
        """
        context = self.template.new_context(dict(functions))
        assert isinstance(context, BlueprintContext)
        context.go = Context(effects, UNLIMITED)
        if isinstance(data, Mapping):
            context.root = context.names = data
        else:
            context.root, context.names = data.root, ROOT_NAMES
        size = 0
        pieces = []
        try:
            for piece in self.template.root_render_func(context):
                size += byte_length(piece)
                if size > limits.size:
                    raise LimitExceeded("size", f"the output is larger than {limits.size} bytes")
                pieces.append(piece)
        except LimitExceeded as error:
            error.line = self._line_of(error)
            raise
        except RecursionError:
            raise LimitExceeded("depth", "the template is nested too deeply") from None
        except _EXECUTION_ERRORS as error:
            line, why = self._line_of(error), str(error) or type(error).__name__
            kind = TemplateUndefined if isinstance(error, UndefinedError) else TemplateExecError
            raise kind(f"Line {line}: {why}", line=line, why=why) from None
        return "".join(pieces)

    def _line_of(self, error: BaseException) -> int:
        """Return the line of the template that raised the error, at the innermost level."""
        line = 0
        place: TracebackType | None = error.__traceback__
        while place is not None:
            if place.tb_frame.f_globals.get("__jinja_template__") is self.template:
                line = self.template.get_corresponding_lineno(place.tb_lineno)
            place = place.tb_next
        return line


@lru_cache(maxsize=_MAX_CACHED)
def compile_jinja(text: str) -> JinjaTemplate:
    """Compile a text, or return the cached result."""
    environment = _environment()
    if len(text) > MAX_CHARACTERS:
        raise _unreadable(f"a template has at most {MAX_CHARACTERS} characters", 0)
    try:
        tree = environment.parse(text)
        _check_statements(tree)
        is_costly = _is_costly(tree)
        code = environment.compile(_ConcatToJoin().visit(tree))
        template = Template.from_code(environment, code, environment.globals)
        return JinjaTemplate(template, is_costly)
    except TemplateSyntaxError as error:
        raise _unreadable(_with_suggestion(str(error.message), environment), error.lineno) from None
    except (RecursionError, MemoryError, SyntaxError):
        # Python raises SyntaxError for code that is nested too deeply.
        raise _unreadable("the template is nested too deeply", 0) from None
    except ValueError as error:
        raise _unreadable(str(error), 0) from None


def parse_jinja(text: str) -> nodes.Template:
    """Parse a text into a tree. Raises TemplateParseError for syntax errors."""
    compile_jinja(text)
    return _environment().parse(text)


def _with_suggestion(why: str, environment: Environment) -> str:
    """Add a suggestion to a message about an unknown filter or test."""
    match = _UNKNOWN.fullmatch(why)
    if match is None:
        return why.removesuffix(".")
    names = environment.filters if match[1] == "filter" else environment.tests
    return f"there is no {match[1]} {match[2]}{did_you_mean(nearest(match[2], [*names]))}"


_UNKNOWN: Final = re.compile(r"No (filter|test) named '(.*)'\.")


def _unreadable(why: str, line: int) -> TemplateParseError:
    return TemplateParseError(f"Line {line}: {why}" if line else why.capitalize(), line=line)

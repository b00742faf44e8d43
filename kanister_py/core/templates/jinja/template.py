"""Jinja2 templates: a text compiled once and rendered many times."""

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
_MOST_KEPT = 2048

# What Python raises when a template does to a value what the value cannot do.
_MISUSES = (
    JinjaError,
    GoError,
    ArithmeticError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
)


class _Joining(NodeTransformer):
    """Transformer of `a ~ b` into a join, so that values are joined as they are printed."""

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802 - Jinja2 looks for it
        self.generic_visit(node)
        items = nodes.List(node.nodes, lineno=node.lineno)
        return nodes.Filter(items, "join", [], [], None, None, lineno=node.lineno)


# A template of nothing but these costs in proportion to its own length and that of its data.
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
_MOST_CHEAP_NODES = 200


def _is_costly(tree: nodes.Template) -> bool:
    """Return False if rendering is known to be cheap, whatever the data."""
    for number, node in enumerate(tree.find_all(nodes.Node)):
        if number > _MOST_CHEAP_NODES or not isinstance(node, _CHEAP_NODES):
            return True
        if isinstance(node, nodes.Filter) and node.name not in _CHEAP_FILTERS:
            return True
    return False


_OTHER_TEMPLATES: Mapping[type[nodes.Node], str] = {
    nodes.Include: "include",
    nodes.Import: "import",
    nodes.FromImport: "from … import",
    nodes.Extends: "extends",
}


def _check(tree: nodes.Template) -> None:
    """Refuse statements that need a loader: there is none."""
    for node in tree.find_all(tuple(_OTHER_TEMPLATES)):
        name = _OTHER_TEMPLATES[type(node)]
        raise TemplateSyntaxError(f"{name} has no other template to read here", node.lineno)


# Templates


@cache
def _environment() -> BlueprintEnvironment:
    environment = BlueprintEnvironment(
        undefined=Missing,
        finalize=text_of,
        autoescape=False,
        keep_trailing_newline=True,
        # Constants would be evaluated while the text is compiled, where nothing limits them.
        optimized=False,
        extensions=["jinja2.ext.loopcontrols"],
    )
    environment.filters = dict(FILTERS)
    environment.tests = dict(TESTS)
    environment.globals = dict(GLOBALS)
    return environment


class JinjaTemplate(NamedTuple):
    """A compiled template.

    Nothing here limits its time and memory: `is_costly` unless it cannot take much of
    either.
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
        """Render the template over params, or over plain data whose keys are its names.

        `functions` may be called besides those that every template has.
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
                    raise LimitExceeded("size", f"it makes more than {limits.size} bytes")
                pieces.append(piece)
        except LimitExceeded as error:
            error.line = self._line_of(error)
            raise
        except RecursionError:
            raise LimitExceeded("depth", "it is nested too deep") from None
        except _MISUSES as error:
            line, why = self._line_of(error), str(error) or type(error).__name__
            kind = TemplateUndefined if isinstance(error, UndefinedError) else TemplateExecError
            raise kind(f"Line {line}: {why}", line=line, why=why) from None
        return "".join(pieces)

    def _line_of(self, error: BaseException) -> int:
        """Give the line of the template where it happened; the innermost one counts."""
        line = 0
        place: TracebackType | None = error.__traceback__
        while place is not None:
            if place.tb_frame.f_globals.get("__jinja_template__") is self.template:
                line = self.template.get_corresponding_lineno(place.tb_lineno)
            place = place.tb_next
        return line


@lru_cache(maxsize=_MOST_KEPT)
def compile_jinja(text: str) -> JinjaTemplate:
    """Parse a text, or take what an earlier call made of it."""
    environment = _environment()
    if len(text) > MAX_CHARACTERS:
        raise _unreadable(f"a template has at most {MAX_CHARACTERS} characters", 0)
    try:
        tree = environment.parse(text)
        _check(tree)
        is_costly = _is_costly(tree)
        code = environment.compile(_Joining().visit(tree))
        template = Template.from_code(environment, code, environment.globals)
        return JinjaTemplate(template, is_costly)
    except TemplateSyntaxError as error:
        raise _unreadable(_meant(str(error.message), environment), error.lineno) from None
    except (RecursionError, MemoryError, SyntaxError):
        # The last is what Python says of code that is nested deeper than it allows.
        raise _unreadable("it is nested too deep", 0) from None
    except ValueError as error:
        raise _unreadable(str(error), 0) from None


def parse_jinja(text: str) -> nodes.Template:
    """Give the tree of a text that can be compiled, or say why it cannot."""
    compile_jinja(text)
    return _environment().parse(text)


def _meant(why: str, environment: Environment) -> str:
    """Name the filter or test that may be meant by one that is not known."""
    found = _UNKNOWN.fullmatch(why)
    if found is None:
        return why.removesuffix(".")
    known = environment.filters if found[1] == "filter" else environment.tests
    return f"there is no {found[1]} {found[2]}{did_you_mean(nearest(found[2], [*known]))}"


_UNKNOWN: Final = re.compile(r"No (filter|test) named '(.*)'\.")


def _unreadable(why: str, line: int) -> TemplateParseError:
    return TemplateParseError(f"Line {line}: {why}" if line else why.capitalize(), line=line)

"""Jinja2 templates: rewritten so that all they do is counted, and carried out many times.

Jinja2's own sandbox lets some things through unseen: loops, comparisons, slices, text
that is put together. They are rewritten before they are compiled.
"""

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
    Undefined,
    UndefinedError,
    nodes,
    pass_context,
)
from jinja2.exceptions import TemplateError as JinjaError
from jinja2.exceptions import TemplateRuntimeError
from jinja2.visitor import NodeTransformer

from kanister_py.core.errors import did_you_mean
from kanister_py.core.templates.errors import TemplateExecError, TemplateParseError
from kanister_py.core.templates.jinja.filters import FILTERS, GLOBALS, TESTS
from kanister_py.core.templates.jinja.sandbox import BlueprintContext, BlueprintEnvironment, Missing
from kanister_py.core.templates.jinja.values import (
    Callee,
    Counted,
    MapView,
    Meter,
    joined,
    name_of,
    text_of,
)
from kanister_py.core.templates.param_types import ROOT_NAMES
from kanister_py.core.templates.params import Params
from kanister_py.core.yaml.documents import nearest
from kanister_py.gotemplate.effects import NO_EFFECTS, Effects
from kanister_py.gotemplate.errors import LimitExceeded
from kanister_py.gotemplate.functions import GoError
from kanister_py.gotemplate.limits import DEFAULT, MAX_CHARACTERS, Budget, Limits
from kanister_py.gotemplate.values import byte_length

NO_FUNCTIONS: Mapping[str, Callee] = {}
_MOST_KEPT = 2048

# What Python says when a template does to a value what the value cannot do.
_MISUSES = (
    JinjaError,
    GoError,
    ArithmeticError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
)


# Rewriting

_REFUSED: Mapping[type, str] = {
    nodes.Include: "include",
    nodes.Import: "import",
    nodes.FromImport: "from … import",
    nodes.Extends: "extends",
}


class _Rewriter(NodeTransformer):
    """Rewriter that puts a counter or a scale wherever Jinja2's own sandbox has none."""

    def __init__(self) -> None:
        # Text outside of loops and macros is written once, as it stands.
        self._repeated = 0
        self._ways: dict[type, Callable[..., nodes.Node]] = {
            nodes.For: self._loop,
            nodes.Macro: self._body,
            nodes.CallBlock: self._body,
            nodes.Block: self._body,
            nodes.FilterBlock: self._inside,
            nodes.AssignBlock: self._inside,
            nodes.TemplateData: self._text,
            nodes.Concat: self._concat,
            nodes.Compare: self._compare,
            nodes.Getitem: self._getitem,
            nodes.Tuple: self._tuple,
            nodes.Name: self._name,
            nodes.Filter: self._named,
            nodes.Test: self._named,
            **dict.fromkeys(_REFUSED, self._refuse),
        }

    def get_visitor(self, node: nodes.Node) -> Any:
        return self._ways.get(type(node))

    def _refuse(self, node: nodes.Node) -> nodes.Node:
        name = _REFUSED[type(node)]
        raise TemplateSyntaxError(f"{name} has no other template to read here", node.lineno)

    def _inside(self, node: nodes.Node) -> nodes.Node:
        self._repeated += 1
        self.generic_visit(node)
        self._repeated -= 1
        return node

    def _loop(self, node: nodes.For) -> nodes.Node:
        weight = nodes.Const(_weight_of(node), lineno=node.lineno)
        self._inside(node)
        assert isinstance(node.iter, nodes.Expr)
        node.iter = _through("__steps", node.iter, weight)
        return node

    def _body(self, node: nodes.Macro | nodes.CallBlock | nodes.Block) -> nodes.Node:
        weight = nodes.Const(_weight_of(node), lineno=node.lineno)
        self._inside(node)
        node.body = [nodes.ExprStmt(_through("__spent", weight), lineno=node.lineno), *node.body]
        return node

    def _text(self, node: nodes.TemplateData) -> nodes.Node:
        # A constant goes through the scale for output, bare text does not.
        return nodes.Const(node.data, lineno=node.lineno) if self._repeated else node

    def _concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        return _through("__joined", nodes.List(node.nodes, lineno=node.lineno))

    def _compare(self, node: nodes.Compare) -> nodes.Node:
        self.generic_visit(node)
        node.expr = _scaled(node.expr)
        for each in node.ops:
            # Looking for a key in a map costs the same however large the map is.
            scale = "__looked_in" if each.op in ("in", "notin") else "__weighed"
            each.expr = _scaled(each.expr, scale)
        return node

    def _getitem(self, node: nodes.Getitem) -> nodes.Node:
        self.generic_visit(node)
        if isinstance(node.arg, nodes.Slice):
            node.node = _through("__sliceable", node.node)
        return node

    def _tuple(self, node: nodes.Tuple) -> nodes.Node:
        self.generic_visit(node)
        # Lists, not tuples: what cannot be a key cannot make looking one up expensive.
        return node if node.ctx == "store" else nodes.List(node.items, lineno=node.lineno)

    def _named(self, node: nodes.Filter | nodes.Test) -> nodes.Node:
        # What is written here counts; templates may not reach what counts.
        if node.name in _SCALES:
            raise TemplateSyntaxError(f"No filter or test named {node.name!r}", node.lineno)
        self.generic_visit(node)
        return node

    def _name(self, node: nodes.Name) -> nodes.Node:
        # The one tuple that Jinja2 makes itself.
        is_tuple = node.name == "varargs" and node.ctx == "load"
        return _through("__listed", node) if is_tuple else node


def _weight_of(node: nodes.Node) -> int:
    return sum(1 for _ in node.find_all(nodes.Node))


def _scaled(value: nodes.Expr, scale: str = "__weighed") -> nodes.Expr:
    return value if isinstance(value, nodes.Const) else _through(scale, value)


def _through(name: str, value: nodes.Expr, *args: nodes.Expr) -> nodes.Filter:
    return nodes.Filter(value, name, list(args), [], None, None, lineno=value.lineno)


@pass_context
def _steps(context: BlueprintContext, value: Any, weight: int) -> Any:
    if isinstance(value, Undefined):
        return value
    iter(value)
    return Counted(context.meter, value, weight)


@pass_context
def _spent(context: BlueprintContext, weight: int) -> None:
    context.meter.spend(weight)


@pass_context
def _joined(context: BlueprintContext, values: list[Any]) -> str:
    return joined(context.meter, "", values)


@pass_context
def _weighed(context: BlueprintContext, value: Any) -> Any:
    if not isinstance(value, Undefined):
        context.meter.weigh(value)
    return value


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


@pass_context
def _looked_in(context: BlueprintContext, value: Any) -> Any:
    if isinstance(value, MapView):
        context.meter.spend(1)
        return value
    return _weighed(context, value)


@pass_context
def _sliceable(context: BlueprintContext, value: Any) -> Any:
    if not isinstance(value, str | list):
        raise TemplateRuntimeError(f"{name_of(value)} has no slices".capitalize())
    if isinstance(value, str):
        context.meter.weigh(value)
    else:
        context.meter.spend(1 + len(value))
    return value


_SCALES: Mapping[str, Callable[..., Any]] = {
    "__steps": _steps,
    "__spent": _spent,
    "__joined": _joined,
    "__weighed": _weighed,
    "__looked_in": _looked_in,
    "__listed": _listed,
    "__sliceable": _sliceable,
}


@pass_context
def _finalize(context: BlueprintContext, value: Any) -> str:
    """Print a value into the output."""
    meter = context.meter
    meter.spend(1)
    text = text_of(meter, value)
    meter.write(text)
    return text


# Templates


@cache
def _environment() -> BlueprintEnvironment:
    environment = BlueprintEnvironment(
        undefined=Missing,
        finalize=_finalize,
        autoescape=False,
        keep_trailing_newline=True,
        # What can be known beforehand would be worked out before anything is counted.
        optimized=False,
        extensions=["jinja2.ext.loopcontrols"],
    )
    environment.filters = {**_SCALES, **FILTERS}
    environment.tests = dict(TESTS)
    environment.globals = dict(GLOBALS)
    return environment


class TemplateUndefined(TemplateExecError):
    """A template uses something which is not there; `why` names it."""

    reason = "TemplateUndefined"


class JinjaTemplate(NamedTuple):
    """A parsed template, ready to be carried out over any params."""

    template: Template

    def execute(
        self,
        data: Params | Mapping[str, Any],
        effects: Effects = NO_EFFECTS,
        limits: Limits = DEFAULT,
        budget: Budget | None = None,
        functions: Mapping[str, Callee] = NO_FUNCTIONS,
    ) -> str:
        """Render the template over params, or over plain data whose keys are its names.

        `functions` may be called besides those that every template has.
        """
        meter = Meter(effects, limits, budget)
        context = self.template.new_context(dict(functions))
        assert isinstance(context, BlueprintContext)
        context.meter = meter
        if isinstance(data, Mapping):
            context.root = context.names = data
        else:
            context.root, context.names = data.root, ROOT_NAMES
        size = 0
        pieces = []
        try:
            for piece in self.template.root_render_func(context):
                size += byte_length(piece)
                meter.check_size(size)
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
        finally:
            meter.close()
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
        tree = _Rewriter().visit(environment.parse(text))
        code = environment.compile(tree)
        return JinjaTemplate(Template.from_code(environment, code, environment.globals))
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
    names = [each for each in known if each[:1].isalpha()]
    return f"there is no {found[1]} {found[2]}{did_you_mean(nearest(found[2], names))}"


_UNKNOWN: Final = re.compile(r"No (filter|test) named '(.*)'\.")


def _unreadable(why: str, line: int) -> TemplateParseError:
    return TemplateParseError(f"Line {line}: {why}" if line else why.capitalize(), line=line)

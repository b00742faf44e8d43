"""Rewriting of a Jinja2 template: where counters and scales go in.

Jinja2's own sandbox lets some things through unseen: loops, comparisons, slices, text
that is put together. Here they are rewritten before they are compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from jinja2 import Undefined, nodes, pass_context
from jinja2.exceptions import TemplateRuntimeError, TemplateSyntaxError
from jinja2.visitor import NodeTransformer

from kanister_py.core.templates.jinja.sandbox import BlueprintContext
from kanister_py.core.templates.jinja.values import Counted, MapView, joined, name_of, text_of

# The rewriting of templates

_REFUSED: Mapping[type, str] = {
    nodes.Include: "include",
    nodes.Import: "import",
    nodes.FromImport: "from … import",
    nodes.Extends: "extends",
}


class Rewriter(NodeTransformer):
    """Puts a counter or a scale wherever Jinja2's own sandbox has none."""

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
        if node.name in SCALES:
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


SCALES: Mapping[str, Callable[..., Any]] = {
    "__steps": _steps,
    "__spent": _spent,
    "__joined": _joined,
    "__weighed": _weighed,
    "__looked_in": _looked_in,
    "__listed": _listed,
    "__sliceable": _sliceable,
}


@pass_context
def finalize(context: BlueprintContext, value: Any) -> str:
    """Print a value into the output."""
    meter = context.meter
    meter.spend(1)
    text = text_of(meter, value)
    meter.write(text)
    return text

"""Reads of a template: the parameters that it uses, found without rendering it."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Container, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kanister_py.core.blueprints.model import Action, Blueprint
from kanister_py.core.blueprints.texts import templates_of, texts_of
from kanister_py.core.templates.engines import (
    Engine,
    EngineChoice,
    blueprint_functions,
    choose_engine,
    is_template,
)
from kanister_py.core.templates.errors import TemplateError
from kanister_py.core.templates.param_types import ROOTS
from kanister_py.gotemplate import nodes
from kanister_py.gotemplate.builtins import BUILTINS
from kanister_py.gotemplate.parser import parse

if TYPE_CHECKING:
    from jinja2 import nodes as jinja_nodes


def engine_of(blueprint: Blueprint) -> EngineChoice:
    """Return the template engine of a Blueprint."""
    return choose_engine(blueprint.metadata.annotations, templates_of(blueprint))


class Read(NamedTuple):
    """Parameter that a template reads, as the path of names from the root.

    `indexed` counts the names at the end of the path that are arguments of `index` or in brackets:
    a missing key is no error there. `is_certain` is set if the value is read for all parameters.
    `line` is the line in the text, starting at 1.
    """

    names: tuple[str, ...]
    line: int = 1
    indexed: int = 0
    is_certain: bool = True

    def __str__(self) -> str:
        return "." + ".".join(self.names)


def reads_of(text: str, engine: Engine, *, inside_lists: bool = False) -> list[Read]:
    """List the reads of a text. Raises TemplateParseError if the text is not a valid template.

    With `inside_lists`, reads of the members of lists and maps in loops are included; ANY_MEMBER is
    their key.
    """
    if not is_template(text, engine):
        return []
    if engine is Engine.JINJA2:
        return list(_jinja_reads(text))
    walker = _Walker(text)
    tree = parse(text, _NAMES)
    for name, body in tree.definitions.items():
        is_own = name == tree.name
        top = () if is_own else None
        walker.block(body, _Scope(top, {"$": top}, is_own))
    return [read for read in walker.reads if inside_lists or ANY_MEMBER not in read.names]


def passes_profile_as_json(text: str, reads: Collection[Read]) -> bool:
    """Return whether a text passes the Profile as JSON, as for kando, without testing it first."""
    return (
        any(read.names == ("Profile",) and read.is_certain for read in reads)
        and _PROFILE_AS_JSON.search(text) is not None
        and _IF_PROFILE.search(text) is None
    )


_PROFILE_AS_JSON: Final = re.compile(
    r"(?i)\bto(pretty|raw)?json[ (]+\$?\.?Profile\b(?!\.)|\bProfile *\| *to(pretty|raw)?json\b"
)
# Stops at the next brace, so that no character is scanned twice.
_IF_PROFILE: Final = re.compile(r"\{\{-? *(else )?(if|with)\b[^{}]*\.Profile\b")


def reads_of_action(action: Action, engine: Engine) -> Iterator[Read]:
    """Yield the reads of all templates of an action except templates that cannot be parsed."""
    for text in texts_of(action):
        try:
            yield from reads_of(text.text, engine)
        except TemplateError:
            continue


def check_condition(text: str, functions: Collection[str] | None) -> None:
    """Raise TemplateParseError if `text` is not a valid condition.

    A condition is a Go template. `functions` are the functions that it may call in addition to
    Go's; `*` stands for the functions of Blueprints. None means that the functions are unknown.
    """
    if is_template(text, Engine.GO):
        parse(text, _ConditionNames(functions))


# Names that most Blueprints call. Other names need the table of functions, which takes longer to
# load than a Blueprint.
COMMON_NAMES: Final = frozenset(
    {"b64dec", "b64enc", "date", "default", "lower", "quote", "replace", "toDate", "toJson"}
    | {"toString", "trim", "upper"}
)


# The parser looks these names up in every template. They are not functions.
UNCALLED_NAMES: Final = frozenset({"break", "continue"})


class _Names(Container[str]):
    def __contains__(self, name: object) -> bool:
        if name in UNCALLED_NAMES:
            return False
        return name in COMMON_NAMES or name in BUILTINS or name in blueprint_functions()


class _ConditionNames(_Names):
    def __init__(self, functions: Collection[str] | None) -> None:
        # The names after `*` are functions of kubectl.
        self._functions = ("*", "exists", "base64decode") if functions is None else functions

    def __contains__(self, name: object) -> bool:
        if name in self._functions:
            return True
        return super().__contains__(name) if "*" in self._functions else name in BUILTINS


_NAMES = _Names()
ANY_MEMBER: Final = "[]"
"""Stands for the key of any member of a list or a map."""
_NamePath = tuple[str, ...]


class _Scope(NamedTuple):
    """Dot and variables, as name paths from the root; None if the path is unknown."""

    dot: _NamePath | None
    variables: Mapping[str, _NamePath | None]
    is_certain: bool

    def inside(self, dot: _NamePath | None) -> _Scope:
        return _Scope(dot, dict(self.variables), is_certain=False)


_LINE_END: Final = re.compile("\n")


class _Walker:
    """Visitor of the tree of a Go template that records the reads."""

    def __init__(self, text: str) -> None:
        self._line_ends = [match.start() for match in _LINE_END.finditer(text)]
        self.reads: list[Read] = []

    def _record(self, names: _NamePath, at: int, scope: _Scope, indexed: int = 0) -> _NamePath:
        if names:
            line = bisect_left(self._line_ends, at) + 1
            self.reads.append(Read(names, line, indexed, scope.is_certain))
        return names

    def block(self, block: nodes.Block | None, scope: _Scope) -> None:
        here = scope._replace(variables=dict(scope.variables))
        for node in block.nodes if block is not None else ():
            if isinstance(node, nodes.Action):
                here = self._declare_variables(node.pipe, here)
            elif isinstance(node, nodes.Branch):
                self._branch(node, here)
            elif isinstance(node, nodes.Invocation) and node.pipe is not None:
                self._pipe(node.pipe, here)

    def _declare_variables(self, pipe: nodes.Pipe, scope: _Scope) -> _Scope:
        names = self._pipe(pipe, scope)
        if not pipe.variables:
            return scope
        variables = {variable.names[0]: names for variable in pipe.variables}
        if pipe.is_assignment:
            # The assignment may be in a branch that is not executed.
            variables = dict.fromkeys(variables)
        return scope._replace(variables={**scope.variables, **variables})

    def _branch(self, node: nodes.Branch, scope: _Scope) -> None:
        inner = self._declare_variables(node.pipe, scope)
        names = self._pipe_names(node.pipe, scope)
        if isinstance(node, nodes.Range):
            member = None if names is None else (*names, ANY_MEMBER)
            # The last variable is the member. A variable before it is its key.
            variables = dict.fromkeys((variable.names[0] for variable in node.pipe.variables), None)
            variables |= {variable.names[0]: member for variable in node.pipe.variables[-1:]}
            inner = inner._replace(variables={**inner.variables, **variables})
            self.block(node.body, inner.inside(member))
        else:
            self.block(
                node.body, inner.inside(names if isinstance(node, nodes.With) else scope.dot)
            )
        self.block(node.otherwise, inner.inside(scope.dot))

    def _pipe_names(self, pipe: nodes.Pipe, scope: _Scope) -> _NamePath | None:
        """Return the name path of a pipe without recording reads."""
        count = len(self.reads)
        names = self._pipe(pipe, scope)
        del self.reads[count:]
        return names

    def _pipe(self, pipe: nodes.Pipe, scope: _Scope) -> _NamePath | None:
        names: _NamePath | None = None
        for index, command in enumerate(pipe.commands):
            path = self._command(command, scope)
            names = path if index == 0 else None
        return names

    def _command(self, command: nodes.Command, scope: _Scope) -> _NamePath | None:
        first, *operands = command.args
        if isinstance(first, nodes.Identifier) and first.name == "index" and operands:
            return self._index(operands, scope)
        if isinstance(first, nodes.Identifier) and first.name in ("and", "or") and operands:
            # Only the first argument is always evaluated.
            self._operand(operands[0], scope)
            for operand in operands[1:]:
                self._operand(operand, scope._replace(is_certain=False))
            return None
        names = self._operand(first, scope)
        for operand in operands:
            self._operand(operand, scope)
        return names if not operands else None

    def _index(self, args: list[nodes.Node], scope: _Scope) -> _NamePath | None:
        count = len(self.reads)
        base = self._operand(args[0], scope)
        keys: list[str] = []
        for key in args[1:]:
            if isinstance(key, nodes.String):
                keys.append(key.text)
            else:
                self._operand(key, scope)
                keys.append(ANY_MEMBER)
        if base is None:
            return None
        if ANY_MEMBER in keys:
            return (*base, *keys)
        if keys and len(self.reads) > count and self.reads[count].names == base:
            del self.reads[count]
        return self._record((*base, *keys), args[0].at, scope, len(keys))

    def _operand(self, node: nodes.Node, scope: _Scope) -> _NamePath | None:
        match node:
            case nodes.Dot():
                return scope.dot
            case nodes.Pipe():
                return self._pipe(node, scope)
            case nodes.Field():
                base, names = scope.dot, node.names
            case nodes.Variable():
                base, names = scope.variables.get(node.names[0]), node.names[1:]
            case nodes.Chain():
                base, names = self._operand(node.of, scope), node.names
            case _:
                return None
        return None if base is None else self._record((*base, *names), node.at, scope)


def _jinja_reads(text: str) -> Iterator[Read]:
    from jinja2 import nodes as jinja
    from jinja2.meta import find_undeclared_variables

    from kanister_py.core.templates.jinja import parse_jinja
    from kanister_py.core.templates.jinja.filters import GLOBALS

    tree = parse_jinja(text)
    strange = find_undeclared_variables(tree) - {*ROOTS, *GLOBALS}
    chains: list[jinja.Getattr | jinja.Getitem] = [
        *tree.find_all(jinja.Getattr),
        *tree.find_all(jinja.Getitem),
    ]
    inner = {id(node.node) for node in chains if _jinja_names(node) is not None}
    own = {name.name for name in tree.find_all(jinja.Name) if name.ctx != "load"}
    certain = {id(node) for top in tree.body for node in _certain_nodes(top)}
    for node in tree.find_all((jinja.Getattr, jinja.Getitem, jinja.Name)):
        names = _jinja_names(node)
        if names is not None and id(node) not in inner and names[0] in ROOTS:
            is_certain = id(node) in certain and names[0] not in own
            yield Read(names, node.lineno, is_certain=is_certain)
        elif isinstance(node, jinja.Name) and node.name in strange:
            yield Read((node.name,), node.lineno, is_certain=id(node) in certain)


def _certain_nodes(node: jinja_nodes.Node) -> Iterator[jinja_nodes.Node]:
    """Yield a node and the nodes below it that are evaluated for all parameters.

    Branches, loops, macros and nodes that accept undefined values (`default`, tests, arguments) are
    not searched.
    """
    from jinja2 import nodes as jinja

    yield node
    below: list[jinja_nodes.Node] = []
    match node:
        case jinja.Output() | jinja.Concat():
            below = [*node.nodes]
        case jinja.Getattr():
            below = [node.node]
        case jinja.Getitem():
            below = [node.node, node.arg]
        case jinja.Filter() if node.node is not None and node.name not in _TOLERANT:
            below = [node.node]
        case jinja.And() | jinja.Or():
            below = [node.left]
        case jinja.BinExpr():
            below = [node.left, node.right]
    for child in below:
        yield from _certain_nodes(child)


_TOLERANT: Final = ("default", "d", "items")


def _jinja_names(node: jinja_nodes.Node) -> tuple[str, ...] | None:
    from jinja2 import nodes as jinja

    if isinstance(node, jinja.Name):
        return (node.name,) if node.ctx == "load" else None
    if isinstance(node, jinja.Getattr):
        return _below(node.node, node.attr)
    if isinstance(node, jinja.Getitem) and isinstance(node.arg, jinja.Const):
        return _below(node.node, node.arg.value)
    return None


def _below(node: jinja_nodes.Node, key: Any) -> _NamePath | None:
    above = _jinja_names(node)
    return (*above, key) if above is not None and isinstance(key, str) else None

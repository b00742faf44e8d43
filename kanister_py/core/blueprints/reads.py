"""Reads of a template: what it takes from the parameters, found without rendering it."""

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
    """Say in which language a Blueprint's templates are written."""
    return choose_engine(blueprint.metadata.annotations, templates_of(blueprint))


class Read(NamedTuple):
    """One thing that a template reads: the names that lead to it from the top of the tree.

    `indexed` counts the names, from the end, that stand in an `index` or in brackets:
    for those a missing key is no error in itself. `is_certain` where it is read
    whatever the parameters are. `line` counts from one, in the text.
    """

    names: tuple[str, ...]
    line: int = 1
    indexed: int = 0
    is_certain: bool = True

    def __str__(self) -> str:
        return "." + ".".join(self.names)


def reads_of(text: str, engine: Engine, *, inside_lists: bool = False) -> list[Read]:
    """Find what a text reads; raises TemplateParseError for one that is no template.

    With `inside_lists` also what it reads of the members of lists and maps that it goes
    through: each of them is called EACH.
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
    return [each for each in walker.reads if inside_lists or EACH not in each.names]


def hands_on_profile(text: str, reads: Collection[Read]) -> bool:
    """Say whether a text hands the Profile on as JSON, as kando wants it, asking for none first."""
    return (
        any(each.names == ("Profile",) and each.is_certain for each in reads)
        and _PROFILE_AS_JSON.search(text) is not None
        and _IF_PROFILE.search(text) is None
    )


_PROFILE_AS_JSON: Final = re.compile(
    r"(?i)\bto(pretty|raw)?json[ (]+\$?\.?Profile\b(?!\.)|\bProfile *\| *to(pretty|raw)?json\b"
)
# Up to the next brace, so that no character is scanned twice.
_IF_PROFILE: Final = re.compile(r"\{\{-? *(else )?(if|with)\b[^{}]*\.Profile\b")


def reads_of_action(action: Action, engine: Engine) -> Iterator[Read]:
    """Give what the templates of an action read, but those that cannot be parsed."""
    for each in texts_of(action):
        try:
            yield from reads_of(each.text, engine)
        except TemplateError:
            continue


def check_condition(text: str, functions: Collection[str] | None) -> None:
    """Raise TemplateParseError for what is no condition on an object.

    It is a Go template, and may call these functions besides Go's own; `*` stands for
    those of blueprints. None where it is not known which.
    """
    if is_template(text, Engine.GO):
        parse(text, _ConditionNames(functions))


# Names that most blueprints call. For others the table of functions is loaded, which takes
# longer than reading a Blueprint.
COMMON_NAMES: Final = frozenset(
    {"b64dec", "b64enc", "date", "default", "lower", "quote", "replace", "toDate", "toJson"}
    | {"toString", "trim", "upper"}
)


# The parser asks whether these are functions, at every template; they are not.
UNCALLED_NAMES: Final = frozenset({"break", "continue"})


class _Names(Container[str]):
    def __contains__(self, name: object) -> bool:
        if name in UNCALLED_NAMES:
            return False
        return name in COMMON_NAMES or name in BUILTINS or name in blueprint_functions()


class _ConditionNames(_Names):
    def __init__(self, functions: Collection[str] | None) -> None:
        # Those that blueprints do not have are kubectl's.
        self._functions = ("*", "exists", "base64decode") if functions is None else functions

    def __contains__(self, name: object) -> bool:
        if name in self._functions:
            return True
        return super().__contains__(name) if "*" in self._functions else name in BUILTINS


_NAMES = _Names()
EACH: Final = "[]"
"""Stands among names for a member of a list or a map, whichever it is."""
_Way = tuple[str, ...]


class _Scope(NamedTuple):
    """Dot and variables, as names from the top; None where these are not known."""

    dot: _Way | None
    variables: Mapping[str, _Way | None]
    is_certain: bool

    def inside(self, dot: _Way | None) -> _Scope:
        return _Scope(dot, dict(self.variables), is_certain=False)


_LINE_END: Final = re.compile("\n")


class _Walker:
    """Walk through the tree of a Go template that notes every way down from its data."""

    def __init__(self, text: str) -> None:
        self._line_ends = [found.start() for found in _LINE_END.finditer(text)]
        self.reads: list[Read] = []

    def _note(self, names: _Way, at: int, scope: _Scope, indexed: int = 0) -> _Way:
        if names:
            line = bisect_left(self._line_ends, at) + 1
            self.reads.append(Read(names, line, indexed, scope.is_certain))
        return names

    def block(self, block: nodes.Block | None, scope: _Scope) -> None:
        here = scope._replace(variables=dict(scope.variables))
        for node in block.nodes if block is not None else ():
            if isinstance(node, nodes.Action):
                here = self._declared(node.pipe, here)
            elif isinstance(node, nodes.Branch):
                self._branch(node, here)
            elif isinstance(node, nodes.Invocation) and node.pipe is not None:
                self._pipe(node.pipe, here)

    def _declared(self, pipe: nodes.Pipe, scope: _Scope) -> _Scope:
        names = self._pipe(pipe, scope)
        if not pipe.variables:
            return scope
        named = {variable.names[0]: names for variable in pipe.variables}
        if pipe.is_assignment:
            # It may have been assigned in a branch that was not taken.
            named = dict.fromkeys(named)
        return scope._replace(variables={**scope.variables, **named})

    def _branch(self, node: nodes.Branch, scope: _Scope) -> None:
        inner = self._declared(node.pipe, scope)
        names = self._pipe_names(node.pipe, scope)
        if isinstance(node, nodes.Range):
            member = None if names is None else (*names, EACH)
            # The last variable is the member, one before it its key.
            variables = dict.fromkeys((each.names[0] for each in node.pipe.variables), None)
            variables |= {each.names[0]: member for each in node.pipe.variables[-1:]}
            inner = inner._replace(variables={**inner.variables, **variables})
            self.block(node.body, inner.inside(member))
        else:
            self.block(
                node.body, inner.inside(names if isinstance(node, nodes.With) else scope.dot)
            )
        self.block(node.otherwise, inner.inside(scope.dot))

    def _pipe_names(self, pipe: nodes.Pipe, scope: _Scope) -> _Way | None:
        """Say where a pipe leads without noting it once more."""
        noted = len(self.reads)
        names = self._pipe(pipe, scope)
        del self.reads[noted:]
        return names

    def _pipe(self, pipe: nodes.Pipe, scope: _Scope) -> _Way | None:
        names: _Way | None = None
        for index, command in enumerate(pipe.commands):
            found = self._command(command, scope)
            names = found if index == 0 else None
        return names

    def _command(self, command: nodes.Command, scope: _Scope) -> _Way | None:
        first, *rest = command.args
        if isinstance(first, nodes.Identifier) and first.name == "index" and rest:
            return self._index(rest, scope)
        if isinstance(first, nodes.Identifier) and first.name in ("and", "or") and rest:
            # Only the first is always looked at.
            self._operand(rest[0], scope)
            for each in rest[1:]:
                self._operand(each, scope._replace(is_certain=False))
            return None
        names = self._operand(first, scope)
        for each in rest:
            self._operand(each, scope)
        return names if not rest else None

    def _index(self, args: list[nodes.Node], scope: _Scope) -> _Way | None:
        noted = len(self.reads)
        base = self._operand(args[0], scope)
        keys: list[str] = []
        for each in args[1:]:
            if isinstance(each, nodes.String):
                keys.append(each.text)
            else:
                self._operand(each, scope)
                keys.append(EACH)
        if base is None:
            return None
        if EACH in keys:
            return (*base, *keys)
        if keys and len(self.reads) > noted and self.reads[noted].names == base:
            del self.reads[noted]
        return self._note((*base, *keys), args[0].at, scope, len(keys))

    def _operand(self, node: nodes.Node, scope: _Scope) -> _Way | None:
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
        return None if base is None else self._note((*base, *names), node.at, scope)


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
    own = {each.name for each in tree.find_all(jinja.Name) if each.ctx != "load"}
    certain = {id(each) for top in tree.body for each in _jinja_certain(top)}
    for node in tree.find_all((jinja.Getattr, jinja.Getitem, jinja.Name)):
        names = _jinja_names(node)
        if names is not None and id(node) not in inner and names[0] in ROOTS:
            is_certain = id(node) in certain and names[0] not in own
            yield Read(names, node.lineno, is_certain=is_certain)
        elif isinstance(node, jinja.Name) and node.name in strange:
            yield Read((node.name,), node.lineno, is_certain=id(node) in certain)


def _jinja_certain(node: jinja_nodes.Node) -> Iterator[jinja_nodes.Node]:
    """Give a node and what is read below it whatever the parameters are.

    Branches, loops, macros and what may be undefined (`default`, tests, args) are not gone into.
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
    for each in below:
        yield from _jinja_certain(each)


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


def _below(node: jinja_nodes.Node, key: Any) -> _Way | None:
    above = _jinja_names(node)
    return (*above, key) if above is not None and isinstance(key, str) else None

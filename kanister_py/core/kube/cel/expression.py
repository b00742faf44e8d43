"""CEL expressions: compilation and evaluation.

Every node of the syntax tree is compiled to a function from a scope to a value.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, Final, TypeAlias

from kanister_py.core.kube.cel.errors import CelError, CelLimitExceeded
from kanister_py.core.kube.cel.functions import FUNCTIONS, METHODS, TYPE_NAMES
from kanister_py.core.kube.cel.parser import Node, parse
from kanister_py.core.kube.cel.values import (
    NONE,
    Failure,
    Limit,
    Meter,
    Optional,
    Scope,
    Type,
    Uint,
    add,
    are_equal,
    calculated,
    check_order,
    is_number,
    negate,
    no_overload,
    some,
    subtract,
    type_of,
)

__all__ = ["Expression", "Uint", "compile_cel"]

MAX_LENGTH: Final = 16_384
MAX_WORK: Final = 2_000_000
"""Limit for the work of one evaluation: about one unit per operation or character of output."""


class Expression:
    """A compiled expression. It can be evaluated repeatedly, from any thread."""

    __slots__ = ("_run", "is_never_bool", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        if len(text) > MAX_LENGTH:
            raise CelLimitExceeded(text, f"it is longer than {MAX_LENGTH} characters")
        try:
            tree = parse(text)
            self._run = _compiled(tree)
        except Failure as failure:
            raise CelError(text, str(failure), failure.position) from None
        except (Limit, RecursionError):
            raise CelLimitExceeded(text, "it nests too deep") from None
        self.is_never_bool = _is_never_bool(tree)
        """Whether the result cannot be a bool for any variables."""

    def evaluate(self, variables: Mapping[str, Any], *, max_work: int = MAX_WORK) -> Any:
        """Return the value of the expression. Raises `CelError` if the evaluation fails."""
        try:
            return self._run(Scope(variables, Meter(max_work)))
        except Failure as failure:
            raise CelError(self.text, str(failure)) from None
        except Limit:
            raise CelLimitExceeded(self.text, "it takes too much work") from None
        except RecursionError:
            raise CelLimitExceeded(self.text, "it nests too deep") from None


@lru_cache(maxsize=1024)
def compile_cel(text: str) -> Expression:
    """Compile an expression, with a cache. Raises `CelError` if it is not valid."""
    return Expression(text)


def _is_never_bool(node: Node) -> bool:
    match node.kind:
        case "value":
            return not isinstance(node.parts[0], bool)
        case "list" | "map" | "negative":
            return True
        case "chain":
            return node.parts[1][-1][0] in "+-*/%"
        case "if":
            return all(map(_is_never_bool, node.parts[1:]))
        case "call":
            return node.parts[0] in _NEVER_BOOL
    return False


_NEVER_BOOL: Final = ("size", "int", "uint", "double", "string", "bytes", "duration", "timestamp")

Run: TypeAlias = Callable[[Scope], Any]


def _compiled(part: Any) -> Any:
    """Compile a node and its children to a function. Other values are returned unchanged."""
    if isinstance(part, Node):
        compile_node = _COMPILERS.get(part.kind)
        if compile_node is not None:
            return compile_node(part)
        return partial(_RUNS[part.kind], *map(_compiled, part.parts))
    return tuple(map(_compiled, part)) if isinstance(part, tuple) else part


def _value(node: Node) -> Run:
    value = node.parts[0]
    return lambda _scope: value


def _name(node: Node) -> Run:
    name = node.parts[0]

    def run(scope: Scope) -> Any:
        try:
            return scope.names[name]
        except KeyError:
            if name in TYPE_NAMES:
                return Type(name)
            raise Failure(f"undeclared reference to '{name}'") from None

    return run


def _select(node: Node) -> Run:
    of, name, is_optional = map(_compiled, node.parts)

    def run(scope: Scope) -> Any:
        value = of(scope)
        if isinstance(value, Mapping) and not is_optional:
            try:
                return value[name]
            except KeyError:
                raise Failure(f"no such key: {name}") from None
        if is_optional or isinstance(value, Optional):
            return _optional_part(value, name)
        raise Failure(f"type '{type_of(value)}' does not support field selection")

    return run


def _optional_part(value: Any, key: Any) -> Optional:
    if isinstance(value, Optional):
        return _optional_part(value.value, key) if value.has_value else NONE
    if isinstance(value, Mapping):
        return some(value[key]) if isinstance(key, str) and key in value else NONE
    if isinstance(value, list) and is_number(key):
        is_place = key == key // 1 and 0 <= key < len(value)
        return some(value[int(key)]) if is_place else NONE
    raise no_overload("_[?_]", value, key)


def _index(of: Run, at: Run, is_optional: bool, scope: Scope) -> Any:
    value, key = of(scope), at(scope)
    if is_optional or isinstance(value, Optional):
        return _optional_part(value, key)
    if isinstance(value, list) and is_number(key):
        if key != key // 1 or not 0 <= key < len(value):
            raise Failure(f"index out of bounds: {key}")
        return value[int(key)]
    if isinstance(value, Mapping):
        for entry in _entry_at(scope, value, key):
            return entry
        raise Failure(f"no such key: {key}")
    raise no_overload("_[_]", value, key)


def _entry_at(scope: Scope, value: Mapping[Any, Any], key: Any) -> tuple[Any, ...]:
    """Return the value at a key as a tuple, empty if absent. Unlike in Python, true is not 1."""
    if isinstance(key, str):
        return (value[key],) if key in value else ()
    scope.spend(len(value))
    return tuple(entry for own_key, entry in value.items() if are_equal(scope, own_key, key))[:1]


def _list(parts: Sequence[tuple[Run, bool]], scope: Scope) -> list[Any]:
    scope.spend(len(parts))
    values = []
    for item, is_optional in parts:
        value = item(scope)
        if not is_optional:
            values.append(value)
        elif _checked_optional(value).has_value:
            values.append(value.value)
    return values


def _checked_optional(value: Any) -> Optional:
    if not isinstance(value, Optional):
        raise Failure(f"an optional value expected, found {type_of(value)}")
    return value


def _map(parts: Sequence[tuple[Run, Run, bool]], scope: Scope) -> dict[Any, Any]:
    scope.spend(len(parts))
    values: dict[Any, Any] = {}
    for key_of, value_of, is_optional in parts:
        key, value = key_of(scope), value_of(scope)
        if not isinstance(key, str | int):
            raise Failure(f"unsupported key type: {type_of(key)}")
        if is_optional:
            if not _checked_optional(value).has_value:
                continue
            value = value.value
        if key in values:
            raise Failure(f"duplicate key {key} in a map")
        values[key] = value
    return values


def _junction(ends: bool, sign: str, parts: Sequence[Run], scope: Scope) -> bool:
    """Evaluate parts until one decides the result. Errors count only if none decides it."""
    failure: Failure | None = None
    for part in parts:
        try:
            value = part(scope)
            if value is ends:
                return bool(value)
            if not isinstance(value, bool):
                raise Failure(f"no such overload: _{sign}_ of {type_of(value)}")
        except Failure as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return not ends


def _contains(scope: Scope, one: Any, other: Any) -> bool:
    if isinstance(other, list):
        scope.spend(len(other))
        return any(are_equal(scope, one, element) for element in other)
    if isinstance(other, Mapping):
        return bool(_entry_at(scope, other, one))
    raise no_overload("@in", one, other)


def _ordering(holds: Callable[[Any, Any], bool]) -> Callable[[Scope, Any, Any], bool]:
    def ordered(scope: Scope, one: Any, other: Any) -> bool:
        check_order(scope, one, other)
        return holds(one, other)

    return ordered


def _arithmetic(name: str) -> Callable[[Scope, Any, Any], Any]:
    return lambda _scope, one, other: calculated(name, one, other)


_OPERATORS: Final[Mapping[str, Callable[[Scope, Any, Any], Any]]] = {
    "+": add,
    "-": subtract,
    **{sign: _arithmetic(f"_{sign}_") for sign in "*/%"},
    "==": are_equal,
    "!=": lambda scope, one, other: not are_equal(scope, one, other),
    "<": _ordering(operator.lt),
    "<=": _ordering(operator.le),
    ">": _ordering(operator.gt),
    ">=": _ordering(operator.ge),
    "in": _contains,
}


def _chain(node: Node) -> Run:
    first = _compiled(node.parts[0])
    operations = [(_OPERATORS[operator], _compiled(operand)) for operator, operand in node.parts[1]]
    if len(operations) == 1:
        operate, other = operations[0]
        return lambda scope: operate(scope, first(scope), other(scope))
    return partial(_chained, first, operations)


def _chained(first: Run, operations: Sequence[tuple[Callable[..., Any], Run]], scope: Scope) -> Any:
    scope.spend(len(operations))
    value = first(scope)
    for operate, operand in operations:
        value = operate(scope, value, operand(scope))
    return value


def _not(of: Run, is_odd: bool, scope: Scope) -> bool:
    value = of(scope)
    if not isinstance(value, bool):
        raise no_overload("!_", value)
    return not value if is_odd else value


def _negative(of: Run, is_odd: bool, scope: Scope) -> Any:
    value = negate(of(scope))
    return value if is_odd else negate(value)


def _if(condition: Run, yes: Run, no: Run, scope: Scope) -> Any:
    value = condition(scope)
    if not isinstance(value, bool):
        raise no_overload("_?_:_", value)
    return yes(scope) if value else no(scope)


# Calls and macros


def _call(node: Node) -> Run:
    name, target, arguments = node.parts
    if target is None:
        if name == "has":
            return _has(node)
        function = FUNCTIONS.get(name)
    else:
        macro = _MACROS.get((name, len(arguments)))
        if macro is not None and (name != "bind" or target.parts == ("cel",)):
            return macro(node)
        if target.kind == "name" and f"{target.parts[0]}.{name}" in FUNCTIONS:
            function, target = FUNCTIONS[f"{target.parts[0]}.{name}"], None
        else:
            function = METHODS.get(name)
    if function is None:
        raise Failure(f"undeclared reference to '{name}'", node.position)
    counts = function.counts if target is None else [count - 1 for count in function.counts]
    if len(arguments) not in counts:
        raise Failure(f"no such overload: {name} with {len(arguments)} arguments", node.position)
    parts = [_compiled(argument) for argument in ((target, *arguments) if target else arguments)]
    return partial(_called, function.call, parts)


def _called(call: Callable[..., Any], parts: Sequence[Run], scope: Scope) -> Any:
    scope.spend(1)
    return call(scope, *[part(scope) for part in parts])


def _has(node: Node) -> Run:
    arguments = node.parts[2]
    if len(arguments) != 1 or arguments[0].kind != "select":
        raise Failure("has() requires one field, such as object.status", node.position)
    inner, name, _ = arguments[0].parts
    return partial(_has_field, _compiled(inner), name)


def _has_field(of: Run, name: str, scope: Scope) -> bool:
    value = of(scope)
    if isinstance(value, Optional):
        return value.has_value and isinstance(value.value, Mapping) and name in value.value
    if not isinstance(value, Mapping):
        raise Failure(f"type '{type_of(value)}' does not support field selection")
    return name in value


def _comprehension(fold: Callable[..., Any], node: Node) -> Run:
    """Compile a macro that evaluates an expression for every element: `l.exists(x, x > 1)`."""
    _, target, (variable, *bodies) = node.parts
    name, work = _variable(variable), sum(map(_size, bodies))
    return partial(_iterate, fold, name, work, _compiled(target), _compiled(tuple(bodies)))


def _iterate(
    fold: Callable[..., Any], name: str, work: int, of: Run, bodies: Sequence[Run], scope: Scope
) -> Any:
    values = of(scope)
    if not isinstance(values, list | Mapping):
        raise Failure(f"type '{type_of(values)}' cannot be iterated")
    inner, names = scope.inside(name)

    def at(value: Any) -> Scope:
        inner.spend(work)
        names[name] = value
        return inner

    return fold(values, at, *bodies)


def _variable(node: Node) -> str:
    if node.kind != "name":
        raise Failure("the name of a variable expected", node.position)
    name: str = node.parts[0]
    return name


def _size(node: Any) -> int:
    """Return the number of nodes in a subtree."""
    if not isinstance(node, tuple):
        return 0
    return int(isinstance(node, Node)) + sum(_size(child) for child in node)


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Failure(f"true or false expected, found {type_of(value)}")
    return value


_At: TypeAlias = Callable[[Any], Scope]


def _decided(values: Iterable[Any], at: _At, test: Run, *, by: bool) -> bool:
    """Return whether one element decides the result. Errors count only if none does."""
    failure: Failure | None = None
    for value in values:
        try:
            if _truth(test(at(value))) is by:
                return by
        except Failure as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return not by


def _exists_one(values: Iterable[Any], at: _At, test: Run) -> bool:
    return sum([_truth(test(at(value))) for value in values]) == 1


def _filter(values: Iterable[Any], at: _At, test: Run) -> list[Any]:
    return [value for value in values if _truth(test(at(value)))]


def _mapped(values: Iterable[Any], at: _At, make: Run) -> list[Any]:
    return [make(at(value)) for value in values]


def _filtered_mapped(values: Iterable[Any], at: _At, test: Run, make: Run) -> list[Any]:
    return [make(at(value)) for value in values if _truth(test(at(value)))]


def _bind(node: Node) -> Run:
    variable, value, body = node.parts[2]
    return partial(_bound, _variable(variable), _compiled(value), _compiled(body))


def _bound(name: str, of: Run, body: Run, scope: Scope) -> Any:
    scope.spend(1)
    inner, names = scope.inside(name)
    names[name] = of(scope)
    return body(inner)


def _opt_map(node: Node) -> Run:
    macro, target, (variable, body) = node.parts
    return partial(_mapped_optional, macro, _variable(variable), _compiled(target), _compiled(body))


def _mapped_optional(macro: str, name: str, of: Run, body: Run, scope: Scope) -> Optional:
    value = _checked_optional(of(scope))
    if not value.has_value:
        return NONE
    inner, names = scope.inside(name)
    inner.spend(1)
    names[name] = value.value
    mapped = body(inner)
    return some(mapped) if macro == "optMap" else _checked_optional(mapped)


_MACROS: Final[Mapping[tuple[str, int], Callable[[Node], Run]]] = {
    ("all", 2): partial(_comprehension, partial(_decided, by=False)),
    ("exists", 2): partial(_comprehension, partial(_decided, by=True)),
    ("exists_one", 2): partial(_comprehension, _exists_one),
    ("existsOne", 2): partial(_comprehension, _exists_one),
    ("filter", 2): partial(_comprehension, _filter),
    ("map", 2): partial(_comprehension, _mapped),
    ("map", 3): partial(_comprehension, _filtered_mapped),
    ("bind", 3): _bind,
    ("optMap", 2): _opt_map,
    ("optFlatMap", 2): _opt_map,
}
# The most frequent kinds of nodes: a closure for the node is faster than a `partial`.
_COMPILERS: Final[Mapping[str, Callable[[Node], Run]]] = {
    "value": _value,
    "name": _name,
    "select": _select,
    "chain": _chain,
    "call": _call,
}
_RUNS: Final[Mapping[str, Callable[..., Any]]] = {
    "index": _index,
    "list": _list,
    "map": _map,
    "and": partial(_junction, False, "&&"),
    "or": partial(_junction, True, "||"),
    "not": _not,
    "negative": _negative,
    "if": _if,
}
"""Functions for other kinds of nodes, called with the compiled parts and a scope."""

"""Lists: first and last items, order, sets, slicing and joining."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kanister_py.gotemplate.functions import Function, GoError, go_function
from kanister_py.gotemplate.limits import Context
from kanister_py.gotemplate.sprig.conversions import (
    NIL_DEREFERENCE,
    deep_equal,
    is_empty,
    items_of,
    to_int64,
)
from kanister_py.gotemplate.sprig.numbers import cast_to_int
from kanister_py.gotemplate.types import ANY_SLICE, Kind
from kanister_py.gotemplate.values import GoSlice, Value, kind_of, type_of

# A nil list, where Go returns one: it prints as an empty list, but is null in JSON.
_NO_LIST = GoSlice(ANY_SLICE, is_nil=True)


def _refusal(verb: str, *, as_list: bool = False) -> Callable[[str], str]:
    if as_list:
        return lambda kind: f"Cannot {verb} type {kind} as list"
    return lambda kind: f"Cannot {verb} on type {kind}"


def _changed(verb: str, change: Callable[..., Sequence[Value]], params: str = "") -> Function:
    """Declare a function that returns a list, optionally with another argument."""

    def changed(values: Value, *more: Value) -> Sequence[Value]:
        return change(items_of(values, _refusal(verb)), *more)

    return go_function(f"func(interface{{}}{params}) []interface{{}}")(changed)


def _picked(verb: str, at: int) -> Function:
    def picked(values: Value) -> Value:
        items = items_of(values, _refusal(verb))
        return items[at] if items else None

    return go_function("func(interface{}) interface{}")(picked)


@go_function("func(interface{}) []interface{}")
def compact(values: Value) -> list[Value]:
    return [
        item
        for item in items_of(values, lambda kind: f"Cannot compact on type {kind}")
        if not is_empty(item)
    ]


def _is_in(items: Sequence[Value], value: Value, context: Context) -> bool:
    return any(deep_equal(value, item, context) for item in items)


@go_function("func(interface{}) []interface{}", context=True)
def uniq(context: Context, values: Value) -> list[Value]:
    unique: list[Value] = []
    for item in items_of(values, _refusal("find uniq")):
        if not _is_in(unique, item, context):
            unique.append(item)
    return unique


@go_function("func(interface{}, ...interface{}) []interface{}", context=True)
def without(context: Context, values: Value, *excluded: Value) -> list[Value]:
    return [
        item
        for item in items_of(values, _refusal("find without"))
        if not _is_in(excluded, item, context)
    ]


@go_function("func(interface{}, interface{}) bool", context=True)
def has(context: Context, value: Value, values: Value) -> bool:
    if values is None:
        return False
    return _is_in(items_of(values, _refusal("find has")), value, context)


@go_function("func(...interface{}) interface{}")
def concat(*lists: Value) -> Sequence[Value]:
    joined: list[Value] = []
    for values in lists:
        joined += items_of(values, _refusal("concat", as_list=True))
    return joined or _NO_LIST


def _slice(to_int: Callable[[Value], int]) -> Function:
    """Build `slice`; its second bound may exceed the length up to the capacity."""

    def cut(values: Value, *bounds: Value) -> Value:
        kind = kind_of(values)
        if kind is None:
            raise GoError(NIL_DEREFERENCE)
        if kind is not Kind.SLICE:
            raise GoError(f"list should be type of slice or array but {kind}")
        if not values:
            return None
        start = to_int(bounds[0]) if bounds else 0
        end = to_int(bounds[1]) if len(bounds) > 1 else len(values)
        beyond: Sequence[Value] = values.beyond if isinstance(values, GoSlice) else ()
        if not 0 <= start <= end <= len(values) + len(beyond):
            raise GoError("reflect.Value.Slice: slice index out of bounds")
        if isinstance(values, bytes):
            return values[start:end]
        everything = [*values, *beyond]
        go_type = type_of(values)
        assert go_type is not None
        return GoSlice(go_type, everything[start:end], beyond=everything[end:])

    return go_function("func(interface{}, ...interface{}) interface{}")(cut)


@go_function("func(int, interface{}) [][]interface{}")
def chunk(size: int, values: Value) -> list[Sequence[Value]]:
    items = items_of(values, lambda kind: f"Cannot chunk type {kind}")
    if size <= 0:
        raise GoError("runtime error: makeslice: len out of range")
    return [items[start : start + size] for start in range(0, len(items), size)]


@go_function("func(...interface{}) []interface{}")
def make_list(*values: Value) -> list[Value]:
    return list(values)


_PUSH = _changed("push", lambda items, value: [*items, value], ", interface{}")
_COMMON = {
    "append": _PUSH,
    "compact": compact,
    "concat": concat,
    "first": _picked("find first", 0),
    "has": has,
    "initial": _changed("find initial", lambda items: items[:-1] if items else _NO_LIST),
    "last": _picked("find last", -1),
    "list": make_list,
    "prepend": _changed("prepend", lambda items, value: [value, *items], ", interface{}"),
    "push": _PUSH,
    "rest": _changed("find rest", lambda items: items[1:] if items else _NO_LIST),
    "reverse": _changed("find reverse", lambda items: items[::-1]),
    "tuple": make_list,
    "uniq": uniq,
    "without": without,
}

OF_BLUEPRINTS = {**_COMMON, "slice": _slice(to_int64)}
OF_COMPOSITIONS = {**_COMMON, "slice": _slice(cast_to_int)}

NEWER = {"chunk": chunk}

# Functions that also have a name with the prefix `must`.
MUST_NAMES = (
    "append",
    "chunk",
    "compact",
    "first",
    "has",
    "initial",
    "last",
    "prepend",
    "push",
    "rest",
    "reverse",
    "slice",
    "uniq",
    "without",
)

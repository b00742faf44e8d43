"""Dictionaries: creating, reading, changing, merging, copying."""

from __future__ import annotations

from typing import NamedTuple

from kanister_py.gotemplate.functions import Function, GoError, go_function
from kanister_py.gotemplate.limits import Context
from kanister_py.gotemplate.sprig.conversions import guarded, text_of
from kanister_py.gotemplate.types import Kind
from kanister_py.gotemplate.values import (
    GoMap,
    GoSlice,
    NilBytes,
    Struct,
    Value,
    is_nil,
    kind_of,
    type_name,
    type_of,
)

Map = dict[str, Value]


class Rules(NamedTuple):
    """Rules for merging two maps.

    Empty values in the target are always replaced, others only if `overwrites` is set.
    In the older library, for blueprints, a map does not replace a value that is no map.
    """

    overwrites: bool
    keeps_non_maps: bool


def merge_into(target: Map, source: Map, context: Context, rules: Rules) -> None:
    """Merge `source` into `target`.

    The target is changed in place, and shares the values of the source, as in Go.
    """
    for key, value in source.items():
        context.spend(1)
        if value is None:
            if rules.overwrites:
                target[key] = None
            continue
        kind = kind_of(value)
        is_there = key in target
        before = target.get(key)
        if kind is Kind.MAP:
            _merge_inner(before, value, context, rules)
        elif kind is Kind.SLICE:
            _set_list(target, key, value, overwrites=rules.overwrites)
        if before:
            if kind is Kind.SLICE:
                continue
            if kind is Kind.MAP and (rules.keeps_non_maps or kind_of(before) is Kind.MAP):
                continue
        if rules.overwrites or not is_there or not before:
            target[key] = value


def _merge_inner(before: Value, value: Value, context: Context, rules: Rules) -> None:
    if kind_of(before) is not Kind.MAP or is_nil(before):
        return
    if type_of(before) is not type_of(value):
        # Go fails if the types of entries do not fit; only maps of the same type are merged.
        _check_entries(before, value)
    merge_into(before, value, context, rules)


def _check_entries(before: Value, value: Value) -> None:
    target, source = type_of(before), type_of(value)
    assert target is not None
    assert source is not None
    if target.elem is not source.elem and target.elem is not None:
        if target.elem.kind is Kind.INTERFACE:
            return
        raise GoError(
            f"reflect.Value.SetMapIndex: value of type {source.elem} "
            f"is not assignable to type {target.elem}"
        )


def _set_list(target: Map, key: str, value: Value, *, overwrites: bool) -> None:
    """Set a list before the previous value is checked, even an empty list."""
    before = target.get(key)
    if overwrites or not target:
        target[key] = value
    elif before is None:
        go_type = type_of(value)
        assert go_type is not None
        target[key] = GoSlice(go_type) if not isinstance(value, bytes) else b""


_ANY_MAP = "map[string]interface{}"


@go_function(f"func(...interface{{}}) {_ANY_MAP}", context=True)
def make_dict(context: Context, *pairs: Value) -> Map:
    """Create a dictionary of alternating keys and values; a last key without value gets ""."""
    entries: Map = {}
    for position in range(0, len(pairs), 2):
        entries[text_of(pairs[position], context)] = (
            pairs[position + 1] if position + 1 < len(pairs) else ""
        )
    return entries


@go_function(f"func({_ANY_MAP}, string, interface{{}}) {_ANY_MAP}")
def set_key(entries: Map, key: str, value: Value) -> Map:
    if is_nil(entries):
        raise GoError("assignment to entry in nil map")
    entries[key] = value
    return entries


@go_function(f"func({_ANY_MAP}, string) {_ANY_MAP}")
def unset_key(entries: Map, key: str) -> Map:
    entries.pop(key, None)
    return entries


def _merge(rules: Rules, *, may_fail: bool) -> Function:
    def merge(context: Context, target: Map, *sources: Map) -> Value:
        if is_nil(target):
            target = {}
        for source in sources:
            try:
                merge_into(target, source, context, rules)
            except RecursionError:
                raise GoError("the value is nested too deeply, or contains itself") from None
        return target

    result = "(interface{}, error)" if may_fail else "interface{}"
    return go_function(f"func({_ANY_MAP}, ...{_ANY_MAP}) {result}", context=True)(merge)


def _merges(*, keeps_non_maps: bool) -> dict[str, Function]:
    filling, overwriting = (Rules(overwrites, keeps_non_maps) for overwrites in (False, True))
    return {
        "merge": _merge(filling, may_fail=False),
        "mergeOverwrite": _merge(overwriting, may_fail=False),
        "mustMerge": _merge(filling, may_fail=True),
        "mustMergeOverwrite": _merge(overwriting, may_fail=True),
    }


def copied(value: Value, context: Context) -> Value:
    """Copy a value so that it shares nothing that a template could change."""
    context.spend(1)
    if isinstance(value, Struct):
        struct = Struct(value.go_type)
        for name in value.struct.fields:
            struct[name] = copied(value[name], context)
        return struct
    if isinstance(value, GoMap):
        entries = {key: copied(member, context) for key, member in value.items()}
        return GoMap(value.go_type, entries, is_nil=value.is_nil)
    if isinstance(value, dict):
        return {key: copied(member, context) for key, member in value.items()}
    if isinstance(value, GoSlice):
        items = [copied(member, context) for member in value]
        return GoSlice(value.go_type, items, is_nil=value.is_nil)
    if isinstance(value, list):
        return [copied(member, context) for member in value]
    return b"" if isinstance(value, NilBytes) else value


@guarded
def _deep_copy(context: Context, value: Value) -> Value:
    if value is None:
        raise GoError("reflect: call of reflect.Value.Type on zero Value")
    return copied(value, context)


deep_copy = go_function("func(interface{}) interface{}", context=True)(_deep_copy)


@go_function("func(...interface{}) (interface{}, error)")
def dig(*path: Value) -> Value:
    """Return a nested entry. Arguments: the keys, the default value, the dictionary."""
    if len(path) < 3:
        raise GoError("dig needs at least three arguments")
    entries = _as_map(path[-1])
    for key in path[:-2]:
        if not isinstance(key, str):
            raise _conversion(key, "string")
    *inner, final = path[:-2]
    for key in inner:
        if key not in entries:
            return path[-2]
        entries = _as_map(entries[key])
    return entries.get(final, path[-2])


def _as_map(value: Value) -> Map:
    if type(value) is dict:
        return value
    if kind_of(value) is Kind.MAP and type_name(value) == "map[string]interface {}":
        assert isinstance(value, dict)
        return value
    raise _conversion(value, "map[string]interface {}")


def _conversion(value: Value, target: str) -> GoError:
    actual = "nil" if value is None else type_name(value)
    return GoError(f"interface conversion: interface {{}} is {actual}, not {target}")


OF_BLUEPRINTS: dict[str, Function] = {
    "deepCopy": deep_copy,
    "dict": make_dict,
    "hasKey": go_function(f"func({_ANY_MAP}, string) bool")(lambda entries, key: key in entries),
    # In the order of the entries; Go's order is random.
    "keys": go_function(f"func(...{_ANY_MAP}) []string")(
        lambda *dicts: [key for entries in dicts for key in entries]
    ),
    **_merges(keeps_non_maps=True),
    "omit": go_function(f"func({_ANY_MAP}, ...string) {_ANY_MAP}")(
        lambda entries, *excluded: {k: entries[k] for k in entries if k not in excluded}
    ),
    "pick": go_function(f"func({_ANY_MAP}, ...string) {_ANY_MAP}")(
        lambda entries, *keys: {key: entries[key] for key in keys if key in entries}
    ),
    "pluck": go_function(f"func(string, ...{_ANY_MAP}) []interface{{}}")(
        lambda key, *dicts: [entries[key] for entries in dicts if key in entries]
    ),
    "set": set_key,
    "unset": unset_key,
    "values": go_function(f"func({_ANY_MAP}) []interface{{}}")(
        lambda entries: list(entries.values())
    ),
}
NEWER: dict[str, Function] = {
    "dig": dig,
    "get": go_function(f"func({_ANY_MAP}, string) interface{{}}")(
        lambda entries, key: entries.get(key, "")
    ),
    "mustDeepCopy": go_function("func(interface{}) (interface{}, error)", context=True)(_deep_copy),
}
OF_COMPOSITIONS = {**OF_BLUEPRINTS, **_merges(keeps_non_maps=False)}

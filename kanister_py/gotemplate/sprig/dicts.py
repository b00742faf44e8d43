"""Dictionaries: making, reading, changing, merging, copying."""

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
    """How two maps are merged.

    What is empty in the target is always replaced, the rest only where it `overwrites`.
    In the older library, that of blueprints, no map replaces what is none.
    """

    overwrites: bool
    keeps_what_is_no_map: bool


def merge_into(target: Map, source: Map, context: Context, rules: Rules) -> None:
    """Fill `target` from `source`.

    The target is changed in place, and takes over values without copying them, as Go does.
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
            _take_list(target, key, value, overwrites=rules.overwrites)
        if before:
            if kind is Kind.SLICE:
                continue
            if kind is Kind.MAP and (rules.keeps_what_is_no_map or kind_of(before) is Kind.MAP):
                continue
        if rules.overwrites or not is_there or not before:
            target[key] = value


def _merge_inner(before: Value, value: Value, context: Context, rules: Rules) -> None:
    if kind_of(before) is not Kind.MAP or is_nil(before):
        return
    if type_of(before) is not type_of(value):
        # Go stops where the types of two entries do not fit; only maps of one type are merged.
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


def _take_list(target: Map, key: str, value: Value, *, overwrites: bool) -> None:
    """A list is taken over before it is asked what was there: an empty one too."""
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
    """Keys and values in turn; a key without a value gets an empty text."""
    made: Map = {}
    for position in range(0, len(pairs), 2):
        made[text_of(pairs[position], context)] = (
            pairs[position + 1] if position + 1 < len(pairs) else ""
        )
    return made


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


def _merges(*, keeps_what_is_no_map: bool) -> dict[str, Function]:
    filling, overwriting = (Rules(each, keeps_what_is_no_map) for each in (False, True))
    return {
        "merge": _merge(filling, may_fail=False),
        "mergeOverwrite": _merge(overwriting, may_fail=False),
        "mustMerge": _merge(filling, may_fail=True),
        "mustMergeOverwrite": _merge(overwriting, may_fail=True),
    }


def copied(value: Value, context: Context) -> Value:
    """The value again, sharing nothing that a template could change."""
    context.spend(1)
    if isinstance(value, Struct):
        made = Struct(value.go_type)
        for name in value.struct.fields:
            made[name] = copied(value[name], context)
        return made
    if isinstance(value, GoMap):
        entries = {key: copied(each, context) for key, each in value.items()}
        return GoMap(value.go_type, entries, is_nil=value.is_nil)
    if isinstance(value, dict):
        return {key: copied(each, context) for key, each in value.items()}
    if isinstance(value, GoSlice):
        items = [copied(each, context) for each in value]
        return GoSlice(value.go_type, items, is_nil=value.is_nil)
    if isinstance(value, list):
        return [copied(each, context) for each in value]
    return b"" if isinstance(value, NilBytes) else value


@guarded
def _deep_copy(context: Context, value: Value) -> Value:
    if value is None:
        raise GoError("reflect: call of reflect.Value.Type on zero Value")
    return copied(value, context)


deep_copy = go_function("func(interface{}) interface{}", context=True)(_deep_copy)


@go_function("func(...interface{}) (interface{}, error)")
def dig(*path: Value) -> Value:
    """Keys, what to take if one is missing, and the dictionary they lead into."""
    if len(path) < 3:
        raise GoError("dig needs at least three arguments")
    found = _as_map(path[-1])
    for key in path[:-2]:
        if not isinstance(key, str):
            raise _conversion(key, "string")
    *inner, final = path[:-2]
    for key in inner:
        if key not in found:
            return path[-2]
        found = _as_map(found[key])
    return found.get(final, path[-2])


def _as_map(value: Value) -> Map:
    if type(value) is dict:
        return value
    if kind_of(value) is Kind.MAP and type_name(value) == "map[string]interface {}":
        assert isinstance(value, dict)
        return value
    raise _conversion(value, "map[string]interface {}")


def _conversion(value: Value, wanted: str) -> GoError:
    found = "nil" if value is None else type_name(value)
    return GoError(f"interface conversion: interface {{}} is {found}, not {wanted}")


OF_BLUEPRINTS: dict[str, Function] = {
    "deepCopy": deep_copy,
    "dict": make_dict,
    "hasKey": go_function(f"func({_ANY_MAP}, string) bool")(lambda entries, key: key in entries),
    # In the order of the entries; Go's own order is a different one each time.
    "keys": go_function(f"func(...{_ANY_MAP}) []string")(
        lambda *dicts: [key for entries in dicts for key in entries]
    ),
    **_merges(keeps_what_is_no_map=True),
    "omit": go_function(f"func({_ANY_MAP}, ...string) {_ANY_MAP}")(
        lambda entries, *left_out: {k: entries[k] for k in entries if k not in left_out}
    ),
    "pick": go_function(f"func({_ANY_MAP}, ...string) {_ANY_MAP}")(
        lambda entries, *wanted: {key: entries[key] for key in wanted if key in entries}
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
OF_COMPOSITIONS = {**OF_BLUEPRINTS, **_merges(keeps_what_is_no_map=False)}

"""Merging of maps.

The first map is changed in place, and takes over values of the second without
copying them, as Go does.
"""

from __future__ import annotations

from typing import NamedTuple

from kanister_py.gotemplate.functions import GoError
from kanister_py.gotemplate.limits import Context
from kanister_py.gotemplate.types import Kind
from kanister_py.gotemplate.values import GoSlice, Value, is_nil, kind_of, type_of

Map = dict[str, Value]


class Rules(NamedTuple):
    """How two maps are merged.

    What is empty in the target is always replaced, the rest only where it `overwrites`.
    In the older library, that of blueprints, no map replaces what is none.
    """

    overwrites: bool
    keeps_what_is_no_map: bool


def merge_into(target: Map, source: Map, context: Context, rules: Rules) -> None:
    """Fill `target` from `source`."""
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

"""Deep copies of JSON values, fast, and maps laid over each other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def copy_json(value: Any) -> Any:
    """Copy a value of JSON so that nothing of it is shared with the original.

    Several times as fast as a general deep copy: there are no cycles and no
    objects of other kinds to think of. Mappings become dicts, tuples lists.
    """
    kind = type(value)
    if kind is dict:
        # One flat copy first, in C; then only what is deep is looked at again.
        copied = value.copy()
        for key, inside in value.items():
            if type(inside) not in _PLAIN:
                copied[key] = copy_json(inside)
        return copied
    if kind is list:
        return [inside if type(inside) in _PLAIN else copy_json(inside) for inside in value]
    if kind in _PLAIN:
        return value
    if isinstance(value, Mapping):
        return {key: copy_json(inside) for key, inside in value.items()}
    if isinstance(value, tuple):
        return [copy_json(inside) for inside in value]
    return value


def merged_maps(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Lay one map over another, and maps inside them over each other; neither is changed."""
    laid = dict(one)
    for key, value in other.items():
        there = laid.get(key)
        if isinstance(value, dict) and isinstance(there, dict):
            laid[key] = merged_maps(there, value)
        else:
            laid[key] = value
    return laid


_PLAIN = frozenset({str, int, bool, float, type(None)})

"""Deep copies and deep merges of JSON values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def copy_json(value: Any) -> Any:
    """Return a deep copy of a JSON value. Mappings become dicts, and tuples lists.

    Several times as fast as `copy.deepcopy`, which must also handle cycles and objects of
    other types.
    """
    kind = type(value)
    if kind is dict:
        # A shallow copy in C, of which only nested values are then replaced.
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
    """Return a map with the values of `other` merged into `one`. Nested maps are merged, too."""
    merged = dict(one)
    for key, value in other.items():
        present = merged.get(key)
        if isinstance(value, dict) and isinstance(present, dict):
            merged[key] = merged_maps(present, value)
        else:
            merged[key] = value
    return merged


_PLAIN = frozenset({str, int, bool, float, type(None)})

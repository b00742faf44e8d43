"""YAML as the original's templates write it.

Four blanks a level, lists inside maps set in, keys in natural order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kanister_py.core.objects.go_yaml import in_go_order
from kanister_py.core.templates.kube_types import KubeTime
from kanister_py.functions.composition.go_templating.yaml_writing import Bareword, written
from kanister_py.gotemplate import GoError
from kanister_py.gotemplate.layouts import format_time
from kanister_py.gotemplate.times import Duration, Time
from kanister_py.gotemplate.values import Struct

_MOST_DEPTH = 100


def to_yaml(value: Any, spend: Callable[[int], None]) -> str:
    """Write a value as YAML. `spend` counts the values before they are written."""
    return written(_plain(value, spend, 0))


def _plain(value: Any, spend: Callable[[int], None], depth: int) -> Any:
    if depth > _MOST_DEPTH:
        raise GoError(f"yaml: nested deeper than {_MOST_DEPTH} levels")
    spend(1)
    if isinstance(value, str):
        spend(len(value) // 8)
        return str(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Struct):
        if isinstance(value, KubeTime):
            return _rfc3339(value.moment)  # a text of its own, so it stands in quotes
        return {
            name.lower(): _plain(value[name], spend, depth + 1)
            for name, field in value.struct.fields.items()
            if field.is_exported
        }
    if isinstance(value, Mapping):
        return {
            key: _plain(value[key], spend, depth + 1) for key in in_go_order(value, is_third=True)
        }
    if isinstance(value, list | tuple):
        return [_plain(each, spend, depth + 1) for each in value]
    if isinstance(value, bytes):
        return [int(each) for each in value]
    return _atom(value)


def _atom(value: Any) -> Any:
    """Give a number as Python's own, and what Go writes as a text as that text."""
    if isinstance(value, Time):
        return Bareword(_rfc3339(value))
    if isinstance(value, Duration) or not isinstance(value, int | float):
        return value.go_string() if hasattr(value, "go_string") else str(value)
    return int(value) if isinstance(value, int) else float(value)


def _rfc3339(moment: Time) -> str:
    return format_time(moment, "2006-01-02T15:04:05.999999999Z07:00")

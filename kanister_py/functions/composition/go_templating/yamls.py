"""YAML as the original's templates write it.

Four blanks a level, lists inside maps set in, keys in natural order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cmp_to_key
from typing import Any

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
        return {key: _plain(value[key], spend, depth + 1) for key in _in_order(value)}
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


def _in_order(keys: Iterable[Any]) -> list[Any]:
    """Order keys as people count: `a2` comes before `a10`, and signs before letters."""
    listed = list(keys)
    if all(isinstance(each, str) and each.isalpha() for each in listed):
        return sorted(listed)
    return sorted(listed, key=cmp_to_key(_compare_keys))


def _compare_keys(one: Any, other: Any) -> int:
    return _compare_texts(str(one), str(other))


def _compare_texts(one: str, other: str) -> int:
    follows_digit = False
    for at, (a, b) in enumerate(zip(one, other, strict=False)):
        if a == b:
            follows_digit = a.isdecimal()
            continue
        if a.isalpha() and b.isalpha():
            return -1 if a < b else 1
        if a.isalpha() or b.isalpha():
            # Signs come before letters, but letters before signs behind a digit.
            return -1 if a.isalpha() is follows_digit else 1
        return _compare_counts(one, other, at)
    return len(one) - len(other)


def _compare_counts(one: str, other: str, at: int) -> int:
    """Compare two texts that differ at a place where neither has a letter."""
    counts = [_DIGITS.match(text, at) for text in (one, other)]
    lead = ""
    if "0" in (one[at], other[at]):
        before = _DIGITS_AT_END.search(one[:at])
        # Behind another digit a nought is a digit of a number, not the first.
        lead = "1" if before and before.group().strip("0") else ""
    texts = [lead + (found.group() if found else "") for found in counts]
    numbers = [int(each or "0") for each in texts]
    if numbers[0] != numbers[1]:
        return numbers[0] - numbers[1]
    if len(texts[0]) != len(texts[1]):
        return len(texts[0]) - len(texts[1])
    return -1 if one[at] < other[at] else 1


_DIGITS = re.compile(r"[0-9]+")
_DIGITS_AT_END = re.compile(r"[0-9]+\Z")

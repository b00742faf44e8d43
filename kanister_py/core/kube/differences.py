"""Differences between two JSON values, by path."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from kanister_py.core.yaml.documents import text_of_path

_ABSENT = object()
_MOST_CHARACTERS = 60


class Difference(NamedTuple):
    """A path at which two values differ. `before` and `after` are JSON, empty if absent."""

    path: str
    before: str
    after: str

    def __str__(self) -> str:
        if not self.before:
            return f"+ {self.path}: {self.after}"
        if not self.after:
            return f"- {self.path}: {self.before}"
        return f"~ {self.path}: {self.before} -> {self.after}"


def differences_of(before: Any, after: Any) -> list[Difference]:
    """List the values that were added, removed or changed, sorted by path.

    A value that exists on one side only is a single difference. Items of
    lists are compared by index.
    """
    return [
        Difference(text_of_path(path), _short(one), _short(other))
        for path, one, other in _differing((), before, after)
    ]


def _differing(
    path: tuple[str | int, ...], before: Any, after: Any
) -> Iterator[tuple[tuple[str | int, ...], Any, Any]]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted({*before, *after}):
            one, other = before.get(key, _ABSENT), after.get(key, _ABSENT)
            yield from _differing((*path, key), one, other)
    elif isinstance(before, list) and isinstance(after, list):
        for index in range(max(len(before), len(after))):
            one = before[index] if index < len(before) else _ABSENT
            other = after[index] if index < len(after) else _ABSENT
            yield from _differing((*path, index), one, other)
    elif (
        before is _ABSENT or after is _ABSENT or type(before) is not type(after) or before != after
    ):
        yield path, before, after


def _short(value: Any) -> str:
    if value is _ABSENT:
        return ""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MOST_CHARACTERS else f"{text[: _MOST_CHARACTERS - 1]}…"

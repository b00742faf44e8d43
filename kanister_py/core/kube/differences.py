"""Differences between two values of JSON, by path."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from kanister_py.core.yaml.documents import text_of_path

_ABSENT = object()
_MOST_CHARACTERS = 60


class Difference(NamedTuple):
    """One place in which the later value is another. Texts are JSON, empty for nothing there."""

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
    """List the places that were added, removed or changed, in the order of their paths.

    A part that is there on one side only is one difference, however much is in it.
    Items of lists are compared by their place.
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

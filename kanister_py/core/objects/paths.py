"""Where a field is inside an object: `spec.containers[0].image`, `metadata.labels['a.b/c']`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

from kanister_py.core.errors import UsageError


class InvalidPath(UsageError):
    """A text that should lead to a field leads nowhere at all."""

    reason = "InvalidPath"

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path!r} is not a path to a field: {why}")
        self.path = path
        self.why = why


class PathNotFound(UsageError):
    """An object has no field at a path; `at` is how far the path could be followed."""

    reason = "PathNotFound"

    def __init__(self, path: str, at: str, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path = path
        self.at = at
        self.why = why


Step: TypeAlias = str | int
"""A field's name, or an index into a list."""

WILDCARD: Final = "*"
MAX_INDEX: Final = 1024


class FieldPath(NamedTuple):
    """The steps from an object to one of its fields."""

    steps: tuple[Step, ...]

    def __truediv__(self, step: Step) -> FieldPath:
        return FieldPath((*self.steps, step))

    def __str__(self) -> str:
        return write_path(self.steps)


def write_path(steps: tuple[Step, ...]) -> str:
    """Write steps as people read them: names with dots in brackets."""
    told = ""
    for step in steps:
        if isinstance(step, int) or step == WILDCARD:
            told += f"[{step}]"
        elif "." in step or "[" in step or "]" in step or not step:
            told += f"['{step}']" if "'" not in step else f'["{step}"]'
        else:
            told += f".{step}" if told else step
    return told


@lru_cache(maxsize=2048)
def parse_path(text: str) -> FieldPath:
    """Read a path of names, indexes and wildcards.

    In brackets a whole number is an index, anything else, quoted or not, a name.
    """
    steps: list[Step] = []
    position = 0
    while position < len(text):
        sign = text[position]
        if sign == "]":
            raise InvalidPath(text, f"unexpected ']' at position {position}")
        if sign == "[":
            step, position = _bracket(text, position)
            steps.append(step)
            continue
        if sign == ".":
            _check_period(text, position)
            position += 1
            continue
        end = position
        while end < len(text) and text[end] not in ".[]":
            end += 1
        steps.append(text[position:end])
        position = end
    return FieldPath(tuple(steps))


def _check_period(text: str, position: int) -> None:
    follows = text[position + 1 : position + 2]
    if position == 0:
        raise InvalidPath(text, "unexpected '.' at position 0")
    if not follows or follows in {".", "["}:
        raise InvalidPath(text, f"unexpected '.' at position {position}")


def _bracket(text: str, position: int) -> tuple[Step, int]:
    start = position + 1
    quote = text[start : start + 1]
    if quote in {"'", '"'}:
        end = text.find(f"{quote}]", start + 1)
        if end < 0:
            raise InvalidPath(text, f"unterminated '[' at position {position}")
        inside: Step = text[start + 1 : end]
        after = end + 2
    else:
        end = text.find("]", start)
        if end < 0:
            raise InvalidPath(text, f"unterminated '[' at position {position}")
        raw = text[start:end]
        if "[" in raw:
            raise InvalidPath(text, f"unexpected '[' at position {start + raw.index('[')}")
        if not raw:
            raise InvalidPath(text, f"expected an index or a name at position {start}")
        inside = int(raw) if raw.isascii() and raw.isdigit() else raw
        after = end + 1
    if isinstance(inside, int) and inside > MAX_INDEX:
        raise InvalidPath(text, f"index {inside} is greater than {MAX_INDEX}")
    if text[after : after + 1] not in {"", ".", "["}:
        raise InvalidPath(text, f"unexpected {text[after]!r} at position {after}")
    return inside, after


def read_path(obj: Any, path: str) -> Any:
    """Say what is at a path; `PathNotFound` says how far it could be followed."""
    value = obj
    steps = parse_path(path).steps
    for done, step in enumerate(steps):
        value = _follow(value, steps, done, step, path)
    return value


def _follow(value: Any, steps: tuple[Step, ...], done: int, step: Step, path: str) -> Any:
    here = write_path(steps[:done])
    if isinstance(step, int):
        if isinstance(value, Mapping):
            # A map may well have a name that looks like a number.
            step = str(step)
        elif not isinstance(value, list):
            raise PathNotFound(path, here, f"{here or 'the object'} is not a list")
        elif step >= len(value):
            raise PathNotFound(path, here, f"{here or 'the list'} has no item {step}")
        else:
            return value[step]
    if not isinstance(value, Mapping):
        raise PathNotFound(path, here, f"{here or 'the object'} is not an object")
    if step not in value:
        raise PathNotFound(path, here, f"{write_path(steps[: done + 1])} does not exist")
    return value[step]


def find_path(obj: Any, path: str, default: Any = None) -> Any:
    """Say what is at a path, or the default if nothing is."""
    try:
        return read_path(obj, path)
    except PathNotFound:
        return default

"""Field paths of compositions: reading, writing and merging values.

Edge cases and error messages match Crossplane's, since they reach users in the results of
functions.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

from kanister_py.core.errors import UsageError
from kanister_py.gotemplate.quoting import quote

# The messages are the same, word for word, as in Crossplane's functions: they begin
# with the path, in lower case.


class FieldPathError(UsageError, reason="FieldPathInvalid"):
    """A field path of a composition cannot be parsed, or does not fit the object."""


class FieldNotFound(FieldPathError, reason="FieldNotFound"):
    """The object has no value at a field path, but may have one later."""


Step: TypeAlias = str | int
"""Name of a field, or index of an item."""

WILDCARD: Final = "*"
MAX_INDEX: Final = 1024
"""Highest index that can be written. Lists are filled with nulls up to an index."""

_MAX_UINT32: Final = (1 << 32) - 1
# Longer paths are generated, and are not cached.
_MAX_CACHED_LENGTH: Final = 512
# Limit for the number of paths to which one path with wildcards expands.
_MAX_EXPANDED: Final = 100_000


class MergeOptions(NamedTuple):
    """Options for merging a value into an existing one."""

    keep_map_values: bool = False
    """Existing values in maps are kept unless they are empty."""
    append_slice: bool = False
    """Items of lists are appended to the existing list instead of replacing it."""


class FieldPath:
    """A parsed field path.

    `get` and `set` do not copy values. Objects must consist of dicts and lists.
    """

    __slots__ = ("_index_too_large", "steps", "text")

    def __init__(self, steps: tuple[Step, ...], text: str | None = None) -> None:
        self.steps = steps
        self.text = write_steps(steps) if text is None else text
        """The path as written by the user."""
        self._index_too_large = next(
            (step for step in steps if type(step) is int and step > MAX_INDEX), None
        )

    def __str__(self) -> str:
        return write_steps(self.steps)

    def __repr__(self) -> str:
        return f"FieldPath({self.text!r})"

    def get(self, obj: Any) -> Any:
        """Return the value at the path.

        Raises `FieldNotFound` if it is absent, and `FieldPathError` if the path does not fit.
        """
        value = obj
        for index, step in enumerate(self.steps):
            if type(step) is str:
                if isinstance(value, dict):
                    try:
                        value = value[step]
                    except KeyError:
                        raise FieldNotFound(
                            f"{write_steps(self.steps[: index + 1])}: no such field"
                        ) from None
                elif value is None:
                    raise FieldNotFound(f"{write_steps(self.steps[:index])}: expected map, got nil")
                else:
                    raise FieldPathError(f"{write_steps(self.steps[:index])}: not an object")
            elif not isinstance(value, list):
                raise FieldPathError(f"{write_steps(self.steps[:index])}: not an array")
            elif step >= len(value):  # type: ignore[operator]  # it is an int: it was no str
                raise FieldNotFound(f"{write_steps(self.steps[: index + 1])}: no such element")
            else:
                value = value[step]  # type: ignore[index]  # as above
        return value if self.steps else None

    def find(self, obj: Any) -> Any:
        """Return the value at the path, or None if it is absent."""
        try:
            return self.get(obj)
        except FieldNotFound:
            return None

    def set(self, obj: dict[str, Any], value: Any) -> None:
        """Set the value at the path, in place. Missing maps and lists are created.

        Lists are filled with nulls up to an index. A null in the middle of the path is
        replaced in a list, but not in a map.
        """
        steps = self.steps
        if self._index_too_large is not None:
            raise FieldPathError(
                f"index {self._index_too_large} is greater than max allowed index {MAX_INDEX}"
            )
        target: Any = obj
        last = len(steps) - 1
        for index, step in enumerate(steps):
            if type(step) is str:
                if not isinstance(target, dict):
                    raise FieldPathError(f"{write_steps(steps[:index])} is not an object")
                if index == last:
                    target[step] = value
                    return
                child = target.get(step, _MISSING)
            else:
                if not isinstance(target, list):
                    raise FieldPathError(f"{write_steps(steps[:index])} is not an array")
                if index == last:
                    target[step] = value  # type: ignore[index]  # it is an int: it was no str
                    return
                child = target[step]  # type: ignore[index]  # as above
                if child is None:
                    child = _MISSING
            following = steps[index + 1]
            if child is _MISSING:
                child = target[step] = [None] * (following + 1) if type(following) is int else {}
            elif type(following) is int and isinstance(child, list) and following >= len(child):
                child.extend([None] * (following + 1 - len(child)))
            target = child

    def expand(self, obj: Any) -> list[FieldPath]:
        """Return the paths to which a path with wildcards expands in an object.

        Paths without a value in the object are left out.
        """
        expanded: list[tuple[Step, ...]] = []
        try:
            _expand(obj, self.steps, 0, expanded)
        except FieldPathError as error:
            raise type(error)(
                f"cannot expand wildcards for segments: {_quoted(str(self))}: {error}"
            ) from error
        # Formatting and parsing again raises an error for names that cannot be part of a
        # path, as Crossplane does.
        return [parse_field_path(write_steps(steps)) for steps in expanded]


_MISSING: Final = object()


def _expand(
    obj: Any, steps: tuple[Step, ...], start: int, expanded: list[tuple[Step, ...]]
) -> None:
    """Collect the expanded paths. Steps before `start` contain no wildcards."""
    for at in range(start, len(steps)):
        if steps[at] != WILDCARD:
            continue
        try:
            value = FieldPath(steps[:at], "").get(obj) if at else obj
        except FieldNotFound:
            return
        matches: list[Step]
        if isinstance(value, list):
            matches = list(range(len(value)))
        elif isinstance(value, dict):
            matches = [key.strip("'\"") for key in value]
        elif value is None:
            raise FieldNotFound(
                f"wildcard field {_quoted(write_steps(steps[:at]))} is not found in the path"
            )
        else:
            raise FieldPathError(f"{_quoted(write_steps(steps[:at]))}: unexpected wildcard usage")
        for step in matches:
            expanded_steps = (*steps[:at], step, *steps[at + 1 :])
            try:
                _expand(obj, expanded_steps, at + 1, expanded)
            except FieldPathError as error:
                raise type(error)(
                    f"{_quoted(write_steps(expanded_steps))}: cannot expand wildcards: {error}"
                ) from error
        return
    try:
        FieldPath(steps, "").get(obj)
    except FieldNotFound:
        return
    if len(expanded) >= _MAX_EXPANDED:
        raise FieldPathError(f"{_quoted(write_steps(steps))}: more than {_MAX_EXPANDED} paths")
    expanded.append(steps)


def write_steps(steps: tuple[Step, ...]) -> str:
    """Format steps as a path."""
    text = ""
    for step in steps:
        if isinstance(step, int) or step == WILDCARD or "." in step:
            text += f"[{step}]"
        else:
            text += f".{step}"
    return text.removeprefix(".")


def parse_field_path(text: str) -> FieldPath:
    """Parse a path.

    A 32-bit whole number in brackets is an index, anything else a name. Quotes around
    names are removed.
    """
    return _parse(text) if len(text) > _MAX_CACHED_LENGTH else _parse_cached(text)


def _parse(text: str) -> FieldPath:
    return FieldPath(tuple(_steps(text)), text)


_parse_cached = lru_cache(maxsize=2048)(_parse)


def _unreadable(what: str, text: str, position: int) -> FieldPathError:
    place = len(text[:position].encode("utf-8", "surrogatepass"))
    return FieldPathError(f"cannot parse path {_quoted(text)}: {what} at position {place}")


def _steps(text: str) -> list[Step]:
    steps: list[Step] = []
    position = 0
    while position < len(text):
        end = position
        while end < len(text) and text[end] not in ".[]":
            end += 1
        if end > position:
            steps.append(text[position:end].strip("'\""))
        if end == len(text):
            break
        if text[end] == "]":
            raise _unreadable("unexpected ']'", text, end)
        position = _after_period(text, end) if text[end] == "." else _bracket(text, end, steps)
    return steps


def _after_period(text: str, position: int) -> int:
    if position in (0, len(text) - 1):
        raise _unreadable("unexpected '.'", text, position)
    follows = text[position + 1]
    if follows in ".[":
        raise _unreadable(f"unexpected '{follows}'", text, position + 1)
    return position + 1


def _bracket(text: str, position: int, steps: list[Step]) -> int:
    end = text.find("]", position)
    if end < 0:
        raise _unreadable("unterminated '['", text, position)
    inside = text[position + 1 : end]
    if not inside:
        raise _unreadable("unexpected ']'", text, end)
    if "[" in inside:
        raise _unreadable("unexpected '['", text, position + 1 + inside.index("["))
    digits = inside.lstrip("0") or "0" if inside.isascii() and inside.isdigit() else ""
    is_index = 0 < len(digits) <= 10 and int(digits) <= _MAX_UINT32
    steps.append(int(digits) if is_index else inside.strip("'\""))
    return end + 1


def _quoted(text: str) -> str:
    return quote(text)


# Merging


def merge_values(present: Any, value: Any, options: MergeOptions) -> Any:
    """Merge a value into an existing one, which may be modified.

    Only new items are appended to a list, but all items to nested lists. Numbers are equal
    only if their types are.
    """
    if present is None or value is None:
        return value
    if options.append_slice and isinstance(present, list) and isinstance(value, list):
        value = [item for item in value if not any(_is_same(item, old) for old in present)]
    wrapped = {"": present}
    _merge_maps(wrapped, {"": value}, overwrite=not options.keep_map_values, options=options)
    return wrapped[""]


def _merge_maps(
    present: dict[str, Any], incoming: dict[str, Any], *, overwrite: bool, options: MergeOptions
) -> None:
    for key, value in incoming.items():
        old = present.get(key)
        if value is None:
            if overwrite:
                present[key] = None
            continue
        if isinstance(value, dict):
            if isinstance(old, dict):
                _merge_maps(old, value, overwrite=overwrite, options=options)
                if old:
                    continue
        elif isinstance(value, list):
            if options.append_slice:
                present[key] = _appended(old, value)
            elif overwrite:
                present[key] = value
            if isinstance(old, list) and old:
                continue
        if overwrite or not old:
            # An empty list, or a value of another type, is replaced by the whole new value.
            present[key] = value


def _appended(old: Any, value: list[Any]) -> list[Any]:
    if old is not None and not isinstance(old, list):
        raise FieldPathError(
            "failed to merge values: cannot append two slices with different type "
            f"([]interface {{}}, {go_type(old)})"
        )
    return [*(old or ()), *value]


def go_type(value: Any) -> str:
    """Return the Go type of a JSON value that is not a list."""
    if isinstance(value, dict):
        return "map[string]interface {}"
    return {bool: "bool", str: "string", int: "int64"}.get(type(value), "float64")


def _is_same(one: Any, other: Any) -> bool:
    """Return whether two values are equal, types of numbers included."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(
            _is_same(part, other[key]) for key, part in one.items()
        )
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return bool(one == other)

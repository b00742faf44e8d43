"""Field paths of compositions: reading, writing and merging what is at one.

What they do at the edges, and what they say when they fail, is part of what functions answer.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

from kanister_py.core.errors import UsageError
from kanister_py.gotemplate.quoting import quote

# What these say is part of what functions answer on the wire, word for word: they begin
# with the path, small letters included.


class FieldPathError(UsageError, reason="FieldPathInvalid"):
    """A field path of a composition cannot be read, or not be followed in an object."""


class FieldNotFound(FieldPathError, reason="FieldNotFound"):
    """A field path leads to where nothing is; there may be something later."""


Step: TypeAlias = str | int
"""A field's name, or an index into a list."""

WILDCARD: Final = "*"
MAX_INDEX: Final = 1024
"""Nothing is written behind this index: a list is filled up to it."""

_MAX_UINT32: Final = (1 << 32) - 1
# Longer ones are written by no hand, and need not be remembered.
_MAX_CACHED_LENGTH: Final = 512
# How many paths one path with wildcards may stand for.
_MAX_EXPANDED: Final = 100_000


class MergeOptions(NamedTuple):
    """Options for merging a value with one that is there already."""

    keep_map_values: bool = False
    """In maps, what is there wins over what comes, unless it is empty."""
    append_slice: bool = False
    """What comes in a list is put behind what is there, instead of in its place."""


class FieldPath:
    """One field path, read once.

    `get` answers what the object itself holds; `set` puts the value itself there. Both
    expect an object of dicts and lists.
    """

    __slots__ = ("_index_too_large", "steps", "text")

    def __init__(self, steps: tuple[Step, ...], text: str | None = None) -> None:
        self.steps = steps
        self.text = write_steps(steps) if text is None else text
        """As it was written."""
        self._index_too_large = next(
            (step for step in steps if type(step) is int and step > MAX_INDEX), None
        )

    def __str__(self) -> str:
        return write_steps(self.steps)

    def __repr__(self) -> str:
        return f"FieldPath({self.text!r})"

    def get(self, obj: Any) -> Any:
        """Say what is at the path. FieldNotFound: nothing; any other error: nothing can be."""
        value = obj
        for done, step in enumerate(self.steps):
            if type(step) is str:
                if isinstance(value, dict):
                    try:
                        value = value[step]
                    except KeyError:
                        raise FieldNotFound(
                            f"{write_steps(self.steps[: done + 1])}: no such field"
                        ) from None
                elif value is None:
                    raise FieldNotFound(f"{write_steps(self.steps[:done])}: expected map, got nil")
                else:
                    raise FieldPathError(f"{write_steps(self.steps[:done])}: not an object")
            elif not isinstance(value, list):
                raise FieldPathError(f"{write_steps(self.steps[:done])}: not an array")
            elif step >= len(value):  # type: ignore[operator]  # it is an int: it was no str
                raise FieldNotFound(f"{write_steps(self.steps[: done + 1])}: no such element")
            else:
                value = value[step]  # type: ignore[index]  # as above
        return value if self.steps else None

    def find(self, obj: Any) -> Any:
        """Say what is at the path, and None where nothing is; an error: nothing can be."""
        try:
            return self.get(obj)
        except FieldNotFound:
            return None

    def set(self, obj: dict[str, Any], value: Any) -> None:
        """Put a value at the path, in place; what is missing on the way is made.

        A list is filled up with nulls as far as an index needs it. A null on the way
        is not replaced in a map, but is in a list.
        """
        steps = self.steps
        if self._index_too_large is not None:
            raise FieldPathError(
                f"index {self._index_too_large} is greater than max allowed index {MAX_INDEX}"
            )
        target: Any = obj
        last = len(steps) - 1
        for done, step in enumerate(steps):
            if type(step) is str:
                if not isinstance(target, dict):
                    raise FieldPathError(f"{write_steps(steps[:done])} is not an object")
                if done == last:
                    target[step] = value
                    return
                there = target.get(step, _MISSING)
            else:
                if not isinstance(target, list):
                    raise FieldPathError(f"{write_steps(steps[:done])} is not an array")
                if done == last:
                    target[step] = value  # type: ignore[index]  # it is an int: it was no str
                    return
                there = target[step]  # type: ignore[index]  # as above
                if there is None:
                    there = _MISSING
            following = steps[done + 1]
            if there is _MISSING:
                there = target[step] = [None] * (following + 1) if type(following) is int else {}
            elif type(following) is int and isinstance(there, list) and following >= len(there):
                there.extend([None] * (following + 1 - len(there)))
            target = there

    def expand(self, obj: Any) -> list[FieldPath]:
        """Say which paths a path with wildcards stands for in an object.

        One that leads to where nothing is stands for none, even where the wildcard
        itself finds something.
        """
        expanded: list[tuple[Step, ...]] = []
        try:
            _expand(obj, self.steps, 0, expanded)
        except FieldPathError as error:
            raise type(error)(
                f"cannot expand wildcards for segments: {_quoted(str(self))}: {error}"
            ) from error
        # Written and read again: a name that cannot be written as part of a path is an
        # error here, as it is where the path is written out.
        return [parse_field_path(write_steps(each)) for each in expanded]


_MISSING: Final = object()


def _expand(
    obj: Any, steps: tuple[Step, ...], start: int, expanded: list[tuple[Step, ...]]
) -> None:
    """Add the paths that these steps stand for; those before `start` are no wildcards."""
    for at in range(start, len(steps)):
        if steps[at] != WILDCARD:
            continue
        try:
            value = FieldPath(steps[:at], "").get(obj) if at else obj
        except FieldNotFound:
            return
        found: list[Step]
        if isinstance(value, list):
            found = list(range(len(value)))
        elif isinstance(value, dict):
            found = [key.strip("'\"") for key in value]
        elif value is None:
            raise FieldNotFound(
                f"wildcard field {_quoted(write_steps(steps[:at]))} is not found in the path"
            )
        else:
            raise FieldPathError(f"{_quoted(write_steps(steps[:at]))}: unexpected wildcard usage")
        for step in found:
            each = (*steps[:at], step, *steps[at + 1 :])
            try:
                _expand(obj, each, at + 1, expanded)
            except FieldPathError as error:
                raise type(error)(
                    f"{_quoted(write_steps(each))}: cannot expand wildcards: {error}"
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
    """Write steps as a path."""
    text = ""
    for step in steps:
        if isinstance(step, int) or step == WILDCARD or "." in step:
            text += f"[{step}]"
        else:
            text += f".{step}"
    return text.removeprefix(".")


def parse_field_path(text: str) -> FieldPath:
    """Read a path.

    In brackets a whole number of 32 bits is an index, anything else a name; quotes
    around a name are taken off wherever it stands.
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


def merge_values(there: Any, value: Any, options: MergeOptions) -> Any:
    """Merge a value into one that is there; the latter may be changed by it.

    Of a list, only what is not there yet is appended, but in lists further inside
    everything is. Numbers are the same only if their types are.
    """
    if there is None or value is None:
        return value
    if options.append_slice and isinstance(there, list) and isinstance(value, list):
        value = [each for each in value if not any(_is_same(each, old) for old in there)]
    wrapped = {"": there}
    _merge_maps(wrapped, {"": value}, overwrite=not options.keep_map_values, options=options)
    return wrapped[""]


def _merge_maps(
    there: dict[str, Any], coming: dict[str, Any], *, overwrite: bool, options: MergeOptions
) -> None:
    for key, value in coming.items():
        old = there.get(key)
        if value is None:
            if overwrite:
                there[key] = None
            continue
        if isinstance(value, dict):
            if isinstance(old, dict):
                _merge_maps(old, value, overwrite=overwrite, options=options)
                if old:
                    continue
        elif isinstance(value, list):
            if options.append_slice:
                there[key] = _appended(old, value)
            elif overwrite:
                there[key] = value
            if isinstance(old, list) and old:
                continue
        if overwrite or not old:
            # Behind an empty list, or in place of something else, all that came stands.
            there[key] = value


def _appended(old: Any, value: list[Any]) -> list[Any]:
    if old is not None and not isinstance(old, list):
        raise FieldPathError(
            "failed to merge values: cannot append two slices with different type "
            f"([]interface {{}}, {go_type(old)})"
        )
    return [*(old or ()), *value]


def go_type(value: Any) -> str:
    """Name the type that Go has for a value of JSON that is no list."""
    if isinstance(value, dict):
        return "map[string]interface {}"
    return {bool: "bool", str: "string", int: "int64"}.get(type(value), "float64")


def _is_same(one: Any, other: Any) -> bool:
    """Say whether two values are equal, types of numbers included."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(
            _is_same(each, other[key]) for key, each in one.items()
        )
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return bool(one == other)

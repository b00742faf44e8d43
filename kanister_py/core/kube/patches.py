"""Patches of objects: merge (RFC 7386), JSON (RFC 6902), strategic."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial, reduce
from typing import Any, Final

from kanister_py.core.errors import UsageError
from kanister_py.core.kube.copies import copy_json
from kanister_py.core.kube.merge_rules import NO_RULE, MergeRule


class InvalidPatch(UsageError, reason="InvalidPatch"):
    """A patch cannot be applied to its object."""


# Merge patch


def merge_patched(target: Any, patch: Any) -> Any:
    """Apply a merge patch: null removes, maps merge, everything else replaces."""
    if not isinstance(patch, Mapping):
        return copy_json(patch)
    merged = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patched(merged.get(key), value)
    return {key: copy_json(value) if key not in patch else value for key, value in merged.items()}


# JSON patch


def json_patched(target: Any, operations: Sequence[Mapping[str, Any]]) -> Any:
    """Apply a JSON patch, completely or not at all."""
    document = copy_json(target)
    for index, operation in enumerate(operations):
        name = operation.get("op")
        if str(name) not in _REQUIRED_MEMBERS:
            raise InvalidPatch(f"JSON patch: operation {index} is unknown: {name!r}")
        for member in _REQUIRED_MEMBERS[str(name)]:
            if member not in operation:
                raise InvalidPatch(f"JSON patch: operation {index} ({name}) has no {member!r}")
            if member != "value" and not isinstance(operation[member], str):
                raise InvalidPatch(f"JSON patch: {member!r} of operation {index} is not a string")
        document = _apply_operation(document, operation)
    return document


_REQUIRED_MEMBERS: Final[Mapping[str, tuple[str, ...]]] = {
    "remove": ("path",),
    **dict.fromkeys(("add", "replace", "test"), ("path", "value")),
    **dict.fromkeys(("move", "copy"), ("from", "path")),
}
"""Required members by operation."""


def _apply_operation(document: Any, operation: Mapping[str, Any]) -> Any:
    pointer = operation["path"]
    match operation["op"]:
        case "add":
            return _add(document, pointer, copy_json(operation["value"]))
        case "remove":
            return _remove(document, pointer)[0]
        case "replace":
            return _replace(document, pointer, copy_json(operation["value"]))
        case "move":
            source = operation["from"]
            if pointer.startswith(f"{source}/"):
                raise InvalidPatch(f"JSON patch: {source!r} cannot move into itself")
            document, moved = _remove(document, source)
            return _add(document, pointer, moved)
        case "copy":
            return _add(document, pointer, copy_json(_read(document, operation["from"])))
    if not _is_same(_read(document, pointer), operation["value"]):
        raise InvalidPatch(f"JSON patch: the test of {pointer!r} failed")
    return document


def _steps_of(pointer: str) -> tuple[str, ...]:
    """Parse a JSON pointer (RFC 6901)."""
    if not pointer:
        return ()
    if not pointer.startswith("/"):
        raise InvalidPatch(f"JSON pointer {pointer!r} does not start with /")
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in pointer[1:].split("/"))


def _read(document: Any, pointer: str) -> Any:
    return reduce(partial(_step, pointer=pointer), _steps_of(pointer), document)


_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,17}")


def _array_index(array: Sequence[Any], step: str, pointer: str, *, may_append: bool) -> int:
    if step == "-" and may_append:
        return len(array)
    if not _INDEX.fullmatch(step):
        raise InvalidPatch(f"JSON patch: {pointer!r} is not an index of the array")
    index = int(step)
    if index > len(array) or (index == len(array) and not may_append):
        raise InvalidPatch(f"JSON patch: {pointer!r} is beyond the {len(array)} items of the array")
    return index


def _step(value: Any, step: str, pointer: str) -> Any:
    if isinstance(value, dict):
        if step not in value:
            raise InvalidPatch(f"JSON patch: there is nothing at {pointer!r}")
        return value[step]
    if isinstance(value, list):
        return value[_array_index(value, step, pointer, may_append=False)]
    raise InvalidPatch(f"JSON patch: there is nothing at {pointer!r}")


def _parent(document: Any, pointer: str) -> tuple[Any, str]:
    *before, last = _steps_of(pointer)
    value = reduce(partial(_step, pointer=pointer), before, document)
    if not isinstance(value, dict | list):
        raise InvalidPatch(f"JSON patch: there is nothing at {pointer!r}")
    return value, last


def _add(document: Any, pointer: str, value: Any) -> Any:
    if not pointer:
        return value
    parent, last = _parent(document, pointer)
    if isinstance(parent, dict):
        parent[last] = value
    else:
        parent.insert(_array_index(parent, last, pointer, may_append=True), value)
    return document


def _remove(document: Any, pointer: str) -> tuple[Any, Any]:
    if not pointer:
        return None, document
    parent, last = _parent(document, pointer)
    removed = _step(parent, last, pointer)
    del parent[last if isinstance(parent, dict) else int(last)]
    return document, removed


def _replace(document: Any, pointer: str, value: Any) -> Any:
    if not pointer:
        return value
    parent, last = _parent(document, pointer)
    _step(parent, last, pointer)
    parent[last if isinstance(parent, dict) else int(last)] = value
    return document


def _is_same(left: Any, right: Any) -> bool:
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(_is_same(left[k], right[k]) for k in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_is_same, left, right))
    return bool(left == right)


# Strategic merge patch

_DIRECTIVE: Final = "$patch"
_RETAIN: Final = "$retainKeys"
_ORDER: Final = "$setElementOrder/"
_DELETE_FROM: Final = "$deleteFromPrimitiveList/"
_WORDS: Final = (_DIRECTIVE, _RETAIN, _ORDER, _DELETE_FROM)


def strategic_patched(
    target: Mapping[str, Any], patch: Mapping[str, Any], rules: MergeRule
) -> dict[str, Any]:
    """Apply a strategic merge patch under the rules of the object's kind.

    Works like a merge patch, but lists with a merge key are merged item by item. The
    directives `$patch`, `$retainKeys`, `$setElementOrder/…` and
    `$deleteFromPrimitiveList/…` in the patch change this behaviour.
    """
    return _merge_map(copy_json(target), copy_json(patch), rules)


def _merge_map(original: dict[str, Any], patch: dict[str, Any], rules: MergeRule) -> dict[str, Any]:
    directive = patch.pop(_DIRECTIVE, None)
    if directive == "replace":
        replaced: dict[str, Any] = _literal(patch)
        return replaced
    if directive == "delete":
        return {}
    if directive is not None:
        raise InvalidPatch(f"Unknown patch type found: {directive}")
    _retain_keys(original, patch)
    orders: dict[str, Any] = {
        key.removeprefix(_ORDER): patch.pop(key) for key in list(patch) if key.startswith(_ORDER)
    }
    for key, order in orders.items():
        _check_order(key, patch.get(key), order, rules.child(key).merge_key)
    for key in [key for key in patch if key.startswith(_DELETE_FROM)]:
        _delete_from_list(original, key.removeprefix(_DELETE_FROM), patch.pop(key))
    for key, value in patch.items():
        if value is None:
            original.pop(key, None)
        else:
            _merge_field(original, key, value, rules.child(key))
    for key, order in orders.items():
        present = original.get(key)
        if isinstance(present, list):
            original[key] = _in_order(present, order, present, rules.child(key).merge_key)
    return original


def _check_order(key: str, listed: Any, order: Any, merge_key: str) -> None:
    """Refuse a patch whose items are in another order than its `$setElementOrder`."""
    if not isinstance(order, list):
        raise InvalidPatch(f"{_ORDER}{key} is not a list")
    waiting = [
        item for item in (listed if isinstance(listed, list) else ()) if not _has_directive(item)
    ]
    for place in order:
        if not waiting:
            return
        first = waiting[0]
        if merge_key and isinstance(first, dict) and isinstance(place, dict):
            is_next = merge_key in first and first[merge_key] == place.get(merge_key)
        else:
            is_next = first == place
        if is_next:
            waiting.pop(0)
    if waiting:
        raise InvalidPatch(f"The order of {key} in the patch does not match {_ORDER}{key}")


def _retain_keys(original: dict[str, Any], patch: dict[str, Any]) -> None:
    retained = patch.pop(_RETAIN, None)
    if retained is None:
        return
    if not isinstance(retained, list):
        raise InvalidPatch(f"{_RETAIN} is not a list")
    for key, value in patch.items():
        if value is not None and not key.startswith("$") and key not in retained:
            raise InvalidPatch(f"{_RETAIN} does not list {key!r}, which the patch sets")
    for key in [key for key in original if key not in retained]:
        del original[key]


def _delete_from_list(original: dict[str, Any], key: str, values: Any) -> None:
    if not isinstance(values, list):
        raise InvalidPatch(f"{_DELETE_FROM}{key} is not a list")
    present = original.get(key)
    if isinstance(present, list):
        original[key] = [item for item in present if item not in values]


def _merge_field(original: dict[str, Any], key: str, value: Any, rule: MergeRule) -> None:
    present = original.get(key)
    if isinstance(value, dict) and isinstance(present, dict) and not rule.replaces:
        original[key] = _merge_map(present, value, rule)
    elif isinstance(value, list) and isinstance(present, list) and rule.merges_list:
        original[key] = _merge_list(present, value, rule)
    elif _has_directive(value):
        # A directive on an absent field, or on one of another type, removes the field.
        original.pop(key, None)
    else:
        original[key] = _without_directives(value)


def _merge_list(original: list[Any], patch: list[Any], rule: MergeRule) -> list[Any]:
    if not rule.merge_key:
        merged = _without_repeats([*original, *patch])
        return _in_order(merged, patch, original, "")
    key = rule.merge_key
    for item in (*original, *patch):
        if not isinstance(item, dict):
            raise InvalidPatch(f"An item to merge by {key} is not an object: {item!r}")
    original, patch = _special_items(original, patch, key)
    merged = list(original)
    for item in patch:
        if key not in item:
            raise InvalidPatch(f"An item to merge does not have its merge key {key}")
        at = next((i for i, existing in enumerate(merged) if existing.get(key) == item[key]), None)
        if at is None:
            merged.append(_without_directives(item))
        else:
            merged[at] = _merge_map(merged[at], item, rule.item or NO_RULE)
    return _in_order(merged, patch, original, key)


def _special_items(original: list[Any], patch: list[Any], key: str) -> tuple[list[Any], list[Any]]:
    plain: list[Any] = []
    replaces = False
    for item in patch:
        directive = item.get(_DIRECTIVE)
        if directive is None:
            plain.append(item)
        elif directive == "delete":
            if key not in item:
                raise InvalidPatch(f"An item to delete does not have its merge key {key}")
            original = [existing for existing in original if existing.get(key) != item[key]]
        elif directive == "replace":
            replaces = True
        elif directive == "merge":
            raise InvalidPatch("Merging lists cannot yet be specified in the patch")
        else:
            raise InvalidPatch(f"Unknown patch type found: {directive}")
    return ([], plain) if replaces else (original, plain)


def _without_repeats(items: list[Any]) -> list[Any]:
    unique: list[Any] = []
    for item in items:
        if not any(item == existing and type(item) is type(existing) for existing in unique):
            unique.append(item)
    return unique


def _literal(value: Any) -> Any:
    """Return a value without directives and nulls."""
    if isinstance(value, dict):
        return {
            key: _literal(inside)
            for key, inside in value.items()
            if inside is not None and not key.startswith(_WORDS)
        }
    if isinstance(value, list):
        return [_literal(item) for item in value]
    return value


def _has_directive(value: Any) -> bool:
    return isinstance(value, dict) and _DIRECTIVE in value


def _without_directives(value: Any) -> Any:
    """Return a new value without directives, nulls and values that only have a directive."""
    if isinstance(value, dict):
        return {
            key: _without_directives(inside)
            for key, inside in value.items()
            if inside is not None and not key.startswith(_WORDS) and not _has_directive(inside)
        }
    if isinstance(value, list):
        return [_without_directives(item) for item in value if not _has_directive(item)]
    return value


def _in_order(items: list[Any], patch_order: list[Any], live: list[Any], key: str) -> list[Any]:
    """Sort a merged list: items of the patch in its order, the others as in the live list.

    The order of the live list decides between items of the two groups, if it has both.
    """

    def identity(item: Any) -> Any:
        return item.get(key) if key and isinstance(item, dict) else item

    def place(item: Any, order: list[Any]) -> int:
        own = identity(item)
        return next((at for at, other in enumerate(order) if identity(other) == own), -1)

    named = [item for item in items if place(item, patch_order) >= 0]
    named.sort(key=lambda item: place(item, patch_order))
    unlisted = [item for item in items if place(item, patch_order) < 0]
    unlisted.sort(key=lambda item: place(item, live))
    ordered: list[Any] = []
    for item in named:
        here = place(item, live)
        while unlisted and here >= 0 and 0 <= place(unlisted[0], live) < here:
            ordered.append(unlisted.pop(0))
        ordered.append(item)
    return ordered + unlisted

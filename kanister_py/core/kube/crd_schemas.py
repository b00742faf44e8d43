"""Validation and pruning of custom resources by their schemas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import re2

from kanister_py.core.errors import Cause

_ALWAYS_KEPT: Final = frozenset({"apiVersion", "kind", "metadata"})


def prune(value: Any, schema: Mapping[str, Any], *, is_root: bool = False) -> None:
    """Remove the fields that are not in the schema, in place."""
    if isinstance(value, dict):
        properties, additional = schema.get("properties") or {}, schema.get("additionalProperties")
        keeps = bool(schema.get("x-kubernetes-preserve-unknown-fields")) or additional is True
        is_object = is_root or bool(schema.get("x-kubernetes-embedded-resource"))
        for key in list(value):
            if key in properties:
                if not (is_object and key == "metadata"):
                    prune(value[key], properties[key])
            elif isinstance(additional, dict):
                prune(value[key], additional)
            elif not keeps and not (is_object and key in _ALWAYS_KEPT):
                del value[key]
    elif isinstance(value, list):
        items = schema.get("items")
        if isinstance(items, dict):
            for item in value:
                prune(item, items)


def schema_problems(value: Any, schema: Mapping[str, Any]) -> list[Cause]:
    """Return every violation of a schema by a value."""
    return [*_problems(value, schema, "")]


def _problems(value: Any, schema: Mapping[str, Any], path: str) -> Iterator[Cause]:
    type_ = schema.get("type")
    if value is None:
        if type_ and not schema.get("nullable"):
            yield _wrong_type(value, path, type_)
        return
    if schema.get("x-kubernetes-int-or-string"):
        if isinstance(value, bool) or not isinstance(value, int | str):
            yield _wrong_type(value, path, "integer,string")
            return
    elif type_ and not _is_of_type(value, type_):
        yield _wrong_type(value, path, type_)
        return
    enum = schema.get("enum")
    if enum is not None and value not in enum:
        supported = ", ".join(f'"{allowed}"' for allowed in enum)
        why = f'Unsupported value: "{value}": supported values: {supported}'
        yield Cause(path or "<nil>", why, "FieldValueNotSupported")
    if isinstance(value, dict):
        yield from _object_problems(value, schema, path)
    elif isinstance(value, list):
        yield from _list_problems(value, schema, path)
    elif isinstance(value, str):
        yield from _beyond(value, len(value), schema, path, ("maxLength", "minLength"))
        pattern = schema.get("pattern")
        if pattern and not _matches(pattern, value):
            yield invalid(path, value, f"{path} in body should match '{pattern}'")
    elif not isinstance(value, bool):
        yield from _beyond(value, value, schema, path, ("minimum", "maximum"))


def _is_of_type(value: Any, type_: str) -> bool:
    if type_ in ("integer", "number"):
        is_whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        is_number = is_whole if type_ == "integer" else isinstance(value, int | float)
        return is_number and not isinstance(value, bool)
    return isinstance(value, _TYPES.get(type_, object))


_TYPES: Final[Mapping[str, type]] = {"object": dict, "array": list, "string": str, "boolean": bool}


def _type_name(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    for name, python_type in (
        ("string", str),
        ("integer", int),
        ("number", float),
        ("array", list),
    ):
        if isinstance(value, python_type):
            return name
    return "object"


def _wrong_type(value: Any, path: str, type_: str) -> Cause:
    type_name = _type_name(value)
    return Cause(
        path or "<nil>",
        f'Invalid value: "{type_name}": {path or "<root>"} in body must be of type {type_}: '
        f'"{type_name}"',
        "FieldValueTypeInvalid",
    )


def _inside(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _object_problems(
    value: Mapping[str, Any], schema: Mapping[str, Any], path: str
) -> Iterator[Cause]:
    for key in schema.get("required") or ():
        if key not in value:
            yield Cause(_inside(path, key), "Required value", "FieldValueRequired")
    properties, additional = schema.get("properties") or {}, schema.get("additionalProperties")
    for key, inside in value.items():
        of = properties.get(key, additional)
        if isinstance(of, dict):
            yield from _problems(inside, of, _inside(path, key))
    yield from _beyond(len(value), len(value), schema, path, ("maxProperties",))


def _list_problems(value: list[Any], schema: Mapping[str, Any], path: str) -> Iterator[Cause]:
    items = schema.get("items")
    if isinstance(items, dict):
        for index, item in enumerate(value):
            yield from _problems(item, items, f"{path}[{index}]")
    yield from _beyond(len(value), len(value), schema, path, ("maxItems", "minItems"))
    keys = schema.get("x-kubernetes-list-map-keys")
    if keys and schema.get("x-kubernetes-list-type") == "map":
        seen: set[str] = set()
        for index, item in enumerate(value):
            key = str([item.get(key) for key in keys]) if isinstance(item, Mapping) else str(item)
            if key in seen:
                yield Cause(f"{path}[{index}]", "Duplicate value", "FieldValueDuplicate")
            seen.add(key)


def _matches(pattern: str, value: str) -> bool:
    return re2.search(pattern, value) is not None


_BOUNDS: Final[Mapping[str, str]] = {
    "maxProperties": "must have at most {limit} properties",
    "maxItems": "must have at most {limit} items",
    "minItems": "{path} in body should have at least {limit} items",
    "maxLength": "may not be longer than {limit}",
    "minLength": "{path} in body should be at least {limit} chars long",
    "minimum": "{path} in body should be greater than or equal to {limit}",
    "maximum": "{path} in body should be less than or equal to {limit}",
}


def _beyond(
    value: Any, size: float, schema: Mapping[str, Any], path: str, bounds: tuple[str, ...]
) -> Iterator[Cause]:
    for bound in bounds:
        limit = schema.get(bound)
        if limit is not None and (size > limit if bound.startswith("max") else size < limit):
            yield invalid(path, value, _BOUNDS[bound].format(path=path, limit=limit))


def invalid(path: str, value: Any, why: str) -> Cause:
    """Build the cause for an invalid value."""
    shown = f'"{value}"' if isinstance(value, str) else value
    return Cause(path, f"Invalid value: {shown}: {why}", "FieldValueInvalid")

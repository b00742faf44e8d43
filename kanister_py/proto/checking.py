"""Is data a message, and how is it spelled properly?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kanister_py.proto.encoding import (
    NotEncodable,
    encode_enum,
    encode_scalar,
    named_fields,
)
from kanister_py.proto.shapes import Field, Kind, Shape, seconds_and_nanos, shape_of


def check_message(name: str, data: Any) -> dict[str, Any]:
    """Give a message in protobuf's own JSON, or raise `NotEncodable` with the path.

    Takes both spellings of a field, and numbers of enums. Objects of Kubernetes
    inside are the caller's own, not looked into.
    """
    checked: dict[str, Any] = _message(shape_of(name), data, "")
    return checked


def _message(shape: Shape, data: Any, path: str) -> Any:
    if shape.is_duration:
        try:
            seconds_and_nanos(data)
        except (TypeError, ValueError):
            raise NotEncodable(path, f"must be a duration such as 60s, found {data!r}") from None
        return data
    if not isinstance(data, Mapping):
        raise NotEncodable(path, f"must be an object, found {type(data).__name__}")
    if shape.is_struct:
        return data if type(data) is dict else dict(data)
    return {
        key: _field(shape.by_name[key], value, f"{path}.{key}" if path else key)
        for key, value in named_fields(shape, data, path).items()
    }


def _field(field: Field, value: Any, path: str) -> Any:
    if field.is_map:
        if not isinstance(value, Mapping):
            raise NotEncodable(path, f"must be a map, found {type(value).__name__}")
        return {key: _single(field, each, f"{path}.{key}") for key, each in value.items()}
    if field.is_repeated:
        if not isinstance(value, list | tuple):
            raise NotEncodable(path, f"must be a list, found {type(value).__name__}")
        return [_single(field, each, f"{path}[{index}]") for index, each in enumerate(value)]
    return _single(field, value, path)


def _single(field: Field, value: Any, path: str) -> Any:
    if field.kind is Kind.MESSAGE:
        return _message(field.shape, value, path)
    if field.kind is Kind.ENUM:
        number = encode_enum(field, value, path)
        return field.names.get(number, number)
    encode_scalar(field.kind, field, value, path, b"")
    return value

"""Values in Jinja2 templates: conversion from Go values, and printing.

Names are those of Go. Values are plain: bytes become text, nil becomes none, and structs become
maps. Values are read-only and converted on access.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from jinja2 import Undefined
from jinja2.exceptions import TemplateRuntimeError
from jinja2.runtime import LoopContext, Macro
from jinja2.utils import Namespace

from kanister_py.core.templates.engines import blueprint_functions
from kanister_py.gotemplate.limits import UNLIMITED, Context
from kanister_py.gotemplate.times import Time
from kanister_py.gotemplate.values import NilPointer, Struct, Value, from_bytes


class MapView(Mapping[Any, Any]):
    """Read-only view of a Go map or struct. Fields of embedded structs are included.

    `name` is the path in the template, for error messages.
    """

    __slots__ = ("name", "source")

    def __init__(self, source: Mapping[Any, Any], name: str = "") -> None:
        self.source = source
        self.name = name

    def __getitem__(self, key: Any) -> Any:
        value = self.source[key]
        return value if type(value) is str else view_of(value, f"{self.name}.{key}")

    def __contains__(self, key: object) -> bool:
        if isinstance(self.source, Struct):
            return isinstance(key, str) and self.source.struct.field(key) is not None
        return key in self.source

    def __iter__(self) -> Iterator[Any]:
        if isinstance(self.source, Struct):
            struct = self.source.struct
            embedded = {name for name, field in struct.fields.items() if field.embedded}
            yield from (name for name in struct.fields if name not in embedded)
            yield from (name for name in struct.promoted if name not in embedded)
        else:
            yield from self.source

    def __len__(self) -> int:
        if isinstance(self.source, Struct):
            return sum(1 for _ in self)
        return len(self.source)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, MapView):
            return dict(self.items()) == dict(other.items())
        return isinstance(other, dict) and dict(self.items()) == other

    __hash__ = None  # type: ignore[assignment]  # marks the class as not hashable

    def __repr__(self) -> str:
        return "<map>"


def view_of(value: Value, name: str = "") -> Any:
    """Convert a Go value for a Jinja2 template; `name` is its path."""
    kind = type(value)
    if value is None or kind in (str, bool, int, float):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bytes):
        return from_bytes(value)
    if isinstance(value, Mapping):
        return MapView(value, name)
    if isinstance(value, list | tuple):
        return [view_of(member, f"{name}[{index}]") for index, member in enumerate(value)]
    if isinstance(value, NilPointer):
        return None
    if isinstance(value, int):
        return int(value)
    return float(value) if isinstance(value, float) else value


def go_value_of(value: Any) -> Value:
    """Convert a value of a template for a Go function."""
    if isinstance(value, MapView):
        return value.source
    if isinstance(value, Mapping):
        return {str(key): go_value_of(child) for key, child in value.items()}
    if isinstance(value, list | tuple):
        return [go_value_of(member) for member in value]
    return value


# Values as text


def text_of(value: Any) -> str:
    """Print a value like YAML: `true`, an empty text for none, JSON for lists."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float | Undefined):
        return str(value)
    if isinstance(value, Time):
        return value.go_string()
    if isinstance(value, range | Iterator):
        value = list(value)
    if isinstance(value, Mapping | list | tuple):
        text = blueprint_functions()["toJson"].call(Context(limits=UNLIMITED), go_value_of(value))
        assert isinstance(text, str)
        return text
    raise TemplateRuntimeError(f"{name_of(value)} cannot be printed")


def name_of(value: Any) -> str:
    """Describe the type of a value, for an error message."""
    names: tuple[tuple[Any, str], ...] = (
        (bool, "a boolean"),
        (str, "a text"),
        (int | float, "a number"),
        (Mapping, "a map"),
        (list | tuple, "a list"),
        (Macro, "a macro"),
        (LoopContext, "a loop"),
        (Time, "a time"),
        (range, "a range"),
        (Namespace, "a namespace"),
        (Undefined, "something undefined"),
    )
    if value is None:
        return "none"
    type_name = next((name for kind, name in names if isinstance(value, kind)), "")
    return type_name or ("a function" if callable(value) else "this")

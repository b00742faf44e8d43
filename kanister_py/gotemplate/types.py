"""Go's types: kinds, names, fields, and their notation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import cache
from types import MappingProxyType
from typing import Any


class Kind(StrEnum):
    """Go's kinds, with Go's spelling."""

    BOOL = "bool"
    INT = "int"
    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    UINT = "uint"
    UINT8 = "uint8"
    UINT16 = "uint16"
    UINT32 = "uint32"
    UINT64 = "uint64"
    UINTPTR = "uintptr"
    FLOAT64 = "float64"
    COMPLEX128 = "complex128"
    STRING = "string"
    INTERFACE = "interface"
    MAP = "map"
    POINTER = "ptr"
    SLICE = "slice"
    STRUCT = "struct"


SIGNED = frozenset({Kind.INT, Kind.INT8, Kind.INT16, Kind.INT32, Kind.INT64})
UNSIGNED = frozenset({Kind.UINT, Kind.UINT8, Kind.UINT16, Kind.UINT32, Kind.UINT64, Kind.UINTPTR})
INTEGERS = SIGNED | UNSIGNED
NILABLE = frozenset({Kind.INTERFACE, Kind.MAP, Kind.POINTER, Kind.SLICE})
# Kinds without a number in their name have 64 bits.
BITS: Mapping[Kind, int] = {
    kind: int("".join(filter(str.isdigit, kind)) or 64) for kind in INTEGERS
}


class Field:
    """One field of a Go struct. Its name is capitalised, as all fields that templates see.

    `json` is the value of Go's tag: `"bucket,omitempty"`, `"-"`, `",inline"`. If it
    is empty, JSON uses the Go name. As in Go, the fields of an embedded struct can
    be read from the outer one.
    """

    __slots__ = ("embedded", "json", "name", "type")

    def __init__(self, name: str, type: GoType, json: str = "", *, embedded: bool = False) -> None:  # noqa: A002 - Go's own word for it
        self.name = name
        self.type = type
        self.json = json
        self.embedded = embedded


_NO_FIELDS: Mapping[str, Field] = MappingProxyType({})


class GoType:
    """A Go type. Two types are equal only if they are the same object.

    `methods` maps names to Python callables that take the receiver first; their Go
    signature is an attribute of the callable.
    """

    __slots__ = (
        "elem",
        "fields",
        "is_named",
        "key",
        "kind",
        "methods",
        "name",
        "promoted",
    )

    def __init__(
        self,
        name: str,
        kind: Kind,
        *,
        elem: GoType | None = None,
        key: GoType | None = None,
        fields: Iterable[Field] = (),
        is_named: bool = False,
    ) -> None:
        self.name = name
        self.kind = kind
        self.elem = elem
        self.key = key
        self.fields: Mapping[str, Field] = (
            {field.name: field for field in fields} if fields else _NO_FIELDS
        )
        self.is_named = is_named
        self.methods: dict[str, Any] = {}
        self.promoted = _promoted(self.fields)

    def __repr__(self) -> str:
        return f"<Go type {self.name}>"

    def __str__(self) -> str:
        return self.name

    def field(self, name: str) -> Field | None:
        """Return the field with this name, declared or promoted."""
        own = self.fields.get(name)
        if own is not None:
            return own
        path = self.promoted.get(name)
        return path[-1] if path else None


@cache
def is_immutable(go_type: GoType) -> bool:
    """Return True if no template can change a value of this type.

    Templates can only write to maps of type map[string]interface{}, and an interface may
    hold such a map.
    """
    if go_type.kind is Kind.INTERFACE:
        return False
    inner = [part for part in (go_type.elem, go_type.key) if part is not None]
    inner += [field.type for field in go_type.fields.values()]
    return all(is_immutable(part) for part in inner)


def _promoted(fields: Mapping[str, Field]) -> Mapping[str, tuple[Field, ...]]:
    """Return the fields of embedded structs by name, with the path to them."""
    promoted: dict[str, tuple[Field, ...]] = {}
    for outer in fields.values():
        if not outer.embedded:
            continue
        for name, inner in outer.type.fields.items():
            if name not in fields:
                promoted.setdefault(name, (outer, inner))
        for name, path in outer.type.promoted.items():
            if name not in fields:
                promoted.setdefault(name, (outer, *path))
    return promoted


# Types that a signature may name; modules that define types add them.
TYPES_BY_NAME: dict[str, GoType] = {}


def _basic(kind: Kind) -> GoType:
    go_type = TYPES_BY_NAME[kind.value] = GoType(kind.value, kind, is_named=True)
    return go_type


# In the order of their kinds.
BOOL, INT, INT8, INT16, INT32, INT64, *_OTHERS = map(_basic, tuple(Kind)[:15])
UINT, UINT8, UINT16, UINT32, UINT64, UINTPTR, FLOAT64, COMPLEX128, STRING = _OTHERS
ANY = GoType("interface {}", Kind.INTERFACE)
ERROR = GoType("error", Kind.INTERFACE, is_named=True)
TYPES_BY_NAME |= {"error": ERROR, "byte": UINT8, "rune": INT32}


@cache
def slice_of(elem: GoType) -> GoType:
    return GoType(f"[]{elem.name}", Kind.SLICE, elem=elem)


@cache
def map_of(key: GoType, elem: GoType) -> GoType:
    return GoType(f"map[{key.name}]{elem.name}", Kind.MAP, key=key, elem=elem)


@cache
def pointer_to(elem: GoType) -> GoType:
    pointer = GoType(f"*{elem.name}", Kind.POINTER, elem=elem)
    pointer.methods = elem.methods
    return pointer


def struct_type(name: str, *fields: Field) -> GoType:
    return GoType(name, Kind.STRUCT, fields=fields, is_named=True)


def named_type(name: str, underlying: GoType) -> GoType:
    """Define a named type with an underlying type, such as `v1.SecretType` over `string`."""
    return GoType(
        name,
        underlying.kind,
        elem=underlying.elem,
        key=underlying.key,
        fields=underlying.fields.values(),
        is_named=True,
    )


BYTES = slice_of(UINT8)
STRINGS = slice_of(STRING)
ANY_SLICE = slice_of(ANY)
ANY_MAP = map_of(STRING, ANY)
STRING_MAP = map_of(STRING, STRING)


@cache
def parse_type(text: str) -> GoType:
    """Parse Go's notation of a type; named types must be in `TYPES_BY_NAME`."""
    go_type, tail = _read_type(text.strip())
    if tail.strip():
        raise ValueError(f"{text!r} is no Go type")
    return go_type


def _read_type(text: str) -> tuple[GoType, str]:
    text = text.lstrip()
    for word in ("interface{}", "interface {}", "any", "reflect.Value"):
        if text.startswith(word):
            return ANY, text[len(word) :]
    if text.startswith("[]"):
        elem, tail = _read_type(text[2:])
        return slice_of(elem), tail
    if text.startswith("*"):
        elem, tail = _read_type(text[1:])
        return pointer_to(elem), tail
    if text.startswith("map["):
        key, tail = _read_type(text[4:])
        elem, tail = _read_type(tail[1:])
        return map_of(key, elem), tail
    word = text
    for position, char in enumerate(text):
        if not (char.isalnum() or char in "._"):
            word = text[:position]
            break
    go_type = TYPES_BY_NAME.get(word)
    if go_type is None:
        raise ValueError(f"{text!r} names no Go type known here")
    return go_type, text[len(word) :]

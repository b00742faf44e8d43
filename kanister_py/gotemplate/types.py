"""Go's types: kinds, names, fields, and how a type is written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import cache
from types import MappingProxyType
from typing import Any


class Kind(StrEnum):
    """Go's kinds, spelled as Go spells them."""

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
# Those that do not say their bits have 64.
BITS: Mapping[Kind, int] = {
    kind: int("".join(filter(str.isdigit, kind)) or 64) for kind in INTEGERS
}


class Field:
    """One field of a Go struct; its name begins with a capital, as all that templates see.

    `json` is what stands in Go's tag: `"bucket,omitempty"`, `"-"`, `",inline"`;
    empty means that JSON uses the Go name. The fields of an embedded struct can
    be read from the outer one, as in Go.
    """

    __slots__ = ("embedded", "json", "name", "type")

    def __init__(self, name: str, type: GoType, json: str = "", *, embedded: bool = False) -> None:  # noqa: A002 - Go's own word for it
        self.name = name
        self.type = type
        self.json = json
        self.embedded = embedded


_NO_FIELDS: Mapping[str, Field] = MappingProxyType({})


class GoType:
    """A Go type; two types are the same when they are the same object.

    `methods` maps a method's name to a Python callable that takes the receiver
    first; its Go signature is an attribute of the callable.
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
            {each.name: each for each in fields} if fields else _NO_FIELDS
        )
        self.is_named = is_named
        self.methods: dict[str, Any] = {}
        self.promoted = _promoted(self.fields)

    def __repr__(self) -> str:
        return f"<Go type {self.name}>"

    def __str__(self) -> str:
        return self.name

    def field(self, name: str) -> Field | None:
        """Find the field, own or promoted, that answers to `name`."""
        found = self.fields.get(name)
        if found is not None:
            return found
        path = self.promoted.get(name)
        return path[-1] if path else None


@cache
def is_settled(go_type: GoType) -> bool:
    """Say whether no template can change what a value of this type holds.

    Templates write into maps of type map[string]interface{} and into nothing else,
    and an interface may hold one.
    """
    if go_type.kind is Kind.INTERFACE:
        return False
    inner = [each for each in (go_type.elem, go_type.key) if each is not None]
    inner += [each.type for each in go_type.fields.values()]
    return all(is_settled(each) for each in inner)


def _promoted(fields: Mapping[str, Field]) -> Mapping[str, tuple[Field, ...]]:
    """Give the names that a struct answers to because of what it embeds."""
    found: dict[str, tuple[Field, ...]] = {}
    for outer in fields.values():
        if not outer.embedded:
            continue
        for name, inner in outer.type.fields.items():
            if name not in fields:
                found.setdefault(name, (outer, inner))
        for name, path in outer.type.promoted.items():
            if name not in fields:
                found.setdefault(name, (outer, *path))
    return found


# The types that a signature may name; modules with types of their own add them.
TYPES_BY_NAME: dict[str, GoType] = {}


def _basic(kind: Kind) -> GoType:
    made = TYPES_BY_NAME[kind.value] = GoType(kind.value, kind, is_named=True)
    return made


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
    """A type of its own over another one, such as `v1.SecretType` over `string`."""
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
    """Read Go's text for a type: unnamed types, and those that are known by name."""
    go_type, rest = _read_type(text.strip())
    if rest.strip():
        raise ValueError(f"{text!r} is no Go type")
    return go_type


def _read_type(text: str) -> tuple[GoType, str]:
    text = text.lstrip()
    for word in ("interface{}", "interface {}", "any", "reflect.Value"):
        if text.startswith(word):
            return ANY, text[len(word) :]
    if text.startswith("[]"):
        elem, rest = _read_type(text[2:])
        return slice_of(elem), rest
    if text.startswith("*"):
        elem, rest = _read_type(text[1:])
        return pointer_to(elem), rest
    if text.startswith("map["):
        key, rest = _read_type(text[4:])
        elem, rest = _read_type(rest[1:])
        return map_of(key, elem), rest
    word = text
    for position, char in enumerate(text):
        if not (char.isalnum() or char in "._"):
            word = text[:position]
            break
    found = TYPES_BY_NAME.get(word)
    if found is None:
        raise ValueError(f"{text!r} names no Go type known here")
    return found, text[len(word) :]

"""Values of Go in Python, and the Go type of each.

Most Go values are plain Python values:

    string            str (bytes that are no UTF-8 are lone surrogates, `surrogateescape`)
    bool              bool
    int               int
    float64           float
    complex128        complex
    []byte            bytes
    []interface{}     list
    map[string]any    dict
    nil, untyped      None

Where a template can see another type (`%T`, `typeOf`, error texts, the zero value
behind a missing key), one of the classes below carries it: the sized integers,
`GoMap`, `GoSlice`, `Struct`, `NilPointer` and whatever a named type wraps. Python's
own truth is Go's truth for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar

from kanister_py.gotemplate.types import (
    ANY,
    ANY_MAP,
    ANY_SLICE,
    BITS,
    BOOL,
    BYTES,
    COMPLEX128,
    ERROR,
    FLOAT64,
    INT,
    SIGNED,
    STRING,
    TYPES_BY_NAME,
    GoType,
    Kind,
)

Value = Any


class Sized(int):
    """An integer of a Go type other than `int`; arithmetic gives a plain int."""

    __slots__ = ()
    go_type: ClassVar[GoType]


def _sized(name: str) -> type[Sized]:
    of = TYPES_BY_NAME[name.lower()]
    return type(name, (Sized,), {"__slots__": (), "__module__": __name__, "go_type": of})


SIZED_INTEGERS = tuple(
    _sized(f"{sign}{bits}") for sign in ("Int", "Uint") for bits in ("8", "16", "32", "64")
)
# Go calls the third a rune, and the fifth a byte.
Int8, Int16, Int32, Int64, Uint8, Uint16, Uint32, Uint64 = SIZED_INTEGERS
Uint, Uintptr = _sized("Uint"), _sized("Uintptr")
SIZED_INTEGERS += (Uint, Uintptr)


class GoMap(dict[Any, Any]):
    """A map whose type is not map[string]interface{}, or a nil map."""

    __slots__ = ("go_type", "is_nil")

    def __init__(
        self, go_type: GoType, entries: Mapping[Any, Any] | None = None, *, is_nil: bool = False
    ) -> None:
        super().__init__(entries or {})
        self.go_type = go_type
        self.is_nil = is_nil


class GoSlice(list[Any]):
    """A slice whose type is not []interface{}, or a nil slice.

    `beyond` holds what lies between the slice's length and its capacity: cutting
    a slice does not forget the array behind it.
    """

    __slots__ = ("beyond", "go_type", "is_nil")

    def __init__(
        self,
        go_type: GoType,
        items: Iterable[Any] = (),
        *,
        is_nil: bool = False,
        beyond: Sequence[Any] = (),
    ) -> None:
        super().__init__(items)
        self.go_type = go_type
        self.is_nil = is_nil
        self.beyond = beyond


class NilBytes(bytes):
    """A nil []byte: prints and counts as an empty one, but is nil in JSON and in %#v."""

    __slots__ = ()
    go_type = BYTES
    is_nil = True


class NilPointer:
    """A nil pointer that still knows its type."""

    __slots__ = ("go_type",)
    is_nil = True

    def __init__(self, go_type: GoType) -> None:
        self.go_type = go_type

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"<nil {self.go_type.name}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NilPointer) and other.go_type is self.go_type

    def __hash__(self) -> int:
        return hash(self.go_type)


class Struct(dict[str, Any]):
    """A struct, or a pointer to one if `go_type` is a pointer type.

    Only what is not zero must be given: a field that was left out is its type's
    zero value, and one given in `lazy` is made when it is first read. Iterating
    gives what was read so far: walk the type's fields and read each instead.
    """

    __slots__ = ("_lazy", "go_type", "memo")

    def __init__(
        self,
        go_type: GoType,
        fields: Mapping[str, Any] | None = None,
        lazy: Mapping[str, Callable[[], Any]] | None = None,
    ) -> None:
        super().__init__(fields or {})
        self.go_type = go_type
        self._lazy = lazy
        # What was once made of the struct, by name; only where it is settled.
        self.memo: dict[str, str] = {}

    def __bool__(self) -> bool:
        return True

    def __missing__(self, name: str) -> Any:
        struct = self.struct
        found = struct.fields.get(name)
        if found is None:
            path = struct.promoted.get(name)
            if path is None:
                raise KeyError(name)
            return self[path[0].name][name]
        lazy = self._lazy
        value = lazy[name]() if lazy is not None and name in lazy else zero(found.type)
        self[name] = value
        return value

    @property
    def struct(self) -> GoType:
        """The struct's own type, without the pointer."""
        go_type = self.go_type
        if go_type.kind is Kind.POINTER and go_type.elem is not None:
            return go_type.elem
        return go_type

    def pointed_at(self) -> Struct:
        """The struct itself, when this is a pointer to it."""
        return Struct(self.struct, self, self._lazy)


_PLAIN: dict[type, GoType] = {
    str: STRING,
    bool: BOOL,
    int: INT,
    float: FLOAT64,
    complex: COMPLEX128,
    bytes: BYTES,
    list: ANY_SLICE,
    dict: ANY_MAP,
}
_SIZED: dict[Kind, type] = {
    **{each.go_type.kind: each for each in SIZED_INTEGERS},
    Kind.INT: int,
    Kind.FLOAT64: float,
    Kind.COMPLEX128: complex,
    Kind.STRING: str,
    Kind.BOOL: bool,
}


def type_of(value: Value) -> GoType | None:
    """Give the Go type of a value; None for an untyped nil."""
    plain = _PLAIN.get(type(value))
    if plain is not None:
        return plain
    if value is None:
        return None
    found = getattr(value, "go_type", None)
    if isinstance(found, GoType):
        return found
    raise TypeError(f"{type(value).__name__} is no Go value")


def type_known(value: Value) -> GoType:
    """The type of a value that is no untyped nil."""
    go_type = type_of(value)
    if go_type is None:
        raise TypeError("an untyped nil has no type")
    return go_type


def type_name(value: Value) -> str:
    """Give the text of `%T` and `typeOf`."""
    go_type = type_of(value)
    return "<nil>" if go_type is None else go_type.name


def kind_of(value: Value) -> Kind | None:
    """Give the kind of a value; None for an untyped nil."""
    go_type = type_of(value)
    return None if go_type is None else go_type.kind


def sorted_keys(value: dict[Any, Value]) -> list[Any]:
    """A map's keys in the order in which Go prints them and ranges over them."""
    try:
        return sorted(value)
    except TypeError:  # keys of several types, in a map[interface {}]...
        return sorted(value, key=lambda key: (type_name(key), str(key)))


def is_nil(value: Value) -> bool:
    """Say whether a value is nil, typed or not."""
    return value is None or getattr(value, "is_nil", False)


# Named scalar types with a Python class of their own.
_CLASSES: dict[GoType, type] = {}


def register_class(go_type: GoType, python_class: type) -> None:
    """Say which Python class the values of a named scalar type have."""
    _CLASSES[go_type] = python_class


@cache
def _class_of(go_type: GoType) -> type:
    """The Python class behind a named scalar type."""
    known = _CLASSES.get(go_type)
    if known is not None:
        return known
    base = _SIZED[go_type.kind]
    if base is bool:
        raise TypeError(f"{go_type.name}: Python's bool cannot carry a name")
    if not go_type.is_named or go_type.name == go_type.kind.value:
        return base
    return type(go_type.name, (base,), {"__slots__": (), "go_type": go_type})


def zero(go_type: GoType) -> Value:
    """Make a type's zero value."""
    kind = go_type.kind
    if kind is Kind.STRING:
        return "" if go_type is STRING else _class_of(go_type)("")
    if kind is Kind.BOOL:
        return False
    if kind is Kind.INTERFACE:
        return None
    if kind is Kind.MAP:
        return GoMap(go_type, is_nil=True)
    if kind is Kind.SLICE:
        return NilBytes() if go_type is BYTES else GoSlice(go_type, is_nil=True)
    if kind is Kind.STRUCT:
        made = _ZERO_STRUCTS.get(go_type)
        return made() if made is not None else Struct(go_type)
    if kind is Kind.POINTER:
        return NilPointer(go_type)
    return _class_of(go_type)(0)


# Struct types that are no `Struct` in Python say here how their zero value is made.
_ZERO_STRUCTS: dict[GoType, Callable[[], Any]] = {}


def register_zero(go_type: GoType, make: Callable[[], Any]) -> None:
    """Say how to make the zero value of a struct type with a Python class of its own."""
    _ZERO_STRUCTS[go_type] = make


def wrap(go_type: GoType, value: Value) -> Value:
    """Give a plain Python value a Go type, all the way down.

    None becomes the type's zero value (a nil map, a nil pointer, ...). A struct is
    made from a mapping of its Go field names. A value that has the type already,
    or any value for an interface, stays as it is.
    """
    kind = go_type.kind
    if kind is Kind.INTERFACE:
        return value
    if value is None:
        return zero(go_type)
    if type_of(value) is go_type and type(value) not in (list, dict):
        return value
    if kind is Kind.MAP:
        return _wrap_map(go_type, value)
    if kind is Kind.SLICE:
        return _wrap_slice(go_type, value)
    if kind is Kind.STRUCT:
        return Struct(go_type, _wrap_fields(go_type, value))
    if kind is Kind.POINTER and go_type.elem is not None:
        return Struct(go_type, _wrap_fields(go_type.elem, value))
    return value if kind is Kind.BOOL else _class_of(go_type)(value)


def _wrap_map(go_type: GoType, value: Mapping[Any, Any]) -> dict[Any, Any]:
    if go_type is ANY_MAP:
        return value if type(value) is dict else dict(value)
    key, elem = go_type.key, go_type.elem
    if key is None or elem is None:
        raise TypeError(f"{go_type.name} is no map type")
    if elem is STRING and key is STRING:
        return GoMap(go_type, value)
    return GoMap(go_type, {wrap(key, name): wrap(elem, each) for name, each in value.items()})


def _wrap_slice(go_type: GoType, value: Any) -> Any:
    if go_type is ANY_SLICE:
        return value if type(value) is list else list(value)
    if go_type is BYTES:
        return bytes(value)
    elem = go_type.elem
    if elem is None:
        raise TypeError(f"{go_type.name} is no slice type")
    if elem is STRING:
        return GoSlice(go_type, value)
    return GoSlice(go_type, [wrap(elem, each) for each in value])


def _wrap_fields(struct: GoType, value: Mapping[str, Any]) -> dict[str, Any]:
    wrapped: dict[str, Any] = {}
    for name, each in value.items():
        field = struct.fields.get(name)
        if field is None:
            raise TypeError(f"{struct.name} has no field {name}")
        wrapped[name] = wrap(field.type, each)
    return wrapped


def is_assignable(value_type: GoType, target: GoType) -> bool:
    """Say whether Go assigns a value of one type where another is wanted."""
    if value_type is target:
        return True
    if target.kind is Kind.INTERFACE:
        return target is ANY or (target is ERROR and "Error" in value_type.methods)
    if value_type.kind is not target.kind or (value_type.is_named and target.is_named):
        return False
    return value_type.elem is target.elem and value_type.key is target.key


def int_of_kind(kind: Kind, value: int) -> int:
    """Cut an integer to the bits of a kind, as Go's conversions do."""
    bits = BITS[kind]
    value &= (1 << bits) - 1
    if kind in SIGNED and value >> (bits - 1):
        value -= 1 << bits
    made = _SIZED[kind](value)
    assert isinstance(made, int)
    return made


def to_bytes(text: str) -> bytes:
    """The bytes of a Go string."""
    return text.encode("utf-8", "surrogateescape")


def from_bytes(data: bytes) -> str:
    """A Go string with these bytes."""
    return data.decode("utf-8", "surrogateescape")


def byte_length(text: str) -> int:
    """Give the length of a Go string in bytes."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogateescape"))

"""Go values in Python, and their Go types.

Most Go values are plain Python values:

    string            str (bytes that are not UTF-8 are lone surrogates, `surrogateescape`)
    bool              bool
    int               int
    float64           float
    complex128        complex
    []byte            bytes
    []interface{}     list
    map[string]any    dict
    nil, untyped      None

Where a template can observe another type (`%T`, `typeOf`, error messages, the zero value
of a missing key), one of the classes below carries it: the sized integers, `GoMap`,
`GoSlice`, `Struct`, `NilPointer` and the classes of named types. Truth in Python equals
truth in Go for all of them.
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
# Int32 is Go's rune, and Uint8 is Go's byte.
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


class _IntKey(int):
    """An int as a key next to keys of other types. Python's `1`, `1.0` and `True` are one key."""

    __slots__ = ()
    go_type = INT

    def __hash__(self) -> int:
        return hash(("int", int(self)))


class _FloatKey(float):
    """A float64 as a key next to keys of other types."""

    __slots__ = ()
    go_type = FLOAT64

    def __hash__(self) -> int:
        return hash(("float64", float(self)))


def any_key(key: Value) -> Value:
    """Return a key as stored in a map whose keys may have any type."""
    if type(key) is int:
        return _IntKey(key)
    return _FloatKey(key) if type(key) is float else key


class GoSlice(list[Any]):
    """A slice whose type is not []interface{}, or a nil slice.

    `beyond` holds the elements between the slice's length and its capacity, because slices
    of a slice can extend into the underlying array.
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
    """A nil pointer with a type."""

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

    Only fields that are not zero must be set: others get their type's zero value, and a
    field in `lazy` is computed on first access. Iteration covers only fields that were
    already accessed; iterate over the fields of the type instead.
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
        # Cached conversions of this struct by name; only used for immutable structs.
        self.memo: dict[str, str] = {}

    def __bool__(self) -> bool:
        return True

    def __missing__(self, name: str) -> Any:
        struct = self.struct
        field = struct.fields.get(name)
        if field is None:
            path = struct.promoted.get(name)
            if path is None:
                raise KeyError(name)
            return self[path[0].name][name]
        lazy = self._lazy
        value = lazy[name]() if lazy is not None and name in lazy else zero(field.type)
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
        """The struct itself, if this is a pointer to it."""
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
    **{python_class.go_type.kind: python_class for python_class in SIZED_INTEGERS},
    Kind.INT: int,
    Kind.FLOAT64: float,
    Kind.COMPLEX128: complex,
    Kind.STRING: str,
    Kind.BOOL: bool,
}


def type_of(value: Value) -> GoType | None:
    """Return the Go type of a value; None for an untyped nil."""
    plain = _PLAIN.get(type(value))
    if plain is not None:
        return plain
    if value is None:
        return None
    go_type = getattr(value, "go_type", None)
    if isinstance(go_type, GoType):
        return go_type
    raise TypeError(f"{type(value).__name__} is no Go value")


def required_type(value: Value) -> GoType:
    """Return the type of a value that is not an untyped nil."""
    go_type = type_of(value)
    if go_type is None:
        raise TypeError("an untyped nil has no type")
    return go_type


def type_name(value: Value) -> str:
    """Return the name of a value's type, as `%T` and `typeOf` print it."""
    go_type = type_of(value)
    return "<nil>" if go_type is None else go_type.name


def kind_of(value: Value) -> Kind | None:
    """Return the kind of a value; None for an untyped nil."""
    go_type = type_of(value)
    return None if go_type is None else go_type.kind


def sorted_keys(value: dict[Any, Value]) -> list[Any]:
    """Return the keys of a map in the order in which Go prints and iterates them."""
    try:
        return sorted(value)
    except TypeError:  # keys of several types, in a map[interface {}]...
        return sorted(value, key=lambda key: (type_name(key), str(key)))


def is_nil(value: Value) -> bool:
    """Return True if a value is nil, typed or untyped."""
    return value is None or getattr(value, "is_nil", False)


# Python classes of named scalar types.
_CLASSES: dict[GoType, type] = {}


def register_class(go_type: GoType, python_class: type) -> None:
    """Register the Python class for values of a named scalar type."""
    _CLASSES[go_type] = python_class


@cache
def _class_of(go_type: GoType) -> type:
    """Return the Python class of a named scalar type."""
    registered = _CLASSES.get(go_type)
    if registered is not None:
        return registered
    base = _SIZED[go_type.kind]
    if base is bool:
        raise TypeError(f"{go_type.name}: Python's bool cannot carry a name")
    if not go_type.is_named or go_type.name == go_type.kind.value:
        return base
    return type(go_type.name, (base,), {"__slots__": (), "go_type": go_type})


def zero(go_type: GoType) -> Value:
    """Return a type's zero value."""
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
        make = _ZERO_STRUCTS.get(go_type)
        return make() if make is not None else Struct(go_type)
    if kind is Kind.POINTER:
        return NilPointer(go_type)
    return _class_of(go_type)(0)


# Constructors of zero values for struct types that are not `Struct` in Python.
_ZERO_STRUCTS: dict[GoType, Callable[[], Any]] = {}


def register_zero(go_type: GoType, make: Callable[[], Any]) -> None:
    """Register the constructor of the zero value of a struct type with its own Python class."""
    _ZERO_STRUCTS[go_type] = make


def wrap(go_type: GoType, value: Value) -> Value:
    """Convert a plain Python value to a Go type, including its members.

    None becomes the type's zero value (a nil map, a nil pointer, ...). A struct is
    created from a mapping of its Go field names. A value that already has the type
    is returned unchanged, and so is any value for an interface.
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
    return GoMap(go_type, {wrap(key, name): wrap(elem, entry) for name, entry in value.items()})


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
    return GoSlice(go_type, [wrap(elem, entry) for entry in value])


def _wrap_fields(struct: GoType, value: Mapping[str, Any]) -> dict[str, Any]:
    wrapped: dict[str, Any] = {}
    for name, entry in value.items():
        field = struct.fields.get(name)
        if field is None:
            raise TypeError(f"{struct.name} has no field {name}")
        wrapped[name] = wrap(field.type, entry)
    return wrapped


def is_assignable(value_type: GoType, target: GoType) -> bool:
    """Return True if Go allows assigning a value of one type to another type."""
    if value_type is target:
        return True
    if target.kind is Kind.INTERFACE:
        return target is ANY or (target is ERROR and "Error" in value_type.methods)
    if value_type.kind is not target.kind or (value_type.is_named and target.is_named):
        return False
    return value_type.elem is target.elem and value_type.key is target.key


def int_of_kind(kind: Kind, value: int) -> int:
    """Truncate an integer to the bits of a kind, as Go's conversions do."""
    bits = BITS[kind]
    value &= (1 << bits) - 1
    if kind in SIGNED and value >> (bits - 1):
        value -= 1 << bits
    number = _SIZED[kind](value)
    assert isinstance(number, int)
    return number


def to_bytes(text: str) -> bytes:
    """Return the bytes of a Go string."""
    return text.encode("utf-8", "surrogateescape")


def from_bytes(data: bytes) -> str:
    """Build a Go string from its bytes."""
    return data.decode("utf-8", "surrogateescape")


def byte_length(text: str) -> int:
    """Return the length of a Go string in bytes."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogateescape"))

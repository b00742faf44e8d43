"""Built-in functions of Go templates.

`and`, `or`, `call` and `len` are listed for their signatures only: the evaluator
implements them, because their behaviour depends on how they are written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote_plus

from kanister_py.gotemplate.functions import Function, FunctionTable, GoError, go_function
from kanister_py.gotemplate.limits import Context
from kanister_py.gotemplate.printing import printable, sprint, sprintf, sprintln
from kanister_py.gotemplate.quoting import is_print
from kanister_py.gotemplate.types import (
    ANY,
    INTEGERS,
    NILABLE,
    SIGNED,
    UNSIGNED,
    GoType,
    Kind,
)
from kanister_py.gotemplate.values import (
    GoSlice,
    NilPointer,
    Struct,
    Uint8,
    Value,
    any_key,
    byte_length,
    from_bytes,
    int_of_kind,
    is_assignable,
    is_nil,
    required_type,
    to_bytes,
    type_of,
    zero,
)

# Indexing and slicing


@go_function("func(reflect.Value, ...reflect.Value) (reflect.Value, error)")
def index(item: Value, *indexes: Value) -> Value:
    if item is None:
        raise GoError("index of untyped nil")
    for key in indexes:
        item = item_at(item, key)
    return item


def item_at(item: Value, key: Value) -> Value:
    """Return the element at one index of a map, a slice or a string."""
    kind = type(item)
    if kind is dict and type(key) is str:
        return item.get(key)
    if item is None or _is_nil_pointer(item):
        raise GoError("index of nil pointer")
    go_type = required_type(item)
    if go_type.kind is Kind.MAP:
        assert go_type.key is not None
        assert go_type.elem is not None
        prepared_key = prepare_argument(key, go_type.key)
        if go_type.key.kind is Kind.INTERFACE:
            prepared_key = any_key(prepared_key)
        return item[prepared_key] if prepared_key in item else zero(go_type.elem)
    if go_type.kind is Kind.STRING:
        return Uint8(_element(to_bytes(item), key, "string"))
    if isinstance(item, bytes):
        return Uint8(_element(item, key, "slice"))
    if go_type.kind is Kind.SLICE:
        return _element(item, key, "slice")
    raise GoError(f"can't index item of type {_struct_name(go_type)}")


def _is_nil_pointer(value: Value) -> bool:
    return isinstance(value, NilPointer) and value.go_type.kind is Kind.POINTER


def _element(items: Any, key: Value, what: str) -> Any:
    position = _position(key, len(items))
    if position >= len(items):
        raise GoError(f"reflect: {what} index out of range")
    return items[position]


def _struct_name(go_type: GoType) -> str:
    """Return the name of a type, or of the type that a pointer type points to."""
    return go_type.elem.name if go_type.kind is Kind.POINTER and go_type.elem else go_type.name


def _position(key: Value, most: int) -> int:
    if key is None:
        raise GoError("cannot index slice/array with nil")
    go_type = required_type(key)
    if go_type.kind not in INTEGERS:
        raise GoError(f"cannot index slice/array with type {go_type.name}")
    position = int(key)
    if position >= 1 << 63:
        position -= 1 << 64
    if not 0 <= position <= most:
        raise GoError(f"index out of range: {position}")
    return position


def prepare_argument(value: Value, target: GoType) -> Value:
    """Convert a value to a map's key type or a parameter's type; integers may change their size."""
    if value is None:
        if target.kind not in NILABLE:
            raise GoError(f"value is nil; should be of type {target.name}")
        return zero(target)
    go_type = required_type(value)
    if is_assignable(go_type, target):
        return value
    if go_type.kind in INTEGERS and target.kind in INTEGERS:
        return int_of_kind(target.kind, int(value))
    raise GoError(f"value has type {go_type.name}; should be {target.name}")


class Boxed:
    """Marker for an argument of a builtin that Go would pass as an interface value."""

    go_type = ANY


def cut(item: Value, *indexes: Value) -> Value:
    """Slice a slice or a string, as `slice` does."""
    if item is None:
        raise GoError("slice of untyped nil")
    if _is_nil_pointer(item):
        raise GoError("slice of nil pointer")
    if len(indexes) > 3:
        raise GoError(f"too many slice indexes: {len(indexes)}")
    go_type = required_type(item)
    if go_type.kind is Kind.STRING:
        if len(indexes) == 3:
            raise GoError("cannot 3-index slice a string")
        data = to_bytes(item)
        start, end, _ = _bounds(indexes, len(data), len(data))
        return from_bytes(data[start:end])
    if isinstance(item, bytes):
        start, end, _ = _bounds(indexes, len(item), len(item))
        return item[start:end]
    if go_type.kind is not Kind.SLICE:
        raise GoError(f"can't slice item of type {_struct_name(go_type)}")
    array = [*item, *getattr(item, "beyond", ())]
    start, end, most = _bounds(indexes, len(item), len(array))
    return GoSlice(go_type, array[start:end], beyond=array[end:most])


def _bounds(indexes: tuple[Value, ...], length: int, capacity: int) -> tuple[int, int, int]:
    bounds = [0, length, capacity]
    for place, bound in enumerate(indexes):
        bounds[place] = _position(bound, capacity)
    start, end, most = bounds
    if start > end:
        raise GoError(f"invalid slice index: {start} > {end}")
    if end > most:
        raise GoError(f"invalid slice index: {end} > {most}")
    return start, end, most


def length_of(item: Value) -> int:
    """Return the result of `len`. The value must not be an untyped nil."""
    if type(item) is str:
        return byte_length(item)
    if _is_nil_pointer(item):
        raise GoError("len of nil pointer")
    go_type = required_type(item)
    if go_type.kind is Kind.STRING:
        return byte_length(item)
    if go_type.kind in (Kind.MAP, Kind.SLICE):
        return len(item)
    raise GoError(f"len of type {_struct_name(go_type)}")


@go_function("func(reflect.Value) (int, error)")
def len_(item: Value) -> int:
    if item is None:
        raise GoError("reflect: call of reflect.Value.Type on zero Value")
    return length_of(item)


# Logic


_logic = go_function("func(reflect.Value, ...reflect.Value) reflect.Value")


@go_function("func(reflect.Value, ...reflect.Value) (reflect.Value, error)")
def call(_function: Value, *_args: Value) -> Value:
    raise GoError("the evaluator implements call")  # pragma: no cover - never reached


# Comparison


# Groups of kinds that can be compared with each other.
_SORTS: dict[Kind, str] = {
    Kind.BOOL: "bool",
    Kind.STRING: "string",
    **dict.fromkeys(SIGNED, "int"),
    **dict.fromkeys(UNSIGNED, "uint"),
    Kind.FLOAT64: "float",
    Kind.COMPLEX128: "complex",
}


def _sort_of(value: Value) -> str:
    go_type = type_of(value)
    return "" if go_type is None else _SORTS.get(go_type.kind, "")


def _incompatible(one: Value, other: Value) -> GoError:
    first, second = required_type(one).name, required_type(other).name
    return GoError(f"incompatible types for comparison: {first} and {second}")


def _are_equal(one: Value, other: Value) -> bool:
    kind = type(one)
    if kind is type(other) and (kind is str or kind is int):
        return bool(one == other)
    sort, other_sort = _sort_of(one), _sort_of(other)
    if sort != other_sort:
        if {sort, other_sort} == {"int", "uint"}:
            return bool(one == other)
        if one is not None and other is not None:
            raise _incompatible(one, other)
        return False
    return bool(one == other) if sort else _are_same(one, other)


def _are_same(one: Value, other: Value) -> bool:
    """Compare two values that are no numbers, strings or booleans."""
    if (
        one is not None
        and other is not None
        and required_type(one).kind is not required_type(other).kind
    ):
        raise GoError(
            f"non-comparable types {sprintf('%s', one)}: {required_type(one).name}, "
            f"{required_type(other).name}: {sprint(other)}"
        )
    if is_nil(one) or is_nil(other):
        return is_nil(one) and is_nil(other)
    go_type = required_type(other)
    if not _is_comparable(go_type):
        raise GoError(f"non-comparable type {sprintf('%s', other)}: {go_type.name}")
    if go_type is not required_type(one):
        return False
    if go_type.kind is Kind.POINTER:
        return one is other
    return _are_equal_structs(one, other) if isinstance(one, Struct) else bool(one == other)


def _is_comparable(go_type: GoType) -> bool:
    if go_type.kind is Kind.STRUCT:
        return all(_is_comparable(field.type) for field in go_type.fields.values())
    return go_type.kind not in (Kind.MAP, Kind.SLICE)


def _are_equal_structs(one: Struct, other: Struct) -> bool:
    for name in one.struct.fields:
        left, right = one[name], other[name]
        if type_of(left) is not type_of(right):
            return False
        if left is not None and not _are_equal(left, right):
            return False
    return True


@go_function("func(reflect.Value, ...reflect.Value) (bool, error)")
def eq(one: Value, *values: Value) -> bool:
    if not values:
        raise GoError("missing argument for comparison")
    return any(_are_equal(one, other) for other in values)


def _is_less(one: Value, other: Value) -> bool:
    sort, other_sort = _sort_of(one), _sort_of(other)
    if not sort or not other_sort:
        raise GoError("invalid type for comparison")
    if sort != other_sort:
        if {sort, other_sort} != {"int", "uint"}:
            raise _incompatible(one, other)
    elif sort in ("bool", "complex"):
        raise GoError("invalid type for comparison")
    if sort == "string" and not (one.isascii() and other.isascii()):
        return to_bytes(one) < to_bytes(other)
    return bool(one < other)


def _is_at_most(one: Value, other: Value) -> bool:
    return _is_less(one, other) or _are_equal(one, other)


_comparison = go_function("func(reflect.Value, reflect.Value) (bool, error)")


# Printing and escaping

_printing = go_function("func(...interface{}) string", context=True)

_HTML = str.maketrans(
    {"\0": "\ufffd", '"': "&#34;", "'": "&#39;", "&": "&amp;", "<": "&lt;", ">": "&gt;"}
)
_JS = {
    "\\": "\\\\",
    "'": "\\'",
    '"': '\\"',
    "<": "\\u003C",
    ">": "\\u003E",
    "&": "\\u0026",
    "=": "\\u003D",
}


def _as_text(context: Context, values: tuple[Value, ...]) -> str:
    if len(values) == 1 and type(values[0]) is str:
        return values[0]
    shown = ["<no value>" if value is None else printable(value) for value in values]
    return sprint(*shown, context=context)


def _escaped_js(char: str) -> str:
    escape = _JS.get(char)
    if escape is not None:
        return escape
    if char < " ":
        return f"\\u{ord(char):04X}"
    if char < "\x80" or "\udc80" <= char <= "\udcff" or is_print(char):
        return char
    return f"\\u{ord(char):04X}"


def _escaping(escape: Callable[[str], str]) -> Function:
    return _printing(lambda context, *values: escape(_as_text(context, values)))


BUILTINS = FunctionTable(
    {
        "and": _logic(lambda *values: next((value for value in values if not value), values[-1])),
        "call": call,
        "eq": eq,
        "ge": _comparison(lambda one, other: not _is_less(one, other)),
        "gt": _comparison(lambda one, other: not _is_at_most(one, other)),
        "html": _escaping(lambda text: text.translate(_HTML)),
        "index": index,
        "js": _escaping(lambda text: "".join(map(_escaped_js, text))),
        "le": _comparison(_is_at_most),
        "len": len_,
        "lt": _comparison(_is_less),
        "ne": _comparison(lambda one, other: not _are_equal(one, other)),
        "not": go_function("func(reflect.Value) bool")(lambda value: not value),
        "or": _logic(lambda *values: next((value for value in values if value), values[-1])),
        "print": _printing(lambda context, *values: sprint(*values, context=context)),
        "printf": go_function("func(string, ...interface{}) string", context=True)(
            lambda context, form, *values: sprintf(form, *values, context=context)
        ),
        "println": _printing(lambda context, *values: sprintln(*values, context=context)),
        "slice": go_function("func(reflect.Value, ...reflect.Value) (reflect.Value, error)")(cut),
        "urlquery": _escaping(lambda text: quote_plus(to_bytes(text))),
    }
)

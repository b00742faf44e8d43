"""The functions every Go template has.

`and`, `or`, `call` and `len` are here for their signatures; what they do depends on
how they are written, so the evaluator does it.
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
    byte_length,
    from_bytes,
    int_of_kind,
    is_assignable,
    is_nil,
    to_bytes,
    type_known,
    type_of,
    zero,
)

# Indexing and slicing


@go_function("func(reflect.Value, ...reflect.Value) (reflect.Value, error)")
def index(item: Value, *indexes: Value) -> Value:
    if item is None:
        raise GoError("index of untyped nil")
    for each in indexes:
        item = item_at(item, each)
    return item


def item_at(item: Value, key: Value) -> Value:
    """One step of `index`: what stands in a map, a slice or a string."""
    kind = type(item)
    if kind is dict and type(key) is str:
        return item.get(key)
    if item is None or _is_nil_pointer(item):
        raise GoError("index of nil pointer")
    go_type = type_known(item)
    if go_type.kind is Kind.MAP:
        assert go_type.key is not None
        assert go_type.elem is not None
        found = prepare_argument(key, go_type.key)
        return item[found] if found in item else zero(go_type.elem)
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
    """A type as it is called once pointers have been followed."""
    return go_type.elem.name if go_type.kind is Kind.POINTER and go_type.elem else go_type.name


def _position(key: Value, most: int) -> int:
    if key is None:
        raise GoError("cannot index slice/array with nil")
    go_type = type_known(key)
    if go_type.kind not in INTEGERS:
        raise GoError(f"cannot index slice/array with type {go_type.name}")
    position = int(key)
    if position >= 1 << 63:
        position -= 1 << 64
    if not 0 <= position <= most:
        raise GoError(f"index out of range: {position}")
    return position


def prepare_argument(value: Value, wanted: GoType) -> Value:
    """A value as a map's key or a called function's argument; whole numbers are converted."""
    if value is None:
        if wanted.kind not in NILABLE:
            raise GoError(f"value is nil; should be of type {wanted.name}")
        return zero(wanted)
    go_type = type_known(value)
    if is_assignable(go_type, wanted):
        return value
    if go_type.kind in INTEGERS and wanted.kind in INTEGERS:
        return int_of_kind(wanted.kind, int(value))
    raise GoError(f"value has type {go_type.name}; should be {wanted.name}")


class Boxed:
    """A value that still is in its interface, as far as a builtin looks."""

    go_type = ANY


def cut(item: Value, *indexes: Value) -> Value:
    """Cut a slice or a string, as `slice` does."""
    if item is None:
        raise GoError("slice of untyped nil")
    if _is_nil_pointer(item):
        raise GoError("slice of nil pointer")
    if len(indexes) > 3:
        raise GoError(f"too many slice indexes: {len(indexes)}")
    go_type = type_known(item)
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
    whole = [*item, *getattr(item, "beyond", ())]
    start, end, most = _bounds(indexes, len(item), len(whole))
    return GoSlice(go_type, whole[start:end], beyond=whole[end:most])


def _bounds(indexes: tuple[Value, ...], length: int, capacity: int) -> tuple[int, int, int]:
    bounds = [0, length, capacity]
    for place, each in enumerate(indexes):
        bounds[place] = _position(each, capacity)
    start, end, most = bounds
    if start > end:
        raise GoError(f"invalid slice index: {start} > {end}")
    if end > most:
        raise GoError(f"invalid slice index: {end} > {most}")
    return start, end, most


def length_of(item: Value) -> int:
    """Give the length that `len` gives; an untyped nil must have been dealt with."""
    if type(item) is str:
        return byte_length(item)
    if _is_nil_pointer(item):
        raise GoError("len of nil pointer")
    go_type = type_known(item)
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
    raise GoError("call is the evaluator's")  # pragma: no cover - never reached


# Comparison


# What can be compared with what: kinds of one sort.
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
    return GoError(
        f"incompatible types for comparison: {type_known(one).name} and {type_known(other).name}"
    )


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
    """Equality of what is neither number, text nor truth."""
    if one is not None and other is not None and type_known(one).kind is not type_known(other).kind:
        raise GoError(
            f"non-comparable types {sprintf('%s', one)}: {type_known(one).name}, "
            f"{type_known(other).name}: {sprint(other)}"
        )
    if is_nil(one) or is_nil(other):
        return is_nil(one) and is_nil(other)
    go_type = type_known(other)
    if not _is_comparable(go_type):
        raise GoError(f"non-comparable type {sprintf('%s', other)}: {go_type.name}")
    if go_type is not type_known(one):
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
def eq(one: Value, *others: Value) -> bool:
    if not others:
        raise GoError("missing argument for comparison")
    return any(_are_equal(one, other) for other in others)


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
    shown = ["<no value>" if each is None else printable(each) for each in values]
    return sprint(*shown, context=context)


def _escaped_js(char: str) -> str:
    found = _JS.get(char)
    if found is not None:
        return found
    if char < " ":
        return f"\\u{ord(char):04X}"
    if char < "\x80" or "\udc80" <= char <= "\udcff" or is_print(char):
        return char
    return f"\\u{ord(char):04X}"


def _escaping(escape: Callable[[str], str]) -> Function:
    return _printing(lambda context, *values: escape(_as_text(context, values)))


BUILTINS = FunctionTable(
    {
        "and": _logic(lambda *values: next((each for each in values if not each), values[-1])),
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
        "or": _logic(lambda *values: next((each for each in values if each), values[-1])),
        "print": _printing(lambda context, *values: sprint(*values, context=context)),
        "printf": go_function("func(string, ...interface{}) string", context=True)(
            lambda context, form, *values: sprintf(form, *values, context=context)
        ),
        "println": _printing(lambda context, *values: sprintln(*values, context=context)),
        "slice": go_function("func(reflect.Value, ...reflect.Value) (reflect.Value, error)")(cut),
        "urlquery": _escaping(lambda text: quote_plus(to_bytes(text))),
    }
)

"""Named tuples that cost little to declare, and the names of their fields in YAML.

One of the standard library's costs as much at import as a small module, most of it for what
makes its instances. Here that is made with the first instance: every command declares a
hundred, and makes instances of few. Fields are read, and instances made, at the same pace.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from operator import itemgetter
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Self, TypeVar

# A bound in quotes would be compiled at every start, which takes longer than all else here.
_T = TypeVar("_T", bound=type)

try:
    # What the standard library reads fields with; a property takes longer.
    from collections import _tuplegetter as _getter  # type: ignore[attr-defined] # not in its stubs
except ImportError:

    def _getter(index: int, doc: str) -> property:
        return property(itemgetter(index), doc=doc)


class _Declaration(type):
    """Metaclass by which annotations of a class derived from a named tuple are its fields."""

    def __new__(meta, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> _Declaration:
        if vars(bases[0]).get("_fields", True):
            return super().__new__(meta, name, bases, body)
        fields = tuple(body.get("__annotations__", ()))
        defaults = {each: body[each] for each in fields if each in body}
        for index, each in enumerate(fields):
            body[each] = _getter(index, "")
        made = {
            "__slots__": (),
            "__new__": _make_first,
            "__match_args__": fields,
            "_fields": fields,
            "_field_defaults": defaults,
        }
        return super().__new__(meta, name, bases, body | made)


def _make_first(cls: Any, /, *args: Any, **named: Any) -> Any:
    """Make the first instance, after what makes the others."""
    owner = next(each for each in cls.__mro__ if "_field_defaults" in vars(each))
    code = _code_for(len(owner._fields)).replace(
        co_varnames=("_cls", *owner._fields), co_qualname=f"{owner.__qualname__}.__new__"
    )
    known = {"_new": tuple.__new__, "__name__": owner.__module__}
    make = FunctionType(code, known, "__new__", tuple(owner._field_defaults.values()))
    owner.__new__ = staticmethod(make)
    return make(cls, *args, **named)


@cache
def _code_for(count: int) -> CodeType:
    """Compile what makes a tuple of so many fields: to name the fields anew costs less."""
    fields = "".join(f"_{index}, " for index in range(count))
    code: CodeType = eval(f"lambda _cls, {fields}: _new(_cls, ({fields}))").__code__  # noqa: S307 # text of our own
    return code


class _NamedTuple(tuple[Any, ...], metaclass=_Declaration):
    __slots__ = ()
    _fields = ()

    @classmethod
    def _make(cls, values: Iterable[Any]) -> Self:
        return cls(*values)

    def _replace(self, /, **named: Any) -> Self:
        made = tuple.__new__(type(self), map(named.pop, self._fields, self))
        if named:
            raise ValueError(f"Got unexpected field names: {list(named)!r}")
        return made

    def _asdict(self) -> dict[str, Any]:
        return dict(zip(self._fields, self, strict=True))

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={value!r}" for name, value in self._asdict().items())
        return f"{type(self).__name__}({inside})"

    def __getnewargs__(self) -> tuple[Any, ...]:
        return tuple(self)


if TYPE_CHECKING:
    from typing import NamedTuple
else:
    NamedTuple = _NamedTuple


def camel_case(name: str) -> str:
    """Write the name of a field as YAML and JSON have it: `func_version` is `funcVersion`."""
    first, *rest = name.split("_")
    return first + "".join(each.capitalize() for each in rest)


def distinct(kind: _T) -> _T:
    """Let the values of a named tuple equal none but their own kind's.

    Named tuples are made at import in a tenth of the time of dataclasses, but are
    tuples: without this, to launch action 1 would be to render artifacts of action 1.
    """

    def equals(self: tuple[object, ...], other: object) -> bool:
        if not isinstance(other, tuple) or type(self) is not type(other):
            return False
        return tuple.__eq__(self, other)

    def differs(self: tuple[object, ...], other: object) -> bool:
        return not equals(self, other)

    # Set afterwards, so that the hash of tuples stays: what is equal has the same one still.
    for name, method in (("__eq__", equals), ("__ne__", differs)):
        setattr(kind, name, method)
    return kind


__all__ = ["NamedTuple", "camel_case", "distinct"]

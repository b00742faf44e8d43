"""Arguments and outputs of our own functions: declared like models, read without their library.

That library takes longer to import than a run of a phase. What is beyond doubt right is taken
here; everything else is asked of the declaration as a model of pydantic: whether a value is
right all the same, the words of a refusal, a schema, a description.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType, NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Final,
    Literal,
    NamedTuple,
    Self,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic.alias_generators import to_camel

if TYPE_CHECKING:
    from pydantic import BaseModel

_REQUIRED: Final = object()


class Declaration(NamedTuple):
    """Declaration of a field: its value when left out, its bounds, its description."""

    default: Any
    default_factory: Callable[[], Any] | None
    alias: str
    rest: Mapping[str, Any]

    def value(self) -> Any:
        return self.default if self.default_factory is None else self.default_factory()

    def check_bounds(self, value: Any) -> None:
        rest = self.rest
        if (
            ("ge" in rest and value < rest["ge"])
            or ("le" in rest and value > rest["le"])
            or ("min_length" in rest and len(value) < rest["min_length"])
            # To Python, an end may stand before the end of the last line.
            or ("pattern" in rest and ("\n" in value or not re.search(rest["pattern"], value)))
        ):
            raise ValueError(value)

    def as_model_field(self, alias: str) -> Any:
        from pydantic import Field as ModelField

        given = dict(self.rest)
        if self.default_factory is not None:
            given["default_factory"] = self.default_factory
        elif self.default is not _REQUIRED:
            given["default"] = self.default
        return ModelField(alias=alias, **given)


def Field(  # noqa: N802 # as authors of functions write it, with the library's own
    *,
    default: Any = _REQUIRED,
    default_factory: Callable[[], Any] | None = None,
    alias: str = "",
    **rest: Any,
) -> Any:
    """Say more of a field than its type; without a default it is required."""
    return Declaration(default, default_factory, alias, rest)


class AfterValidator:
    """A judge of values of a type, written into the type: gives the value, or a `ValueError`."""

    def __init__(self, judge: Callable[[Any], Any]) -> None:
        self.judge = judge


class _FieldJudge(NamedTuple):
    names: tuple[str, ...]
    is_before: bool
    judge: Callable[[Any, Any], Any]


class _Judge(NamedTuple):
    judge: Callable[[Any], Any]


def field_validator(
    *names: str, mode: Literal["before", "after"] = "after"
) -> Callable[[Any], _FieldJudge]:
    """Have a class method judge fields, before or after their types have been looked at."""
    return lambda method: _FieldJudge(names, mode == "before", method.__func__)


def model_validator(*, mode: Literal["after"]) -> Callable[[Any], _Judge]:  # noqa: ARG001 # as the library has it
    """Have a method judge fields together."""
    return _Judge


class Slot(NamedTuple):
    """A field as readers of arguments see it."""

    annotation: Any
    alias: str
    declaration: Declaration
    judges: tuple[_FieldJudge, ...]

    @property
    def validation_alias(self) -> str:
        return self.alias

    def is_required(self) -> bool:
        return self.declaration.default is _REQUIRED and self.declaration.default_factory is None

    def taken(self, value: Any, owner: type[Declared]) -> Any:
        for each in self.judges:
            if each.is_before:
                value = each.judge(owner, value)
        value = _taken(self.annotation, value)
        self.declaration.check_bounds(value)
        for each in self.judges:
            if not each.is_before:
                value = each.judge(owner, value)
        return value


class _Slots:
    """The fields of a class and its bases, put together when they are first asked for."""

    def __get__(self, instance: object, owner: type[Declared]) -> Mapping[str, Slot]:
        found: Mapping[str, Slot] | None = owner.__dict__.get("_slots")
        if found is None:
            found = owner._slots = _slots_of(owner)  # noqa: SLF001 # its own module
        return found


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(Field,))
class Declared:
    """A declaration of fields; an instance has a value for each."""

    model_config: ClassVar[Mapping[str, Any]] = MappingProxyType({"extra": "forbid"})
    model_fields: ClassVar = _Slots()
    _slots: ClassVar[Mapping[str, Slot]]
    _model: ClassVar[Any]

    def __init__(self, **given: Any) -> None:
        self.__dict__.update(type(self).model_validate(given).__dict__)

    @classmethod
    def model_validate(cls, given: Any) -> Self:
        """Read values by the names they have in a blueprint, or in Python.

        What is refused is refused by the model: its error says why.
        """
        try:
            return cls._read(given)
        except (ValueError, AssertionError):
            pass
        return _declared(cls.pydantic_model().model_validate(given))  # type: ignore[no-any-return] # an instance of this class

    @classmethod
    def takes(cls, given: Mapping[str, Any]) -> bool:
        """Say whether each of some values is right beyond doubt; others may be missing."""
        try:
            cls._values_of(given, with_defaults=False)
        except (ValueError, AssertionError):
            return False
        return True

    @classmethod
    def _read(cls, given: Any) -> Self:
        new = object.__new__(cls)
        new.__dict__.update(cls._values_of(given))
        for each in _in_bases(cls, _Judge).values():
            each.judge(new)
        return new

    @classmethod
    def _values_of(cls, given: Any, *, with_defaults: bool = True) -> dict[str, Any]:
        """Give the values of all fields; `ValueError` where there is any doubt."""
        if type(given) is not dict:
            raise ValueError(given)
        values: dict[str, Any] = {}
        used = 0
        for name, slot in cls.model_fields.items():
            key = slot.alias if slot.alias in given else name
            if key in given:
                used += 1
                values[name] = slot.taken(given[key], cls)
            elif with_defaults:
                if slot.is_required():
                    raise ValueError(name)
                values[name] = slot.declaration.value()
        if used < len(given):
            raise ValueError(given)
        return values

    def model_dump(self, *, by_alias: bool = False, mode: str = "") -> dict[str, Any]:  # noqa: ARG002 # values are those of JSON
        """Give the values as plain data."""
        return {
            slot.alias if by_alias else name: _plain(getattr(self, name), by_alias)
            for name, slot in self.model_fields.items()
        }

    @classmethod
    def model_json_schema(cls, *, by_alias: bool = True) -> dict[str, Any]:
        """Say what is taken, as a JSON schema."""
        return cls.pydantic_model().model_json_schema(by_alias=by_alias)

    @classmethod
    def pydantic_model(cls) -> type[BaseModel]:
        """Give the same declaration as a model of pydantic."""
        if "_model" not in cls.__dict__:
            cls._model = _model_of(cls)
        made: type[BaseModel] = cls._model
        return made

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} cannot be changed: {name}")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.__dict__ == other.__dict__

    __hash__ = None  # type: ignore[assignment] # values may be lists

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={value!r}" for name, value in self.__dict__.items())
        return f"{type(self).__name__}({inside})"


class Args(Declared):
    """What a function takes, one field for each argument.

    `image_pull_policy` here is `imagePullPolicy` in a blueprint.
    """

    needs_repository: ClassVar = False
    """Whether the Profile must name a store in which restic can have a repository."""


class Outputs(Declared):
    """What a function gives to later phases, one field for each key."""


class AnyOutputs(Outputs):
    """Outputs under keys that only the blueprint knows, such as those a command prints."""

    model_config: ClassVar[Mapping[str, Any]] = MappingProxyType({"extra": "allow"})


def _slots_of(owner: type[Declared]) -> Mapping[str, Slot]:
    judges = _in_bases(owner, _FieldJudge).values()
    slots = {}
    for name, annotation in get_type_hints(owner, include_extras=True).items():
        if get_origin(annotation) is ClassVar or annotation is ClassVar:
            continue
        declaration = getattr(owner, name, _REQUIRED)
        if hasattr(declaration, "is_required"):
            raise TypeError(
                f"{owner.__qualname__}.{name} is a field of pydantic in a class that is no model "
                "of its own; derive it from kanister_py.Args"
            )
        if not isinstance(declaration, Declaration):
            declaration = Declaration(declaration, None, "", {})
        ours = tuple(each for each in judges if name in each.names)
        slots[name] = Slot(annotation, declaration.alias or to_camel(name), declaration, ours)
    return slots


def _in_bases(owner: type, kind: type[Any]) -> dict[str, Any]:
    """Give what a class and its bases have of a kind; what a class has again is its own."""
    found: dict[str, Any] = {}
    for base in reversed(owner.__mro__):
        found |= {name: each for name, each in vars(base).items() if isinstance(each, kind)}
    return found


def _taken(annotation: Any, value: Any) -> Any:
    """Give a value as a type takes it; `ValueError` where there is any doubt."""
    if annotation is Any:
        return value
    if annotation in _EXACT:
        if type(value) is not annotation:
            raise ValueError(value)
        if annotation is str and not value.isascii():
            # Halves of characters are no text for the model.
            value.encode()
        return value
    if isinstance(annotation, type) and issubclass(annotation, Declared):
        return value if isinstance(value, annotation) else annotation._read(value)  # noqa: SLF001 # its own module
    parts = get_args(annotation)
    origin = get_origin(annotation)
    if origin in (Union, UnionType):
        return _taken_by_one(parts, value)
    if origin is Annotated:
        value = _taken(parts[0], value)
        for each in parts[1:]:
            value = each.judge(value)
        return value
    if origin is Literal and type(value) is str and value in parts:
        return value
    if origin is list and type(value) is list:
        return [_taken(parts[0], each) for each in value]
    if origin is dict and type(value) is dict:
        keys, values = parts
        return {_taken(keys, key): _taken(values, each) for key, each in value.items()}
    raise ValueError(value)


_EXACT: Final = frozenset({str, int, bool, NoneType})


def _taken_by_one(parts: tuple[Any, ...], value: Any) -> Any:
    for part in parts:
        try:
            return _taken(part, value)
        except ValueError:
            continue
    raise ValueError(value)


def _plain(value: Any, by_alias: bool) -> Any:
    if isinstance(value, Declared):
        return value.model_dump(by_alias=by_alias)
    if isinstance(value, list):
        return [_plain(each, by_alias) for each in value]
    if isinstance(value, dict):
        return {key: _plain(each, by_alias) for key, each in value.items()}
    return value


# As a model of pydantic


def _model_of(declared: type[Declared]) -> type[BaseModel]:
    import pydantic

    library: Any = pydantic
    body: dict[str, Any] = {
        "__module__": declared.__module__,
        "__qualname__": declared.__qualname__,
        "__doc__": declared.__doc__,
        "__annotations__": {
            name: _annotation_of(slot.annotation) for name, slot in declared.model_fields.items()
        },
        "model_config": {"frozen": True, "populate_by_name": True, **declared.model_config},
    }
    for name, slot in declared.model_fields.items():
        body[name] = slot.declaration.as_model_field(slot.alias)
    for name, each in _in_bases(declared, _FieldJudge).items():
        mode = "before" if each.is_before else "after"
        body[name] = library.field_validator(*each.names, mode=mode)(classmethod(each.judge))
    for name, each in _in_bases(declared, _Judge).items():
        body[name] = library.model_validator(mode="after")(_judged_as_declared(each))
    base = library.BaseModel
    made: type[BaseModel] = type(base)(declared.__name__, (base,), body)
    made.__declared__ = declared  # type: ignore[attr-defined] # found again in its instances
    return made


def _judged_as_declared(rule: _Judge) -> Callable[[Any], Any]:
    """Have what a model made judged as what it stands for, with all its methods."""

    def judge(made: Any) -> Any:
        rule.judge(_declared(made))
        return made

    return judge


def _annotation_of(annotation: Any) -> Any:
    from pydantic import AfterValidator as ModelAfterValidator

    if isinstance(annotation, type) and issubclass(annotation, Declared):
        return annotation.pydantic_model()
    origin, parts = get_origin(annotation), get_args(annotation)
    if not parts or origin is Literal:
        return annotation
    if origin is Annotated:
        judges = (ModelAfterValidator(each.judge) for each in parts[1:])
        return Annotated[(_annotation_of(parts[0]), *judges)]
    return (Union if origin is UnionType else origin)[tuple(map(_annotation_of, parts))]


def _declared(value: Any) -> Any:
    """Give what a model made of values as instances of what it was made of."""
    if isinstance(value, list):
        return [_declared(each) for each in value]
    if isinstance(value, dict):
        return {key: _declared(each) for key, each in value.items()}
    owner = getattr(type(value), "__declared__", None)
    if owner is None:
        return value
    new = object.__new__(owner)
    new.__dict__.update({name: _declared(getattr(value, name)) for name in owner.model_fields})
    return new

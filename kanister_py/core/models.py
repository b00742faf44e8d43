"""Models of documents: base classes, and conversion of errors to problems with file and line.

A model derives from `ApiModel` (objects that an API server stores) or `ClosedModel` (files of
our own, and rules that restrict something). Both are frozen, read strictly (`"5"` is not a number)
and use camelCase keys in documents and snake_case names in Python. A null counts as a missing
key.

    class Step(ApiModel):
        step: NonEmptyText = Field(description="Name of the step")
        max_iterations: int = Field(5, ge=0, le=25, description="…")
        retry: Retry | None = Field(None, description="…")
        phases: Items[Phase] = Field((), description="…")
        labels: TextMap = Field({}, description="…")

    step = read_model(Step, document, ("spec", "pipeline", 0))   # raises InvalidDocument
    partial = read_partly(Step, document)                        # used by lint

Validators report a problem with `raise refusal("Must be …")`; a `ValueError` works, too.
Unions of anything but one type and None are not supported: pydantic adds a tag for each
alternative to the location of an error.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    Generic,
    NamedTuple,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
)

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Strict,
    ValidationError,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails, PydanticCustomError

from kanister_py.core.errors import InvalidDocument, Problem, did_you_mean
from kanister_py.core.yaml.documents import Document, Path, nearest, shown

T = TypeVar("T")
ModelT = TypeVar("ModelT", bound=BaseModel)


class Model(BaseModel):
    """Base class of all models: frozen, camelCase in documents, snake_case in Python."""

    # Build models on first use, since most imported models are never used.
    model_config = ConfigDict(
        frozen=True,
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        defer_build=True,
    )


class ApiModel(Model):
    """Part of an API object. Unknown keys are ignored; `unknown_keys` lists them."""

    model_config = ConfigDict(strict=True, extra="ignore")

    other_keys: ClassVar[tuple[str, ...]] = ()
    """Known keys without a field."""

    @model_validator(mode="before")
    @classmethod
    def _leave_out_nulls(cls, data: Any) -> Any:
        if data is None:
            return {}
        return without_nulls(data)


class ClosedModel(ApiModel):
    """Part of one of our own files, or of a restricting rule. Unknown keys are errors."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _leave_out_nulls(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return {} if data is None else data
        keys = _fields_of(cls).below
        return {key: value for key, value in data.items() if value is not None or key not in keys}


def without_nulls(data: Any) -> Any:
    """Return a map without null values. Other data is returned unchanged."""
    if isinstance(data, dict) and None in data.values():
        return {key: value for key, value in data.items() if value is not None}
    return data


def refusal(message: str, path: Path = ()) -> PydanticCustomError:
    """Build the error for a validator to raise. `path` is relative to the validated value."""
    return PydanticCustomError("refused", "{message}", {"message": message, "path": path})


# Types of fields


def _require_non_empty(value: Any) -> Any:
    if value == "":
        raise PydanticCustomError("missing", "Must be given")
    return value


def _require_unit(value: Any) -> Any:
    if type(value) in (int, float):
        advice = f"; write {value}s" if value > 0 else ""
        raise refusal(f"Must be a time with its unit, found {value}{advice}")
    return value


NON_EMPTY: Final = BeforeValidator(_require_non_empty)

NonEmptyText = Annotated[str, NON_EMPTY]
"""Text that must not be empty."""

DurationText = Annotated[str, BeforeValidator(_require_unit)]
"""Text of a duration, such as 1h30m. A number is refused with a hint to add the unit."""

Items = Annotated[tuple[T, ...], Strict(False)]
"""List of values, as a tuple. In strict mode pydantic would only accept tuples."""

NamedMap = Annotated[dict[str, T], BeforeValidator(without_nulls)]
"""Map of values by name. Names with a null are left out."""

TextMap = Annotated[dict[str, str], BeforeValidator(without_nulls)]
"""Map of strings, such as labels. Keys with a null are left out."""

Choice = Annotated[T, Strict(False)]
"""Member of an enumeration, by its value."""


# Reading


class UnknownKey(NamedTuple):
    """A key without a field in its model, and the known keys."""

    path: Path
    known_keys: tuple[str, ...]

    @property
    def suggestion(self) -> str:
        """Question that suggests similar keys, or an empty string."""
        return did_you_mean(nearest(str(self.path[-1]), self.known_keys))


@dataclass(frozen=True, slots=True)
class Partial(Generic[ModelT]):
    """The valid parts of a document. Invalid parts count as missing."""

    value: ModelT
    problems: Mapping[Path, Problem]
    """Problems by path, relative to the part that was read."""
    unknown_keys: tuple[UnknownKey, ...]


def read_model(model: type[ModelT], document: Document, path: Path = ()) -> ModelT:
    """Read the part of a document at `path`, or raise `InvalidDocument` with every problem."""
    node = document.node_at(path)
    try:
        return model.model_validate(node.value if node else None, by_name=False)
    except ValidationError as error:
        raise InvalidDocument(
            [
                document.problem((*path, *inside), message)
                for inside, message in problems_of(error, model)
            ]
        ) from None


def read_partly(model: type[ModelT], document: Document, path: Path = ()) -> Partial[ModelT]:
    """Read the valid parts of a document at `path`.

    Invalid parts are removed and the remainder is read again, so that one problem does not
    hide others. A model without its required fields has no attributes for them.
    """
    node = document.node_at(path)
    written = node.value if node else None
    remainder = _Remainder(written)
    problems: dict[Path, Problem] = {}
    value: ModelT | None = None
    while value is None:
        try:
            value = model.model_validate(remainder.data, by_name=False)
        except ValidationError as error:
            wrong = _details_of(error)
            explained = _ReportedPaths(problems)
            for details in wrong:
                inside = remainder.written_path(_path_of(details))
                if not explained.covers(inside):
                    message = _message_of(details, model)
                    problems[inside] = document.problem((*path, *inside), message)
            if not remainder.leave_out(wrong):
                value = model.model_construct()
    return Partial(value, problems, tuple(unknown_keys(model, written)))


class _ReportedPaths:
    """Paths with a reported problem. Follow-up problems above and below them are not reported."""

    def __init__(self, problems: Mapping[Path, Problem]) -> None:
        self._below = frozenset(problems)
        self._above = {path[:length] for path in problems for length in range(len(path))}

    def covers(self, path: Path) -> bool:
        return path in self._above or any(
            path[:length] in self._below for length in range(len(path) + 1)
        )


# Replacements of invalid values by error type. Other invalid values are removed.
_REPLACEMENTS: Final[Mapping[str, Any]] = {"model_type": {}, "string_type": ""}


class _Remainder:
    """A copy of a document's data, from which invalid parts are removed."""

    def __init__(self, written: Any) -> None:
        self._root = {"": written}
        self._is_copy = False
        self._removed: dict[Path, list[int]] = {}
        """Removed items by list, with their original indices."""

    @property
    def data(self) -> Any:
        return self._root.get("")

    def written_path(self, path: Path) -> Path:
        """Return the path in the document for a path in the remaining data."""
        written: Path = ()
        for part in path:
            place = part
            if isinstance(place, int):
                for removed in self._removed.get(written, ()):
                    place += removed <= place
            written = (*written, place)
        return written

    def leave_out(self, wrong: Sequence[ErrorDetails]) -> bool:
        """Remove or replace invalid parts. Return False if the whole document is invalid."""
        if not self._is_copy:
            self._root, self._is_copy = deepcopy(self._root), True
        paths = {self._existing(_path_of(details)): details["type"] for details in wrong}
        # In reverse order, so that the indices of other items stay valid.
        for path, kind in reversed(paths.items()):
            if not any(path[:length] in paths for length in range(len(path))):
                self._leave_out(("", *path), _REPLACEMENTS.get(kind))
        return "" in self._root

    def _leave_out(self, path: Path, substitute: Any) -> None:
        holder: Any = self._root
        for part in path[:-1]:
            holder = holder[part]
        last: Any = path[-1]
        is_item = isinstance(holder, list)
        if substitute is None or holder[last] == substitute or (is_item and substitute == ""):
            if is_item:
                written = self.written_path(path[1:])
                insort(self._removed.setdefault(written[:-1], []), int(written[-1]))
            del holder[last]
        else:
            holder[last] = deepcopy(substitute)

    def _existing(self, path: Path) -> Path:
        """Return the longest prefix of a path that exists."""
        data: Any = self.data
        for length, part in enumerate(path):
            try:
                data = data[part]
            except (KeyError, IndexError, TypeError):
                return path[:length]
        return path


# Problems


def problems_of(error: ValidationError, model: type[BaseModel]) -> list[tuple[Path, str]]:
    """Return every problem of a failed validation: its path, and the message for users.

    `InvalidDocument([document.problem(path, message) for path, message in …])` adds the places.
    """
    return [(_path_of(details), _message_of(details, model)) for details in _details_of(error)]


def _details_of(error: ValidationError) -> list[ErrorDetails]:
    # pydantic does not count invalid items, so it reports lists as too short that are not.
    return [
        details
        for details in error.errors(include_url=False)
        if details["type"] != "too_short" or len(details["input"]) < details["ctx"]["min_length"]
    ]


def _path_of(details: ErrorDetails) -> Path:
    # A bad key has the location (…, key, "[key]").
    path = details["loc"][:-1] if details["loc"][-1:] == ("[key]",) else details["loc"]
    return (*path, *details.get("ctx", {}).get("path", ()))


_EXPECTATIONS: Final = {
    "string_type": "text",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "float_type": "a number",
    "dict_type": "a map",
    "mapping_type": "a map",
    "model_type": "a map",
    "list_type": "a list",
    "tuple_type": "a list",
    "greater_than_equal": "at least {ge:g}",
    "less_than_equal": "at most {le:g}",
    "enum": "{expected}",
    "literal_error": "{expected}",
}


def _message_of(details: ErrorDetails, model: type[BaseModel]) -> str:
    kind, value, context = details["type"], details["input"], details.get("ctx", {})
    match kind:
        case "missing":
            return "Must be given"
        case "too_short" | "string_too_short":
            if context["min_length"] == 1:
                return "Must not be empty"
        case "too_long" | "string_too_long":
            unit = "characters" if kind == "string_too_long" else "items"
            return f"Must have no more than {context['max_length']} {unit}"
        case "extra_forbidden":
            return _unknown_key(details["loc"], model)
        case "value_error" | "assertion_error":
            return str(context["error"])
    if kind not in _EXPECTATIONS:
        return details["msg"]
    is_bare = kind == "string_type" and isinstance(value, bool | int | float)
    hint = "; put it in quotes if that is the value" if is_bare else ""
    return f"Must be {_EXPECTATIONS[kind].format(**context)}, found {shown(value)}{hint}"


def _unknown_key(path: Path, model: type[BaseModel]) -> str:
    *way, key = path
    shape: _Shape = model
    for part in way:
        if isinstance(shape, _Items):
            shape = shape.below
        elif shape is not None:
            shape = _fields_of(shape).below.get(str(part))
    keys = keys_of(shape) if isinstance(shape, type) else ()
    hint = UnknownKey(path, keys).suggestion or f"; known here: {', '.join(sorted(keys))}"
    return f"Unknown key {key!r}{hint}"


# Annotations


class _Items(NamedTuple):
    """Items of a list or values of a map, if they are or contain models."""

    below: _Shape


_Shape: TypeAlias = type[BaseModel] | _Items | None
"""Models in an annotation: a model, a collection with models, or None."""


class _Fields(NamedTuple):
    """The keys of a model, with the models below them."""

    below: Mapping[str, _Shape]
    other_keys: tuple[str, ...]
    ignores_unknown: bool


@cache
def _fields_of(model: type[BaseModel]) -> _Fields:
    below: dict[str, _Shape] = {}
    for name, field in model.model_fields.items():
        alias = field.validation_alias or name
        keys = alias.choices if isinstance(alias, AliasChoices) else [alias]
        below |= dict.fromkeys(map(str, keys), _shape_of(field.annotation))
    other_keys = getattr(model, "other_keys", ())
    return _Fields(below, other_keys, model.model_config.get("extra") == "ignore")


def _shape_of(annotation: Any) -> _Shape:
    while get_origin(annotation) in (Annotated, Union, UnionType):
        annotation = next(part for part in get_args(annotation) if part is not NoneType)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    origin, arguments = get_origin(annotation), get_args(annotation)
    if not (isinstance(origin, type) and arguments):
        return None
    below = _shape_of(arguments[1] if issubclass(origin, Mapping) else arguments[0])
    return None if below is None else _Items(below)


def keys_of(model: type[BaseModel]) -> tuple[str, ...]:
    """Return the keys of a model's fields in documents."""
    return tuple(_fields_of(model).below)


def unknown_keys(model: type[BaseModel], data: Any) -> Iterator[UnknownKey]:
    """Yield the keys in `data` without a field, for models that ignore unknown keys."""
    return _unknown_keys(model, data, ())


def _unknown_keys(shape: _Shape, data: Any, path: Path) -> Iterator[UnknownKey]:
    if isinstance(shape, _Items):
        if isinstance(data, dict | list):
            for part, value in data.items() if isinstance(data, dict) else enumerate(data):
                yield from _unknown_keys(shape.below, value, (*path, part))
    elif shape is not None and isinstance(data, dict):
        fields = _fields_of(shape)
        for key, value in data.items():
            if key not in fields.below:
                if fields.ignores_unknown and key not in fields.other_keys:
                    yield UnknownKey((*path, key), (*fields.below, *fields.other_keys))
            elif fields.below[key] is not None:
                yield from _unknown_keys(fields.below[key], value, (*path, key))

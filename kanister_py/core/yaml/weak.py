"""Decoding of arguments with the rules of Go's mapstructure library ("weak decoding").

Existing blueprints depend on these rules: a single value for a list, a number in quotes, a
key with other capitals. Exactly the inputs that Kanister accepts are accepted.
"""

from __future__ import annotations

import re
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from decimal import Decimal
from enum import Enum
from math import isfinite
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    TypeVar,
    Union,
    get_args,
    get_origin,
)

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from kanister_py.core.errors import UsageError, did_you_mean
from kanister_py.core.yaml.documents import nearest, shown, text_of_path


class ArgProblem(NamedTuple):
    """A problem with one argument: its path, and the expected and the actual value.

    `kind` is missing, unknown or type. `expected` and `actual` are only set for type.
    """

    path: str
    message: str
    kind: str
    expected: str = ""
    actual: str = ""

    def __str__(self) -> str:
        return self.message


class InvalidArgs(UsageError, reason="InvalidArgs"):
    """The arguments of a phase are invalid. `problems` has all problems."""

    def __init__(self, function: str, problems: Sequence[ArgProblem]) -> None:
        self.function = function
        self.problems = tuple(problems)
        messages = "; ".join(problem.message for problem in self.problems)
        super().__init__(f"Args of {function or 'the function'} are refused: {messages}")


M = TypeVar("M", bound=BaseModel)
Model = type[BaseModel]
Path = tuple[str | int, ...]


def decode_args(model: type[M], args: Mapping[str, Any], function: str = "") -> M:
    """Decode rendered arguments to a function's model, or raise `InvalidArgs`."""
    decoded, problems = _decode(model, args, lambda _: False)
    if not problems:
        try:
            return model.model_validate(decoded)
        except ValidationError as error:
            problems = list(_validation_problems(model, error))
    raise InvalidArgs(function, problems)


def problems_of_args(
    model: Model, args: Mapping[str, Any], is_open: Callable[[object], bool] = lambda _: False
) -> list[ArgProblem]:
    """Return the problems of arguments that contain unrendered templates.

    Values for which `is_open` returns True are not checked.
    """
    has_open = False

    def note(value: object) -> bool:
        nonlocal has_open
        is_template = is_open(value)
        has_open = has_open or is_template
        return is_template

    decoded, problems = _decode(model, args, note)
    if problems:
        return problems
    complete = args_without_templates(decoded, is_open)
    try:
        model.model_validate(complete)
    except ValidationError as error:
        problems = list(_validation_problems(model, error))
    if not has_open:
        return problems
    # Arguments left out here will be present, so rules about several arguments may be met.
    return [problem for problem in problems if problem.path and problem.kind != "missing"]


def args_without_templates(
    args: Mapping[str, Any], is_open: Callable[[object], bool]
) -> dict[str, Any]:
    """Return the arguments that contain no open values."""
    return {name: value for name, value in args.items() if not _is_or_contains_open(value, is_open)}


def _is_or_contains_open(value: object, is_open: Callable[[object], bool]) -> bool:
    """Return whether a value is open or contains an open value."""
    if isinstance(value, Mapping):
        return any(_is_or_contains_open(part, is_open) for pair in value.items() for part in pair)
    if isinstance(value, list | tuple):
        return any(_is_or_contains_open(item, is_open) for item in value)
    return is_open(value)


def _name_of(name: str, info: FieldInfo) -> str:
    alias = info.validation_alias
    return alias if isinstance(alias, str) else info.alias or name


# Decoding


class _Decoder(NamedTuple):
    is_open: Callable[[object], bool]
    problems: list[ArgProblem]

    def wrong(self, path: Path, expected: str, actual: object) -> None:
        text = shown(_plain(actual))
        self.problems.append(_mistyped(path, f"expected {expected}, found {text}", expected, text))

    def value(self, annotation: Any, value: Any, path: Path) -> Any:
        """Convert a value to the type of an annotation, as far as the rules allow."""
        if self.is_open(value):
            return value
        origin = get_origin(annotation)
        if origin is Annotated:
            return self.value(get_args(annotation)[0], value, path)
        if origin in (Union, types.UnionType):
            return self._union(get_args(annotation), value, path)
        if value is None:
            return _zero_of(annotation)
        if origin is Literal:
            texts = all(isinstance(arg, str) for arg in get_args(annotation))
            return self._scalar(str, value, path) if texts else value
        container = origin or annotation
        if not isinstance(container, type):
            return value
        if container in _SCALARS:
            return self._scalar(container, value, path)
        if issubclass(container, BaseModel):
            return self._model(container, value, path)
        if issubclass(container, Enum):
            return self._scalar(str, value, path) if issubclass(container, str) else value
        if issubclass(container, Mapping):
            return self._map(annotation, value, path)
        if issubclass(container, Sequence | AbstractSet) and container is not bytes:
            return self._list(annotation, value, path)
        return value

    def _union(self, members: Sequence[Any], value: Any, path: Path) -> Any:
        types_ = [member for member in members if member is not type(None)]
        if value is None:
            return None if len(types_) < len(members) else _zero_of(types_[0])
        # pydantic chooses among several types.
        return self.value(types_[0], value, path) if len(types_) == 1 else value

    def _scalar(self, type_: type, value: Any, path: Path) -> Any:
        read = _SCALARS[type_]
        if isinstance(value, str | bool | int | float):
            try:
                return read(value)
            except ValueError:
                pass
        self.wrong(path, _WORDS[type_], value)
        return value

    def _list(self, annotation: Any, value: Any, path: Path) -> Any:
        arguments = [arg for arg in get_args(annotation) if arg is not ...]
        if isinstance(value, list | tuple):
            return [
                self.value(_at(arguments, index), item, (*path, index))
                for index, item in enumerate(value)
            ]
        # A single value for a list has no index in the file, so its path is that of the list.
        is_empty = isinstance(value, Mapping) and not value
        return [] if is_empty else [self.value(_at(arguments, 0), value, path)]

    def _map(self, annotation: Any, value: Any, path: Path) -> Any:
        arguments = get_args(annotation)
        keys, values = arguments if len(arguments) == 2 else (Any, Any)
        merged = value
        if isinstance(value, list | tuple) and all(isinstance(item, Mapping) for item in value):
            merged = {key: item[key] for item in value for key in item}
        if not isinstance(merged, Mapping):
            self.wrong(path, "a map", value)
            return value
        return {
            self.value(keys, key, (*path, key)): self.value(values, member, (*path, key))
            for key, member in merged.items()
        }

    def _model(self, model: Model, value: Any, path: Path) -> Any:
        if isinstance(value, model):
            return value
        if not isinstance(value, Mapping):
            self.wrong(path, "a map", value)
            return value
        decoded: dict[str, Any] = {}
        left = dict(value)
        for name, info in model.model_fields.items():
            field = _name_of(name, info)
            key = _key_for(field, left)
            if key is None:
                continue
            entry = left.pop(key)
            if entry is not None or _takes_none(info.annotation):
                decoded[field] = self.value(info.annotation, entry, (*path, key))
        if model.model_config.get("extra") == "allow":
            decoded.update(left)
        elif model.model_config.get("strict"):
            # Other models ignore unknown keys, as in Kanister.
            known_names = [_name_of(name, info) for name, info in model.model_fields.items()]
            self.problems.extend(
                _unknown(name, known_names, path) for name in left if not self.is_open(name)
            )
        return decoded


def _at(arguments: Sequence[Any], index: int) -> Any:
    return arguments[min(index, len(arguments) - 1)] if arguments else Any


def _key_for(field: str, values: Mapping[Any, Any]) -> Any:
    """Return the key of a map for a field. Case is ignored if there is no exact match."""
    if field in values:
        return field
    folded = field.casefold()
    return next((key for key in values if isinstance(key, str) and key.casefold() == folded), None)


def _takes_none(annotation: Any) -> bool:
    if annotation is Any or annotation is None or annotation is type(None):
        return True
    if get_origin(annotation) is Annotated:
        return _takes_none(get_args(annotation)[0])
    return get_origin(annotation) in (Union, types.UnionType) and any(
        _takes_none(arg) for arg in get_args(annotation)
    )


def _decode(
    model: Model, args: Mapping[str, Any], is_open: Callable[[object], bool]
) -> tuple[dict[str, Any], list[ArgProblem]]:
    fields = {_name_of(name, info): info for name, info in model.model_fields.items()}
    # A null counts as an argument that is left out.
    present = {
        name: value
        for name, value in args.items()
        if value is not None or name not in fields or _takes_none(fields[name].annotation)
    }
    problems = [
        ArgProblem(name, f"Required arg missing: {name}", "missing")
        for name, info in fields.items()
        if info.is_required() and name not in present
    ]
    allows_extra = model.model_config.get("extra") == "allow"
    decoded: dict[str, Any] = {}
    decoder = _Decoder(is_open, [])
    for name, value in present.items():
        info = fields.get(name)
        if info is not None:
            decoded[name] = decoder.value(info.annotation, value, (name,))
        elif allows_extra:
            decoded[name] = value
        elif not is_open(name):
            problems.append(_unknown(name, [*fields]))
    return decoded, problems + decoder.problems


def _unknown(name: str, names: Sequence[str], inside: Path = ()) -> ArgProblem:
    hint, where = did_you_mean(nearest(str(name), names)), text_of_path((*inside, name))
    return ArgProblem(where, f"argument {where} is not supported{hint}", "unknown")


def _validation_problems(model: Model, error: ValidationError) -> Iterator[ArgProblem]:
    """Yield the problems that validators of a model report."""
    field_names = {name: _name_of(name, info) for name, info in model.model_fields.items()}
    for detail in error.errors(include_url=False):
        first, *inner = detail["loc"] or ("",)
        path = (field_names.get(str(first), first), *inner) if first != "" else ()
        if detail["type"] == "missing":
            message = f"Required arg missing: {text_of_path(path)}"
            yield ArgProblem(text_of_path(path), message, "missing")
            continue
        why = str(detail.get("ctx", {}).get("error") or detail["msg"])
        why = f"Text {why.removeprefix('String ')}" if why.startswith("String ") else why
        text = shown(_plain(detail.get("input")))
        if path:
            # Messages about a map already contain the path and the value.
            shows = "" if isinstance(detail.get("input"), Mapping) else f", found {text}"
            yield _mistyped(path, f"{why[:1].lower()}{why[1:]}{shows}", why, text)
        else:
            yield ArgProblem("", why, "type", why, text)


def _plain(value: object) -> object:
    """Convert other mappings to a dict, and tuples to a list, for error messages."""
    return {} if isinstance(value, Mapping) else [] if isinstance(value, tuple) else value


def _mistyped(path: Path, why: str, expected: str, actual: str) -> ArgProblem:
    where = text_of_path(path)
    return ArgProblem(where, f"Failed to decode arg `{where}`: {why}", "type", expected, actual)


# Scalars in the format of Go


def _text(value: str | float) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, int):
        return str(value)
    if not isfinite(value):
        return {"inf": "+Inf", "-inf": "-Inf", "nan": "NaN"}[str(value)]
    text = format(Decimal(repr(value)), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


_TRUTHS = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False", ""), False),
}


def _truth(value: str | float) -> bool:
    if not isinstance(value, str):
        return value != 0
    if value not in _TRUTHS:
        raise ValueError(value)
    return _TRUTHS[value]


_INTEGER = re.compile(
    r"[+-]?(0[xX](_?[0-9a-fA-F])+|0[bB](_?[01])+|0[oO]?(_?[0-7])+|0|[1-9](_?[0-9])*)\Z"
)
_LARGEST = 1 << 63


def _integer(value: str | float) -> int:
    if not isinstance(value, str):
        number = int(value) if isfinite(value) else _LARGEST
    elif _INTEGER.match(value):
        # In Go, the prefix of an octal number may lack the letter `o`.
        number = int(re.sub(r"^([+-]?0)_?(?=[0-7])", r"\1o", value), 0)
    elif value:
        raise ValueError(value)
    else:
        number = 0
    if not -_LARGEST <= number < _LARGEST:
        raise ValueError(value)
    return number


_FLOAT = re.compile(
    r"[+-]?(\d[\d_]*(?:\.\d*)?|\.\d+)([eE][+-]?\d+)?\Z|[+-]?(inf|infinity|nan)\Z", re.IGNORECASE
)


def _fraction(value: str | float) -> float:
    if isinstance(value, str):
        if value == "":
            return 0.0
        if _FLOAT.match(value) is None or "_" in value:
            raise ValueError(value)
    try:
        return float(value)
    except OverflowError:
        raise ValueError(value) from None


_SCALARS: Mapping[Any, Callable[[Any], Any]] = {
    str: _text,
    bool: _truth,
    int: _integer,
    float: _fraction,
}
_WORDS = {str: "text", bool: "true or false", int: "a whole number", float: "a number"}


def _zero_of(annotation: Any) -> Any:
    """Return the zero value of a type, which replaces a null."""
    container = get_origin(annotation) or annotation
    if container in _SCALARS:
        return container()
    if isinstance(container, type):
        if issubclass(container, BaseModel | Mapping):
            return {}
        if issubclass(container, Sequence | AbstractSet):
            return []
    return None

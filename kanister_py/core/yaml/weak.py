"""Decoding of args: loosely written ones become what a function takes.

Blueprints are written loosely: a list of one is written without its brackets, a
number in quotes, the key of a map in other capitals. What has always been accepted
there is accepted here, by the same rules, and nothing else is.
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
    """One thing that is wrong with one arg: where, what was wanted, and what was found there.

    `kind` is missing, unknown or type. Of a missing or unknown arg, `wanted` and
    `found` say nothing.
    """

    path: str
    message: str
    kind: str
    wanted: str = ""
    found: str = ""

    def __str__(self) -> str:
        return self.message


class InvalidArgs(UsageError, reason="InvalidArgs"):
    """The args of a phase are not what its function takes; holds every problem."""

    def __init__(self, function: str, problems: Sequence[ArgProblem]) -> None:
        self.function = function
        self.problems = tuple(problems)
        messages = "; ".join(problem.message for problem in self.problems)
        super().__init__(f"Args of {function or 'the function'} are refused: {messages}")


M = TypeVar("M", bound=BaseModel)
Model = type[BaseModel]
Path = tuple[str | int, ...]


def decode_args(model: type[M], args: Mapping[str, Any], function: str = "") -> M:
    """Read rendered args as a function's model, or refuse them with every problem there is."""
    decoded, problems = _decode(model, args, lambda _: False)
    if not problems:
        try:
            return model.model_validate(decoded)
        except ValidationError as error:
            problems = list(_refused_by(model, error))
    raise InvalidArgs(function, problems)


def problems_of_args(
    model: Model, args: Mapping[str, Any], is_open: Callable[[object], bool] = lambda _: False
) -> list[ArgProblem]:
    """Say what is wrong with args of which some are not known yet.

    A value for which `is_open` holds may still become anything.
    """
    seen_open = False

    def note(value: object) -> bool:
        nonlocal seen_open
        found = is_open(value)
        seen_open = seen_open or found
        return found

    decoded, problems = _decode(model, args, note)
    if problems:
        return problems
    known = args_without_templates(decoded, is_open)
    try:
        model.model_validate(known)
    except ValidationError as error:
        problems = list(_refused_by(model, error))
    if not seen_open:
        return problems
    # What is left out here is there, and rules about several args may be kept with it.
    return [each for each in problems if each.path and each.kind != "missing"]


def args_without_templates(
    args: Mapping[str, Any], is_open: Callable[[object], bool]
) -> dict[str, Any]:
    """Give the args of which every part is known."""
    return {name: each for name, each in args.items() if not _holds(each, is_open)}


def _holds(value: object, is_open: Callable[[object], bool]) -> bool:
    """Say whether a value, or something in it, is open."""
    if isinstance(value, Mapping):
        return any(_holds(each, is_open) for pair in value.items() for each in pair)
    if isinstance(value, list | tuple):
        return any(_holds(each, is_open) for each in value)
    return is_open(value)


def _name_of(name: str, info: FieldInfo) -> str:
    alias = info.validation_alias
    return alias if isinstance(alias, str) else info.alias or name


# Decoding


class _Decoder(NamedTuple):
    is_open: Callable[[object], bool]
    problems: list[ArgProblem]

    def wrong(self, path: Path, wanted: str, found: object) -> None:
        text = shown(_plain(found))
        self.problems.append(_mistyped(path, f"expected {wanted}, found {text}", wanted, text))

    def value(self, annotation: Any, value: Any, path: Path) -> Any:
        """Turn a value into what an annotation wants, as far as the rules allow."""
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
            texts = all(isinstance(each, str) for each in get_args(annotation))
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
        some = [each for each in members if each is not type(None)]
        if value is None:
            return None if len(some) < len(members) else _zero_of(some[0])
        # With several ways to read it, the model's own rules choose among them.
        return self.value(some[0], value, path) if len(some) == 1 else value

    def _scalar(self, wanted: type, value: Any, path: Path) -> Any:
        read = _SCALARS[wanted]
        if isinstance(value, str | bool | int | float):
            try:
                return read(value)
            except ValueError:
                pass
        self.wrong(path, _WORDS[wanted], value)
        return value

    def _list(self, annotation: Any, value: Any, path: Path) -> Any:
        arguments = [each for each in get_args(annotation) if each is not ...]
        if isinstance(value, list | tuple):
            return [
                self.value(_at(arguments, index), each, (*path, index))
                for index, each in enumerate(value)
            ]
        # One thing where a list is wanted has no number of its own in the file.
        is_empty = isinstance(value, Mapping) and not value
        return [] if is_empty else [self.value(_at(arguments, 0), value, path)]

    def _map(self, annotation: Any, value: Any, path: Path) -> Any:
        arguments = get_args(annotation)
        keys, values = arguments if len(arguments) == 2 else (Any, Any)
        merged = value
        if isinstance(value, list | tuple) and all(isinstance(each, Mapping) for each in value):
            merged = {key: each[key] for each in value for key in each}
        if not isinstance(merged, Mapping):
            self.wrong(path, "a map", value)
            return value
        return {
            self.value(keys, key, (*path, key)): self.value(values, each, (*path, key))
            for key, each in merged.items()
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
            known = _name_of(name, info)
            key = _key_for(known, left)
            if key is None:
                continue
            each = left.pop(key)
            if each is not None or _takes_none(info.annotation):
                decoded[known] = self.value(info.annotation, each, (*path, key))
        if model.model_config.get("extra") == "allow":
            decoded.update(left)
        elif model.model_config.get("strict"):
            # Others have always been read past what they do not know.
            known_names = [_name_of(name, info) for name, info in model.model_fields.items()]
            self.problems.extend(
                _unknown(name, known_names, path) for name in left if not self.is_open(name)
            )
        return decoded


def _at(arguments: Sequence[Any], index: int) -> Any:
    return arguments[min(index, len(arguments) - 1)] if arguments else Any


def _key_for(known: str, given: Mapping[Any, Any]) -> Any:
    """Find the key of a map that means a field; the same word in other capitals does, too."""
    if known in given:
        return known
    folded = known.casefold()
    return next((key for key in given if isinstance(key, str) and key.casefold() == folded), None)


def _takes_none(annotation: Any) -> bool:
    if annotation is Any or annotation is None or annotation is type(None):
        return True
    if get_origin(annotation) is Annotated:
        return _takes_none(get_args(annotation)[0])
    return get_origin(annotation) in (Union, types.UnionType) and any(
        _takes_none(each) for each in get_args(annotation)
    )


def _decode(
    model: Model, args: Mapping[str, Any], is_open: Callable[[object], bool]
) -> tuple[dict[str, Any], list[ArgProblem]]:
    known = {_name_of(name, info): info for name, info in model.model_fields.items()}
    # A null says no more than an arg that is left out.
    given = {
        name: each
        for name, each in args.items()
        if each is not None or name not in known or _takes_none(known[name].annotation)
    }
    problems = [
        ArgProblem(name, f"Required arg missing: {name}", "missing")
        for name, info in known.items()
        if info.is_required() and name not in given
    ]
    takes_others = model.model_config.get("extra") == "allow"
    decoded: dict[str, Any] = {}
    decoder = _Decoder(is_open, [])
    for name, each in given.items():
        info = known.get(name)
        if info is not None:
            decoded[name] = decoder.value(info.annotation, each, (name,))
        elif takes_others:
            decoded[name] = each
        elif not is_open(name):
            problems.append(_unknown(name, [*known]))
    return decoded, problems + decoder.problems


def _unknown(name: str, known: Sequence[str], inside: Path = ()) -> ArgProblem:
    hint, where = did_you_mean(nearest(str(name), known)), text_of_path((*inside, name))
    return ArgProblem(where, f"argument {where} is not supported{hint}", "unknown")


def _refused_by(model: Model, error: ValidationError) -> Iterator[ArgProblem]:
    """Say what a model's own rules find wrong with args of the right types."""
    known = {name: _name_of(name, info) for name, info in model.model_fields.items()}
    for detail in error.errors(include_url=False):
        first, *rest = detail["loc"] or ("",)
        path = (known.get(str(first), first), *rest) if first != "" else ()
        if detail["type"] == "missing":
            message = f"Required arg missing: {text_of_path(path)}"
            yield ArgProblem(text_of_path(path), message, "missing")
            continue
        why = str(detail.get("ctx", {}).get("error") or detail["msg"])
        why = f"Text {why.removeprefix('String ')}" if why.startswith("String ") else why
        found = shown(_plain(detail.get("input")))
        if path:
            # What is wrong inside a map says itself where it stands, and what is there.
            shows = "" if isinstance(detail.get("input"), Mapping) else f", found {found}"
            yield _mistyped(path, f"{why[:1].lower()}{why[1:]}{shows}", why, found)
        else:
            yield ArgProblem("", why, "type", why, found)


def _plain(value: object) -> object:
    """Give the map or list that a value of another class stands for."""
    return {} if isinstance(value, Mapping) else [] if isinstance(value, tuple) else value


def _mistyped(path: Path, why: str, wanted: str, found: str) -> ArgProblem:
    where = text_of_path(path)
    return ArgProblem(where, f"Failed to decode arg `{where}`: {why}", "type", wanted, found)


# Scalars, as Go reads and writes them


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


def _whole(value: str | float) -> int:
    if not isinstance(value, str):
        number = int(value) if isfinite(value) else _LARGEST
    elif _INTEGER.match(value):
        # Go's way to write a number to the base of eight lacks the letter.
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
    int: _whole,
    float: _fraction,
}
_WORDS = {str: "text", bool: "true or false", int: "a whole number", float: "a number"}


def _zero_of(annotation: Any) -> Any:
    """Give what a null becomes where no null can be."""
    container = get_origin(annotation) or annotation
    if container in _SCALARS:
        return container()
    if isinstance(container, type):
        if issubclass(container, BaseModel | Mapping):
            return {}
        if issubclass(container, Sequence | AbstractSet):
            return []
    return None

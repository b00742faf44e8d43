"""Input fields of composition functions: tables for reading and documenting an input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from pydantic import BaseModel, ConfigDict, create_model
from pydantic import Field as ModelField

TEXT: Final = "a string"
WHOLE: Final = "a whole number"
ANY: Final = "anything"
MAP: Final = "a map"
"""A map whose contents are not validated."""

_LEAST_WHOLE, _MOST_WHOLE = -(2**63), 2**63 - 1
REQUIRED: Final = ...


class Field(NamedTuple):
    """One field of an input.

    `shape` is one of the constants above, a table of fields, a list with the shape of its
    elements, or `{"*": shape}` for a map with arbitrary keys.
    """

    shape: Any
    description: str
    default: Any = None
    choices: str = ""
    """Allowed values, separated by spaces. Only documented here: the function checks them."""


Fields: TypeAlias = Mapping[str, Any]
_UNUSED: Final = "Ignored"


def head(api_version: str, kind: str) -> dict[str, Field]:
    """Return the fields that every Kubernetes object has."""
    return {
        "apiVersion": Field(TEXT, _UNUSED, api_version),
        "kind": Field(TEXT, _UNUSED, kind),
        "metadata": Field(MAP, _UNUSED),
    }


TTL: Final = Field(TEXT, "How long the response stays valid, such as 5m; by default one minute")

# Reading


class InputInvalid(Exception):
    """An input has an unknown field, or a field of the wrong type."""

    def __init__(self, refused: Refusal, text: str = "") -> None:
        super().__init__(text or f"{refused.path or 'the input'} {refused.message}")
        self.refused = refused


class Refusal(NamedTuple):
    """Problem of an input that does not depend on the request: its path and its message.

    For an unknown value, `word` is that value and `allowed` contains the valid ones.
    """

    path: str
    message: str
    word: str = ""
    allowed: tuple[str, ...] = ()


def decode_input(function_input: Any, fields: Fields) -> dict[str, Any]:
    """Validate an input against its fields, and return it without its null values."""
    decoded: dict[str, Any] = _read({} if function_input is None else function_input, fields, "")
    return decoded


def decode_error(go_type: str, error: InputInvalid) -> str:
    """Return the original function's message for an invalid input, except for Go's details."""
    return (
        f"*{go_type} from *v1.RunFunctionRequest: cannot unmarshal JSON from *structpb.Struct "
        f"into *{go_type}: json: {error}"
    )


def _read(value: Any, shape: Any, path: str) -> Any:
    if shape is ANY or shape is MAP:
        return value
    if isinstance(shape, dict):
        if not isinstance(value, Mapping):
            raise InputInvalid(Refusal(path, "must be an object"))
        read = {}
        member_shape = shape.get("*")
        for key, member in value.items():
            where = f"{path}.{key}" if path else str(key)
            if member_shape is not None:
                inner = member_shape
            elif key in shape:
                inner = shape[key].shape
            else:
                why = f'unknown name "{key}"'
                refused = Refusal(where, why, str(key), tuple(shape))
                raise InputInvalid(refused, f"{path or 'the input'}: {why}")
            # In a map with arbitrary keys and values, null is an ordinary value.
            if member is not None or member_shape is ANY:
                read[key] = _read(member, inner, where)
        return read
    if isinstance(shape, list):
        if not isinstance(value, list):
            raise InputInvalid(Refusal(path, "must be an array"))
        return [
            _read({} if member is None else member, shape[0], f"{path}[{at}]")
            for at, member in enumerate(value)
        ]
    is_fine = (
        isinstance(value, str)
        if shape is TEXT
        else isinstance(value, int | float)
        and not isinstance(value, bool)
        and value == value // 1  # neither a fraction nor infinite
        and _LEAST_WHOLE <= value <= _MOST_WHOLE
    )
    if not is_fine:
        raise InputInvalid(Refusal(path, f"must be {shape}"))
    return value if shape is TEXT else int(value)


# Documentation


def input_model(fields: Fields) -> type[BaseModel]:
    """Build the model that an input is documented from."""
    plain: dict[str, Any] = {TEXT: str, WHOLE: int, ANY: Any, MAP: dict[str, Any]}
    literal: Any = Literal
    # A table that is used in several places becomes one model.
    models: dict[int, type[BaseModel]] = {}

    def type_of(shape: Any) -> Any:
        if isinstance(shape, list):
            return list[type_of(shape[0])]  # type: ignore[misc]  # known when it runs
        if not isinstance(shape, dict):
            return plain[shape]
        if "*" in shape:
            return dict[str, type_of(shape["*"])]  # type: ignore[misc]  # known when it runs
        if id(shape) not in models:
            declared: dict[str, Any] = {}
            for name, field in shape.items():
                kind = (
                    literal[tuple(field.choices.split())] if field.choices else type_of(field.shape)
                )
                declared[name] = (
                    kind if field.default is not None else kind | None,
                    ModelField(field.default, description=field.description),
                )
            models[id(shape)] = create_model(
                f"Fields{len(models)}", __config__=ConfigDict(extra="forbid"), **declared
            )
        return models[id(shape)]

    model: type[BaseModel] = type_of(fields)
    return model

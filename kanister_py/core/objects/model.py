"""How data from YAML or the API becomes values with types, and what is said when it does not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from kanister_py.core.errors import InvalidDocument, Problem
from kanister_py.core.objects.documents import Document, kind_of, nearest


class Record(BaseModel):
    """A frozen value of a file of ours: `func_version` here, `funcVersion` there.

    Unknown keys are refused: they are misspelt more often than meant.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True
    )


class ApiObject(BaseModel):
    """A frozen value of the Kubernetes API: unknown keys are kept, not judged."""

    model_config = ConfigDict(
        frozen=True, extra="allow", alias_generator=to_camel, populate_by_name=True
    )


M = TypeVar("M", bound=BaseModel)


def parse_model(model: type[M], document: Document, path: Sequence[str | int] = ()) -> M:
    """Read the part of a document at `path` as a model, or refuse it with every problem in it."""
    node = document.node_at(path)
    if node is None:
        raise InvalidDocument([document.problem(path, "Is required")])
    try:
        return model.model_validate(node.value)
    except ValidationError as error:
        raise InvalidDocument(problems_of(model, error, document, path)) from None


def problems_of(
    model: type[BaseModel],
    error: ValidationError,
    document: Document,
    path: Sequence[str | int] = (),
) -> list[Problem]:
    """Say in our words what pydantic found, with the lines of the document."""
    problems = {}
    for detail in error.errors(include_url=False):
        inside = _path_in(document, [*path, *detail["loc"]])
        message = _message_of(detail, model, inside[len(path) :])
        problem = document.problem(inside, message)
        problems[(problem.path, message)] = problem
    return list(problems.values())


def _path_in(document: Document, loc: Sequence[str | int]) -> list[str | int]:
    """Drop what pydantic puts into a path and the document does not know: `[key]`, union tags."""
    path: list[str | int] = []
    for index, part in enumerate(loc):
        is_last = index == len(loc) - 1
        if document.node_at([*path, part]) is not None or (is_last and part != "[key]"):
            path.append(part)
    return path


def _message_of(detail: Any, model: type[BaseModel], path: Sequence[str | int]) -> str:
    kind, found = detail["type"], detail.get("input")
    context = detail.get("ctx", {})
    if kind == "missing":
        return "Is required"
    if kind == "extra_forbidden":
        return _unknown_key(str(path[-1]) if path else "", model, path)
    if kind in _WANTED:
        return f"Must be {_WANTED[kind]}, found {_shown(found)}"
    if kind in ("literal_error", "enum"):
        return f"Must be {context['expected']}, found {_shown(found)}"
    if kind == "value_error":
        return str(context["error"])
    return f"{detail['msg']}, found {_shown(found)}"


_WANTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a map",
    "mapping_type": "a map",
    "model_type": "a map",
    "model_attributes_type": "a map",
    "none_required": "left out",
}


def _shown(value: object) -> str:
    if isinstance(value, dict | list):
        return kind_of(value)
    if value is None:
        return "nothing"
    text = repr(value) if isinstance(value, str) else str(value).lower()
    return text if len(text) <= 60 else text[:57] + "..."


def _unknown_key(key: str, model: type[BaseModel], path: Sequence[str | int]) -> str:
    known = _known_keys(model, path[:-1])
    near = nearest(key, known)
    if near:
        return f"Unknown key {key!r}; did you mean {' or '.join(near)}?"
    if known:
        return f"Unknown key {key!r}; known here: {', '.join(sorted(known))}"
    return f"Unknown key {key!r}"


def _known_keys(model: type[BaseModel], path: Sequence[str | int]) -> list[str]:
    """Find the keys that the model at `path` knows, through lists and maps of models."""
    here: type[BaseModel] | None = model
    inside: Any = None
    for part in path:
        if here is not None:
            fields = {field.alias or name: field for name, field in here.model_fields.items()}
            if part not in fields:
                return []
            inside = fields[str(part)].annotation
            here = None
        else:
            inside = _element_of(inside)
        here = _model_of(inside)
    return [field.alias or name for name, field in here.model_fields.items()] if here else []


def _element_of(annotation: Any) -> Any:
    arguments = [
        each for each in getattr(annotation, "__args__", ()) if each not in (..., type(None))
    ]
    if len(arguments) == 1 and not isinstance(annotation, type) and _is_union(annotation):
        return _element_of(arguments[0])
    return arguments[-1] if arguments else None


def _model_of(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type):
        return annotation if issubclass(annotation, BaseModel) else None
    if _is_union(annotation):
        models = [_model_of(each) for each in annotation.__args__ if each is not type(None)]
        return models[0] if len(models) == 1 else None
    return None


def _is_union(annotation: Any) -> bool:
    return type(None) in getattr(annotation, "__args__", ())

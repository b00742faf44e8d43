"""Checks of documents against the schema of their kind: types, rules and unknown fields."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from kanister_py.core.errors import Cause, Problem, did_you_mean
from kanister_py.core.kube.crd_rules import broken_rules
from kanister_py.core.kube.crd_schemas import schema_problems
from kanister_py.core.yaml.documents import Document, Path, nearest

_PRESERVES: Final = "x-kubernetes-preserve-unknown-fields"
_OBJECT_FIELDS: Final = frozenset({"apiVersion", "kind", "metadata"})
_PART: Final = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


def violations(document: Document, value: Any, schema: Mapping[str, Any]) -> list[Problem]:
    """Return the violations of types, bounds and CEL rules, with their places.

    `value` is the value of the document, with defaults filled in.
    """
    causes = schema_problems(value, schema) or broken_rules(value, None, schema)
    return [_problem_of(document, cause) for cause in causes]


def _problem_of(document: Document, cause: Cause) -> Problem:
    path: list[str | int] = [
        name or int(index) for name, index in _PART.findall(cause.field) if cause.field != "<nil>"
    ]
    message = cause.message
    # A missing field has no place of its own.
    while path and document.node_at(path) is None:
        message = f"{path[-1]}: {message}"
        path.pop()
    return document.problem(path, message, cause.reason)


def unknown_fields(document: Document, schema: Mapping[str, Any]) -> list[Problem]:
    """Return the fields that an API server would prune, with similar names of the schema."""
    return [
        document.problem(path, f"Unknown field{did_you_mean(near)}", "UnknownField")
        for path, near in _unknown(document.value, schema, (), is_object=True)
    ]


def _unknown(
    value: Any, schema: Mapping[str, Any], path: Path, *, is_object: bool = False
) -> Iterator[tuple[Path, tuple[str, ...]]]:
    if isinstance(value, dict):
        properties, additional = schema.get("properties") or {}, schema.get("additionalProperties")
        keeps = bool(schema.get(_PRESERVES)) or additional is True or not _is_closed(schema)
        is_object = is_object or bool(schema.get("x-kubernetes-embedded-resource"))
        for key, inside in value.items():
            if is_object and key in _OBJECT_FIELDS:
                continue
            if key in properties:
                yield from _unknown(inside, properties[key], (*path, key))
            elif isinstance(additional, dict):
                yield from _unknown(inside, additional, (*path, key))
            elif not keeps:
                yield (*path, key), nearest(key, list(properties))
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for index, item in enumerate(value):
            yield from _unknown(item, schema["items"], (*path, index))


def _is_closed(schema: Mapping[str, Any]) -> bool:
    """Return whether a schema lists its fields; an empty schema accepts anything."""
    return bool(schema.get("properties")) or schema.get("type") == "object"

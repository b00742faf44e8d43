"""Signatures of functions: their arguments and outputs, without loading their code.

Loading code means loading a library for models, which takes longer than all the
rest of lint. A signature only ever clears a phase: whatever it does not clear is
looked at with the code itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from kanister_py.values import NamedTuple


class Signature(NamedTuple):
    """The args of a version with what fits each without a closer look, and its outputs.

    What fits is a JSON schema; an argument without one is always looked at with the code.
    `outputs` is None where only the blueprint knows them. `is_whole`: the args are
    fine together whenever each of them is. `conditions` are the functions that a
    condition on an object may call besides Go's own; `*` stands for those of blueprints.
    """

    required: frozenset[str]
    args: Mapping[str, Mapping[str, Any] | None]
    outputs: frozenset[str] | None
    is_whole: bool = True
    conditions: tuple[str, ...] = ("*",)

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Signature:
        outputs = data["outputs"]
        return cls(
            frozenset(data["required"]),
            data["args"],
            None if outputs is None else frozenset(outputs),
            data["whole"],
            tuple(data.get("conditions", ("*",))),
        )


def outputs_of(function: Any) -> frozenset[str] | None:
    """Give the outputs that a class declares; None where only the blueprint knows them."""
    model = getattr(function, "Outputs", None)
    if model is None or model.model_config.get("extra") == "allow":
        return None
    fields: Mapping[str, Any] = model.model_fields
    return frozenset(field.alias or name for name, field in fields.items())


def conditions_of(function: Any) -> tuple[str, ...]:
    """Say what the conditions of a class may call besides Go's own functions."""
    return tuple(getattr(function, "condition_functions", ("*",)))


def is_clear(signature: Signature, args: Mapping[str, Any]) -> bool:
    """Say whether args are fine beyond doubt; templates may still become anything.

    Rules about several args judge only those of which every one is known.
    """
    return (
        (signature.is_whole or _is_open(args))
        and signature.required <= args.keys()
        and all(
            name in signature.args and _fits(signature.args[name], value)
            for name, value in args.items()
        )
    )


def _fits(schema: Mapping[str, Any] | None, value: Any) -> bool:
    if isinstance(value, str) and may_be_template(value):
        return True
    if schema is None:
        return False
    if "anyOf" in schema:
        return any(_fits(each, value) for each in schema["anyOf"])
    kind = schema.get("type")
    if kind == "string":
        is_text = isinstance(value, str) and len(value) >= schema.get("minLength", 0)
        return is_text and _matches(schema.get("pattern"), value)
    if kind == "boolean":
        return isinstance(value, bool)
    if kind == "integer":
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        return is_whole and schema.get("minimum", value) <= value <= schema.get("maximum", value)
    if kind == "array":
        items = schema.get("items")
        is_list = isinstance(value, list) and len(value) >= schema.get("minItems", 0)
        return is_list and all(not items or _fits(items, each) for each in value)
    return kind == "object" and isinstance(value, dict) and all(_fit_inside(schema, value))


def _fit_inside(schema: Mapping[str, Any], value: Mapping[str, Any]) -> Iterator[bool]:
    """Say of each key of a map, and of each that is missing, whether it is fine."""
    properties = schema.get("properties", {})
    others = schema.get("additionalProperties", True)
    names = schema.get("propertyNames", {}).get("pattern")
    yield all(name in value for name in schema.get("required", ()))
    for name, each in value.items():
        if name in properties:
            yield _fits(properties[name], each)
        else:
            yield _matches(names, name) and (others is True or _fits(others or None, each))


def _matches(pattern: str | None, text: str) -> bool:
    return pattern is None or re.fullmatch(pattern, text) is not None


def _is_open(value: Any) -> bool:
    if isinstance(value, str):
        return may_be_template(value)
    parts = value.values() if isinstance(value, dict) else value
    return isinstance(value, dict | list) and any(map(_is_open, parts))


def may_be_template(text: str) -> bool:
    return "{{" in text or "{%" in text

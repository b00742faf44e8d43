"""Signatures of functions, read off their models, as the file of signatures records them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, get_args

from kanister_py.core.blueprints.lint.signatures import Signature, conditions_of, outputs_of


def record_of(signature: Signature) -> dict[str, Any]:
    """Write a signature as the file of signatures has it."""
    data: dict[str, Any] = {
        "args": {name: signature.args[name] for name in sorted(signature.args)},
        "required": sorted(signature.required),
        "outputs": None if signature.outputs is None else sorted(signature.outputs),
        "whole": signature.is_whole,
    }
    if signature.conditions != ("*",):
        data["conditions"] = list(signature.conditions)
    return data


def signature_of(function: Any) -> Signature:
    """Read the signature of a class off its models."""
    model = getattr(function.Args, "pydantic_model", lambda: function.Args)()
    schema = model.model_json_schema(by_alias=True)
    definitions = schema.get("$defs", {})
    judged = _judged_by_name(model)
    args: dict[str, Mapping[str, Any] | None] = {}
    for name, field in model.model_fields.items():
        alias = field.alias or name
        # What has rules of its own says itself, in its schema, what fits beyond doubt.
        is_plain = not (judged & {name, "*"}) and all(map(_is_bound, field.metadata))
        is_known = field.json_schema_extra or (is_plain and not _has_rules(field.annotation))
        args[alias] = _plain(schema["properties"][alias], definitions) if is_known else None
    return Signature(
        frozenset(schema.get("required", ())),
        args,
        outputs_of(function),
        not model.__pydantic_decorators__.model_validators,
        conditions_of(function),
    )


def _judged_by_name(model: Any) -> set[str]:
    validators = model.__pydantic_decorators__.field_validators
    return {name for each in validators.values() for name in each.info.fields}


def _is_bound(rule: object) -> bool:
    """Say whether a rule is one that a schema says, too: a least, a most or a shortest."""
    return hasattr(rule, "ge") or hasattr(rule, "le") or hasattr(rule, "min_length")


def _has_rules(annotation: Any) -> bool:
    """Say whether models inside a type judge more than the types of their fields."""
    if not hasattr(annotation, "model_fields"):
        return any(map(_has_rules, get_args(annotation)))
    rules = annotation.__pydantic_decorators__
    return bool(rules.model_validators or rules.field_validators) or any(
        not all(map(_is_bound, field.metadata)) or _has_rules(field.annotation)
        for field in annotation.model_fields.values()
    )


_SAYS_NOTHING: Final = ("title", "description", "default")


def _plain(schema: Any, definitions: Mapping[str, Any]) -> Any:
    """Leave out of a schema what only readers want, and put in what it refers to."""
    if isinstance(schema, list):
        return [_plain(each, definitions) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _plain(definitions[schema["$ref"].rpartition("/")[2]], definitions)
    return {
        key: {name: _plain(each, definitions) for name, each in value.items()}
        if key == "properties"
        else _plain(value, definitions)
        for key, value in schema.items()
        if key not in _SAYS_NOTHING
    }

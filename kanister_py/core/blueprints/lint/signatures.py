"""What can be said of a function's arguments without loading its code?

Loading code means loading a library for models, which takes longer than all the
rest of lint. A signature only ever clears a phase: whatever it does not clear is
looked at with the code itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import UnionType
from typing import Any, Final, NamedTuple, Union, get_args, get_origin


class Signature(NamedTuple):
    """The args of a version with what fits each without a closer look, and its outputs.

    `outputs` is None where only the blueprint knows them. `is_whole`: the args are
    fine together whenever each of them is. `conditions` are the functions that a
    condition on an object may call besides Go's own; `*` stands for those of blueprints.
    """

    required: frozenset[str]
    kinds: Mapping[str, str]
    outputs: frozenset[str] | None
    is_whole: bool = True
    conditions: tuple[str, ...] = ("*",)

    def as_dict(self) -> dict[str, Any]:
        data: dict[str, Any] = {
            "args": {name: self.kinds[name] for name in sorted(self.kinds)},
            "required": sorted(self.required),
            "outputs": None if self.outputs is None else sorted(self.outputs),
            "whole": self.is_whole,
        }
        if self.conditions != ("*",):
            data["conditions"] = list(self.conditions)
        return data

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


TEXT, TEXTS, WHOLE, TRUTH, MAP, TEXT_MAP, OTHER = (
    "text",
    "texts",
    "whole",
    "truth",
    "map",
    "text-map",
    "",
)
_KINDS: Final[tuple[tuple[Any, str], ...]] = (
    (str, TEXT),
    (list[str], TEXTS),
    (tuple[str, ...], TEXTS),
    (int, WHOLE),
    (bool, TRUTH),
    (dict[str, Any], MAP),
    (dict[str, str], TEXT_MAP),
    (Mapping[str, Any], MAP),
    (Mapping[str, str], TEXT_MAP),
)


def signature_of(function: Any) -> Signature:
    """Read the signature of a class off its models."""
    model = function.Args
    decorators = model.__pydantic_decorators__
    judged = {name for each in decorators.field_validators.values() for name in each.info.fields}
    kinds, required = {}, set()
    for name, field in model.model_fields.items():
        alias = field.alias or name
        is_plain = not field.metadata and name not in judged and "*" not in judged
        kinds[alias] = _kind_of(field.annotation) if is_plain else OTHER
        if field.is_required():
            required.add(alias)
    return Signature(
        frozenset(required),
        kinds,
        outputs_of(function),
        not decorators.model_validators,
        conditions_of(function),
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


def _kind_of(annotation: Any) -> str:
    if get_origin(annotation) in (Union, UnionType):
        inner = [each for each in get_args(annotation) if each is not type(None)]
        return _kind_of(inner[0]) if len(inner) == 1 else OTHER
    return next((kind for known, kind in _KINDS if known == annotation), OTHER)


def is_clear(signature: Signature, args: Mapping[str, Any]) -> bool:
    """Say whether args are fine beyond doubt; templates may still become anything."""
    return (
        signature.is_whole
        and signature.required <= args.keys()
        and all(
            name in signature.kinds and _fits(signature.kinds[name], value)
            for name, value in args.items()
        )
    )


def _fits(kind: str, value: Any) -> bool:
    if isinstance(value, str):
        return kind == TEXT or may_be_template(value)
    if kind == TEXTS:
        return isinstance(value, list) and all(isinstance(each, str) for each in value)
    if kind == WHOLE:
        return isinstance(value, int) and not isinstance(value, bool)
    if kind == TRUTH:
        return isinstance(value, bool)
    if kind in (MAP, TEXT_MAP):
        return isinstance(value, dict) and (
            kind == MAP or all(isinstance(each, str) for each in value.values())
        )
    return False


def may_be_template(text: str) -> bool:
    return "{{" in text or "{%" in text

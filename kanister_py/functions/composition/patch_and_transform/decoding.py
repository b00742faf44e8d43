"""Is an input of the shape the function knows? Every member is known, every type is right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kanister_py.functions.composition.patch_and_transform.values import MAX_INT64, MIN_INT64


class NotDecoded(Exception):
    """An input has a member nobody knows, or one of a wrong type."""


class _Struct(NamedTuple):
    name: str
    fields: Mapping[str, Any]


_ANY: Final = object()
"""Any JSON at all."""
_MAP: Final = object()
"""Any JSON by name; a member may be null."""

_COMBINE: Final = _Struct(
    "Combine",
    {
        "variables": [_Struct("CombineVariable", {"fromFieldPath": str})],
        "strategy": str,
        "string": _Struct("StringCombine", {"fmt": str}),
    },
)
_TRANSFORM: Final = _Struct(
    "Transform",
    {
        "type": str,
        "math": _Struct(
            "MathTransform", {"type": str, "multiply": int, "clampMin": int, "clampMax": int}
        ),
        "map": _MAP,
        "match": _Struct(
            "MatchTransform",
            {
                "patterns": [
                    _Struct(
                        "MatchTransformPattern",
                        {"type": str, "literal": str, "regexp": str, "result": _ANY},
                    )
                ],
                "fallbackValue": _ANY,
                "fallbackTo": str,
            },
        ),
        "string": _Struct(
            "StringTransform",
            {
                "type": str,
                "fmt": str,
                "convert": str,
                "trim": str,
                "regexp": _Struct("StringTransformRegexp", {"match": str, "group": int}),
                "join": _Struct("StringTransformJoin", {"separator": str}),
                "replace": _Struct("StringTransformReplace", {"search": str, "replace": str}),
            },
        ),
        "convert": _Struct("ConvertTransform", {"toType": str, "format": str}),
    },
)
_PATCH: Final = {
    "type": str,
    "fromFieldPath": str,
    "toFieldPath": str,
    "combine": _COMBINE,
    "transforms": [_TRANSFORM],
    "policy": _Struct("PatchPolicy", {"fromFieldPath": str, "toFieldPath": str}),
}
_RESOURCES: Final = _Struct(
    "Resources",
    {
        "apiVersion": str,
        "kind": str,
        "metadata": _ANY,
        "patchSets": [
            _Struct("PatchSet", {"name": str, "patches": [_Struct("PatchSetPatch", _PATCH)]})
        ],
        "environment": _Struct("Environment", {"patches": [_Struct("EnvironmentPatch", _PATCH)]}),
        "resources": [
            _Struct(
                "ComposedTemplate",
                {
                    "name": str,
                    "base": _ANY,
                    "patches": [_Struct("ComposedPatch", {**_PATCH, "patchSetName": str})],
                    "connectionDetails": [
                        _Struct(
                            "ConnectionDetail",
                            {
                                "name": str,
                                "type": str,
                                "fromConnectionSecretKey": str,
                                "fromFieldPath": str,
                                "value": str,
                            },
                        )
                    ],
                    "readinessChecks": [
                        _Struct(
                            "ReadinessCheck",
                            {
                                "type": str,
                                "fieldPath": str,
                                "matchString": str,
                                "matchInteger": int,
                                "matchCondition": _Struct(
                                    "MatchConditionReadinessCheck", {"type": str, "status": str}
                                ),
                            },
                        )
                    ],
                },
            )
        ],
        "writeConnectionSecretToRef": _Struct(
            "WriteConnectionSecretToRef",
            {
                "name": str,
                "namespace": str,
                "patches": [_Struct("ConnectionSecretPatch", _PATCH)],
            },
        ),
    },
)


def decode_input(given: Any) -> dict[str, Any]:
    """Give the input without its nulls: to be null is to be absent."""
    decoded: dict[str, Any] = _decoded(_RESOURCES, {} if given is None else given)
    return decoded


def _decoded(shape: Any, given: Any) -> Any:
    if shape is _ANY:
        return given
    if shape is str:
        if isinstance(given, str):
            return given
        raise _wrong(given, "string")
    if shape is int:
        return _integer(given)
    if isinstance(shape, list):
        if isinstance(given, list):
            return [_item(shape[0], each) for each in given]
        raise _wrong(given, "array")
    if not isinstance(given, Mapping):
        raise _wrong(given, "object" if shape is _MAP else f"v1beta1.{shape.name}")
    return dict(given) if shape is _MAP else _struct(shape, given)


def _struct(shape: _Struct, given: Mapping[str, Any]) -> dict[str, Any]:
    decoded = {}
    for name, each in given.items():
        member = shape.fields.get(name)
        if member is None:
            raise NotDecoded(
                f"json: cannot unmarshal Go value of type v1beta1.{shape.name}: "
                f'unknown name "{name}"'
            )
        if each is not None:
            decoded[name] = _decoded(member, each)
    return decoded


def _item(shape: Any, given: Any) -> Any:
    """Decode one item of a list, where null is the item with nothing in it."""
    return _decoded(shape, {} if given is None else given)


def _integer(given: Any) -> int:
    if isinstance(given, (int, float)) and not isinstance(given, bool) and given == given // 1:
        whole = int(given)
        if MIN_INT64 <= whole <= MAX_INT64:
            return whole
    raise _wrong(given, "int64")


def _wrong(given: Any, wanted: str) -> NotDecoded:
    kind = next((word for types, word in _KINDS if isinstance(given, types)), "value")
    return NotDecoded(f"json: cannot unmarshal JSON {kind} into Go value of type {wanted}")


_KINDS: Final[tuple[tuple[Any, str], ...]] = (
    (bool, "boolean"),
    (str, "string"),
    ((int, float), "number"),
    (list, "array"),
    (Mapping, "object"),
)

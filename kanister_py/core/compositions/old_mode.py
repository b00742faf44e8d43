"""Compositions of the mode Resources: the steps that they stand for, and the input of each.

Its API server filled in what was not written: which kind a transform or a connection detail
is. The functions take nothing for granted, so it is written out here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kanister_py.core.compositions.messages import Data
from kanister_py.core.objects.reading import mapping_of

_TRANSFORMS: Mapping[str, Mapping[str, str]] = {
    "math": {"multiply": "Multiply", "clampMin": "ClampMin", "clampMax": "ClampMax"},
    "string": {"fmt": "Format", "convert": "Convert", "regexp": "Regexp", "join": "Join"},
}
_DETAILS: Mapping[str, str] = {
    "fromConnectionSecretKey": "FromConnectionSecretKey",
    "fromFieldPath": "FromFieldPath",
    "value": "FromValue",
}
_MERGES: Mapping[tuple[bool, bool], str] = {
    # What is there stays, lists grow.
    (False, False): "ForceMergeObjects",
    (False, True): "ForceMergeObjectsAppendArrays",
    (True, False): "MergeObjects",
    (True, True): "MergeObjectsAppendArrays",
}


def patch_and_transform_input(spec: Mapping[str, Any]) -> Data:
    """Give the resources in the spec of a composition as a function's input."""
    given: Data = {"apiVersion": "pt.fn.crossplane.io/v1beta1", "kind": "Resources"}
    if "patchSets" in spec:
        given["patchSets"] = [_patching(each) for each in _items(spec["patchSets"])]
    patches = mapping_of(spec.get("environment")).get("patches")
    if patches:
        given["environment"] = {"patches": [_patch(each) for each in _items(patches)]}
    resources = enumerate(_items(spec.get("resources")))
    given["resources"] = [_resource(each, index) for index, each in resources]
    return given


def environment_configs_input(spec: Mapping[str, Any]) -> Data | None:
    """Give the environment in the spec of a composition as an input; None if it has none."""
    environment = mapping_of(spec.get("environment"))
    given = {
        key: environment[key] for key in ("environmentConfigs", "defaultData") if key in environment
    }
    if not given:
        return None
    resolution = mapping_of(environment.get("policy")).get("resolution")
    if resolution:
        given["policy"] = {"resolution": resolution}
    return {
        "apiVersion": "environmentconfigs.fn.crossplane.io/v1beta1",
        "kind": "Input",
        "spec": given,
    }


def _resource(value: Any, index: int) -> Any:
    if not isinstance(value, Mapping):
        return value
    resource = {"name": f"resource-{index}", **_patching(value)}
    if "connectionDetails" in resource:
        details = _items(resource["connectionDetails"])
        resource["connectionDetails"] = [_detail(each) for each in details]
    return resource


def _detail(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    detail = {"type": _kind_of(value, _DETAILS), **value}
    if "name" not in detail and detail["type"] == "FromConnectionSecretKey":
        detail["name"] = detail.get("fromConnectionSecretKey")
    return detail


def _patching(value: Any) -> Any:
    if not isinstance(value, Mapping) or "patches" not in value:
        return value
    return {**value, "patches": [_patch(each) for each in _items(value["patches"])]}


def _patch(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    patch = dict(value)
    if "transforms" in patch:
        patch["transforms"] = [_transform(each) for each in _items(patch["transforms"])]
    policy = mapping_of(patch.get("policy"))
    options = policy.get("mergeOptions")
    if isinstance(options, Mapping):
        rest = {key: each for key, each in policy.items() if key != "mergeOptions"}
        merge = _MERGES[bool(options.get("keepMapValues")), bool(options.get("appendSlice"))]
        patch["policy"] = {"toFieldPath": merge, **rest}
    return patch


def _transform(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    transform = dict(value)
    kind = str(transform.get("type"))
    config = transform.get(kind)
    if not isinstance(config, Mapping):
        return transform
    if kind in _TRANSFORMS:
        transform[kind] = {"type": _kind_of(config, _TRANSFORMS[kind]), **config}
    elif kind == "match" and "patterns" in config:
        patterns = [
            {"type": "literal", **each} if isinstance(each, Mapping) else each
            for each in _items(config["patterns"])
        ]
        transform[kind] = {**config, "patterns": patterns}
    return transform


def _kind_of(config: Mapping[str, Any], kinds: Mapping[str, str]) -> str:
    """Say which kind it is by what is given; where that says nothing, the first is meant."""
    found = (kind for key, kind in kinds.items() if config.get(key) is not None)
    return next(found, next(iter(kinds.values())))


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []

"""Compositions of the mode Resources: the steps that they stand for, and the input of each.

Its API server filled in what was not written: which kind a transform or a connection detail
is. The functions take nothing for granted, so it is written out here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kanister_py.core.compositions.messages import Data
from kanister_py.core.kube.parts import mapping_of

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
        given["patchSets"] = _each(_patching, spec["patchSets"])
    patches = mapping_of(spec.get("environment")).get("patches")
    if patches:
        given["environment"] = {"patches": _each(_patch, patches)}
    named = [
        {"name": f"resource-{index}", **each} if isinstance(each, Mapping) else each
        for index, each in enumerate(_items(spec.get("resources")))
    ]
    given["resources"] = _each(_resource, named)
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


def _each(change: Callable[[Mapping[str, Any]], Any], values: Any) -> list[Any]:
    # What is no map is for the function to refuse.
    return [change(each) if isinstance(each, Mapping) else each for each in _items(values)]


def _resource(value: Mapping[str, Any]) -> Any:
    resource = _patching(value)
    if "connectionDetails" in resource:
        return {**resource, "connectionDetails": _each(_detail, resource["connectionDetails"])}
    return resource


def _detail(value: Mapping[str, Any]) -> Any:
    detail = {"type": _kind_of(value, _DETAILS), **value}
    if "name" not in detail and detail["type"] == "FromConnectionSecretKey":
        detail["name"] = detail.get("fromConnectionSecretKey")
    return detail


def _patching(value: Mapping[str, Any]) -> Any:
    return {**value, "patches": _each(_patch, value["patches"])} if "patches" in value else value


def _patch(value: Mapping[str, Any]) -> Any:
    patch = dict(value)
    if "transforms" in patch:
        patch["transforms"] = _each(_transform, patch["transforms"])
    policy = mapping_of(patch.get("policy"))
    options = policy.get("mergeOptions")
    if isinstance(options, Mapping):
        rest = {key: each for key, each in policy.items() if key != "mergeOptions"}
        merge = _MERGES[bool(options.get("keepMapValues")), bool(options.get("appendSlice"))]
        patch["policy"] = {"toFieldPath": merge, **rest}
    return patch


def _transform(value: Mapping[str, Any]) -> Any:
    kind = str(value.get("type"))
    config = value.get(kind)
    if not isinstance(config, Mapping):
        return value
    if kind in _TRANSFORMS:
        return {**value, kind: {"type": _kind_of(config, _TRANSFORMS[kind]), **config}}
    if kind == "match" and "patterns" in config:
        patterns = _each(lambda each: {"type": "literal", **each}, config["patterns"])
        return {**value, kind: {**config, "patterns": patterns}}
    return value


def _kind_of(config: Mapping[str, Any], kinds: Mapping[str, str]) -> str:
    """Say which kind it is by what is given; where that says nothing, the first is meant."""
    found = (kind for key, kind in kinds.items() if config.get(key) is not None)
    return next(found, next(iter(kinds.values())))


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []

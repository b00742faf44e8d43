"""Conversion of Compositions in the mode Resources to the inputs of equivalent functions.

The CRD of old Crossplane releases had defaults for the types of transforms and connection
details. The functions require these types, so they are set here.
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
    # Keys: whether existing map values are kept, whether lists are appended.
    (False, False): "ForceMergeObjects",
    (False, True): "ForceMergeObjectsAppendArrays",
    (True, False): "MergeObjects",
    (True, True): "MergeObjectsAppendArrays",
}


def patch_and_transform_input(spec: Mapping[str, Any]) -> Data:
    """Return the input of function-patch-and-transform for a composition."""
    data: Data = {"apiVersion": "pt.fn.crossplane.io/v1beta1", "kind": "Resources"}
    if "patchSets" in spec:
        data["patchSets"] = _map_items(_patching, spec["patchSets"])
    patches = mapping_of(spec.get("environment")).get("patches")
    if patches:
        data["environment"] = {"patches": _map_items(_patch, patches)}
    named = [
        {"name": f"resource-{index}", **resource} if isinstance(resource, Mapping) else resource
        for index, resource in enumerate(_items(spec.get("resources")))
    ]
    data["resources"] = _map_items(_resource, named)
    return data


def environment_configs_input(spec: Mapping[str, Any]) -> Data | None:
    """Return the input of function-environment-configs, or None without an environment."""
    environment = mapping_of(spec.get("environment"))
    spec_fields = {
        key: environment[key] for key in ("environmentConfigs", "defaultData") if key in environment
    }
    if not spec_fields:
        return None
    resolution = mapping_of(environment.get("policy")).get("resolution")
    if resolution:
        spec_fields["policy"] = {"resolution": resolution}
    return {
        "apiVersion": "environmentconfigs.fn.crossplane.io/v1beta1",
        "kind": "Input",
        "spec": spec_fields,
    }


def _map_items(change: Callable[[Mapping[str, Any]], Any], values: Any) -> list[Any]:
    # Values of other types are not changed: the function reports them.
    return [change(item) if isinstance(item, Mapping) else item for item in _items(values)]


def _resource(value: Mapping[str, Any]) -> Any:
    resource = _patching(value)
    if "connectionDetails" in resource:
        return {**resource, "connectionDetails": _map_items(_detail, resource["connectionDetails"])}
    return resource


def _detail(value: Mapping[str, Any]) -> Any:
    detail = {"type": _kind_of(value, _DETAILS), **value}
    if "name" not in detail and detail["type"] == "FromConnectionSecretKey":
        detail["name"] = detail.get("fromConnectionSecretKey")
    return detail


def _patching(value: Mapping[str, Any]) -> Any:
    return (
        {**value, "patches": _map_items(_patch, value["patches"])} if "patches" in value else value
    )


def _patch(value: Mapping[str, Any]) -> Any:
    patch = dict(value)
    if "transforms" in patch:
        patch["transforms"] = _map_items(_transform, patch["transforms"])
    policy = mapping_of(patch.get("policy"))
    options = policy.get("mergeOptions")
    if isinstance(options, Mapping):
        kept = {key: part for key, part in policy.items() if key != "mergeOptions"}
        merge = _MERGES[bool(options.get("keepMapValues")), bool(options.get("appendSlice"))]
        patch["policy"] = {"toFieldPath": merge, **kept}
    return patch


def _transform(value: Mapping[str, Any]) -> Any:
    kind = str(value.get("type"))
    config = value.get(kind)
    if not isinstance(config, Mapping):
        return value
    if kind in _TRANSFORMS:
        return {**value, kind: {"type": _kind_of(config, _TRANSFORMS[kind]), **config}}
    if kind == "match" and "patterns" in config:
        patterns = _map_items(lambda pattern: {"type": "literal", **pattern}, config["patterns"])
        return {**value, kind: {**config, "patterns": patterns}}
    return value


def _kind_of(config: Mapping[str, Any], kinds: Mapping[str, str]) -> str:
    """Return the type that belongs to the first field that is set. Default: the first type."""
    matches = (kind for key, kind in kinds.items() if config.get(key) is not None)
    return next(matches, next(iter(kinds.values())))


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []

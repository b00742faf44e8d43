"""Composition from manifests: conversion of rendered objects to a response.

A manifest is a composed resource, a status of the composite resource, or an object of a
kind for the pipeline. The function's own annotations are removed.
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as NoBase64
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kanister_py.core.kube.copies import copy_json, merged_maps
from kanister_py.functions.composition.answering import (
    DEFAULT_TTL,
    EXTRA_RESOURCES_KEY,
    GO_TYPES,
    Data,
    Refused,
    composite_of,
    map_at,
    set_context,
    ttl_of,
)


class Vocabulary(NamedTuple):
    """Names of a function's annotations and kinds in manifests."""

    resource_name: str
    ready: str
    ttl: str
    meta_version: str

    @classmethod
    def of_group(cls, group: str) -> Vocabulary:
        return cls(
            resource_name=f"{group}/composition-resource-name",
            ready=f"{group}/ready",
            ttl=f"{group}/ttl",
            meta_version=f"meta.{group}/v1alpha1",
        )


_READY = {"True": "READY_TRUE", "False": "READY_FALSE", "Unspecified": "READY_UNSPECIFIED"}
_SYSTEM_CONDITIONS = frozenset({"Ready", "Synced", "Healthy"})


def ttl_for(
    function_input: Data, request: Mapping[str, Any], words: Vocabulary, *, is_strict: bool = False
) -> str:
    """Return the TTL of the response; the composite resource takes precedence over the input.

    An invalid TTL is ignored, or rejected if `is_strict` is set.
    """
    metadata = composite_of(request).get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    ttl = annotations.get(words.ttl) if isinstance(annotations, dict) else None
    if is_strict:
        for where, text in ((f'annotation "{words.ttl}"', ttl), ("ttl", function_input.get("ttl"))):
            if text and ttl_of(text) is None:
                raise Refused(f"invalid function input: {where}: {text!r} is no duration", where)
    own = ttl_of(ttl) if isinstance(ttl, str) else None
    return own or ttl_of(function_input.get("ttl")) or DEFAULT_TTL


def compose(
    request: Mapping[str, Any],
    answer: Data,
    manifests: Iterable[Data],
    words: Vocabulary,
    *,
    is_strict: bool = False,
) -> None:
    """Add the manifests to the response. If it raises Refused, nothing is added.

    `is_strict` rejects mistakes that are otherwise ignored: a second resource with the same
    name, and connection details that are not valid base64.
    """
    annotated = [(manifest, _annotations_of(manifest, words)) for manifest in manifests]
    observed = composite_of(request)
    own_kind = (observed.get("apiVersion"), observed.get("kind"))
    desired = answer["desired"]
    composite = dict(desired.get("composite") or {})
    composite["resource"] = dict(composite.get("resource") or {})
    resources: dict[str, Data] = {}
    requirements: Data = {}
    for manifest, its_annotations in annotated:
        name = its_annotations.get(words.resource_name)
        kind = (manifest.get("apiVersion"), manifest["kind"])
        if name is None and kind == own_kind:
            _take_status(composite, manifest, its_annotations, words)
        elif kind[0] == words.meta_version:
            if is_strict and kind[1] == "CompositeConnectionDetails":
                _check_details(manifest.get("data"))
            _take_meta(request, answer, composite, requirements, manifest, words)
        else:
            composed: Data = {"resource": _bare(manifest, its_annotations, words)}
            ready = _ready_of(its_annotations, words)
            if ready != "READY_UNSPECIFIED":
                composed["ready"] = ready
            if name is None:
                raise Refused(
                    f'"{kind[1]}" template is missing required "{words.resource_name}" annotation'
                )
            if is_strict and name in resources:
                raise Refused(
                    f'two manifests, a "{resources[name]["resource"]["kind"]}" and a "{kind[1]}", '
                    f'are called "{name}" by "{words.resource_name}": only one could be composed'
                )
            resources[name] = composed
    answer["desired"] = {**desired, "composite": composite}
    if resources:
        answer["desired"]["resources"] = {**(desired.get("resources") or {}), **resources}
    if requirements:
        answer["requirements"] = requirements
    _keep_received_requirements(request, answer)


def _annotations_of(manifest: Data, words: Vocabulary) -> Data:
    """Return the annotations of a manifest, which must be texts."""
    metadata = manifest.get("metadata")
    if metadata is None:
        return {}
    if not isinstance(metadata, dict):
        why = f".metadata.annotations accessor error: {_shown(metadata)}, expected map[string]any"
        raise Refused(f"invalid annotations in resource '{_kind_of(manifest)}': {why}")
    annotations = metadata.get("annotations")
    if annotations is None:
        return {}
    if isinstance(annotations, dict) and all(type(text) is str for text in annotations.values()):
        return annotations
    head = f"invalid annotations in resource '{_kind_of(manifest)} resource-name="
    if not isinstance(annotations, dict):
        why = f".metadata.annotations accessor error: {_shown(annotations)}"
        raise Refused(f"{head}<nil>': {why}, expected map[string]interface{{}}")
    for key in sorted(annotations):
        if not isinstance(annotations[key], str):
            name = annotations.get(words.resource_name, "<nil>")
            raise Refused(
                f"{head}{name}': .metadata.annotations accessor error: contains non-string value "
                f'in the map under key "{key}": {_shown(annotations[key])}, expected string'
            )
    return annotations


def _kind_of(manifest: Data) -> str:
    """Format a kind like Go: `apps/v1, Kind=Deployment`, `/v1, Kind=Pod`."""
    group, _, version = str(manifest.get("apiVersion", "")).rpartition("/")
    return f"{group}/{version}, Kind={manifest['kind']}"


def _shown(value: Any) -> str:
    kind = "int64" if type(value) is int else GO_TYPES.get(type(value), GO_TYPES[dict])
    text = str(value).lower() if isinstance(value, bool) else "<nil>" if value is None else value
    return f"{text} is of the type {kind}"


def _bare(manifest: Data, annotations: Data, words: Vocabulary) -> Data:
    if not annotations:
        return manifest
    kept = annotations.copy()
    for key in (words.resource_name, words.ready):
        kept.pop(key, None)
    return {**manifest, "metadata": {**manifest["metadata"], "annotations": kept}}


def _ready_of(annotations: Data, words: Vocabulary) -> str:
    ready = annotations.get(words.ready, "Unspecified")
    if ready not in _READY:
        raise Refused(
            f'invalid function input: invalid "{words.ready}" annotation value "{ready}": '
            "must be True, False, or Unspecified"
        )
    return _READY[ready]


def _take_status(composite: Data, manifest: Data, annotations: Data, words: Vocabulary) -> None:
    """Merge a status over the desired one; the rest of the manifest is ignored."""
    resource = composite["resource"]
    existing, status = resource.get("status"), manifest.get("status")
    for what, value in (("desired", existing), ("templated", status)):
        if value is not None and not isinstance(value, dict):
            raise Refused(f"cannot get {what} composite status: status: not an object")
    if status is not None:
        resource["status"] = merged_maps(existing or {}, status)
    ready = _ready_of(annotations, words)
    if words.ready in annotations:
        composite.pop("ready", None)
        if ready != "READY_UNSPECIFIED":
            composite["ready"] = ready


# Kinds for the pipeline


def _take_meta(
    request: Mapping[str, Any],
    answer: Data,
    composite: Data,
    requirements: Data,
    manifest: Data,
    words: Vocabulary,
) -> None:
    kind = manifest["kind"]
    if kind == "CompositeConnectionDetails":
        _take_details(composite, manifest.get("data"))
    elif kind == "ClaimConditions":
        _take_conditions(answer, manifest.get("conditions"))
    elif kind == "Context":
        _take_context(request, answer, manifest)
    elif kind == "ExtraResources":
        _take_requirements(requirements, manifest)
    else:
        raise Refused(
            f'invalid kind "{kind}" for apiVersion "{words.meta_version}" - '
            "must be one of CompositeConnectionDetails, Context or ExtraResources"
        )


def _take_details(composite: Data, data: Any) -> None:
    # Like the original: a value that is not a map of texts is ignored.
    if not isinstance(data, dict) or not all(isinstance(text, str) for text in data.values()):
        return
    details = {key: _decodable(value) for key, value in data.items()}
    composite["connectionDetails"] = {**(composite.get("connectionDetails") or {}), **details}


def _check_details(data: Any) -> None:
    if not isinstance(data, dict):
        raise Refused("cannot get connection details: data: must be a map of texts in base64")
    for key in sorted(data):
        try:
            b64decode("".join(data[key].split()), validate=True)
        except (NoBase64, AttributeError, ValueError):
            raise Refused(f"cannot get connection details: data.{key}: is no base64") from None


def _decodable(text: str) -> str:
    """Return the valid beginning of a base64 text."""
    bare = text.replace("\n", "").replace("\r", "")
    for end in range(len(bare) // 4 * 4, -1, -4):
        try:
            b64decode(bare[:end], validate=True)
        except NoBase64:
            continue
        return bare[:end]
    return ""


_STATUSES = {"True": "STATUS_CONDITION_TRUE", "False": "STATUS_CONDITION_FALSE"}


def _take_conditions(answer: Data, conditions: Any) -> None:
    if conditions is None:
        raise Refused("cannot get Conditions from input: conditions: no such field")
    if not isinstance(conditions, list) or not all(isinstance(e, dict) for e in conditions):
        raise Refused("cannot get Conditions from input: conditions: not a list of objects")
    for source in conditions:
        type_ = str(source.get("type", ""))
        if type_ in _SYSTEM_CONDITIONS:
            raise Refused(
                f"cannot set ClaimCondition type: {type_} is a reserved Crossplane Condition"
            )
        to_claim = source.get("target") == "CompositeAndClaim"
        condition = {
            "type": type_,
            "status": _STATUSES.get(str(source.get("status")), "STATUS_CONDITION_UNKNOWN"),
            "reason": str(source.get("reason", "")),
            "target": "TARGET_COMPOSITE_AND_CLAIM" if to_claim else "TARGET_COMPOSITE",
        }
        if source.get("message"):
            condition["message"] = str(source["message"])
        answer.setdefault("conditions", []).append(condition)


def _take_context(request: Mapping[str, Any], answer: Data, manifest: Data) -> None:
    data = map_at(manifest, "data", "cannot get Contexts from input: ")
    # Like the original, merged over the incoming value, not over that of an earlier manifest.
    for key, value in merged_maps(request.get("context") or {}, data).items():
        set_context(answer, key, value)


def _take_requirements(requirements: Data, manifest: Data) -> None:
    head = "cannot get extra resources requirements: "
    names_requested = map_at(manifest, "requirements", head)
    for name in sorted(names_requested):
        requirement = names_requested[name]
        selector, namespace = _selector_of(requirement, f"{head}cannot unmarshal value from JSON: ")
        resources = requirements.setdefault("resources", {})
        if name in resources:
            raise Refused(f'duplicate extra resource key "{name}"')
        resources[name] = selector
        if not namespace:
            requirements.setdefault("extraResources", {})[name] = selector


def _selector_of(requirement: Any, head: str) -> tuple[Data, str]:
    if not isinstance(requirement, dict):
        raise Refused(f"{head}json: cannot unmarshal into ExtraResourcesRequirement: no object")
    texts: dict[str, str] = {}
    for key in ("apiVersion", "kind", "matchName", "namespace"):
        value = requirement.get(key)
        if value is not None and not isinstance(value, str):
            raise Refused(
                f"{head}json: cannot unmarshal {_json_kind(value)} into Go struct field "
                f"ExtraResourcesRequirement.{key} of type string"
            )
        texts[key] = value or ""
    labels = requirement.get("matchLabels") or {}
    if not isinstance(labels, dict) or not all(isinstance(e, str) for e in labels.values()):
        raise Refused(f"{head}json: cannot unmarshal matchLabels: it must be a map of strings")
    selector: Data = {"apiVersion": texts["apiVersion"], "kind": texts["kind"]}
    if texts["matchName"]:
        selector["matchName"] = texts["matchName"]
        if texts["namespace"]:
            selector["namespace"] = texts["namespace"]
    else:
        selector["matchLabels"] = {"labels": labels} if labels else {}
    return selector, texts["namespace"]


def _json_kind(value: Any) -> str:
    return {bool: "bool", list: "array", dict: "object"}.get(type(value), "number")


def _keep_received_requirements(request: Mapping[str, Any], answer: Data) -> None:
    """Add fetched resources to the context for later steps."""
    for key in ("extraResources", "requiredResources"):
        received = request.get(key)
        if not received:
            continue
        extra_resources = (request.get("context") or {}).get(EXTRA_RESOURCES_KEY)
        before = extra_resources if isinstance(extra_resources, dict) else {}
        set_context(answer, EXTRA_RESOURCES_KEY, {**before, **copy_json(received)})

"""What does an OpenAPI document of Kubernetes say about one kind?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kanister_py.core.objects.resources import group_version_of

_GVK = "x-kubernetes-group-version-kind"


def schema_of_kind(
    document: Mapping[str, Any], api_version: str, kind: str
) -> dict[str, Any] | None:
    """Give the schema of a kind, with all that it refers to in its place.

    Only a schema that is of this kind alone counts: options of deletion, say, belong to
    every group. Where a schema refers to itself there would be no end to it: there,
    nothing is said.
    """
    group, version = group_version_of(api_version)
    wanted = [{"group": group, "version": version, "kind": kind}]
    schemas = (document.get("components") or {}).get("schemas") or {}
    for name in sorted(schemas):
        if schemas[name].get(_GVK) == wanted:
            inlined: dict[str, Any] = _inlined(schemas[name], schemas, (name,))
            return inlined
    return None


def _inlined(value: Any, schemas: Mapping[str, Any], above: tuple[str, ...]) -> Any:
    if isinstance(value, list):
        return [_inlined(each, schemas, above) for each in value]
    if not isinstance(value, dict):
        return value
    reference = value.get("$ref")
    if isinstance(reference, str):
        name = reference.rpartition("/")[2]
        if name in above or name not in schemas:
            return {}
        beside = {key: each for key, each in value.items() if key != "$ref"}
        inside = _inlined(schemas[name], schemas, (*above, name))
        return {**inside, **_inlined(beside, schemas, above)}
    return {key: _inlined(each, schemas, above) for key, each in value.items()}

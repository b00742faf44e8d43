"""OpenAPI schemas of Kubernetes: lookup by kind, and defaults."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kanister_py.core.kube.copies import copy_json
from kanister_py.core.kube.resources import group_version_of

_GVK = "x-kubernetes-group-version-kind"
CRD_KIND = "CustomResourceDefinition"


def openapi_of_crd(crd: Mapping[str, Any]) -> dict[str, Any]:
    """Return an OpenAPI document with the kinds of a CRD, as an API server publishes them."""
    spec = crd.get("spec") or {}
    group, kind = spec.get("group"), (spec.get("names") or {}).get("kind")
    schemas = {}
    for version in spec.get("versions") or ():
        schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
        gvk = {"group": group, "version": version.get("name"), "kind": kind}
        schemas[f"{group}.{version.get('name')}.{kind}"] = {**schema, _GVK: [gvk]}
    return {"components": {"schemas": schemas}}


def schema_of_kind(
    document: Mapping[str, Any], api_version: str, kind: str
) -> dict[str, Any] | None:
    """Return the schema of a kind with all references inlined, or None.

    Schemas of several kinds are skipped: DeleteOptions, for example, belong to every
    group. Recursive references become empty schemas.
    """
    group, version = group_version_of(api_version)
    group_version_kind = [{"group": group, "version": version, "kind": kind}]
    schemas = (document.get("components") or {}).get("schemas") or {}
    for name in sorted(schemas):
        if schemas[name].get(_GVK) == group_version_kind:
            inlined: dict[str, Any] = _inlined(schemas[name], schemas, (name,))
            return inlined
    return None


def schema_in(
    documents: Iterable[Mapping[str, Any]], api_version: str, kind: str
) -> dict[str, Any] | None:
    """Return the schema of a kind from the first document that has it, or None."""
    schemas = (schema_of_kind(document, api_version, kind) for document in documents)
    return next((schema for schema in schemas if schema is not None), None)


def _inlined(value: Any, schemas: Mapping[str, Any], above: tuple[str, ...]) -> Any:
    if isinstance(value, list):
        return [_inlined(item, schemas, above) for item in value]
    if not isinstance(value, dict):
        return value
    reference = value.get("$ref")
    if isinstance(reference, str):
        name = reference.rpartition("/")[2]
        if name in above or name not in schemas:
            return {}
        siblings = {key: part for key, part in value.items() if key != "$ref"}
        inside = _inlined(schemas[name], schemas, (*above, name))
        return {**inside, **_inlined(siblings, schemas, above)}
    return {key: _inlined(part, schemas, above) for key, part in value.items()}


def with_defaults(value: Any, schema: Mapping[str, Any]) -> Any:
    """Return a copy of a value with the defaults of a schema."""
    copied = copy_json(value)
    set_defaults(copied, schema)
    return copied


def set_defaults(value: Any, schema: Mapping[str, Any]) -> None:
    """Set the defaults of a schema, in place."""
    if isinstance(value, dict):
        for key, inside in (schema.get("properties") or {}).items():
            if key not in value or (value[key] is None and not inside.get("nullable")):
                if "default" not in inside:
                    continue
                value[key] = copy_json(inside["default"])
            set_defaults(value[key], inside)
        additional = schema.get("additionalProperties")
        if isinstance(additional, Mapping):
            for inside in value.values():
                set_defaults(inside, additional)
    elif isinstance(value, list):
        items = schema.get("items")
        if isinstance(items, Mapping):
            for item in value:
                set_defaults(item, items)

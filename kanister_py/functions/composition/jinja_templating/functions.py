"""Template functions of function-jinja-templating, in addition to the usual ones.

They have the same names as in function-go-templating. They read the request without an
argument for it; missing values are empty, and missing conditions are Unknown.
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as NoBase64
from collections.abc import Callable, Mapping
from typing import Any

from kanister_py.core.kube.field_paths import FieldPathError, parse_field_path
from kanister_py.core.templates.jinja import view_of
from kanister_py.functions.composition.answering import EXTRA_RESOURCES_KEY


def functions_for(
    request: Mapping[str, Any], name_annotation: str
) -> dict[str, Callable[..., Any]]:
    """Return the functions of one call; `name_annotation` contains a resource's name."""

    def value_at(path: str, kind: type) -> Any:
        try:
            value = parse_field_path(path).get(request)
        except FieldPathError:
            return kind()
        return value if isinstance(value, kind) else kind()

    def composite() -> Any:
        return view_of(value_at("observed.composite.resource", dict))

    def composed(name: str) -> Any:
        return view_of(value_at(f"observed.resources[{name}].resource", dict))

    def composed_connection_details(name: str) -> Any:
        return _decoded(value_at(f"observed.resources[{name}].connectionDetails", dict))

    def extra(name: str) -> Any:
        # Resources requested under the older field name arrive under that name.
        for field in ("requiredResources", "extraResources"):
            items = value_at(f"{field}[{name}].items", list)
            if items:
                return view_of(items)
        return []

    def extra_from_context(name: str) -> Any:
        return view_of(value_at(f"context[{EXTRA_RESOURCES_KEY}][{name}].items", list))

    def credential_data(name: str) -> Any:
        return _decoded(value_at(f"credentials[{name}].credentialData.data", dict))

    def name_of_resource(name: str) -> str:
        return f"{name_annotation}: {name}"

    return {
        "getComposedConnectionDetails": composed_connection_details,
        "getComposedResource": composed,
        "getCompositeResource": composite,
        "getCredentialData": credential_data,
        "getExtraResources": extra,
        "getExtraResourcesFromContext": extra_from_context,
        "getResourceCondition": _condition,
        "setResourceNameAnnotation": name_of_resource,
    }


def _condition(type_: str, resource: Any) -> dict[str, Any]:
    """Find a condition of a resource, or of the message that contains one."""
    resource = _member(resource, "resource") or resource
    conditions = _member(_member(resource, "status"), "conditions")
    for condition in conditions if isinstance(conditions, list) else ():
        if _member(condition, "type") == type_:
            return {**_NO_CONDITION, **condition}
    return {**_NO_CONDITION, "type": type_}


_NO_CONDITION = {"status": "Unknown", "reason": "", "message": ""}


def _member(value: Any, key: str) -> Any:
    return value[key] if isinstance(value, Mapping) and key in value else None


def _decoded(data: Mapping[str, Any]) -> dict[str, str]:
    """Decode bytes to text, because templates only write text."""
    read = {}
    for key, encoded in data.items():
        try:
            read[key] = b64decode(encoded).decode("utf-8", "replace")
        except (NoBase64, TypeError, ValueError):
            read[key] = ""
    return read

"""Connection details of composed resources, and the Secret that they are written to."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, Final

from kanister_py.core.kube.field_paths import FieldPathError, parse_field_path
from kanister_py.functions.composition.patch_and_transform.patches import (
    COMBINE_FROM_COMPOSITE,
    FROM_COMPOSITE,
    Patch,
)
from kanister_py.functions.composition.patch_and_transform.problems import (
    Problem,
    check_operand,
    required,
)
from kanister_py.functions.composition.patch_and_transform.values import (
    Document,
    Unresolved,
    as_floats,
    written,
)

_CONNECTION_TYPE: Final = "connection.crossplane.io/v1alpha1"

_OPERANDS: Final[Mapping[str, tuple[str, str]]] = {
    "FromValue": ("value", "value connection detail requires a value"),
    "FromConnectionSecretKey": (
        "fromConnectionSecretKey",
        "from connection secret key connection detail requires a key",
    ),
    "FromFieldPath": ("fromFieldPath", "from field path connection detail requires a field path"),
}


def check_connection_detail(detail: Mapping[str, Any]) -> Problem | None:
    """Return the problem of a connection detail, without running anything."""
    if detail.get("type") in _OPERANDS and not detail.get("name"):
        return required("name", "name is required")
    return check_operand(detail, "connection detail", _OPERANDS)


def extract_details(
    details: Sequence[Mapping[str, str]], resource: Mapping[str, Any], secret: Mapping[str, str]
) -> dict[str, str]:
    """Return the details of an observed resource in base64; missing values are omitted."""
    extracted = {}
    for detail in details:
        kind, name = detail["type"], detail["name"]
        if kind == "FromValue":
            extracted[name] = _encoded(detail["value"])
        elif kind == "FromConnectionSecretKey":
            key = detail["fromConnectionSecretKey"]
            if key in secret:
                extracted[name] = secret[key]
        else:
            try:
                text = parse_field_path(detail["fromFieldPath"]).get(resource)
                if not isinstance(text, str):
                    text = written(as_floats(text))
            except (FieldPathError, Unresolved):
                continue  # The value may become available later.
            extracted[name] = _encoded(text)
    return extracted


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode("utf-8", "surrogateescape")).decode("ascii")


class SecretReference:
    """Reference to the Secret for the connection details."""

    __slots__ = ("_name", "_namespace", "_patches")

    def __init__(self, reference: Mapping[str, Any]) -> None:
        self._name: str = reference.get("name", "")
        self._namespace: str = reference.get("namespace", "")
        self._patches = tuple(map(Patch, reference.get("patches", ())))

    def secret(self, composite: Document, details: Mapping[str, str]) -> dict[str, Any]:
        """Return the Secret with these details for a composite resource."""
        name, namespace = self._patched(composite, *self._base(composite.data))
        metadata = {key: text for key, text in (("name", name), ("namespace", namespace)) if text}
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            **({"metadata": metadata} if metadata else {}),
            "type": _CONNECTION_TYPE,
            "data": dict(details),
        }

    def _base(self, composite: Mapping[str, Any]) -> tuple[str, str]:
        own = _own_reference(composite)
        if own is not None:
            return own
        if self._name or self._namespace:
            return self._name, self._namespace
        metadata = composite.get("metadata")
        return f"{name_of(composite)}-connection", _text(metadata, "namespace")

    def _patched(self, composite: Document, name: str, namespace: str) -> tuple[str, str]:
        reference = Document(
            {"apiVersion": "v1", "kind": "SecretReference", "name": name, "namespace": namespace},
            is_decoded=True,
        )
        for at, patch in enumerate(self._patches):
            if patch.type not in (FROM_COMPOSITE, COMBINE_FROM_COMPOSITE):
                raise Unresolved(
                    "cannot apply connection secret patches: "
                    f"unsupported patch type {patch.type} at index {at}"
                )
            try:
                patch.apply(composite, reference)
            except (FieldPathError, Unresolved) as error:
                if patch.type == FROM_COMPOSITE and not patch.is_required:
                    continue
                raise Unresolved(
                    "cannot apply connection secret patches: "
                    f"cannot apply patch type {patch.type} at index {at}: {error}"
                ) from error
        patched = reference.data
        return (
            patched["name"] if isinstance(patched.get("name"), str) else name,
            patched["namespace"] if isinstance(patched.get("namespace"), str) else namespace,
        )


def _own_reference(composite: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the Secret's name and namespace from the composite resource, if it sets them."""
    try:
        own = parse_field_path("spec.writeConnectionSecretToRef").get(composite)
    except FieldPathError:
        return None
    if own is None:
        return "", ""
    if not isinstance(own, dict):
        return None
    identity = [own.get(key) or "" for key in ("name", "namespace")]
    if not all(isinstance(text, str) for text in identity):
        return None
    return identity[0], identity[1]


def is_modern(composite: Mapping[str, Any]) -> bool:
    """Return True if a composite resource has no connection details of its own."""
    try:
        parse_field_path("spec.crossplane").get(composite)
    except FieldPathError:
        return False
    return True


def name_of(composite: Mapping[str, Any]) -> str:
    return _text(composite.get("metadata"), "name")


def _text(metadata: Any, key: str) -> str:
    value = metadata.get(key) if isinstance(metadata, dict) else None
    return value if isinstance(value, str) else ""

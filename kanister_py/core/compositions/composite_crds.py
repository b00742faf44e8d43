"""CRDs of composite resources and claims, generated from CompositeResourceDefinitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kanister_py.core.compositions.definitions import (
    DEFINITION_KIND,
    MACHINERY_KEY,
    Definition,
    DefinitionSpec,
    DefinitionVersion,
    ResourceNames,
    Scope,
)
from kanister_py.core.kube.copies import copy_json
from kanister_py.core.kube.names import MAX_LABEL
from kanister_py.core.kube.parts import mapping_of
from kanister_py.core.revisions.policy import UpdatePolicy

_GROUP: Final = "apiextensions.crossplane.io"


def crd_of(definition: Definition) -> dict[str, Any]:
    """Build the CRD of a definition's composite resources."""
    spec, scope = definition.spec, definition.scope
    return _crd(
        definition,
        _names(spec.names, "composite"),
        "Namespaced" if scope is Scope.NAMESPACED else "Cluster",
        _composite_spec(spec, scope),
        _composite_status(scope),
        _composite_columns(scope),
    )


def claim_crd_of(definition: Definition) -> dict[str, Any] | None:
    """Build the CRD of a definition's claims, or return None if it defines no claims."""
    spec = definition.spec
    if spec.claim_names is None:
        return None
    columns = _columns(_column("CONNECTION-SECRET", ".spec.writeConnectionSecretToRef.name"))
    names = _names(spec.claim_names, "claim")
    return _crd(
        definition, names, "Namespaced", _claim_spec(spec), _composite_status(None), columns
    )


def _names(names: ResourceNames, category: str) -> dict[str, Any]:
    written = names.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return {**written, "categories": [*names.categories, category]}


def _crd(
    definition: Definition,
    names: dict[str, Any],
    scope: str,
    machinery: Mapping[str, Any],
    status: Mapping[str, Any],
    columns: list[dict[str, Any]],
) -> dict[str, Any]:
    spec = definition.spec
    owner = {
        "apiVersion": definition.api_version or f"{_GROUP}/v1",
        "kind": DEFINITION_KIND,
        "name": definition.metadata.name,
        "uid": definition.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    crd: dict[str, Any] = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{names.get('plural')}.{spec.group}",
            "ownerReferences": [owner],
        },
        "spec": {
            "group": spec.group,
            "scope": scope,
            "names": names,
            "versions": [
                _version(version, machinery, status, columns) for version in spec.versions
            ],
        },
    }
    if spec.metadata.labels:
        crd["metadata"]["labels"] = dict(spec.metadata.labels)
    if spec.metadata.annotations:
        crd["metadata"]["annotations"] = dict(spec.metadata.annotations)
    if spec.conversion:
        crd["spec"]["conversion"] = copy_json(spec.conversion)
    return crd


def _version(
    version: DefinitionVersion,
    machinery: Mapping[str, Any],
    status: Mapping[str, Any],
    columns: list[dict[str, Any]],
) -> dict[str, Any]:
    authored = copy_json(version.schema_.open_api_v3_schema or {})
    properties = dict(mapping_of(authored.get("properties")))
    schema = {
        **authored,
        "type": "object",
        "properties": {
            **properties,
            "apiVersion": _TEXT,
            "kind": _TEXT,
            # The name is the value of a label on every composed resource.
            "metadata": _object(name={**_TEXT, "maxLength": MAX_LABEL}),
            "spec": _with_properties(properties.get("spec"), machinery),
            "status": _with_properties(properties.get("status"), status),
        },
    }
    subresources: dict[str, Any] = {"status": {}}
    if version.subresources.get("scale"):
        subresources["scale"] = copy_json(version.subresources["scale"])
    crd_version: dict[str, Any] = {
        "name": version.name,
        "served": version.served,
        "storage": version.referenceable,
        "subresources": subresources,
        "additionalPrinterColumns": [
            *copy_json(list(version.additional_printer_columns)),
            *columns,
        ],
        "schema": {"openAPIV3Schema": schema},
    }
    if version.deprecated:
        crd_version["deprecated"] = True
    if version.deprecation_warning:
        crd_version["deprecationWarning"] = version.deprecation_warning
    return crd_version


def _with_properties(authored: Any, standard: Mapping[str, Any]) -> dict[str, Any]:
    """Add the standard fields to an author's schema. They replace fields of the same name."""
    schema = dict(mapping_of(authored))
    return {
        **schema,
        "type": "object",
        "properties": {**mapping_of(schema.get("properties")), **copy_json(dict(standard))},
    }


# Standard fields


_TEXT: Final[Mapping[str, Any]] = {"type": "string"}
_TEXTS: Final[Mapping[str, Any]] = {"type": "object", "additionalProperties": _TEXT}
_TIMESTAMP: Final[Mapping[str, Any]] = {"type": "string", "format": "date-time"}


def _object(required: tuple[str, ...] = (), /, **properties: Any) -> dict[str, Any]:
    """Build the schema of an object. Required fields without a schema are strings."""
    described = {**dict.fromkeys(required, _TEXT), **properties}
    schema: dict[str, Any] = {"type": "object", "properties": described}
    return {**schema, "required": list(required)} if required else schema


def _list(items: Mapping[str, Any], kind: str = "", *keys: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "array", "items": items}
    if kind:
        schema["x-kubernetes-list-type"] = kind
    return {**schema, "x-kubernetes-list-map-keys": [*keys]} if keys else schema


def _choice(*words: str) -> dict[str, Any]:
    return {"type": "string", "enum": [*words]}


_SELECTOR: Final[Mapping[str, Any]] = {
    **_object(
        matchLabels=_TEXTS,
        matchExpressions=_list(
            _object(
                ("key", "operator"),
                operator=_choice("In", "NotIn", "Exists", "DoesNotExist"),
                values=_list(_TEXT),
            )
        ),
    ),
    # Unknown keys are pruned. Without this rule, a selector with a misspelt key would
    # become empty and select everything.
    "x-kubernetes-validations": [
        {
            "rule": "has(self.matchLabels) || has(self.matchExpressions)",
            "message": "matchLabels or matchExpressions is required",
        }
    ],
}


def _selection(default_policy: str) -> dict[str, Any]:
    policies = _choice(*map(str, UpdatePolicy))
    return {
        "compositionRef": _object(("name",)),
        "compositionSelector": _SELECTOR,
        "compositionRevisionRef": _object(("name",)),
        "compositionRevisionSelector": _SELECTOR,
        "compositionUpdatePolicy": {
            **policies,
            "default": default_policy or str(UpdatePolicy.AUTOMATIC),
        },
    }


def _default_policy(spec: DefinitionSpec) -> str:
    return spec.enforce_composition_update_policy or spec.default_composition_update_policy


def _composite_spec(spec: DefinitionSpec, scope: Scope) -> dict[str, Any]:
    reference = _object(("apiVersion", "kind"), name=_TEXT)
    if scope is not Scope.NAMESPACED:
        reference["properties"]["namespace"] = _TEXT
    machinery = _selection(_default_policy(spec))
    machinery["resourceRefs"] = _list(reference, "atomic")
    if scope is not Scope.LEGACY_CLUSTER:
        described = "How this resource is composed."
        return {MACHINERY_KEY: {**_object(**machinery), "description": described}}
    machinery["claimRef"] = _object(("apiVersion", "kind", "namespace", "name"))
    machinery["writeConnectionSecretToRef"] = _object(("name", "namespace"))
    return machinery


def _claim_spec(spec: DefinitionSpec) -> dict[str, Any]:
    return {
        **_selection(_default_policy(spec)),
        "compositeDeletePolicy": {
            **_choice("Background", "Foreground"),
            "default": spec.default_composite_delete_policy or "Background",
        },
        "resourceRef": _object(("apiVersion", "kind", "name")),
        "writeConnectionSecretToRef": _object(("name",)),
    }


def _composite_status(scope: Scope | None) -> dict[str, Any]:
    """Build the schema of the standard status fields. A scope of None stands for claims."""
    condition = _object(
        ("type", "status", "reason", "lastTransitionTime"),
        message=_TEXT,
        lastTransitionTime=_TIMESTAMP,
        observedGeneration={"type": "integer", "format": "int64"},
    )
    status: dict[str, Any] = {"conditions": _list(condition, "map", "type")}
    if scope is not None:
        status["lastHandledReconcileAt"] = _TEXT
        status[MACHINERY_KEY] = {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": True,
            "description": "How the pipeline went, step by step.",
        }
    if scope in (None, Scope.LEGACY_CLUSTER):
        status["connectionDetails"] = _object(lastPublishedTime=_TIMESTAMP)
        status["claimConditionTypes"] = _list(_TEXT, "set")
    return status


def _columns(*own: dict[str, Any]) -> list[dict[str, Any]]:
    conditions = (
        _column(name.upper(), f".status.conditions[?(@.type=='{name}')].status")
        for name in ("Synced", "Ready")
    )
    age = {"name": "AGE", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
    return [*conditions, *own, age]


def _column(name: str, path: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": "string", "jsonPath": path, **more}


def _composite_columns(scope: Scope) -> list[dict[str, Any]]:
    root = ".spec" if scope is Scope.LEGACY_CLUSTER else f".spec.{MACHINERY_KEY}"
    return _columns(
        _column("COMPOSITION", f"{root}.compositionRef.name"),
        _column("COMPOSITIONREVISION", f"{root}.compositionRevisionRef.name", priority=1),
    )

"""CompositeResourceDefinitions (XRDs), and the CRDs of the kinds they define."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, Final

from kanister_py.core.kube.copies import copy_json
from kanister_py.core.kube.names import MAX_LABEL
from kanister_py.core.kube.parts import mapping_of
from kanister_py.core.revisions.policy import UpdatePolicy

MACHINERY_KEY: Final = "crossplane"
_GROUP: Final = "apiextensions.crossplane.io"


class Scope(StrEnum):
    """Scope of composite resources; legacy ones have claims and mix machinery into `spec`."""

    NAMESPACED = "Namespaced"
    CLUSTER = "Cluster"
    LEGACY_CLUSTER = "LegacyCluster"


def scope_of(definition: Mapping[str, Any]) -> Scope:
    """Give the scope of a definition's resources; without one its version decides."""
    scope = mapping_of(definition.get("spec")).get("scope")
    if scope in tuple(Scope):
        return Scope(scope)
    is_second = str(definition.get("apiVersion", "")).endswith("/v2")
    return Scope.NAMESPACED if is_second else Scope.LEGACY_CLUSTER


def is_legacy(definition: Mapping[str, Any]) -> bool:
    return scope_of(definition) is Scope.LEGACY_CLUSTER


def machinery_of(resource: Mapping[str, Any], *, legacy: bool) -> Mapping[str, Any]:
    """Give what a composite resource says about its composition, in either layout."""
    spec = mapping_of(resource.get("spec"))
    return spec if legacy else mapping_of(spec.get(MACHINERY_KEY))


def target_version(definition: Mapping[str, Any]) -> str:
    """Give the version in which resources are stored and which Compositions name."""
    for version in _versions(definition):
        if version.get("referenceable"):
            return str(version.get("name"))
    return ""


def problems_of_definition(definition: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Find why no kind can be made of a definition, each with its path."""
    spec = mapping_of(definition.get("spec"))
    names = mapping_of(spec.get("names"))
    name = mapping_of(definition.get("metadata")).get("name")
    wanted = f"{names.get('plural')}.{spec.get('group')}"
    if name != wanted:
        yield "metadata.name", f"Must be {wanted}, the plural and the group, not {name}"
    elif len(wanted) > MAX_LABEL:
        yield "metadata.name", f"Must have no more than {MAX_LABEL} characters"
    stored = [each for each in _versions(definition) if each.get("referenceable")]
    if len(stored) != 1:
        yield "spec.versions", f"Exactly one must be referenceable, not {len(stored)}"
    if spec.get("claimNames") and scope_of(definition) is not Scope.LEGACY_CLUSTER:
        yield "spec.claimNames", f"Claims are only for the scope {Scope.LEGACY_CLUSTER}"


def crd_of(definition: Mapping[str, Any]) -> dict[str, Any]:
    """Make the kind of composite resource that a definition describes."""
    spec = mapping_of(definition.get("spec"))
    scope = scope_of(definition)
    names = copy_json(dict(mapping_of(spec.get("names"))))
    names["categories"] = [*(names.get("categories") or ()), "composite"]
    return _crd(
        definition,
        names,
        "Namespaced" if scope is Scope.NAMESPACED else "Cluster",
        _composite_spec(spec, scope),
        _composite_status(scope),
        _composite_columns(scope),
    )


def claim_crd_of(definition: Mapping[str, Any]) -> dict[str, Any] | None:
    """Make the kind of claim that a definition offers, if it offers one."""
    spec = mapping_of(definition.get("spec"))
    names = copy_json(dict(mapping_of(spec.get("claimNames"))))
    if not names:
        return None
    names["categories"] = [*(names.get("categories") or ()), "claim"]
    columns = _columns(_column("CONNECTION-SECRET", ".spec.writeConnectionSecretToRef.name"))
    return _crd(
        definition, names, "Namespaced", _claim_spec(spec), _composite_status(None), columns
    )


def _crd(
    definition: Mapping[str, Any],
    names: dict[str, Any],
    scope: str,
    machinery: Mapping[str, Any],
    status: Mapping[str, Any],
    columns: list[dict[str, Any]],
) -> dict[str, Any]:
    spec = mapping_of(definition.get("spec"))
    metadata = mapping_of(definition.get("metadata"))
    owner = {
        "apiVersion": definition.get("apiVersion") or f"{_GROUP}/v1",
        "kind": "CompositeResourceDefinition",
        "name": metadata.get("name"),
        "uid": metadata.get("uid"),
        "controller": True,
        "blockOwnerDeletion": True,
    }
    made: dict[str, Any] = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{names.get('plural')}.{spec.get('group')}",
            "ownerReferences": [owner],
        },
        "spec": {
            "group": spec.get("group"),
            "scope": scope,
            "names": names,
            "versions": [
                _version(each, machinery, status, columns) for each in _versions(definition)
            ],
        },
    }
    extra = mapping_of(spec.get("metadata"))
    for key in ("labels", "annotations"):
        if extra.get(key):
            made["metadata"][key] = dict(extra[key])
    if spec.get("conversion"):
        made["spec"]["conversion"] = copy_json(spec["conversion"])
    return made


def _version(
    version: Mapping[str, Any],
    machinery: Mapping[str, Any],
    status: Mapping[str, Any],
    columns: list[dict[str, Any]],
) -> dict[str, Any]:
    theirs = copy_json(dict(mapping_of(mapping_of(version.get("schema")).get("openAPIV3Schema"))))
    properties = dict(mapping_of(theirs.get("properties")))
    schema = {
        **theirs,
        "type": "object",
        "properties": {
            **properties,
            "apiVersion": _TEXT,
            "kind": _TEXT,
            # The name is the value of a label on everything that is composed.
            "metadata": _object(name={**_TEXT, "maxLength": MAX_LABEL}),
            "spec": _with_properties(properties.get("spec"), machinery),
            "status": _with_properties(properties.get("status"), status),
        },
    }
    subresources: dict[str, Any] = {"status": {}}
    scale = mapping_of(version.get("subresources")).get("scale")
    if scale:
        subresources["scale"] = copy_json(scale)
    made: dict[str, Any] = {
        "name": version.get("name"),
        "served": bool(version.get("served")),
        "storage": bool(version.get("referenceable")),
        "subresources": subresources,
        "additionalPrinterColumns": [
            *copy_json(list(version.get("additionalPrinterColumns") or ())),
            *columns,
        ],
        "schema": {"openAPIV3Schema": schema},
    }
    for key in ("deprecated", "deprecationWarning"):
        if version.get(key):
            made[key] = version[key]
    return made


def _with_properties(theirs: Any, ours: Mapping[str, Any]) -> dict[str, Any]:
    """Add our fields to a schema; where both have one, ours counts."""
    schema = dict(mapping_of(theirs))
    return {
        **schema,
        "type": "object",
        "properties": {**mapping_of(schema.get("properties")), **copy_json(dict(ours))},
    }


# The fields of ours


_TEXT: Final[Mapping[str, Any]] = {"type": "string"}
_TEXTS: Final[Mapping[str, Any]] = {"type": "object", "additionalProperties": _TEXT}
_MOMENT: Final[Mapping[str, Any]] = {"type": "string", "format": "date-time"}


def _object(required: tuple[str, ...] = (), /, **properties: Any) -> dict[str, Any]:
    """Describe an object; a field that is required, and not described, is a text."""
    described = {**dict.fromkeys(required, _TEXT), **properties}
    made: dict[str, Any] = {"type": "object", "properties": described}
    return {**made, "required": list(required)} if required else made


def _list(items: Mapping[str, Any], kind: str = "", *keys: str) -> dict[str, Any]:
    made: dict[str, Any] = {"type": "array", "items": items}
    if kind:
        made["x-kubernetes-list-type"] = kind
    return {**made, "x-kubernetes-list-map-keys": [*keys]} if keys else made


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
    # Unknown keys are pruned: a selector must not come to mean all by that.
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


def _default_policy(spec: Mapping[str, Any]) -> str:
    enforced = spec.get("enforceCompositionUpdatePolicy")
    return str(enforced or spec.get("defaultCompositionUpdatePolicy") or "")


def _composite_spec(spec: Mapping[str, Any], scope: Scope) -> dict[str, Any]:
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


def _claim_spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **_selection(_default_policy(spec)),
        "compositeDeletePolicy": {
            **_choice("Background", "Foreground"),
            "default": str(spec.get("defaultCompositeDeletePolicy") or "Background"),
        },
        "resourceRef": _object(("apiVersion", "kind", "name")),
        "writeConnectionSecretToRef": _object(("name",)),
    }


def _composite_status(scope: Scope | None) -> dict[str, Any]:
    """Describe our fields of the status; a claim, which has no scope, has those of legacy."""
    condition = _object(
        ("type", "status", "reason", "lastTransitionTime"),
        message=_TEXT,
        lastTransitionTime=_MOMENT,
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
        status["connectionDetails"] = _object(lastPublishedTime=_MOMENT)
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


def _versions(definition: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = mapping_of(definition.get("spec")).get("versions")
    return [each for each in found or () if isinstance(each, Mapping)]

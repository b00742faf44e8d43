"""Synchronization of a claim and its composite resource."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Final

from kanister_py.core.compositions.naming import CLAIM_NAME, CLAIM_NAMESPACE
from kanister_py.core.kube.parts import (
    annotations_of,
    conditions_of,
    labels_of,
    mapping_of,
    metadata_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
)
from kanister_py.core.revisions.policy import UpdatePolicy, XrdRules, policy_of, selection_of

EXTERNAL_NAME: Final = "crossplane.io/external-name"

# Fields of the spec that are not copied to the other object.
_OF_CLAIMS: Final = ("resourceRef", "writeConnectionSecretToRef", "compositeDeletePolicy")
_OF_COMPOSITES: Final = ("resourceRefs", "claimRef", "writeConnectionSecretToRef")
_CHOICE: Final = (
    "compositionRef",
    "compositionSelector",
    "compositionUpdatePolicy",
    "compositionRevisionSelector",
    "compositionRevisionRef",
)
# Labels and annotations of these domains describe a single object, so they are not copied.
_LOCAL: Final = ("kubernetes.io/", "k8s.io/", "argocd.argoproj.io/", "helm.sh/", "fluxcd.io/")


def composite_of_claim(
    claim: Mapping[str, Any],
    composite: Mapping[str, Any] | None,
    api_version: str,
    kind: str,
    rules: XrdRules,
    manager: str,
) -> dict[str, Any]:
    """Build the composite resource of a claim, from the existing one if there is one.

    Fields of the claim win, except for fields that the composite resource decides: its revision
    if the update policy is automatic or the claim names none, and its Composition if the
    definition enforces one. `manager` is the field manager for writes on behalf of claims. A
    revision selector that only this manager wrote is removed when the claim no longer has one.
    """
    composite = composite or {}
    spec, composite_spec = spec_of(claim), spec_of(composite)
    left_out = (*_OF_CLAIMS, *_decided_by_composite(spec, composite_spec, rules))
    merged = {key: deepcopy(value) for key, value in spec.items() if key not in left_out}
    # Keep the values of the composite resource that the claim does not set.
    for key in (*_CHOICE, *_OF_COMPOSITES):
        if key not in merged and key in composite_spec and not _is_revoked(key, composite, manager):
            merged[key] = deepcopy(composite_spec[key])
    merged["claimRef"] = {
        "apiVersion": claim.get("apiVersion"),
        "kind": claim.get("kind"),
        "namespace": namespace_of(claim),
        "name": name_of(claim),
    }
    metadata = _composite_metadata(claim, composite)
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": merged}


def _composite_metadata(claim: Mapping[str, Any], composite: Mapping[str, Any]) -> dict[str, Any]:
    labels = {**labels_of(composite), **_not_local(labels_of(claim))}
    labels |= {CLAIM_NAME: name_of(claim), CLAIM_NAMESPACE: namespace_of(claim)}
    metadata: dict[str, Any] = {"labels": labels}
    annotations = {**annotations_of(composite), **_not_local(annotations_of(claim))}
    # The external name of the composite resource wins over that of the claim.
    existing = annotations_of(composite).get(EXTERNAL_NAME)
    if existing:
        annotations[EXTERNAL_NAME] = existing
    if annotations:
        metadata["annotations"] = annotations
    if name_of(composite):
        metadata["name"] = name_of(composite)
    else:
        metadata["generateName"] = f"{name_of(claim)}-"
    return metadata


def claim_spec_after(
    claim: Mapping[str, Any], composite: Mapping[str, Any], rules: XrdRules
) -> dict[str, Any]:
    """Return the spec of a claim, with the fields that its composite resource decides."""
    spec, composite_spec = deepcopy(dict(spec_of(claim))), spec_of(composite)
    spec["resourceRef"] = {
        "apiVersion": composite.get("apiVersion"),
        "kind": composite.get("kind"),
        "name": name_of(composite),
    }
    shown = _decided_by_composite(spec, composite_spec, rules)
    for key in _CHOICE:
        if key in composite_spec and (key not in spec or key in shown):
            spec[key] = deepcopy(composite_spec[key])
    return spec


def claim_status_after(claim: Mapping[str, Any], composite: Mapping[str, Any]) -> dict[str, Any]:
    """Return the status of a claim: a copy of the status of its composite resource.

    Of its conditions, only the types in `claimConditionTypes` are copied. Other conditions of the
    claim are kept; its system conditions are set separately.
    """
    composite_status = status_of(composite)
    left_out = ("conditions", "claimConditionTypes", "crossplane", "lastHandledReconcileAt")
    status = {
        key: deepcopy(value) for key, value in composite_status.items() if key not in left_out
    }
    shown = set(composite_status.get("claimConditionTypes") or ())
    propagated = {str(condition.get("type")): condition for condition in conditions_of(composite)}
    kept = [condition for condition in conditions_of(claim) if condition.get("type") not in shown]
    status["conditions"] = deepcopy(
        [*kept, *(propagated[type_] for type_ in sorted(shown & {*propagated}))]
    )
    return status


def is_of_claim(composite: Mapping[str, Any], claim: Mapping[str, Any]) -> bool:
    """Return whether a composite resource is bound to this claim, or to none yet."""
    reference = spec_of(composite).get("claimRef")
    if not reference:
        return True
    bound = (reference.get("namespace"), reference.get("name"), reference.get("kind"))
    return bound == (namespace_of(claim), name_of(claim), claim.get("kind"))


def _decided_by_composite(
    claim: Mapping[str, Any], composite: Mapping[str, Any], rules: XrdRules
) -> tuple[str, ...]:
    """Return the fields that a claim takes from its composite resource.

    Both objects use the same rule for the update policy. With different rules, the two
    reconcilers would overwrite each other's values endlessly.
    """
    policy = policy_of(selection_of({**composite, **claim}), rules)
    follows = ("compositionRevisionRef",) if policy is UpdatePolicy.AUTOMATIC else ()
    return (*follows, "compositionRef") if rules.enforced_composition else follows


def _is_revoked(key: str, composite: Mapping[str, Any], manager: str) -> bool:
    """Return whether a field of a composite resource was written only on behalf of its claim.

    Only applies to the revision selector. The caller has checked that the claim lacks the field.
    """
    if key != "compositionRevisionSelector":
        return False
    writers = {
        entry.get("manager")
        for entry in metadata_of(composite).get("managedFields") or ()
        if f"f:{key}" in mapping_of(mapping_of(entry.get("fieldsV1")).get("f:spec"))
    }
    return writers == {manager}


def _not_local(texts: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: value
        for key, value in texts.items()
        if not any(domain in key.partition("/")[0] + "/" for domain in _LOCAL)
    }

"""Claims, and what passes between one and its composite resource."""

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

# What only a claim has, or only a composite resource.
_OF_CLAIMS: Final = ("resourceRef", "writeConnectionSecretToRef", "compositeDeletePolicy")
_OF_COMPOSITES: Final = ("resourceRefs", "claimRef", "writeConnectionSecretToRef")
_CHOICE: Final = (
    "compositionRef",
    "compositionSelector",
    "compositionUpdatePolicy",
    "compositionRevisionSelector",
    "compositionRevisionRef",
)
# What tools note on the object that they see is about that object alone.
_LOCAL: Final = ("kubernetes.io/", "k8s.io/", "argocd.argoproj.io/", "helm.sh/", "fluxcd.io/")


def composite_of_claim(
    claim: Mapping[str, Any],
    composite: Mapping[str, Any] | None,
    api_version: str,
    kind: str,
    rules: XrdRules,
    manager: str,
) -> dict[str, Any]:
    """Give the composite resource that a claim asks for, whether it is there yet or not.

    What the claim says wins, but for what the composite resource decides by itself: the
    revision while it follows, or while the claim names none, and what its definition
    enforces. `manager` writes for claims: a selector of revisions that it wrote goes when
    the claim's does.
    """
    composite = composite or {}
    spec, theirs = spec_of(claim), spec_of(composite)
    left_out = (*_OF_CLAIMS, *_decided_by_composite(spec, theirs, rules))
    wanted = {key: deepcopy(value) for key, value in spec.items() if key not in left_out}
    # What was chosen for the resource stays, until the claim says otherwise.
    for key in (*_CHOICE, *_OF_COMPOSITES):
        if key not in wanted and key in theirs and not _is_taken_back(key, composite, manager):
            wanted[key] = deepcopy(theirs[key])
    wanted["claimRef"] = {
        "apiVersion": claim.get("apiVersion"),
        "kind": claim.get("kind"),
        "namespace": namespace_of(claim),
        "name": name_of(claim),
    }
    metadata = _composite_metadata(claim, composite)
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": wanted}


def _composite_metadata(claim: Mapping[str, Any], composite: Mapping[str, Any]) -> dict[str, Any]:
    labels = {**labels_of(composite), **_not_local(labels_of(claim))}
    labels |= {CLAIM_NAME: name_of(claim), CLAIM_NAMESPACE: namespace_of(claim)}
    made: dict[str, Any] = {"labels": labels}
    annotations = {**annotations_of(composite), **_not_local(annotations_of(claim))}
    # The composite resource's own name outside lives longer than what the claim says of it.
    existing = annotations_of(composite).get(EXTERNAL_NAME)
    if existing:
        annotations[EXTERNAL_NAME] = existing
    if annotations:
        made["annotations"] = annotations
    if name_of(composite):
        made["name"] = name_of(composite)
    else:
        made["generateName"] = f"{name_of(claim)}-"
    return made


def claim_spec_after(
    claim: Mapping[str, Any], composite: Mapping[str, Any], rules: XrdRules
) -> dict[str, Any]:
    """Give the spec of a claim with what it takes over from its composite resource."""
    spec, theirs = deepcopy(dict(spec_of(claim))), spec_of(composite)
    spec["resourceRef"] = {
        "apiVersion": composite.get("apiVersion"),
        "kind": composite.get("kind"),
        "name": name_of(composite),
    }
    shown = _decided_by_composite(spec, theirs, rules)
    for key in _CHOICE:
        if key in theirs and (key not in spec or key in shown):
            spec[key] = deepcopy(theirs[key])
    return spec


def claim_status_after(claim: Mapping[str, Any], composite: Mapping[str, Any]) -> dict[str, Any]:
    """Give the status that a claim takes over; its system conditions are made anew for it."""
    theirs = status_of(composite)
    left_out = ("conditions", "claimConditionTypes", "crossplane", "lastHandledReconcileAt")
    status = {key: deepcopy(value) for key, value in theirs.items() if key not in left_out}
    shown = set(theirs.get("claimConditionTypes") or ())
    found = {str(each.get("type")): each for each in conditions_of(composite)}
    kept = [each for each in conditions_of(claim) if each.get("type") not in shown]
    status["conditions"] = deepcopy([*kept, *(found[each] for each in sorted(shown & {*found}))])
    return status


def is_of_claim(composite: Mapping[str, Any], claim: Mapping[str, Any]) -> bool:
    """Say whether a composite resource may be a claim's: it is its own, or has no owner yet."""
    reference = spec_of(composite).get("claimRef")
    if not reference:
        return True
    bound = (reference.get("namespace"), reference.get("name"), reference.get("kind"))
    return bound == (namespace_of(claim), name_of(claim), claim.get("kind"))


def _decided_by_composite(
    claim: Mapping[str, Any], composite: Mapping[str, Any], rules: XrdRules
) -> tuple[str, ...]:
    """Name the fields in which a claim shows what its composite resource came to.

    Both decide by the same rule whether that follows its Composition. If each did by a
    rule of its own, one would write what the other takes back, for ever.
    """
    policy = policy_of(selection_of({**composite, **claim}), rules)
    follows = ("compositionRevisionRef",) if policy is UpdatePolicy.AUTOMATIC else ()
    return (*follows, "compositionRef") if rules.enforced_composition else follows


def _is_taken_back(key: str, composite: Mapping[str, Any], manager: str) -> bool:
    """Say whether a composite resource has a field only from a claim that has it no more."""
    if key != "compositionRevisionSelector":
        return False
    writers = {
        each.get("manager")
        for each in metadata_of(composite).get("managedFields") or ()
        if f"f:{key}" in mapping_of(mapping_of(each.get("fieldsV1")).get("f:spec"))
    }
    return writers == {manager}


def _not_local(texts: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: value
        for key, value in texts.items()
        if not any(each in key.partition("/")[0] + "/" for each in _LOCAL)
    }

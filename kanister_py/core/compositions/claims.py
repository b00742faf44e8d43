"""Claims: what passes between one and the composite resource that it stands for."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Final

from kanister_py.core.compositions.naming import CLAIM_NAME, CLAIM_NAMESPACE
from kanister_py.core.objects.reading import mapping_of
from kanister_py.core.revisions.policy import Rules, UpdatePolicy, policy_of, wishes_of

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
    rules: Rules,
    manager: str,
) -> dict[str, Any]:
    """Say what the composite resource of a claim must say, whether it is there yet or not.

    What the claim says wins, but for what the composite resource decides by itself: the
    revision while it follows, or while the claim names none, and what its definition
    enforces. `manager` writes for claims: a selector of revisions that it wrote goes when
    the claim's does.
    """
    metadata = mapping_of(claim.get("metadata"))
    spec = mapping_of(claim.get("spec"))
    theirs = mapping_of(mapping_of(composite).get("spec"))
    left_out = (*_OF_CLAIMS, *_decided_by_composite(spec, theirs, rules))
    wanted = {key: deepcopy(value) for key, value in spec.items() if key not in left_out}
    # What was chosen for the resource stays, until the claim says otherwise.
    for key in (*_CHOICE, *_OF_COMPOSITES):
        if key not in wanted and key in theirs and not _is_taken_back(key, composite, manager):
            wanted[key] = deepcopy(theirs[key])
    wanted["claimRef"] = {
        "apiVersion": claim.get("apiVersion"),
        "kind": claim.get("kind"),
        "namespace": metadata.get("namespace"),
        "name": metadata.get("name"),
    }
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": _composite_metadata(
            metadata, mapping_of(mapping_of(composite).get("metadata"))
        ),
        "spec": wanted,
    }


def _composite_metadata(claim: Mapping[str, Any], composite: Mapping[str, Any]) -> dict[str, Any]:
    made: dict[str, Any] = {
        "labels": {
            **mapping_of(composite.get("labels")),
            **_not_local(claim.get("labels")),
            CLAIM_NAME: str(claim.get("name")),
            CLAIM_NAMESPACE: str(claim.get("namespace")),
        }
    }
    annotations = {
        **mapping_of(composite.get("annotations")),
        **_not_local(claim.get("annotations")),
    }
    # The composite resource's own name outside lives longer than what the claim says of it.
    existing = mapping_of(composite.get("annotations")).get(EXTERNAL_NAME)
    if existing:
        annotations[EXTERNAL_NAME] = existing
    if annotations:
        made["annotations"] = annotations
    if composite.get("name"):
        made["name"] = composite["name"]
    else:
        made["generateName"] = f"{claim.get('name')}-"
    return made


def claim_spec_after(
    claim: Mapping[str, Any], composite: Mapping[str, Any], rules: Rules
) -> dict[str, Any]:
    """Say what the spec of a claim takes over from its composite resource."""
    spec = deepcopy(dict(mapping_of(claim.get("spec"))))
    theirs = mapping_of(composite.get("spec"))
    metadata = mapping_of(composite.get("metadata"))
    spec["resourceRef"] = {
        "apiVersion": composite.get("apiVersion"),
        "kind": composite.get("kind"),
        "name": metadata.get("name"),
    }
    shown = _decided_by_composite(spec, theirs, rules)
    for key in _CHOICE:
        if key in theirs and (key not in spec or key in shown):
            spec[key] = deepcopy(theirs[key])
    return spec


def claim_status_after(claim: Mapping[str, Any], composite: Mapping[str, Any]) -> dict[str, Any]:
    """Say what the status of a claim takes over; its system conditions are made anew for it."""
    theirs = mapping_of(composite.get("status"))
    ours = mapping_of(claim.get("status"))
    left_out = ("conditions", "claimConditionTypes", "crossplane", "lastHandledReconcileAt")
    status = {key: deepcopy(value) for key, value in theirs.items() if key not in left_out}
    shown = set(theirs.get("claimConditionTypes") or ())
    found = {
        str(each.get("type")): each
        for each in theirs.get("conditions") or ()
        if isinstance(each, Mapping)
    }
    kept = [each for each in ours.get("conditions") or () if each.get("type") not in shown]
    status["conditions"] = [
        *deepcopy(kept),
        *(deepcopy(dict(found[name])) for name in sorted(shown) if name in found),
    ]
    return status


def is_of_claim(composite: Mapping[str, Any], claim: Mapping[str, Any]) -> bool:
    """Say whether a composite resource may be a claim's: it is its own, or has no owner yet."""
    reference = mapping_of(mapping_of(composite.get("spec")).get("claimRef"))
    if not reference:
        return True
    metadata = mapping_of(claim.get("metadata"))
    return (reference.get("namespace"), reference.get("name"), reference.get("kind")) == (
        metadata.get("namespace"),
        metadata.get("name"),
        claim.get("kind"),
    )


def _decided_by_composite(
    claim: Mapping[str, Any], composite: Mapping[str, Any], rules: Rules
) -> tuple[str, ...]:
    """Name the fields in which a claim shows what its composite resource came to.

    Both decide by the same rule whether that follows its Composition. If each did by a
    rule of its own, one would write what the other takes back, for ever.
    """
    policy = policy_of(wishes_of({**composite, **claim}), rules)
    follows = ("compositionRevisionRef",) if policy is UpdatePolicy.AUTOMATIC else ()
    return (*follows, "compositionRef") if rules.enforced_composition else follows


def _is_taken_back(key: str, composite: Mapping[str, Any] | None, manager: str) -> bool:
    """Say whether a composite resource has a field only from a claim that has it no more."""
    if key != "compositionRevisionSelector":
        return False
    metadata = mapping_of(mapping_of(composite).get("metadata"))
    writers = {
        each.get("manager")
        for each in metadata.get("managedFields") or ()
        if f"f:{key}" in mapping_of(mapping_of(each.get("fieldsV1")).get("f:spec"))
    }
    return writers == {manager}


def _not_local(texts: Any) -> dict[str, str]:
    return {
        key: value
        for key, value in mapping_of(texts).items()
        if not any(each in key.partition("/")[0] + "/" for each in _LOCAL)
    }

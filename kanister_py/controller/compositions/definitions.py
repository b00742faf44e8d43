"""CompositeResourceDefinitions, and the CustomResourceDefinitions generated from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kanister_py.controller.compositions.tasks import Kind
from kanister_py.controller.machine.events import NORMAL, WARNING, PostEvent, subject_of
from kanister_py.controller.machine.writing import (
    FIELD_MANAGER,
    add_finalizer,
    condition,
    delete_as_seen,
    has_fields,
    remove_finalizers,
    write_status,
)
from kanister_py.core.compositions.composite_crds import claim_crd_of, crd_of
from kanister_py.core.compositions.definitions import Definition, read_definition
from kanister_py.core.errors import Invalid
from kanister_py.core.kube.parts import controller_of, is_controlled_by, is_true
from kanister_py.core.kube.resources import CUSTOM_RESOURCE_DEFINITIONS
from kanister_py.core.revisions.kinds import DEFINITIONS
from kanister_py.ports.clock import Clock
from kanister_py.ports.cluster import Cluster, KubeObject, find

FINALIZER: Final = "defined.apiextensions.crossplane.io"
_FINALIZERS: Final = (FINALIZER, "offered.apiextensions.crossplane.io")
"""The finalizer that we set, and one that older controllers set."""
_LOOK_AGAIN_SECONDS: Final = 1.0


class DefinitionOutcome(NamedTuple):
    """Result of a reconcile: the kind if it is served, and when to reconcile again."""

    kind: Kind | None = None
    again_seconds: float | None = None


def reconcile_definition(
    cluster: Cluster, clock: Clock, name: str, post_event: PostEvent
) -> DefinitionOutcome:
    """Create or update the CustomResourceDefinitions of a definition."""
    existing = find(cluster, DEFINITIONS, name)
    if existing is None:
        return DefinitionOutcome()
    if existing["metadata"].get("deletionTimestamp"):
        return _finalize(cluster, existing)
    definition = existing

    def refuse(event: str, reason: str, message: str) -> DefinitionOutcome:
        post_event(subject_of(definition), WARNING, event, message)
        refused = condition("Established", "False", reason, message)
        write_status(cluster, clock, definition, [refused])
        return DefinitionOutcome()

    model, problems = read_definition(definition)
    if problems:
        message = "; ".join(f"{path}: {problem}" for path, problem in problems)
        return refuse("RenderCRD", "InvalidDefinition", message)
    # Only this controller removes the finalizers of the resources of its kinds.
    definition = add_finalizer(cluster, definition, FINALIZER)
    claim = claim_crd_of(model)
    crds = [crd_of(model), *((claim,) if claim is not None else ())]
    for crd in crds:
        try:
            conflict = _apply(cluster, crd, definition)
        except Invalid as error:
            # The schema comes from the author, and only the API server validates all of it.
            return refuse("ApplyCRD", "InvalidDefinition", error.message)
        if conflict:
            return refuse("ApplyCRD", "NotOurs", conflict)
    if not all(_is_established(cluster, crd["metadata"]["name"]) for crd in crds):
        return DefinitionOutcome(None, _LOOK_AGAIN_SECONDS)
    conditions = [condition("Established", "True", "WatchingCompositeResource")]
    if claim is not None:
        conditions.append(condition("Offered", "True", "WatchingCompositeResourceClaim"))
    if write_status(cluster, clock, definition, conditions) is not definition:
        message = f"Serving {model.spec.names.kind}"
        post_event(subject_of(definition), NORMAL, "EstablishComposite", message)
    return DefinitionOutcome(_kind_of(model, claim))


def observe_definition(cluster: Cluster, name: str) -> DefinitionOutcome:
    """Return the kind of a definition that another replica reconciles, once it is established."""
    definition = find(cluster, DEFINITIONS, name)
    if definition is None:
        return DefinitionOutcome()
    model, problems = read_definition(definition)
    if problems:
        return DefinitionOutcome()
    claim = claim_crd_of(model)
    if not _is_established(cluster, crd_of(model)["metadata"]["name"]):
        # The watch on CustomResourceDefinitions reports when it is established.
        return DefinitionOutcome()
    if claim is not None and not _is_established(cluster, claim["metadata"]["name"]):
        is_ending = bool(definition["metadata"].get("deletionTimestamp"))
        kind = _kind_of(model, None) if is_ending else None
        return DefinitionOutcome(kind, _LOOK_AGAIN_SECONDS)
    return DefinitionOutcome(_kind_of(model, claim))


def _finalize(cluster: Cluster, definition: KubeObject) -> DefinitionOutcome:
    """Delete the kinds of a definition with their resources, then remove its finalizers."""
    finalizers = definition["metadata"].get("finalizers") or []
    if not any(finalizer in finalizers for finalizer in _FINALIZERS):
        return DefinitionOutcome()
    model, _problems = read_definition(definition)
    claim = claim_crd_of(model)
    # Claims go first: finalizing them needs their composite resources, and the kind has to be
    # served until its last resource is finalized.
    if claim is not None and _delete_crd(cluster, claim["metadata"]["name"], definition):
        return DefinitionOutcome(_kind_of(model, claim), _LOOK_AGAIN_SECONDS)
    if _delete_crd(cluster, crd_of(model)["metadata"]["name"], definition):
        return DefinitionOutcome(_kind_of(model, None), _LOOK_AGAIN_SECONDS)
    remove_finalizers(cluster, definition, *_FINALIZERS)
    return DefinitionOutcome()


def _delete_crd(cluster: Cluster, name: str, definition: KubeObject) -> bool:
    """Delete a CustomResourceDefinition of ours; return whether it still exists."""
    live = find(cluster, CUSTOM_RESOURCE_DEFINITIONS, name)
    if live is None or not is_controlled_by(live, definition):
        return False
    if not live["metadata"].get("deletionTimestamp"):
        delete_as_seen(cluster, CUSTOM_RESOURCE_DEFINITIONS, live)
    return True


def _kind_of(definition: Definition, claim: Mapping[str, Any] | None) -> Kind:
    spec = definition.spec
    return Kind(
        f"{spec.group}/{definition.target_version}",
        spec.names.kind,
        definition.is_legacy,
        spec.rules,
        spec.connection_secret_keys,
        claim["spec"]["names"]["kind"] if claim is not None else "",
    )


def _apply(cluster: Cluster, crd: dict[str, Any], definition: KubeObject) -> str:
    """Apply a CustomResourceDefinition; return a message if it has another controller."""
    name = crd["metadata"]["name"]
    live = find(cluster, CUSTOM_RESOURCE_DEFINITIONS, name)
    if live is not None:
        owner = controller_of(live)
        if owner is not None and owner.get("uid") != definition["metadata"]["uid"]:
            return f"{name} is controlled by {owner.get('kind')} {owner.get('name')}"
        if has_fields(live, crd):
            return ""
    cluster.apply(crd, field_manager=FIELD_MANAGER, force=True)
    return ""


def _is_established(cluster: Cluster, name: str) -> bool:
    crd = find(cluster, CUSTOM_RESOURCE_DEFINITIONS, name)
    return crd is not None and is_true(crd, "Established")

"""CompositeResourceDefinitions: the kinds that each of them defines, made and established."""

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
"""Ours, and one more that a definition may have from before."""
_LOOK_AGAIN_SECONDS: Final = 1.0


class DefinitionOutcome(NamedTuple):
    """What came of a definition: its kind if it is served, and when to look again."""

    kind: Kind | None = None
    again_seconds: float | None = None


def reconcile_definition(
    cluster: Cluster, clock: Clock, name: str, tell: PostEvent
) -> DefinitionOutcome:
    """Make or update the kinds of a definition."""
    found = find(cluster, DEFINITIONS, name)
    if found is None:
        return DefinitionOutcome()
    if found["metadata"].get("deletionTimestamp"):
        return _end(cluster, found)
    definition = found

    def refuse(event: str, reason: str, message: str) -> DefinitionOutcome:
        tell(subject_of(definition), WARNING, event, message)
        refused = condition("Established", "False", reason, message)
        write_status(cluster, clock, definition, [refused])
        return DefinitionOutcome()

    model, problems = read_definition(definition)
    if problems:
        message = "; ".join(f"{path}: {problem}" for path, problem in problems)
        return refuse("RenderCRD", "InvalidDefinition", message)
    # Nobody else lets the resources of its kinds end.
    definition = add_finalizer(cluster, definition, FINALIZER)
    claim = claim_crd_of(model)
    made = [crd_of(model), *((claim,) if claim is not None else ())]
    for crd in made:
        try:
            why = _apply(cluster, crd, definition)
        except Invalid as error:
            # The schema is its author's, and only the API server knows all that may be in one.
            return refuse("ApplyCRD", "InvalidDefinition", error.message)
        if why:
            return refuse("ApplyCRD", "NotOurs", why)
    if not all(_is_established(cluster, crd["metadata"]["name"]) for crd in made):
        return DefinitionOutcome(None, _LOOK_AGAIN_SECONDS)
    conditions = [condition("Established", "True", "WatchingCompositeResource")]
    if claim is not None:
        conditions.append(condition("Offered", "True", "WatchingCompositeResourceClaim"))
    if write_status(cluster, clock, definition, conditions) is not definition:
        message = f"Serves {model.spec.names.kind}"
        tell(subject_of(definition), NORMAL, "EstablishComposite", message)
    return DefinitionOutcome(_kind_of(model, claim))


def observe_definition(cluster: Cluster, name: str) -> DefinitionOutcome:
    """Say which kinds of a definition there are, as far as the replica that sees to it has come."""
    found = find(cluster, DEFINITIONS, name)
    if found is None:
        return DefinitionOutcome()
    model, problems = read_definition(found)
    if problems:
        return DefinitionOutcome()
    claim = claim_crd_of(model)
    if not _is_established(cluster, crd_of(model)["metadata"]["name"]):
        # That it is made is heard of by the watch.
        return DefinitionOutcome()
    if claim is not None and not _is_established(cluster, claim["metadata"]["name"]):
        is_ending = bool(found["metadata"].get("deletionTimestamp"))
        kind = _kind_of(model, None) if is_ending else None
        return DefinitionOutcome(kind, _LOOK_AGAIN_SECONDS)
    return DefinitionOutcome(_kind_of(model, claim))


def _end(cluster: Cluster, definition: KubeObject) -> DefinitionOutcome:
    """Take the kinds of a definition away, with all their resources, and then let it end."""
    finalizers = definition["metadata"].get("finalizers") or []
    if not any(each in finalizers for each in _FINALIZERS):
        return DefinitionOutcome()
    model, _problems = read_definition(definition)
    claim = claim_crd_of(model)
    # One after the other, and its resources are let go of one by one where the kind is
    # served: claims need the composite resources that they stand for.
    if claim is not None and _take_away(cluster, claim["metadata"]["name"], definition):
        return DefinitionOutcome(_kind_of(model, claim), _LOOK_AGAIN_SECONDS)
    if _take_away(cluster, crd_of(model)["metadata"]["name"], definition):
        return DefinitionOutcome(_kind_of(model, None), _LOOK_AGAIN_SECONDS)
    remove_finalizers(cluster, definition, *_FINALIZERS)
    return DefinitionOutcome()


def _take_away(cluster: Cluster, name: str, definition: KubeObject) -> bool:
    """Have a kind of ours deleted; say whether it is still there."""
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
    """Make a kind what it shall be; say why not, if it has another owner."""
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
    found = find(cluster, CUSTOM_RESOURCE_DEFINITIONS, name)
    return found is not None and is_true(found, "Established")

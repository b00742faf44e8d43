"""Is there a kind for each CompositeResourceDefinition, and is it served?"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

from kanister_py.controller.compositions.resources import Kind
from kanister_py.controller.machine.applying import says
from kanister_py.controller.machine.conditions import condition, with_conditions
from kanister_py.controller.machine.events import NORMAL, WARNING, Tell, subject_of
from kanister_py.core.compositions.definitions import (
    claim_crd_of,
    crd_of,
    is_legacy,
    problems_of_definition,
    target_version,
)
from kanister_py.core.errors import Invalid, NotFound
from kanister_py.core.objects.parts import conditions_of, status_of
from kanister_py.core.objects.resources import CUSTOM_RESOURCE_DEFINITIONS
from kanister_py.core.revisions.kinds import DEFINITIONS
from kanister_py.core.revisions.owners import controller_of, is_controlled_by
from kanister_py.core.revisions.policy import rules_of
from kanister_py.ports.clock import Clock
from kanister_py.ports.cluster import Cluster, KubeObject

FINALIZER: Final = "defined.apiextensions.crossplane.io"
_FINALIZERS: Final = (FINALIZER, "offered.apiextensions.crossplane.io")
"""Ours, and one more that a definition may have from before."""
_FIELD_MANAGER: Final = "kanister-py"
_LOOK_AGAIN_SECONDS: Final = 1.0


class Offered(NamedTuple):
    """The kinds that a definition offers, once the cluster serves them."""

    kind: Kind
    claim_kind: str = ""


class DefinitionOutcome(NamedTuple):
    """What came of a definition: its kinds if they are served, and when to look again."""

    offered: Offered | None = None
    again_seconds: float | None = None


def reconcile_definition(
    cluster: Cluster, clock: Clock, name: str, tell: Tell
) -> DefinitionOutcome:
    """Make or update the kinds of a definition."""
    try:
        definition = cluster.get(DEFINITIONS, name)
    except NotFound:
        return DefinitionOutcome()
    if definition["metadata"].get("deletionTimestamp"):
        return _let_go(cluster, definition)
    wrong = [f"{path}: {said}" for path, said in problems_of_definition(definition)]
    if wrong:
        message = "; ".join(wrong)
        tell(subject_of(definition), WARNING, "RenderCRD", message)
        _say(cluster, clock, definition, "Established", "False", "InvalidDefinition", message)
        return DefinitionOutcome()
    definition = _hold(cluster, definition)
    claim = claim_crd_of(definition)
    made = [crd_of(definition), *((claim,) if claim is not None else ())]
    for crd in made:
        try:
            why = _apply(cluster, crd, definition)
        except Invalid as error:
            # The schema is its author's, and only the API server knows all that may be in one.
            tell(subject_of(definition), WARNING, "ApplyCRD", error.message)
            _say(
                *(cluster, clock, definition, "Established", "False"),
                *("InvalidDefinition", error.message),
            )
            return DefinitionOutcome()
        if why:
            tell(subject_of(definition), WARNING, "ApplyCRD", why)
            _say(cluster, clock, definition, "Established", "False", "NotOurs", why)
            return DefinitionOutcome()
    if not all(_is_established(cluster, crd["metadata"]["name"]) for crd in made):
        return DefinitionOutcome(None, _LOOK_AGAIN_SECONDS)
    if _say(cluster, clock, definition, "Established", "True", "WatchingCompositeResource"):
        said = f"Serves {definition['spec']['names']['kind']}"
        tell(subject_of(definition), NORMAL, "EstablishComposite", said)
    claim_kind = ""
    if claim is not None:
        claim_kind = claim["spec"]["names"]["kind"]
        current = cluster.get(DEFINITIONS, name)
        _say(cluster, clock, current, "Offered", "True", "WatchingCompositeResourceClaim")
    return DefinitionOutcome(Offered(_kind_of(definition), claim_kind))


def _hold(cluster: Cluster, definition: KubeObject) -> KubeObject:
    """Keep a definition until nothing of its kinds is left: nobody else lets those end."""
    metadata = definition["metadata"]
    finalizers = metadata.get("finalizers") or []
    if FINALIZER in finalizers:
        return definition
    held = {**metadata, "finalizers": [*finalizers, FINALIZER]}
    return cluster.replace({**definition, "metadata": held}, field_manager=_FIELD_MANAGER)


def _let_go(cluster: Cluster, definition: KubeObject) -> DefinitionOutcome:
    """Take the kinds of a definition away, with all their resources, and then let it end."""
    metadata = definition["metadata"]
    finalizers = metadata.get("finalizers") or []
    if not any(each in finalizers for each in _FINALIZERS):
        return DefinitionOutcome()
    claim = claim_crd_of(definition)
    # One after the other, and its resources are let go of one by one by whoever serves the
    # kind: claims need the composite resources that they stand for.
    if claim is not None and _take_away(cluster, claim["metadata"]["name"], definition):
        offered = Offered(_kind_of(definition), claim["spec"]["names"]["kind"])
        return DefinitionOutcome(offered, _LOOK_AGAIN_SECONDS)
    if _take_away(cluster, crd_of(definition)["metadata"]["name"], definition):
        return DefinitionOutcome(Offered(_kind_of(definition)), _LOOK_AGAIN_SECONDS)
    left = [each for each in finalizers if each not in _FINALIZERS]
    with suppress(NotFound):
        cluster.replace({**definition, "metadata": {**metadata, "finalizers": left}})
    return DefinitionOutcome()


def _take_away(cluster: Cluster, name: str, definition: KubeObject) -> bool:
    """Have a kind of ours deleted; say whether it is still there."""
    try:
        live = cluster.get(CUSTOM_RESOURCE_DEFINITIONS, name)
    except NotFound:
        return False
    if not is_controlled_by(live, definition):
        return False
    if not live["metadata"].get("deletionTimestamp"):
        with suppress(NotFound):
            cluster.delete(CUSTOM_RESOURCE_DEFINITIONS, name, uid=live["metadata"]["uid"])
    return True


def _kind_of(definition: Mapping[str, Any]) -> Kind:
    spec = definition["spec"]
    return Kind(
        f"{spec['group']}/{target_version(definition)}",
        spec["names"]["kind"],
        is_legacy(definition),
        rules_of(spec),
        tuple(spec.get("connectionSecretKeys") or ()),
    )


def _apply(cluster: Cluster, crd: dict[str, Any], definition: KubeObject) -> str:
    """Make a kind what it shall be; say why not, if it is somebody else's."""
    name = crd["metadata"]["name"]
    try:
        live = cluster.get(CUSTOM_RESOURCE_DEFINITIONS, name)
    except NotFound:
        live = None
    if live is not None:
        owner = controller_of(live)
        if owner is not None and owner.get("uid") != definition["metadata"]["uid"]:
            return f"{name} is controlled by {owner.get('kind')} {owner.get('name')}"
        if says(live, crd):
            return ""
    cluster.apply(crd, field_manager=_FIELD_MANAGER, force=True)
    return ""


def _is_established(cluster: Cluster, name: str) -> bool:
    try:
        found = cluster.get(CUSTOM_RESOURCE_DEFINITIONS, name)
    except NotFound:
        return False
    conditions = conditions_of(found)
    return any(
        each.get("type") == "Established" and each.get("status") == "True" for each in conditions
    )


def _say(
    cluster: Cluster,
    clock: Clock,
    definition: KubeObject,
    kind: str,
    status: str,
    reason: str,
    message: str = "",
) -> bool:
    """Write one condition of a definition; say whether that changed anything."""
    before = status_of(definition)
    wanted = with_conditions(
        before,
        [condition(kind, status, reason, message)],
        now=clock.now(),
        generation=definition["metadata"].get("generation", 0),
    )
    if wanted == before:
        return False
    cluster.replace_status({**definition, "status": wanted})
    return True

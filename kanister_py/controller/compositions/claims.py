"""Does the composite resource of a claim say what the claim says, and the claim how it went?"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from kanister_py.controller.machine.applying import says
from kanister_py.controller.machine.conditions import condition, with_conditions
from kanister_py.controller.machine.events import NORMAL, WARNING, Tell, subject_of
from kanister_py.core.compositions.claims import (
    claim_spec_after,
    claim_status_after,
    composite_of_claim,
    is_of_claim,
)
from kanister_py.core.compositions.conditions import RECONCILE_ERROR
from kanister_py.core.compositions.naming import child_name
from kanister_py.core.errors import AlreadyExists, Conflict, Invalid, NotFound
from kanister_py.core.objects.parts import conditions_of, spec_of, status_of
from kanister_py.core.objects.resources import SECRETS
from kanister_py.core.revisions.owners import controller_reference
from kanister_py.ports.clock import Clock
from kanister_py.ports.cluster import Cluster, KubeObject, Propagation

FINALIZER: Final = "finalizer.apiextensions.crossplane.io"
_FIELD_MANAGER: Final = "kanister-py"
_CONNECTION: Final = "connection.crossplane.io/v1alpha1"


class ClaimReconciler:
    """Keeps claims of one kind and their composite resources in step."""

    def __init__(
        self, cluster: Cluster, clock: Clock, tell: Tell, api_version: str, kind: str, claim: str
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._tell = tell
        self._api_version = api_version
        self._kind = kind
        self._claims = cluster.resource_for(api_version, claim).gvr
        self._composites = cluster.resource_for(api_version, kind).gvr

    def reconcile(self, namespace: str, name: str) -> None:
        """Bring one claim to rest."""
        try:
            claim = self._cluster.get(self._claims, name, namespace=namespace)
        except NotFound:
            return
        composite = self._composite_of(claim)
        if claim["metadata"].get("deletionTimestamp"):
            self._let_go(claim, composite)
            return
        if composite is not None and not is_of_claim(composite, claim):
            said = f"{self._kind} {composite['metadata']['name']} is bound to another claim"
            self._tell(subject_of(claim), WARNING, "BindCompositeResource", said)
            self._write_status(claim, None, said)
            return
        claim = self._hold(claim)
        composite = self._make(claim, composite)
        claim = self._take_over(claim, composite)
        why = self._hand_on_secret(claim, composite)
        if why:
            self._tell(subject_of(claim), WARNING, "PropagateConnectionSecret", why)
        self._write_status(claim, composite, why)

    def _composite_of(self, claim: KubeObject) -> KubeObject | None:
        reference = spec_of(claim).get("resourceRef") or {}
        name = str(reference.get("name") or self._new_name(claim))
        try:
            return self._cluster.get(self._composites, name)
        except NotFound:
            return None

    def _new_name(self, claim: KubeObject) -> str:
        """Name the composite resource of a claim, the same after every restart."""
        metadata = claim["metadata"]
        return child_name(f"{metadata['name']}-", str(metadata.get("uid")), "claim")

    def _hold(self, claim: KubeObject) -> KubeObject:
        metadata = claim["metadata"]
        if FINALIZER in (metadata.get("finalizers") or ()):
            return claim
        finalizers = [*(metadata.get("finalizers") or ()), FINALIZER]
        return self._cluster.replace({**claim, "metadata": {**metadata, "finalizers": finalizers}})

    def _make(self, claim: KubeObject, composite: KubeObject | None) -> KubeObject:
        wanted = composite_of_claim(claim, composite, self._api_version, self._kind)
        if composite is None:
            wanted["metadata"].pop("generateName", None)
            wanted["metadata"]["name"] = self._new_name(claim)
            try:
                made = self._cluster.create(wanted, field_manager=_FIELD_MANAGER)
            except AlreadyExists:
                raise Conflict(f"{self._kind} {wanted['metadata']['name']} was just made") from None
            said = f"Created {self._kind} {made['metadata']['name']}"
            self._tell(subject_of(claim), NORMAL, "BindCompositeResource", said)
            return made
        changed = {
            **composite,
            "metadata": {**composite["metadata"], **wanted["metadata"]},
            "spec": wanted["spec"],
        }
        if changed == composite:
            return composite
        return self._cluster.replace(changed, field_manager=_FIELD_MANAGER)

    def _take_over(self, claim: KubeObject, composite: KubeObject) -> KubeObject:
        wanted = claim_spec_after(claim, composite)
        if wanted == claim.get("spec"):
            return claim
        return self._cluster.replace({**claim, "spec": wanted}, field_manager=_FIELD_MANAGER)

    def _hand_on_secret(self, claim: KubeObject, composite: KubeObject) -> str:
        """Copy connection details to where the claim wants them; say why not, if it cannot be."""
        target = spec_of(claim).get("writeConnectionSecretToRef") or {}
        source = spec_of(composite).get("writeConnectionSecretToRef") or {}
        if not target.get("name") or not source.get("name"):
            return ""
        try:
            found = self._cluster.get(
                SECRETS, source["name"], namespace=source.get("namespace", "")
            )
        except NotFound:
            return ""
        metadata = claim["metadata"]
        wanted: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "namespace": metadata["namespace"],
                "name": target["name"],
                "ownerReferences": [controller_reference(claim)],
            },
            "type": _CONNECTION,
            "data": found.get("data") or {},
        }
        live: Mapping[str, Any] | None = None
        with suppress(NotFound):
            live = self._cluster.get(SECRETS, target["name"], namespace=metadata["namespace"])
        if live is not None and says(live, wanted):
            return ""
        try:
            self._cluster.apply(wanted, field_manager=_FIELD_MANAGER, force=True)
        except Invalid as error:
            return f"Cannot write connection details to Secret {target['name']}: {error.message}"
        return ""

    def _let_go(self, claim: KubeObject, composite: KubeObject | None) -> None:
        metadata = claim["metadata"]
        if FINALIZER not in (metadata.get("finalizers") or ()):
            return
        policy = spec_of(claim).get("compositeDeletePolicy")
        is_ours = composite is not None and is_of_claim(composite, claim)
        if is_ours and composite is not None:
            is_foreground = policy == "Foreground"
            if not composite["metadata"].get("deletionTimestamp"):
                propagation = Propagation.FOREGROUND if is_foreground else Propagation.BACKGROUND
                with suppress(NotFound):
                    self._cluster.delete(
                        self._composites,
                        composite["metadata"]["name"],
                        uid=composite["metadata"]["uid"],
                        propagation=propagation,
                    )
            if is_foreground:
                # Its end is seen by the watch on composite resources.
                return
        left = [each for each in metadata["finalizers"] if each != FINALIZER]
        with suppress(NotFound):
            self._cluster.replace({**claim, "metadata": {**metadata, "finalizers": left}})

    def _write_status(self, claim: KubeObject, composite: KubeObject | None, failure: str) -> None:
        before = status_of(claim)
        if failure:
            conditions = [condition("Synced", "False", RECONCILE_ERROR, failure)]
        else:
            conditions = [condition("Synced", "True", "ReconcileSuccess")]
        wanted = dict(before)
        if composite is not None:
            wanted = claim_status_after(claim, composite)
            conditions.append(_readiness_of(composite))
        status = with_conditions(
            wanted,
            conditions,
            now=self._clock.now(),
            generation=claim["metadata"].get("generation", 0),
        )
        if status != before:
            self._cluster.replace_status({**claim, "status": status})


def _readiness_of(composite: Mapping[str, Any]) -> dict[str, Any]:
    for each in conditions_of(composite):
        if each.get("type") == "Ready" and each.get("status") == "True":
            return condition("Ready", "True", "Available")
    return condition("Ready", "False", "Waiting", "Composite resource is not yet ready")

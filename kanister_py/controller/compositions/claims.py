"""Claims: each kept in step with the composite resource that stands for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kanister_py.controller.compositions.tasks import Kind
from kanister_py.controller.machine.events import NORMAL, WARNING, subject_of
from kanister_py.controller.machine.part import PartTools
from kanister_py.controller.machine.writing import (
    FIELD_MANAGER,
    add_finalizer,
    apply_if_changed,
    delete_as_seen,
    judgement,
    remove_finalizers,
    write_status,
)
from kanister_py.core.compositions.claims import (
    claim_spec_after,
    claim_status_after,
    composite_of_claim,
    is_of_claim,
)
from kanister_py.core.compositions.naming import child_name
from kanister_py.core.compositions.results import RECONCILE_ERROR
from kanister_py.core.errors import AlreadyExists, Conflict, Invalid
from kanister_py.core.kube.parts import controller_reference, is_true, spec_of
from kanister_py.core.kube.resources import SECRETS
from kanister_py.ports.cluster import KubeObject, Propagation, find

FINALIZER: Final = "finalizer.apiextensions.crossplane.io"
_CONNECTION: Final = "connection.crossplane.io/v1alpha1"


class ClaimReconciler:
    """Reconciler of the claims of one kind, each with its composite resource."""

    def __init__(self, part: PartTools, kind: Kind) -> None:
        self._cluster, self._clock, self._tell = part.cluster, part.clock, part.post_event
        self._kind = kind
        self._claims = part.cluster.resource_for(kind.api_version, kind.claim_kind).gvr
        self._composites = part.cluster.resource_for(kind.api_version, kind.kind).gvr

    def reconcile(self, namespace: str, name: str) -> None:
        """Bring one claim to rest."""
        claim = find(self._cluster, self._claims, name, namespace)
        if claim is None:
            return
        composite = self._composite_of(claim)
        if claim["metadata"].get("deletionTimestamp"):
            self._let_go(claim, composite)
            return
        if composite is not None and not is_of_claim(composite, claim):
            message = f"{self._kind.kind} {composite['metadata']['name']} is bound to another claim"
            self._tell(subject_of(claim), WARNING, "BindCompositeResource", message)
            self._write_status(claim, None, message)
            return
        claim = add_finalizer(self._cluster, claim, FINALIZER)
        composite = self._make(claim, composite)
        claim = self._take_over(claim, composite)
        why = self._hand_on_secret(claim, composite)
        if why:
            self._tell(subject_of(claim), WARNING, "PropagateConnectionSecret", why)
        self._write_status(claim, composite, why)

    def _composite_of(self, claim: KubeObject) -> KubeObject | None:
        reference = spec_of(claim).get("resourceRef") or {}
        name = str(reference.get("name") or self._new_name(claim))
        return find(self._cluster, self._composites, name)

    def _new_name(self, claim: KubeObject) -> str:
        """Name the composite resource of a claim, the same after every restart."""
        metadata = claim["metadata"]
        return child_name(f"{metadata['name']}-", str(metadata.get("uid")), "claim")

    def _make(self, claim: KubeObject, composite: KubeObject | None) -> KubeObject:
        kind = self._kind
        wanted = composite_of_claim(
            claim=claim,
            composite=composite,
            api_version=kind.api_version,
            kind=kind.kind,
            rules=kind.rules,
            manager=FIELD_MANAGER,
        )
        if composite is None:
            wanted["metadata"].pop("generateName", None)
            wanted["metadata"]["name"] = self._new_name(claim)
            try:
                made = self._cluster.create(wanted, field_manager=FIELD_MANAGER)
            except AlreadyExists:
                raise Conflict(f"{kind.kind} {wanted['metadata']['name']} was just made") from None
            message = f"Created {kind.kind} {made['metadata']['name']}"
            self._tell(subject_of(claim), NORMAL, "BindCompositeResource", message)
            return made
        changed = {
            **composite,
            "metadata": {**composite["metadata"], **wanted["metadata"]},
            "spec": wanted["spec"],
        }
        if changed == composite:
            return composite
        return self._cluster.replace(changed, field_manager=FIELD_MANAGER)

    def _take_over(self, claim: KubeObject, composite: KubeObject) -> KubeObject:
        wanted = claim_spec_after(claim, composite, self._kind.rules)
        if wanted == claim.get("spec"):
            return claim
        return self._cluster.replace({**claim, "spec": wanted}, field_manager=FIELD_MANAGER)

    def _hand_on_secret(self, claim: KubeObject, composite: KubeObject) -> str:
        """Copy connection details to where the claim wants them; say why not, if it cannot be."""
        target = spec_of(claim).get("writeConnectionSecretToRef") or {}
        source = spec_of(composite).get("writeConnectionSecretToRef") or {}
        if not target.get("name") or not source.get("name"):
            return ""
        found = find(self._cluster, SECRETS, source["name"], source.get("namespace", ""))
        if found is None:
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
        try:
            apply_if_changed(self._cluster, SECRETS, wanted)
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
                delete_as_seen(self._cluster, self._composites, composite, propagation)
            if is_foreground:
                # Its end is seen by the watch on composite resources.
                return
        remove_finalizers(self._cluster, claim, FINALIZER)

    def _write_status(self, claim: KubeObject, composite: KubeObject | None, failure: str) -> None:
        conditions = [judgement("Synced", failure, "ReconcileSuccess", RECONCILE_ERROR)]
        status: Mapping[str, Any] | None = None
        if composite is not None:
            status = claim_status_after(claim, composite)
            is_ready = is_true(composite, "Ready")
            waits = "" if is_ready else "Composite resource is not yet ready"
            conditions.append(judgement("Ready", waits, "Available", "Waiting"))
        write_status(self._cluster, self._clock, claim, conditions, status)

"""Claims, and the composite resources that they are bound to."""

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
    condition_from_problem,
    delete_as_seen,
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
    """Reconciler of the claims of one kind."""

    def __init__(self, part: PartTools, kind: Kind) -> None:
        self._cluster, self._clock, self._post_event = part.cluster, part.clock, part.post_event
        self._kind = kind
        self._claims = part.cluster.resource_for(kind.api_version, kind.claim_kind).gvr
        self._composites = part.cluster.resource_for(kind.api_version, kind.kind).gvr

    def reconcile(self, namespace: str, name: str) -> None:
        """Reconcile one claim."""
        claim = find(self._cluster, self._claims, name, namespace)
        if claim is None:
            return
        composite = self._composite_of(claim)
        if claim["metadata"].get("deletionTimestamp"):
            self._finalize(claim, composite)
            return
        if composite is not None and not is_of_claim(composite, claim):
            message = f"{self._kind.kind} {composite['metadata']['name']} is bound to another claim"
            self._post_event(subject_of(claim), WARNING, "BindCompositeResource", message)
            self._write_status(claim, None, message)
            return
        claim = add_finalizer(self._cluster, claim, FINALIZER)
        composite = self._apply_composite(claim, composite)
        claim = self._update_claim_spec(claim, composite)
        problem = self._propagate_secret(claim, composite)
        if problem:
            self._post_event(subject_of(claim), WARNING, "PropagateConnectionSecret", problem)
        self._write_status(claim, composite, problem)

    def _composite_of(self, claim: KubeObject) -> KubeObject | None:
        reference = spec_of(claim).get("resourceRef") or {}
        name = str(reference.get("name") or self._new_name(claim))
        return find(self._cluster, self._composites, name)

    def _new_name(self, claim: KubeObject) -> str:
        """Return the name of a claim's composite resource, which is the same after a restart."""
        metadata = claim["metadata"]
        return child_name(f"{metadata['name']}-", str(metadata.get("uid")), "claim")

    def _apply_composite(self, claim: KubeObject, composite: KubeObject | None) -> KubeObject:
        kind = self._kind
        desired = composite_of_claim(
            claim=claim,
            composite=composite,
            api_version=kind.api_version,
            kind=kind.kind,
            rules=kind.rules,
            manager=FIELD_MANAGER,
        )
        if composite is None:
            desired["metadata"].pop("generateName", None)
            desired["metadata"]["name"] = self._new_name(claim)
            try:
                created = self._cluster.create(desired, field_manager=FIELD_MANAGER)
            except AlreadyExists:
                raise Conflict(
                    f"{kind.kind} {desired['metadata']['name']} has just been created"
                ) from None
            message = f"Created {kind.kind} {created['metadata']['name']}"
            self._post_event(subject_of(claim), NORMAL, "BindCompositeResource", message)
            return created
        changed = {
            **composite,
            "metadata": {**composite["metadata"], **desired["metadata"]},
            "spec": desired["spec"],
        }
        if changed == composite:
            return composite
        return self._cluster.replace(changed, field_manager=FIELD_MANAGER)

    def _update_claim_spec(self, claim: KubeObject, composite: KubeObject) -> KubeObject:
        desired = claim_spec_after(claim, composite, self._kind.rules)
        if desired == claim.get("spec"):
            return claim
        return self._cluster.replace({**claim, "spec": desired}, field_manager=FIELD_MANAGER)

    def _propagate_secret(self, claim: KubeObject, composite: KubeObject) -> str:
        """Copy connection details to the Secret of the claim; return the problem if that fails."""
        target = spec_of(claim).get("writeConnectionSecretToRef") or {}
        source = spec_of(composite).get("writeConnectionSecretToRef") or {}
        if not target.get("name") or not source.get("name"):
            return ""
        secret = find(self._cluster, SECRETS, source["name"], source.get("namespace", ""))
        if secret is None:
            return ""
        metadata = claim["metadata"]
        desired: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "namespace": metadata["namespace"],
                "name": target["name"],
                "ownerReferences": [controller_reference(claim)],
            },
            "type": _CONNECTION,
            "data": secret.get("data") or {},
        }
        try:
            apply_if_changed(self._cluster, SECRETS, desired)
        except Invalid as error:
            return f"Cannot write connection details to Secret {target['name']}: {error.message}"
        return ""

    def _finalize(self, claim: KubeObject, composite: KubeObject | None) -> None:
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
                # The watch on composite resources reports the deletion.
                return
        remove_finalizers(self._cluster, claim, FINALIZER)

    def _write_status(self, claim: KubeObject, composite: KubeObject | None, failure: str) -> None:
        conditions = [
            condition_from_problem("Synced", failure, "ReconcileSuccess", RECONCILE_ERROR)
        ]
        status: Mapping[str, Any] | None = None
        if composite is not None:
            status = claim_status_after(claim, composite)
            is_ready = is_true(composite, "Ready")
            reason = "" if is_ready else "Composite resource is not yet ready"
            conditions.append(condition_from_problem("Ready", reason, "Available", "Waiting"))
        write_status(self._cluster, self._clock, claim, conditions, status)

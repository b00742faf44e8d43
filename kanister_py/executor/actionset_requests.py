"""Requests for an ActionSet on a cluster: cancel it, or retry it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kanister_py.core.actionsets.creation import nothing_to_retry, retry_of, why_not_retried
from kanister_py.core.actionsets.status import State, Status
from kanister_py.core.actionsets.stored_status import read_status
from kanister_py.core.errors import UsageError
from kanister_py.core.kube.parts import spec_of
from kanister_py.core.kube.resources import ACTION_SETS
from kanister_py.ports.cluster import Cluster, KubeObject


class ActionSetState(UsageError, reason="ActionSetState"):
    """The state of an ActionSet does not allow a request."""

    def __init__(self, name: str, state: str, why: str) -> None:
        super().__init__(f"ActionSet {name} is {state}: {why}")


def cancel_actionset(cluster: Cluster, namespace: str, name: str) -> None:
    """Request the cancellation of an ActionSet. Raises `ActionSetState` if it has ended."""
    actionset = cluster.get(ACTION_SETS, name, namespace=namespace)
    status = read_status(actionset) or Status()
    if status.is_final:
        raise ActionSetState(name, str(status.state), "there is nothing left to cancel")
    patched = cluster.patch(ACTION_SETS, name, {"spec": {"cancel": True}}, namespace=namespace)
    if spec_of(patched).get("cancel") is not True:
        raise UsageError(
            "The definition of ActionSets on this cluster has no field spec.cancel; "
            f"delete {name} instead, or install our definition with kanister-py crds upgrade",
            reason="CancelNotKept",
        )


def write_retry(
    actionset: KubeObject, name: str, from_phase: str, choose: Callable[[str], str]
) -> dict[str, Any]:
    """Build the manifest of an ActionSet that retries another one.

    Raises UsageError with the reason if it cannot be retried.
    """
    status = read_status(actionset) or Status()
    retried = str(actionset["metadata"]["name"])
    if not status.is_final:
        raise ActionSetState(retried, str(status.state), "wait for its end, or cancel it first")
    if status.state is State.COMPLETE and not from_phase:
        why = "there is nothing to retry; --from-phase selects phases to run again"
        raise ActionSetState(retried, str(status.state), why)
    names = [phase.name for action in status.actions for phase in action.phases]
    if from_phase and from_phase not in names:
        raise nothing_to_retry(retried, from_phase, why_not_retried(status, from_phase))
    return retry_of(actionset, name, from_phase, choose)

"""Requests to an ActionSet on a cluster: cancel it, or retry what it failed to do."""

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
    """Something is asked of an ActionSet that does not fit how far it is."""

    def __init__(self, name: str, state: str, why: str) -> None:
        super().__init__(f"ActionSet {name} is {state}: {why}")


def cancel_actionset(cluster: Cluster, namespace: str, name: str) -> None:
    """Ask for the end of an ActionSet; one that has ended is refused."""
    found = cluster.get(ACTION_SETS, name, namespace=namespace)
    status = read_status(found) or Status()
    if status.is_final:
        raise ActionSetState(name, str(status.state), "there is nothing left to cancel")
    patched = cluster.patch(ACTION_SETS, name, {"spec": {"cancel": True}}, namespace=namespace)
    if spec_of(patched).get("cancel") is not True:
        raise UsageError(
            "This cluster's definition of ActionSets knows no spec.cancel; "
            f"delete {name} instead, or install ours with kanister-py crds upgrade",
            reason="CancelNotKept",
        )


def write_retry(
    found: KubeObject, name: str, from_phase: str, choose: Callable[[str], str]
) -> dict[str, Any]:
    """Write the ActionSet that does another one again; what cannot be done again is refused."""
    status = read_status(found) or Status()
    retried = str(found["metadata"]["name"])
    if not status.is_final:
        raise ActionSetState(retried, str(status.state), "wait for its end, or cancel it first")
    if status.state is State.COMPLETE and not from_phase:
        why = "there is nothing to do again, unless --from-phase says what"
        raise ActionSetState(retried, str(status.state), why)
    names = [phase.name for action in status.actions for phase in action.phases]
    if from_phase and from_phase not in names:
        raise nothing_to_retry(retried, from_phase, why_not_retried(status, from_phase))
    return retry_of(found, name, from_phase, choose)

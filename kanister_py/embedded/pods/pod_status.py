"""Status of a pod, as a kubelet reports it: phase, conditions, containers."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kanister_py.core.kube.parts import status_of
from kanister_py.embedded.pods.container import Container
from kanister_py.embedded.pods.environment import NODE_IP, address_of
from kanister_py.ports.pods import PodStatus


class PodReport:
    """Status of one pod, and the last reported one."""

    def __init__(self, pod: Mapping[str, Any], now: Callable[[], str]) -> None:
        self._pod = pod
        self._now = now
        self._start_time = now()
        self._conditions: dict[str, dict[str, Any]] = {}
        self._last: PodStatus = {}

    def next_status(
        self,
        phase: str,
        containers: Sequence[Container],
        *,
        failure: tuple[str, str],
        waiting: tuple[str, str],
    ) -> PodStatus | None:
        """Return the status for the state of the containers, or None if it is unchanged.

        `failure` and `waiting` are a reason and a message: of the whole pod, and of containers that
        were never started.
        """
        inits = [one for one in containers if one.kind != "main"]
        mains = [one for one in containers if one.kind == "main"]
        self._set_conditions(phase, inits, mains)
        if not waiting[0]:
            waiting = ("PodInitializing" if inits else "ContainerCreating", "")
        address = address_of(self._pod)
        status: PodStatus = {
            "phase": phase,
            "conditions": [dict(one) for one in self._conditions.values()],
            "hostIP": NODE_IP,
            "podIP": address,
            "podIPs": [{"ip": address}],
            "startTime": self._start_time,
            # The QoS class that an API server set is immutable.
            "qosClass": status_of(self._pod).get("qosClass") or "BestEffort",
            "containerStatuses": [_container_status(one, waiting) for one in mains],
        }
        if inits:
            status["initContainerStatuses"] = [_container_status(one, waiting) for one in inits]
        if failure[0]:
            status["reason"], status["message"] = failure
        if status == self._last:
            return None
        self._last = copy.deepcopy(status)
        return status

    def _set_conditions(
        self, phase: str, inits: Sequence[Container], mains: Sequence[Container]
    ) -> None:
        is_initialized = all(
            one.has_succeeded if one.kind == "init" else one.was_started for one in inits
        )
        unready = [one.name for one in mains if not one.is_ready]
        why = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(phase, "")
        is_ready = not unready and not why
        reason = "" if is_ready else why or "ContainersNotReady"
        message = "" if is_ready or why else f"containers with unready status: {unready}"
        self._set_condition("PodScheduled", is_true=True)
        self._set_condition(
            "Initialized",
            is_true=is_initialized,
            reason="" if is_initialized else "ContainersNotInitialized",
        )
        for name in ("ContainersReady", "Ready"):
            self._set_condition(name, is_true=is_ready, reason=reason, message=message)

    def _set_condition(
        self, name: str, *, is_true: bool, reason: str = "", message: str = ""
    ) -> None:
        value = "True" if is_true else "False"
        old = self._conditions.get(name)
        is_unchanged = old is not None and old["status"] == value
        condition = {
            "type": name,
            "status": value,
            "lastProbeTime": None,
            "lastTransitionTime": old["lastTransitionTime"]
            if old and is_unchanged
            else self._now(),
        }
        if reason:
            condition["reason"] = reason
        if message:
            condition["message"] = message
        self._conditions[name] = condition


def _container_status(container: Container, waiting: tuple[str, str]) -> dict[str, Any]:
    state = container.state
    if not state:
        reason, message = waiting
        state = {"waiting": {"reason": reason} | ({"message": message} if message else {})}
    status = {
        "name": container.name,
        "image": container.spec.get("image") or "",
        "imageID": "",
        "ready": container.is_ready or (container.kind == "init" and container.has_succeeded),
        "started": container.is_running,
        "restartCount": max(0, container.restarts),
        "state": copy.deepcopy(state),
        "lastState": copy.deepcopy(container.last_state),
    }
    if container.was_started:
        status["containerID"] = f"process://{container.name}-{container.restarts}"
    return status

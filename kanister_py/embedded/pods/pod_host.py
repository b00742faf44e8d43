"""Node and workload controllers for a cluster without them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from kanister_py.core.kube.parts import status_of
from kanister_py.core.kube.resources import (
    DEPLOYMENTS,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    GroupVersionResource,
)
from kanister_py.core.notices import Notice
from kanister_py.embedded.pods.node import ProcessNode
from kanister_py.embedded.pods.runner import ProcessPodRunner
from kanister_py.embedded.pods.workloads import Workloads
from kanister_py.ports.clock import Clock
from kanister_py.ports.cluster import Cluster, KubeObject, ObjectList
from kanister_py.ports.pods import PodRunner

READY_SECONDS: Final = 60.0
_LOOK_SECONDS: Final = 0.2
_RESOURCES: Final = (DEPLOYMENTS, STATEFUL_SETS, REPLICA_SETS)


class PodHost:
    """Node and workload controllers of a cluster, which run until closed."""

    def __init__(self, cluster: Cluster, runner: PodRunner, clock: Clock) -> None:
        self.node = ProcessNode(runner, clock)
        self.cluster = cluster
        self._clock = clock
        self._runner = runner
        self._workloads = Workloads(cluster, clock)

    def start(self) -> None:
        self.node.start(self.cluster)
        self._workloads.start()

    def close(self) -> None:
        # Stop the controllers first, so that they do not replace pods that end.
        self._workloads.close()
        self.node.close()

    def wait_until_workloads_ready(
        self, is_wanted: Callable[[], bool], timeout_seconds: float = READY_SECONDS
    ) -> list[Notice]:
        """Wait until all workloads are ready, and return a notice for each late one.

        Returns early when `is_wanted` is False. Raises `ProcessesUnavailable` if no pod can run.
        """
        if isinstance(self._runner, ProcessPodRunner):
            self._runner.wait_until_ready()
        deadline = self._clock.monotonic() + timeout_seconds
        while is_wanted():
            listed = [(resource, self.cluster.list(resource)) for resource in _RESOURCES]
            late = [
                (kind, all_, one) for kind, all_ in listed for one in all_ if not _is_complete(one)
            ]
            if not late:
                break
            if self._clock.monotonic() >= deadline:
                # Owned workloads are covered by the notice of their owner.
                return [
                    self._notice_of(one, timeout_seconds)
                    for _, _, one in late
                    if not one["metadata"].get("ownerReferences")
                ]
            self._wait_for_change(*late[0])
        return []

    def _wait_for_change(
        self, resource: GroupVersionResource, listed: ObjectList, workload: KubeObject
    ) -> None:
        watch = self.cluster.watch(
            resource,
            namespace=workload["metadata"]["namespace"],
            resource_version=listed.resource_version,
            timeout_seconds=_LOOK_SECONDS,
        )
        with watch:
            next(iter(watch), None)

    def _notice_of(self, workload: KubeObject, seconds: float) -> Notice:
        metadata = workload["metadata"]
        desired, ready = _counts_of(workload)
        name = f"{workload['kind']} {metadata['namespace']}/{metadata['name']}"
        why = "; ".join(self._pod_problems(workload))
        return Notice(
            "WorkloadNotReady",
            f"{name} has {ready} of {desired} pods ready after {seconds:.0f} seconds"
            + (f": {why}" if why else ""),
        )

    def _pod_problems(self, workload: KubeObject) -> list[str]:
        """Return for resource pod of a workload why it is not ready."""
        metadata = workload["metadata"]
        labels = workload["spec"]["selector"].get("matchLabels") or {}
        pods = self.cluster.list(
            PODS,
            namespace=metadata["namespace"],
            label_selector=",".join(f"{key}={value}" for key, value in sorted(labels.items())),
        )
        return [
            f"pod {pod['metadata']['name']}: {why}" for pod in pods if (why := _problem_of(pod))
        ]


def _is_complete(workload: KubeObject) -> bool:
    desired, ready = _counts_of(workload)
    observed = status_of(workload).get("observedGeneration", 0)
    return observed >= workload["metadata"].get("generation", 1) and ready >= desired


def _counts_of(workload: KubeObject) -> tuple[int, int]:
    """Return the desired and the ready number of pods of a workload."""
    status = status_of(workload)
    replicas = workload["spec"].get("replicas")
    return 1 if replicas is None else int(replicas), status.get("readyReplicas", 0)


def _problem_of(pod: KubeObject) -> str:
    status = status_of(pod)
    containers: Sequence[Mapping[str, Any]] = [
        *(status.get("initContainerStatuses") or ()),
        *(status.get("containerStatuses") or ()),
    ]
    for container in containers:
        if container.get("ready"):
            continue
        now, before = container.get("state") or {}, container.get("lastState") or {}
        # The reason of the last termination explains more than CrashLoopBackOff.
        for state in (now.get("terminated"), before.get("terminated"), now.get("waiting")):
            if state:
                message = state.get("message") or f"exit code {state.get('exitCode', '-')}"
                return f"{state.get('reason', 'Waiting')}: {' '.join(str(message).split())}"
    return str(status.get("message") or status.get("reason") or "")

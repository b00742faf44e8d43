"""Node: connects a cluster to the runner of its pods, in place of a kubelet."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from kanister_py.core.errors import ApiError, BadRequest, Conflict, NotFound
from kanister_py.core.kube.parts import status_of
from kanister_py.core.kube.resources import (
    CONFIG_MAPS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    SECRETS,
    SERVICES,
    GroupVersionResource,
)
from kanister_py.core.kube.timestamps import timestamp
from kanister_py.embedded.pods.following import follow_objects
from kanister_py.executor.watch_cache import WatchCache
from kanister_py.ports.clock import Clock
from kanister_py.ports.cluster import (
    Cluster,
    ExecSession,
    KubeObject,
    LogOptions,
    LogStream,
)
from kanister_py.ports.pods import PodRunner, PodStatus

NODE_NAME: Final = "kanister-py"
_FINAL_PHASES: Final = ("Succeeded", "Failed")
_RETRY_SECONDS: Final = 1.0

Bind = Callable[[Cluster, KubeObject, str], None]
"""Binds an unscheduled pod to the node of a name."""


def bind_by_patch(cluster: Cluster, pod: KubeObject, node: str) -> None:
    """Bind a pod to a node, for clusters in which every client may write the spec of pods."""
    metadata = pod["metadata"]
    cluster.patch(
        PODS,
        metadata["name"],
        {"metadata": {"uid": metadata["uid"]}, "spec": {"nodeName": node}},
        namespace=metadata["namespace"],
    )


class ClusterSources:
    """Objects that pods reference, read from their cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def config_map(self, namespace: str, name: str) -> KubeObject | None:
        return self._get(CONFIG_MAPS, namespace, name)

    def secret(self, namespace: str, name: str) -> KubeObject | None:
        return self._get(SECRETS, namespace, name)

    def claim(self, namespace: str, name: str) -> KubeObject | None:
        return self._get(PERSISTENT_VOLUME_CLAIMS, namespace, name)

    def services(self) -> Sequence[KubeObject]:
        return self._cluster.list(SERVICES).items

    def service_account_token(
        self, namespace: str, service_account: str, audience: str, expiration_seconds: int
    ) -> str | None:
        """Return None, because no API server could verify a token."""
        del namespace, service_account, audience, expiration_seconds
        return None

    def _get(self, resource: GroupVersionResource, namespace: str, name: str) -> KubeObject | None:
        try:
            return self._cluster.get(resource, name, namespace=namespace)
        except NotFound:
            return None


class ProcessNode:
    """Node of a cluster: runs the pods that are bound to it, and reports their status.

    Attach it to the cluster as its access to pods, and call `start` with the cluster. With `bind`,
    pods without a node are bound to this one. Closing it kills the pods without further reports.
    """

    def __init__(
        self,
        runner: PodRunner,
        clock: Clock,
        *,
        name: str = NODE_NAME,
        bind: Bind | None = bind_by_patch,
    ) -> None:
        self._runner = runner
        self._clock = clock
        self._name = name
        self._bind = bind
        self._cluster: Cluster | None = None
        self._sources: ClusterSources | None = None
        self._lock = threading.Lock()
        self._uids: dict[tuple[str, str], str] = {}
        self._stopping: dict[str, float] = {}
        self._changed = threading.Condition()
        self._is_closed = False
        self._pods: WatchCache[KubeObject] | None = None

    def start(self, cluster: Cluster, sources: ClusterSources | None = None) -> None:
        """Register the node and follow the pods of the cluster until closed."""
        self._cluster = cluster
        self._sources = sources or ClusterSources(cluster)
        self._register(cluster)
        self._pods = follow_objects(cluster, PODS, self._see, self._gone, self._clock)
        self._pods.start()

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self._pods is not None:
            self._pods.close(waits=True)
        self._runner.close()

    def read_log(self, name: str, *, namespace: str, options: LogOptions) -> LogStream:
        return self._runner.read_log(self._uid_of(namespace, name), options)

    def exec(
        self,
        name: str,
        command: Sequence[str],
        *,
        namespace: str,
        container: str,
        has_stdin: bool,
    ) -> ExecSession:
        uid = self._uid_of(namespace, name)
        return self._runner.exec(uid, command, container=container, has_stdin=has_stdin)

    def _uid_of(self, namespace: str, name: str) -> str:
        uid = self._uids.get((namespace, name))
        if uid is None or not self._runner.is_known(uid):
            raise BadRequest(f"pod {namespace}/{name} is not running yet")
        return uid

    def _see(self, pod: KubeObject) -> None:
        """Handle the newest state of a pod."""
        assert self._cluster is not None
        metadata, node = pod["metadata"], pod["spec"].get("nodeName", "")
        uid = metadata["uid"]
        if node not in {"", self._name}:
            return
        if metadata.get("deletionTimestamp"):
            if node or self._bind is not None:
                self._stop(pod)
        elif not node:
            if self._bind is not None:
                with contextlib.suppress(NotFound, Conflict):
                    self._bind(self._cluster, pod, self._name)
        elif not self._runner.is_known(uid):
            self._start(pod)

    def _start(self, pod: KubeObject) -> None:
        assert self._sources is not None
        metadata = pod["metadata"]
        status = status_of(pod)
        if status.get("phase") in _FINAL_PHASES:
            return
        policy = pod["spec"].get("restartPolicy") or "Always"
        if status.get("startTime") and policy == "Never":
            # It ran in an earlier process of the runner, and must not run twice.
            self._write(pod, _lost(status))
            return
        if status.get("startTime"):
            # Clients must not see it as running before it runs again.
            self._write(pod, {**status, "phase": "Pending", "conditions": []})
        self._uids[metadata["namespace"], metadata["name"]] = metadata["uid"]
        self._runner.start(pod, self._sources, lambda status: self._write(pod, status))

    def _stop(self, pod: KubeObject) -> None:
        metadata = pod["metadata"]
        uid = metadata["uid"]
        grace = float(metadata.get("deletionGracePeriodSeconds") or 0)
        with self._lock:
            if self._stopping.get(uid, float("inf")) <= grace:
                return
            self._stopping[uid] = grace
        self._runner.stop(uid, grace, lambda: self._finish(pod))

    def _finish(self, pod: KubeObject) -> None:
        """Remove a terminated pod from the cluster."""
        assert self._cluster is not None
        metadata = pod["metadata"]
        self._forget((metadata["namespace"], metadata["name"]), metadata["uid"])
        # Another client may have bound it. A closed node leaves pods unchanged.
        with contextlib.suppress(ApiError):
            self._cluster.delete(
                PODS,
                metadata["name"],
                namespace=metadata["namespace"],
                grace_period_seconds=0,
                uid=metadata["uid"],
            )

    def _gone(self, pod: KubeObject) -> None:
        metadata = pod["metadata"]
        key = metadata["namespace"], metadata["name"]
        self._runner.stop(metadata["uid"], 0, lambda: self._forget(key, metadata["uid"]))

    def _forget(self, key: tuple[str, str], uid: str) -> None:
        with self._lock:
            self._stopping.pop(uid, None)
            if self._uids.get(key) == uid:
                del self._uids[key]

    def _write(self, pod: KubeObject, status: PodStatus) -> None:
        """Write the status of a pod, and retry later if the cluster is unavailable."""
        assert self._cluster is not None
        metadata = pod["metadata"]
        patch: Mapping[str, Any] = {"metadata": {"uid": metadata["uid"]}, "status": status}
        while not self._is_closed:
            try:
                self._cluster.patch(
                    PODS,
                    metadata["name"],
                    patch,
                    namespace=metadata["namespace"],
                    subresource="status",
                )
            except (NotFound, Conflict):
                # The pod was deleted, or another one has its name.
                return
            except ApiError:
                self._pause(_RETRY_SECONDS)
            else:
                return

    def _pause(self, seconds: float) -> None:
        with self._changed:
            if not self._is_closed:
                self._clock.wait(self._changed, seconds)

    def _register(self, cluster: Cluster) -> None:
        now = timestamp(self._clock.now())
        condition = {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "message": "pods run as processes",
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }
        node: KubeObject = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self._name, "labels": {"kubernetes.io/hostname": self._name}},
            "spec": {},
        }
        with contextlib.suppress(ApiError):
            cluster.create(node)
        status = {
            "conditions": [condition],
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        }
        # Without a resource version, because other clients write to nodes, too.
        cluster.patch(NODES, self._name, {"status": status}, subresource="status")


def _lost(status: Mapping[str, Any]) -> PodStatus:
    """Return the status of a pod whose processes ended with the process of the runner."""
    message = "The container could not be located when the pod was terminated"
    terminated = {"exitCode": 137, "reason": "ContainerStatusUnknown", "message": message}
    containers = [
        one
        if "terminated" in (one.get("state") or {})
        else {**one, "ready": False, "started": False, "state": {"terminated": terminated}}
        for one in status.get("containerStatuses") or ()
    ]
    return {
        **status,
        "phase": "Failed",
        "reason": "NodeLost",
        "message": "The process that ran the pod has ended",
        "containerStatuses": containers,
    }

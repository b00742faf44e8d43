"""A node for a real API server that runs pods as processes of this machine."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Mapping
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any, Final, Self

from e2e.cluster.client import ApiClient, ApiFailed, ApiUnreachable
from e2e.cluster.local import LocalCluster
from e2e.node.addresses import AddressedPods
from e2e.node.kubelet_api import KubeletServer
from kanister_py.adapters.clock_system import SystemClock
from kanister_py.adapters.cluster_kube.cluster import KubeCluster
from kanister_py.adapters.cluster_kube.connection import ClusterChoice
from kanister_py.embedded.pods.node import ClusterSources, ProcessNode
from kanister_py.embedded.pods.runner import ProcessPodRunner
from kanister_py.ports.cluster import Cluster, KubeObject

NODE_NAME: Final = "e2e-node"
FEATURES: Final = ("ExtendWebSocketsToKubelet",)
"""What our node can do that an API server from 1.36 on asks for: it speaks WebSocket itself."""

_LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_BEAT_SECONDS: Final = 3.0


def bind_by_request(cluster: Cluster, pod: KubeObject, node: str) -> None:
    """Bind a pod to a node, as a scheduler does."""
    metadata = pod["metadata"]
    cluster.create(
        {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": metadata["name"], "namespace": metadata["namespace"]},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
    )


class TokenSources(ClusterSources):
    """Objects that pods refer to, with tokens of their ServiceAccounts from the API server."""

    def __init__(self, cluster: Cluster, client: ApiClient) -> None:
        super().__init__(cluster)
        self._client = client

    def service_account_token(
        self, namespace: str, service_account: str, audience: str, expiration_seconds: int
    ) -> str | None:
        spec: dict[str, Any] = {"expirationSeconds": expiration_seconds}
        if audience:
            spec["audiences"] = [audience]
        response = self._client.post(
            f"/api/v1/namespaces/{namespace}/serviceaccounts/{service_account}/token",
            {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec},
        )
        return str(response["status"]["token"])


class E2ENode:
    """Registers a node, runs the pods of a cluster on it, and serves their logs like a kubelet.

    There is no scheduler: pods without a node run here. The folder `locations` replaces the
    stores that `kando` uses in them. `vanish` removes the node like a loss of power.
    """

    def __init__(
        self,
        cluster: LocalCluster,
        *,
        name: str = NODE_NAME,
        pod_network: IPv4Network | None = None,
        state: Path | None = None,
        locations: Path | None = None,
        takes_all: bool = True,
    ) -> None:
        self.name = name
        self._client = cluster.client
        self._adapter = KubeCluster(
            ClusterChoice(kubeconfig=str(cluster.kubeconfig)), field_manager="e2e-node"
        )
        clock = SystemClock()
        self.runner = ProcessPodRunner(clock, state=state, locations=locations)
        self._pods = ProcessNode(
            AddressedPods(self.runner, pod_network) if pod_network else self.runner,
            clock,
            name=name,
            bind=bind_by_request if takes_all else None,
        )
        serving = cluster.ca.sign_server(f"node-{name}", ["127.0.0.1", "localhost", name])
        self._server = KubeletServer(self._pods, serving, cluster.ca.certificate)
        self._closed = threading.Event()
        self._heart = threading.Thread(target=self._beat, name="heartbeat", daemon=True)

    def start(self) -> Self:
        """Register the node, and return when pods can be bound to it."""
        self._server.start()
        self._pods.start(self._adapter, TokenSources(self._adapter, self._client))
        self._describe()
        self._renew()
        self._heart.start()
        return self

    def close(self) -> None:
        """Stop every pod and unregister the node."""
        self.vanish()
        with contextlib.suppress(ApiFailed, ApiUnreachable):
            self._client.delete(f"/api/v1/nodes/{self.name}")

    def vanish(self) -> None:
        """Disappear without notice: stop all pods and the API of the node."""
        if not self._closed.is_set():
            self._closed.set()
            self._heart.join()
            self._server.close()
            self._pods.close()
            self._adapter.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def readers(self) -> int:
        """Number of open connections of the API server."""
        return self._server.connections

    def _describe(self) -> None:
        """Publish the capacity of the node and the address of its API."""
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        share = {"cpu": str(os.cpu_count() or 1), "memory": str(memory), "pods": "2000"}
        machine = os.uname()
        status: Mapping[str, Any] = {
            "capacity": share,
            "allocatable": share,
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self._server.port}},
            "declaredFeatures": sorted(FEATURES),
            "nodeInfo": {
                "architecture": machine.machine,
                "bootID": "",
                "containerRuntimeVersion": "processes://1",
                "kernelVersion": machine.release,
                "kubeProxyVersion": "",
                "kubeletVersion": self._client.get("/version")["gitVersion"],
                "machineID": "",
                "operatingSystem": "linux",
                "osImage": "this machine",
                "systemUUID": "",
            },
        }
        self._client.patch(f"/api/v1/nodes/{self.name}/status", {"status": status})

    def _beat(self) -> None:
        while not self._closed.wait(_BEAT_SECONDS):
            # Keep trying: the API server may be away for a while.
            with contextlib.suppress(ApiFailed, ApiUnreachable):
                self._renew()

    def _renew(self) -> None:
        """Renew the lease of the node."""
        now = f"{SystemClock().now():%Y-%m-%dT%H:%M:%S.%fZ}"
        spec = {"holderIdentity": self.name, "leaseDurationSeconds": 15, "renewTime": now}
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self.name, "namespace": "kube-node-lease"},
            "spec": spec,
        }
        try:
            self._client.patch(f"{_LEASES}/{self.name}", {"spec": spec})
        except ApiFailed as error:
            if error.status != 404:
                raise
            self._client.post(_LEASES, lease)

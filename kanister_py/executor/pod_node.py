"""Runs the pods of a cluster that has no machines of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Thread
from typing import Any, Final

from kanister_py.core.errors import ApiError, Expired, KanisterError, NotFound
from kanister_py.core.objects.resources import (
    CONFIG_MAPS,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    SECRETS,
    SERVICES,
    GroupVersionResource,
)
from kanister_py.ports.cluster import (
    Cluster,
    EventType,
    ExecSession,
    KubeObject,
    LogOptions,
    LogStream,
    PatchType,
    Watch,
)
from kanister_py.ports.pods import PodRunner, PodStatus

NODE_NAME: Final = "local"
_DEFAULT_GRACE_SECONDS = 30.0
_ENDED = ("Succeeded", "Failed")


class PodNode:
    """Stands between a cluster and what runs pods: starts them, ends them, tells how they are."""

    def __init__(self, cluster: Cluster, runner: PodRunner) -> None:
        self._cluster = cluster
        self._runner = runner
        self._watch: Watch | None = None
        self._is_closed = False

    def start(self) -> None:
        """Run every pod there is and will be; comes back at once."""
        self._watch = self._cluster.watch(PODS)
        Thread(target=self._follow, name="node", daemon=True).start()

    def close(self) -> None:
        """End every pod at once."""
        self._is_closed = True
        if self._watch is not None:
            self._watch.close()
        self._runner.close()

    def _follow(self) -> None:
        while not self._is_closed:
            watch = self._watch
            assert watch is not None
            try:
                for event in watch:
                    self._handle(event.type, event.object)
            except Expired:
                pass
            if not self._is_closed:
                self._watch = self._cluster.watch(PODS)

    def _handle(self, kind: EventType, pod: KubeObject) -> None:
        metadata = pod["metadata"]
        uid = metadata["uid"]
        if kind is EventType.DELETED:
            self._runner.stop(uid, 0.0, lambda: None)
        elif metadata.get("deletionTimestamp"):
            grace = metadata.get("deletionGracePeriodSeconds")
            seconds = _DEFAULT_GRACE_SECONDS if grace is None else float(grace)
            self._runner.stop(uid, seconds, lambda: self._forget(pod))
        elif not self._runner.is_known(uid) and _phase_of(pod) not in _ENDED:
            if _phase_of(pod) == "Running":
                self._report(pod, _lost())
            else:
                self._bind(pod)
                self._runner.start(pod, self, lambda status: self._report(pod, status))

    def _bind(self, pod: Mapping[str, Any]) -> None:
        """Take a pod for this node: from now on its end takes the time it asks for."""
        if not pod["spec"].get("nodeName"):
            self._patch(pod, {"spec": {"nodeName": NODE_NAME}})

    def _forget(self, pod: Mapping[str, Any]) -> None:
        metadata = pod["metadata"]
        try:
            self._cluster.delete(
                PODS,
                metadata["name"],
                namespace=metadata["namespace"],
                grace_period_seconds=0,
                uid=metadata["uid"],
            )
        except KanisterError:
            return

    def _report(self, pod: Mapping[str, Any], status: PodStatus) -> None:
        self._patch(pod, {"status": status}, "status")

    def _patch(
        self, pod: Mapping[str, Any], patch: Mapping[str, Any], subresource: str = ""
    ) -> None:
        metadata = pod["metadata"]
        try:
            self._cluster.patch(
                PODS,
                metadata["name"],
                {"metadata": {"uid": metadata["uid"]}, **patch},
                namespace=metadata["namespace"],
                patch_type=PatchType.MERGE,
                subresource=subresource,
            )
        except ApiError:
            # The pod is gone, or another one has its name: nobody wants to know any more.
            return

    # What a pod's spec refers to

    def config_map(self, namespace: str, name: str) -> KubeObject | None:
        return self._find(CONFIG_MAPS, namespace, name)

    def secret(self, namespace: str, name: str) -> KubeObject | None:
        return self._find(SECRETS, namespace, name)

    def claim(self, namespace: str, name: str) -> KubeObject | None:
        return self._find(PERSISTENT_VOLUME_CLAIMS, namespace, name)

    def services(self) -> Sequence[KubeObject]:
        return self._cluster.list(SERVICES).items

    def service_account_token(
        self,
        namespace: str,  # noqa: ARG002 # nobody here could check a token
        service_account: str,  # noqa: ARG002 # as above
        audience: str,  # noqa: ARG002 # as above
        expiration_seconds: int,  # noqa: ARG002 # as above
    ) -> str | None:
        return None

    def _find(self, resource: GroupVersionResource, namespace: str, name: str) -> KubeObject | None:
        try:
            return self._cluster.get(resource, name, namespace=namespace)
        except NotFound:
            return None

    # What a kubelet answers

    def read_log(self, name: str, *, namespace: str, options: LogOptions) -> LogStream:
        return self._runner.read_log(self._uid_of(name, namespace), options)

    def exec(
        self,
        name: str,
        command: Sequence[str],
        *,
        namespace: str,
        container: str,
        has_stdin: bool,
        is_tty: bool,  # noqa: ARG002 # a process here has no terminal
    ) -> ExecSession:
        uid = self._uid_of(name, namespace)
        return self._runner.exec(uid, command, container=container, has_stdin=has_stdin)

    def _uid_of(self, name: str, namespace: str) -> str:
        pod = self._cluster.get(PODS, name, namespace=namespace)
        uid: str = pod["metadata"]["uid"]
        return uid


def _phase_of(pod: Mapping[str, Any]) -> str:
    return str((pod.get("status") or {}).get("phase", "Pending"))


def _lost() -> PodStatus:
    """Say of a pod that ran in a process that is gone: it is gone too."""
    return {
        "phase": "Failed",
        "reason": "NodeLost",
        "message": "The process that ran this pod has ended",
    }

"""Pod runner for clusters without a kubelet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

from kanister_py.core.errors import UsageError
from kanister_py.ports.cluster import ExecSession, KubeObject, LogOptions, LogStream

VOLUMES_ONLY: Final = "kanister-py.io/writes-volumes-only"
"""Annotation of pods that, as processes, may write only to their volumes and to /tmp.

A container can write to the file system of its image. A process has no file system of its own.
"""

PodStatus: TypeAlias = dict[str, Any]
"""The `status` of a pod, as written by a kubelet."""

ReportStatus: TypeAlias = Callable[[PodStatus], None]
"""Receives every new status of a pod, complete and in order, from one thread at a time."""


def pods_not_run(pod: str, namespace: str) -> UsageError:
    """Return the error for a pod on a cluster that only records pods."""
    return UsageError(
        f"Pod {namespace}/{pod} is recorded only: nothing runs pods here; "
        "use --pods processes or a real cluster",
        reason="PodsNotRun",
    )


class PodSources(Protocol):
    """Objects that a pod's spec refers to. Methods return None for objects that do not exist."""

    def config_map(self, namespace: str, name: str) -> KubeObject | None: ...

    def secret(self, namespace: str, name: str) -> KubeObject | None: ...

    def claim(self, namespace: str, name: str) -> KubeObject | None:
        """Return a PersistentVolumeClaim."""

    def services(self) -> Sequence[KubeObject]:
        """Return the Services of all namespaces."""

    def service_account_token(
        self, namespace: str, service_account: str, audience: str, expiration_seconds: int
    ) -> str | None: ...


class PodRunner(Protocol):
    """Runner of pods, which are identified by the `metadata.uid` of their object.

    Runs commands on the user's machine, so it is used only on explicit request.
    """

    def start(self, pod: Mapping[str, Any], sources: PodSources, report: ReportStatus) -> None:
        """Start a pod without waiting. Does nothing if the uid is already started."""

    def stop(self, uid: str, grace_seconds: float, done: Callable[[], None]) -> None:
        """Terminate a pod, kill its processes after the grace period, and call `done`.

        A shorter grace period than in an earlier call takes effect. The log is removed before
        `done` is called. For an unknown uid, `done` is called immediately.
        """

    def is_known(self, uid: str) -> bool:
        """Return True if the pod was started here and has not been stopped."""

    def read_log(self, uid: str, options: LogOptions) -> LogStream:
        """Read the log of a container; `BadRequest` if it has not started."""

    def exec(
        self, uid: str, command: Sequence[str], *, container: str, has_stdin: bool
    ) -> ExecSession:
        """Start a command in a running container; `BadRequest` if it is not running."""

    def close(self) -> None:
        """Stop all pods immediately, without reporting their status."""

"""Pod runner, where no kubelet runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

from kanister_py.core.errors import UsageError
from kanister_py.ports.cluster import ExecSession, KubeObject, LogOptions, LogStream

VOLUMES_ONLY: Final = "kanister-py.io/writes-volumes-only"
"""Annotation of a pod that, run as processes, may write to its volumes and its /tmp only.

An image has a file system of its own to write to. A process of this machine has not.
"""

PodStatus: TypeAlias = dict[str, Any]
"""The `status` of a pod, as a kubelet writes it."""

ReportStatus: TypeAlias = Callable[[PodStatus], None]
"""Takes every new status of a pod, whole, in order, from one thread at a time."""


def pods_not_run(pod: str, namespace: str) -> UsageError:
    """Say that nothing comes of a pod here: this cluster records pods, but runs none."""
    return UsageError(
        f"Pod {namespace}/{pod} is recorded only: nothing runs pods here; "
        "use --pods=processes or a real cluster",
        reason="PodsNotRun",
    )


class PodSources(Protocol):
    """Sources of what a pod's spec refers to. Each answers with None for what is not there."""

    def config_map(self, namespace: str, name: str) -> KubeObject | None: ...

    def secret(self, namespace: str, name: str) -> KubeObject | None: ...

    def claim(self, namespace: str, name: str) -> KubeObject | None:
        """Give a PersistentVolumeClaim."""

    def services(self) -> Sequence[KubeObject]:
        """Give the Services of all namespaces."""

    def service_account_token(
        self, namespace: str, service_account: str, audience: str, expiration_seconds: int
    ) -> str | None: ...


class PodRunner(Protocol):
    """Runner of pods, each known by the `metadata.uid` of the object it was started from.

    Runs commands on a person's machine: nothing starts unless it was asked for.
    """

    def start(self, pod: Mapping[str, Any], sources: PodSources, report: ReportStatus) -> None:
        """Begin to run a pod, and come back at once; a uid that is known already is ignored."""

    def stop(self, uid: str, grace_seconds: float, done: Callable[[], None]) -> None:
        """End a pod: ask its processes, kill what is left after the grace, then call `done`.

        A shorter grace than an earlier call gave counts. The log is gone with `done`.
        A uid that is not known is done at once.
        """

    def is_known(self, uid: str) -> bool:
        """Say whether the pod was started here and its `stop` is not done."""

    def read_log(self, uid: str, options: LogOptions) -> LogStream:
        """Read what a container wrote; `BadRequest` while it has not started."""

    def exec(
        self, uid: str, command: Sequence[str], *, container: str, has_stdin: bool
    ) -> ExecSession:
        """Start a command in a container that runs; `BadRequest` when it does not."""

    def close(self) -> None:
        """End everything at once, and report nothing any more."""

"""Kubernetes cluster, whichever stands behind it.

Objects are plain dicts as JSON knows them. What is handed out belongs to the
caller, who may change it; what is handed in is never kept or changed. Every
call may come from any thread. Failures are the `ApiError`s of the core, each
with Kubernetes' own reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple, Protocol, Self, TypeAlias

from kanister_py.core.errors import NotFound
from kanister_py.core.kube.resources import GroupVersionResource, ResourceKind

KubeObject: TypeAlias = dict[str, Any]
"""One object as JSON knows it: `{"apiVersion": …, "kind": …, "metadata": {…}, …}`."""

Patch: TypeAlias = Mapping[str, Any] | Sequence[Mapping[str, Any]]
"""A merge or strategic patch is a mapping, a JSON patch a list of operations."""


class PatchType(StrEnum):
    """In which of its languages a patch is written; the value is its media type."""

    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    JSON = "application/json-patch+json"


class EventType(StrEnum):
    """Kind of a change that a watch reports."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


class Propagation(StrEnum):
    """Fate of the objects that a deleted one owns."""

    BACKGROUND = "Background"
    FOREGROUND = "Foreground"
    ORPHAN = "Orphan"


class WatchEvent(NamedTuple):
    """One change, in the order in which the cluster made them.

    A bookmark's object holds nothing but its kind and resourceVersion: up to
    there, the stream is complete.
    """

    type: EventType
    object: KubeObject


class ObjectList:
    """Objects that a list call found, and the version of the cluster at which that is true.

    A page that is not the last has a `continue_token`.
    """

    __slots__ = ("continue_token", "items", "resource_version")

    def __init__(
        self, items: list[KubeObject], resource_version: str, continue_token: str = ""
    ) -> None:
        self.items = items
        self.resource_version = resource_version
        self.continue_token = continue_token

    def __iter__(self) -> Iterator[KubeObject]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


class Stream(Protocol):
    """A stream that its owner must close, as a block does with the one that it opens."""

    def close(self) -> None:
        """End the stream, and let a reader in another thread go."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class Watch(Stream, Protocol):
    """A stream of events that its owner must close.

    Iterating blocks until something happens; it ends when the watch's time is
    over or it is closed, from any thread. It raises `Expired` when the
    cluster's history no longer reaches back to where the watch stands.
    """

    def __iter__(self) -> Iterator[WatchEvent]: ...

    def __next__(self) -> WatchEvent: ...


class LogStream(Stream, Protocol):
    """The bytes of a container's log, in pieces of any size, lines cut anywhere."""

    def __iter__(self) -> Iterator[bytes]: ...


class Channel(StrEnum):
    """Stream that a command wrote to."""

    STDOUT = "stdout"
    STDERR = "stderr"


class ExecChunk(NamedTuple):
    """A piece of what a command wrote, cut anywhere."""

    channel: Channel
    data: bytes


class ExecSession(Stream, Protocol):
    """A command that runs in a container.

    Iterating gives what it writes until it ends; then, and only then,
    `exit_code` is known. A connection that breaks before that raises
    `StreamLost`, never looks like an end.
    """

    def __iter__(self) -> Iterator[ExecChunk]: ...

    def write_stdin(self, data: bytes) -> None: ...

    def close_stdin(self) -> None: ...

    @property
    def exit_code(self) -> int | None: ...


class LogOptions(NamedTuple):
    """Part of a container's log that is wanted. An empty container means the only one."""

    container: str = ""
    follow: bool = False
    previous: bool = False
    since_seconds: int | None = None
    since_time: str = ""
    tail_lines: int | None = None
    limit_bytes: int | None = None
    timestamps: bool = False


class PodAccess(Protocol):
    """Access to pods that run: the part of a cluster that a kubelet answers for."""

    def read_log(self, name: str, *, namespace: str, options: LogOptions) -> LogStream: ...

    def exec(
        self, name: str, command: Sequence[str], *, namespace: str, container: str, has_stdin: bool
    ) -> ExecSession: ...


class Cluster(Protocol):
    """A Kubernetes API server, as far as this project needs one.

    Where a call takes a whole object, its `apiVersion` and `kind` say which
    resource is meant. A namespaced object that names no namespace lands in
    `default_namespace`; an empty `namespace` in `list` and `watch` means all.
    """

    @property
    def runs_pods(self) -> bool:
        """Say whether a pod that is created here will ever run."""

    @property
    def default_namespace(self) -> str:
        """Say where objects land that name no namespace."""

    def acting_as(self, user: str) -> Cluster:
        """Return this cluster as another user may use it, by impersonation.

        Needs the right to impersonate that user. The embedded cluster knows no users and
        returns itself.
        """

    def resource_for(self, api_version: str, kind: str) -> ResourceKind:
        """Say which resource holds objects of a kind; `NoMatch` if the cluster knows none."""

    def describe(self, resource: GroupVersionResource) -> ResourceKind:
        """Say what the cluster knows about a resource; `NoMatch` if it knows none."""

    def schema_of(self, api_version: str, kind: str) -> Mapping[str, Any] | None:
        """Give the OpenAPI schema of a kind, with nothing in it that refers elsewhere.

        None if the cluster gives out none: the embedded one has those of definitions
        alone. It is shared, unlike objects: nobody may change it.
        """

    def create(self, obj: Mapping[str, Any], *, field_manager: str = "") -> KubeObject:
        """Make a new object, and give it back as the cluster keeps it."""

    def get(
        self,
        resource: GroupVersionResource,
        name: str,
        *,
        namespace: str = "",
        subresource: str = "",
    ) -> KubeObject:
        """Read one object, or its `scale`."""

    def list(
        self,
        resource: GroupVersionResource,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 0,
        continue_token: str = "",
    ) -> ObjectList:
        """Read every object that the selectors let through, in order of namespace and name."""

    def replace(
        self,
        obj: Mapping[str, Any],
        *,
        subresource: str = "",
        field_manager: str = "",
        dry_run: bool = False,
    ) -> KubeObject:
        """Put a whole object in place of the one that is there.

        With a resourceVersion in it, only over that very version (`Conflict`).
        Without `subresource` the status stays as it was; with `status`,
        everything else does.
        """

    def replace_status(self, obj: Mapping[str, Any]) -> KubeObject:
        """Put the status of an object in place of the one that is there."""

    def patch(
        self,
        resource: GroupVersionResource,
        name: str,
        patch: Patch,
        *,
        namespace: str = "",
        patch_type: PatchType = PatchType.MERGE,
        subresource: str = "",
        field_manager: str = "",
    ) -> KubeObject:
        """Change parts of an object without having read it."""

    def apply(
        self,
        obj: Mapping[str, Any],
        *,
        field_manager: str,
        force: bool = False,
        subresource: str = "",
    ) -> KubeObject:
        """Say which fields an object shall have on behalf of a field manager.

        Makes the object if need be, removes what the manager applied before and
        leaves out now, and raises `ApplyConflict` for fields of other managers
        unless forced.
        """

    def delete(
        self,
        resource: GroupVersionResource,
        name: str,
        *,
        namespace: str = "",
        grace_period_seconds: int | None = None,
        propagation: Propagation | None = None,
        uid: str = "",
        resource_version: str = "",
    ) -> KubeObject:
        """Ask for the end of an object, and give back its last state.

        It may outlive the call: while it has finalizers, or a pod its grace
        period, it stays with a deletionTimestamp. `uid` and `resource_version`
        are preconditions (`Conflict`).
        """

    def watch(
        self,
        resource: GroupVersionResource,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str = "",
        timeout_seconds: float | None = None,
        bookmarks: bool = False,
    ) -> Watch:
        """Stream every change after `resource_version`.

        Without one the watch begins with an `ADDED` for everything that is
        there. An object that stops matching the selectors comes as `DELETED`.
        """

    def scale(
        self,
        resource: GroupVersionResource,
        name: str,
        replicas: int,
        *,
        namespace: str = "",
    ) -> KubeObject:
        """Set how many replicas a workload shall have, and give back its `Scale`."""

    def read_log(
        self, name: str, *, namespace: str, options: LogOptions | None = None
    ) -> LogStream:
        """Read the log of a pod's container; `BadRequest` while there is none to read."""

    def exec(
        self,
        name: str,
        command: Sequence[str],
        *,
        namespace: str,
        container: str = "",
        has_stdin: bool = False,
    ) -> ExecSession:
        """Start a command in a container that runs."""


def find(
    cluster: Cluster, resource: GroupVersionResource, name: str, namespace: str = ""
) -> KubeObject | None:
    """Read an object; None if there is none."""
    try:
        return cluster.get(resource, name, namespace=namespace)
    except NotFound:
        return None

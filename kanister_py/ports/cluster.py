"""Port to a Kubernetes cluster.

Objects are plain dicts in the form of their JSON. Returned objects belong to the caller, who may
change them; arguments are never kept or changed. All methods are thread-safe. Failures are the
`ApiError`s of the core, with Kubernetes' own reasons.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple, Protocol, Self, TypeAlias

from kanister_py.core.errors import NotFound
from kanister_py.core.kube.resources import GroupVersionResource, ResourceKind

KubeObject: TypeAlias = dict[str, Any]
"""A Kubernetes object: `{"apiVersion": …, "kind": …, "metadata": {…}, …}`."""

Patch: TypeAlias = Mapping[str, Any] | Sequence[Mapping[str, Any]]
"""A merge patch or strategic merge patch is a mapping, a JSON patch a list of operations."""


class PatchType(StrEnum):
    """Format of a patch; the value is its media type."""

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
    """Deletion propagation: what happens to the dependents of a deleted object."""

    BACKGROUND = "Background"
    FOREGROUND = "Foreground"
    ORPHAN = "Orphan"


class WatchEvent(NamedTuple):
    """One change, in the order in which the cluster made them.

    The object of a bookmark contains only its kind and resourceVersion; the stream is complete up
    to that version.
    """

    type: EventType
    object: KubeObject


class ObjectList:
    """Objects returned by a list call, and the resourceVersion of the list.

    A page has a `continue_token` unless it is the last one.
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
    """A stream that its owner must close. Used as a context manager, it is closed at the end."""

    def close(self) -> None:
        """End the stream, and unblock a reader in another thread."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class Watch(Stream, Protocol):
    """A stream of events that its owner must close.

    Iterating blocks until the next event, and ends when the timeout of the watch is over or any
    thread closes it. Raises `Expired` if the cluster no longer keeps the history from this point
    on.
    """

    def __iter__(self) -> Iterator[WatchEvent]: ...

    def __next__(self) -> WatchEvent: ...


class LogStream(Stream, Protocol):
    """Log of a container in chunks of arbitrary size, which may split lines."""

    def __iter__(self) -> Iterator[bytes]: ...


class Channel(StrEnum):
    """Output stream of a command."""

    STDOUT = "stdout"
    STDERR = "stderr"


class ExecChunk(NamedTuple):
    """A chunk of a command's output, which may split lines."""

    channel: Channel
    data: bytes


class ExecSession(Stream, Protocol):
    """A command that runs in a container.

    Iterating yields its output until it ends. `exit_code` is available only after that. A broken
    connection raises `StreamLost` instead of ending the iteration.
    """

    def __iter__(self) -> Iterator[ExecChunk]: ...

    def write_stdin(self, data: bytes) -> None: ...

    def close_stdin(self) -> None: ...

    @property
    def exit_code(self) -> int | None: ...


class LogOptions(NamedTuple):
    """Selected part of a container's log. An empty container name means the only container."""

    container: str = ""
    follow: bool = False
    previous: bool = False
    since_seconds: int | None = None
    since_time: str = ""
    tail_lines: int | None = None
    limit_bytes: int | None = None
    timestamps: bool = False


class PodAccess(Protocol):
    """Access to running pods: the part of a cluster that kubelets serve."""

    def read_log(self, name: str, *, namespace: str, options: LogOptions) -> LogStream: ...

    def exec(
        self, name: str, command: Sequence[str], *, namespace: str, container: str, has_stdin: bool
    ) -> ExecSession: ...


class Cluster(Protocol):
    """A Kubernetes API server.

    If a method takes an object, its `apiVersion` and `kind` determine the resource. A namespaced
    object without a namespace is created in `default_namespace`; an empty `namespace` in `list` and
    `watch` means all namespaces.
    """

    @property
    def runs_pods(self) -> bool:
        """Return False if pods are only recorded and never run."""

    @property
    def default_namespace(self) -> str:
        """Return the namespace for objects that do not name one."""

    def acting_as(self, user: str) -> Cluster:
        """Return this cluster as another user may use it, by impersonation.

        Needs the right to impersonate that user. The embedded cluster knows no users and
        returns itself.
        """

    def resource_for(self, api_version: str, kind: str) -> ResourceKind:
        """Return the resource of a kind; `NoMatch` if the cluster does not serve it."""

    def describe(self, resource: GroupVersionResource) -> ResourceKind:
        """Return the discovery data of a resource; `NoMatch` if the cluster does not serve it."""

    def schema_of(self, api_version: str, kind: str) -> Mapping[str, Any] | None:
        """Return the OpenAPI schema of a kind, with all references resolved.

        None if the cluster does not publish one: the embedded cluster has only the schemas of
        CustomResourceDefinitions. The result is shared and must not be changed.
        """

    def create(self, obj: Mapping[str, Any], *, field_manager: str = "") -> KubeObject:
        """Create an object, and return it as stored."""

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
        """List the objects that match the selectors, ordered by namespace and name."""

    def replace(
        self,
        obj: Mapping[str, Any],
        *,
        subresource: str = "",
        field_manager: str = "",
        dry_run: bool = False,
    ) -> KubeObject:
        """Replace an object.

        If the object has a resourceVersion, only that version is replaced (`Conflict` otherwise).
        Without `subresource` the status is not changed; with `status`, only the status is.
        """

    def replace_status(self, obj: Mapping[str, Any]) -> KubeObject:
        """Replace the status of an object."""

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
        """Patch an object."""

    def apply(
        self,
        obj: Mapping[str, Any],
        *,
        field_manager: str,
        force: bool = False,
        subresource: str = "",
    ) -> KubeObject:
        """Apply fields of an object on behalf of a field manager (server-side apply).

        Creates the object if it does not exist, and removes fields that the manager applied earlier
        and omits now. Raises `ApplyConflict` for fields of other managers unless `force` is set.
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
        """Delete an object, and return its last state.

        The object may still exist after the call: while it has finalizers, or during the grace
        period of a pod, it remains with a deletionTimestamp. `uid` and `resource_version` are
        preconditions (`Conflict`).
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
        """Stream all changes after `resource_version`.

        Without a version, the watch starts with an `ADDED` event for every existing object. An
        object that no longer matches the selectors is reported as `DELETED`.
        """

    def scale(
        self,
        resource: GroupVersionResource,
        name: str,
        replicas: int,
        *,
        namespace: str = "",
    ) -> KubeObject:
        """Set the number of replicas of a workload, and return its `Scale`."""

    def read_log(
        self, name: str, *, namespace: str, options: LogOptions | None = None
    ) -> LogStream:
        """Read the log of a container; `BadRequest` if there is none yet."""

    def exec(
        self,
        name: str,
        command: Sequence[str],
        *,
        namespace: str,
        container: str = "",
        has_stdin: bool = False,
    ) -> ExecSession:
        """Start a command in a running container."""


def find(
    cluster: Cluster, resource: GroupVersionResource, name: str, namespace: str = ""
) -> KubeObject | None:
    """Read an object. Returns None if it does not exist."""
    try:
        return cluster.get(resource, name, namespace=namespace)
    except NotFound:
        return None

"""A Kubernetes cluster behind an API server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, Final, Self

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.adapters.cluster_kube.answers import Asked
from kanister_py.adapters.cluster_kube.connection import (
    ClusterChoice,
    Connection,
    ImpersonatingConnection,
)
from kanister_py.adapters.cluster_kube.discovery import Addresses, Discovery
from kanister_py.adapters.cluster_kube.logs import KubeLogStream
from kanister_py.adapters.cluster_kube.requests import Request, Requests, Timing
from kanister_py.adapters.cluster_kube.schemas import Schemas
from kanister_py.adapters.cluster_kube.sessions import KubeExecSession, open_session
from kanister_py.adapters.cluster_kube.watches import KubeWatch, Watched
from kanister_py.core.errors import Cause, Expired, Invalid
from kanister_py.core.kube.parts import metadata_of
from kanister_py.core.kube.resources import PODS, GroupVersionResource, ResourceKind
from kanister_py.ports.clock import Clock
from kanister_py.ports.cluster import (
    KubeObject,
    LogOptions,
    LogStream,
    ObjectList,
    Patch,
    PatchType,
    Propagation,
)

FIELD_MANAGER: Final = "kanister-py"
_APPLY: Final = "application/apply-patch+yaml"
_PAGE: Final = 500
# Sockets kept for the next request; more are opened when they are needed.
_POOL_SIZE: Final = 64


class KubeCluster:
    """The cluster port over HTTP. Opening one asks nothing of the cluster yet."""

    def __init__(
        self,
        choice: ClusterChoice | None = None,
        *,
        clock: Clock | None = None,
        timing: Timing | None = None,
        pool_size: int = _POOL_SIZE,
        field_manager: str = FIELD_MANAGER,
    ) -> None:
        clock = clock or SystemClock()
        self._connection = Connection(choice or ClusterChoice(), clock, pool_size)
        self._requests = Requests(self._connection, clock, timing or Timing())
        self._discovery = Discovery(self._requests)
        self._addresses = Addresses(self._discovery, self._connection.default_namespace)
        self._schemas = Schemas(self._requests)
        self._field_manager = field_manager

    def close(self) -> None:
        """Let go of every connection; a caller that waits to ask again fails at once."""
        self._requests.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # What it is

    @property
    def runs_pods(self) -> bool:
        return True

    @property
    def default_namespace(self) -> str:
        return self._connection.default_namespace

    @property
    def server(self) -> str:
        """Say under which address the API server is reached."""
        return self._connection.server

    def acting_as(self, user: str) -> KubeCluster:
        """Return this cluster as another user may use it. Closing it closes nothing."""
        connection = ImpersonatingConnection(self._connection, user)
        timing = self._requests.timing
        # The server has answered before: a failure is no sign of a wrong address.
        timing = timing._replace(first_patience=timing.patience)
        acting = copy(self)
        acting._requests = Requests(connection, self._requests.clock, timing)  # noqa: SLF001 # same class
        return acting

    def resource_for(self, api_version: str, kind: str) -> ResourceKind:
        return self._discovery.of_kind(api_version, kind)

    def describe(self, resource: GroupVersionResource) -> ResourceKind:
        return self._discovery.of_resource(resource)

    def schema_of(self, api_version: str, kind: str) -> Mapping[str, Any] | None:
        return self._schemas.of_kind(api_version, kind)

    # Reading

    def get(
        self,
        resource: GroupVersionResource,
        name: str,
        *,
        namespace: str = "",
        subresource: str = "",
    ) -> KubeObject:
        path = self._addresses.path(resource, namespace, name, subresource)
        subject = Asked(resource.group_resource, name, subresource)
        return self._requests.json(Request("GET", path, subject, is_repeatable=True))

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
        watched = self._watched(resource, namespace, label_selector, field_selector)
        if limit or continue_token:
            return _page(self._requests, watched, limit, continue_token)
        try:
            objects = _all_pages(self._requests, watched)
        except Expired:
            # The history went on under our hands: all in one piece then.
            objects = _page(self._requests, watched, 0, "")
        if not namespace and watched.kind.is_namespaced:
            objects.items.sort(key=_place_of)
        return objects

    def _watched(
        self, resource: GroupVersionResource, namespace: str, labels: str, fields: str
    ) -> Watched:
        kind = self._discovery.addressing(resource)
        return Watched(self._addresses.collection(kind, namespace), kind, labels, fields)

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
    ) -> KubeWatch:
        watched = self._watched(resource, namespace, label_selector, field_selector)
        return KubeWatch(
            self._requests,
            watched,
            lambda: self.list(
                resource,
                namespace=namespace,
                label_selector=label_selector,
                field_selector=field_selector,
            ),
            resource_version=resource_version,
            timeout_seconds=timeout_seconds,
            bookmarks=bookmarks,
        )

    # Writing

    def create(self, obj: Mapping[str, Any], *, field_manager: str = "") -> KubeObject:
        kind, metadata = self._addresses.kind_of(obj)
        path = self._addresses.collection(
            kind, self._addresses.namespace_of(kind, metadata.get("namespace") or "")
        )
        subject = Asked(kind.gvr.group_resource, str(metadata.get("name") or ""))
        return self._write(Request("POST", path, subject, body=obj), field_manager)

    def replace(
        self,
        obj: Mapping[str, Any],
        *,
        subresource: str = "",
        field_manager: str = "",
        dry_run: bool = False,
    ) -> KubeObject:
        kind, metadata = self._addresses.kind_of(obj)
        request = _request_for(self._addresses, "PUT", kind, metadata, subresource)
        query = [("dryRun", "All")] if dry_run else []
        return self._write(
            request._replace(query=query, body=obj, is_repeatable=True), field_manager
        )

    def replace_status(self, obj: Mapping[str, Any]) -> KubeObject:
        return self.replace(obj, subresource="status")

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
        request = Request(
            "PATCH",
            self._addresses.path(resource, namespace, name, subresource),
            Asked(resource.group_resource, name, subresource),
            body=patch,
            content_type=str(patch_type),
            # Done twice it does what it does once; a list of operations may append or test
            # what it has changed itself.
            is_repeatable=isinstance(patch, Mapping),
        )
        return self._write(request, field_manager)

    def apply(
        self,
        obj: Mapping[str, Any],
        *,
        field_manager: str,
        force: bool = False,
        subresource: str = "",
    ) -> KubeObject:
        kind, metadata = self._addresses.kind_of(obj)
        if not metadata.get("name"):
            raise Invalid("name is required", causes=[Cause("metadata.name", "Required value")])
        request = _request_for(self._addresses, "PATCH", kind, metadata, subresource)
        request = request._replace(
            query=[("force", "true" if force else "false")],
            body=obj,
            content_type=_APPLY,
            is_repeatable=True,
        )
        return self._write(request, field_manager)

    def _write(self, request: Request, field_manager: str) -> KubeObject:
        if request.content_type != _APPLY:
            field_manager = field_manager or self._field_manager
        query = [("fieldManager", field_manager), *request.query]
        return self._requests.json(request._replace(query=query))

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
        options = _delete_options(grace_period_seconds, propagation)
        given = {"uid": uid, "resourceVersion": resource_version}
        preconditions = {key: value for key, value in given.items() if value}
        if preconditions:
            options["preconditions"] = preconditions
        answer = self._requests.json(
            Request(
                "DELETE",
                self._addresses.path(resource, namespace, name),
                Asked(resource.group_resource, name),
                (),
                options,
                # Without a precondition the next object of that name could be hit.
                is_repeatable=bool(preconditions),
                is_gone_fine=True,
            )
        )
        if answer.get("kind") != "Status" and answer:
            return answer
        kind = self._discovery.of_resource(resource)
        place = self._addresses.namespace_of(kind, namespace)
        return _remains_of(kind, place, name, answer, uid)

    def scale(
        self,
        resource: GroupVersionResource,
        name: str,
        replicas: int,
        *,
        namespace: str = "",
    ) -> KubeObject:
        patch = {"spec": {"replicas": replicas}}
        return self.patch(resource, name, patch, namespace=namespace, subresource="scale")

    # Pods

    def read_log(
        self, name: str, *, namespace: str, options: LogOptions | None = None
    ) -> LogStream:
        return KubeLogStream(
            self._requests,
            self._addresses.path(PODS, namespace, name, "log"),
            Asked(PODS.resource, name, "log"),
            options or LogOptions(),
            lambda: self.get(PODS, name, namespace=namespace),
        )

    def exec(
        self,
        name: str,
        command: Sequence[str],
        *,
        namespace: str,
        container: str = "",
        has_stdin: bool = False,
    ) -> KubeExecSession:
        query = [("command", word) for word in command]
        query += [("stdout", "true"), ("stderr", "true")]
        if has_stdin:
            query.append(("stdin", "true"))
        if container:
            query.append(("container", container))
        path = self._addresses.path(PODS, namespace, name, "exec")
        return open_session(self._requests, path, Asked(PODS.resource, name, "exec"), query)


def _request_for(
    addresses: Addresses,
    method: str,
    kind: ResourceKind,
    metadata: Mapping[str, Any],
    subresource: str,
) -> Request:
    """Begin a request about the object that some metadata name."""
    name = str(metadata.get("name") or "")
    place = str(metadata.get("namespace") or "")
    path = addresses.path(kind.gvr, place, name, subresource)
    return Request(method, path, Asked(kind.gvr.group_resource, name, subresource))


def _delete_options(grace: int | None, propagation: Propagation | None) -> dict[str, Any]:
    options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if grace is not None:
        options["gracePeriodSeconds"] = grace
    if propagation is not None:
        options["propagationPolicy"] = str(propagation)
    return options


def _remains_of(
    kind: ResourceKind, namespace: str, name: str, answer: Mapping[str, Any], uid: str
) -> KubeObject:
    """Give what the cluster says of an object that is gone at once: which one it was."""
    deleted_uid = str((answer.get("details") or {}).get("uid") or uid)
    metadata: dict[str, Any] = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    if deleted_uid:
        metadata["uid"] = deleted_uid
    return {"apiVersion": kind.gvr.api_version, "kind": kind.kind, "metadata": metadata}


def _place_of(obj: KubeObject) -> tuple[str, str]:
    metadata = obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def _all_pages(requests: Requests, watched: Watched) -> ObjectList:
    page = _page(requests, watched, _PAGE, "")
    items, version = page.items, page.resource_version
    while page.continue_token:
        page = _page(requests, watched, _PAGE, page.continue_token)
        items += page.items
    return ObjectList(items, version)


def _page(requests: Requests, watched: Watched, limit: int, continue_token: str) -> ObjectList:
    query = watched.query()
    if limit:
        query.append(("limit", str(limit)))
    if continue_token:
        query.append(("continue", continue_token))
    subject = Asked(watched.kind.gvr.group_resource)
    answer = requests.json(Request("GET", watched.path, subject, query, is_repeatable=True))
    items = answer.get("items") or []
    api_version = watched.kind.gvr.api_version
    # A list of a kind names it once, for all; a list of custom kinds may be the first to.
    kind = str(answer.get("kind") or "").removesuffix("List") or watched.kind.kind
    for item in items:
        item.setdefault("apiVersion", api_version)
        item.setdefault("kind", kind)
    metadata = metadata_of(answer)
    return ObjectList(
        items, str(metadata.get("resourceVersion") or ""), str(metadata.get("continue") or "")
    )

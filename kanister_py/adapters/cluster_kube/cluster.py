"""Cluster port over the HTTP API of an API server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, Final, Self

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.adapters.cluster_kube.connection import (
    ClusterChoice,
    Connection,
    ImpersonatingConnection,
)
from kanister_py.adapters.cluster_kube.discovery import Addresses, Discovery
from kanister_py.adapters.cluster_kube.error_responses import Subject
from kanister_py.adapters.cluster_kube.logs import KubeLogStream
from kanister_py.adapters.cluster_kube.requests import Request, Requests, Timing
from kanister_py.adapters.cluster_kube.schemas import Schemas
from kanister_py.adapters.cluster_kube.sessions import KubeExecSession, open_session
from kanister_py.adapters.cluster_kube.watches import KubeWatch, WatchTarget
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
# Idle connections kept in the pool; more are opened when needed.
_POOL_SIZE: Final = 64


class KubeCluster:
    """Cluster port over HTTP. The constructor sends no request."""

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
        """Close all connections. Callers that wait for a retry fail immediately."""
        self._requests.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # Properties

    @property
    def runs_pods(self) -> bool:
        return True

    @property
    def default_namespace(self) -> str:
        return self._connection.default_namespace

    @property
    def server(self) -> str:
        """Return the URL of the API server."""
        return self._connection.server

    def acting_as(self, user: str) -> KubeCluster:
        """Return this cluster as another user. Closing the result closes nothing."""
        connection = ImpersonatingConnection(self._connection, user)
        timing = self._requests.timing
        # The server has responded before, so a failure does not indicate a wrong address.
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
        subject = Subject(resource.group_resource, name, subresource)
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
        target = self._watch_target(resource, namespace, label_selector, field_selector)
        if limit or continue_token:
            return _page(self._requests, target, limit, continue_token)
        try:
            objects = _all_pages(self._requests, target)
        except Expired:
            # The continue token expired between two pages, so list without pages.
            objects = _page(self._requests, target, 0, "")
        if not namespace and target.kind.is_namespaced:
            objects.items.sort(key=_place_of)
        return objects

    def _watch_target(
        self, resource: GroupVersionResource, namespace: str, labels: str, fields: str
    ) -> WatchTarget:
        kind = self._discovery.addressing(resource)
        return WatchTarget(self._addresses.collection(kind, namespace), kind, labels, fields)

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
        target = self._watch_target(resource, namespace, label_selector, field_selector)
        return KubeWatch(
            self._requests,
            target,
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
        subject = Subject(kind.gvr.group_resource, str(metadata.get("name") or ""))
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
            Subject(resource.group_resource, name, subresource),
            body=patch,
            content_type=str(patch_type),
            # Applying a merge patch twice has the same effect as once. A list of operations may
            # append an element twice, or test a value that it has changed itself.
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
        conditions = {"uid": uid, "resourceVersion": resource_version}
        preconditions = {key: value for key, value in conditions.items() if value}
        if preconditions:
            options["preconditions"] = preconditions
        answer = self._requests.json(
            Request(
                "DELETE",
                self._addresses.path(resource, namespace, name),
                Subject(resource.group_resource, name),
                (),
                options,
                # Without a precondition, a retry could delete a new object of the same name.
                is_repeatable=bool(preconditions),
                ignores_missing=True,
            )
        )
        if answer.get("kind") != "Status" and answer:
            return answer
        kind = self._discovery.of_resource(resource)
        place = self._addresses.namespace_of(kind, namespace)
        return _deleted_object(kind, place, name, answer, uid)

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
            Subject(PODS.resource, name, "log"),
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
        return open_session(self._requests, path, Subject(PODS.resource, name, "exec"), query)


def _request_for(
    addresses: Addresses,
    method: str,
    kind: ResourceKind,
    metadata: Mapping[str, Any],
    subresource: str,
) -> Request:
    """Create a request for the object that the metadata names."""
    name = str(metadata.get("name") or "")
    place = str(metadata.get("namespace") or "")
    path = addresses.path(kind.gvr, place, name, subresource)
    return Request(method, path, Subject(kind.gvr.group_resource, name, subresource))


def _delete_options(grace: int | None, propagation: Propagation | None) -> dict[str, Any]:
    options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if grace is not None:
        options["gracePeriodSeconds"] = grace
    if propagation is not None:
        options["propagationPolicy"] = str(propagation)
    return options


def _deleted_object(
    kind: ResourceKind, namespace: str, name: str, answer: Mapping[str, Any], uid: str
) -> KubeObject:
    """Return the cluster's description of an object that was deleted immediately."""
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


def _all_pages(requests: Requests, target: WatchTarget) -> ObjectList:
    page = _page(requests, target, _PAGE, "")
    items, version = page.items, page.resource_version
    while page.continue_token:
        page = _page(requests, target, _PAGE, page.continue_token)
        items += page.items
    return ObjectList(items, version)


def _page(requests: Requests, target: WatchTarget, limit: int, continue_token: str) -> ObjectList:
    query = target.query()
    if limit:
        query.append(("limit", str(limit)))
    if continue_token:
        query.append(("continue", continue_token))
    subject = Subject(target.kind.gvr.group_resource)
    answer = requests.json(Request("GET", target.path, subject, query, is_repeatable=True))
    items = answer.get("items") or []
    api_version = target.kind.gvr.api_version
    # A typed list names the kind only once, for all items; lists of custom kinds may do so too.
    kind = str(answer.get("kind") or "").removesuffix("List") or target.kind.kind
    for item in items:
        item.setdefault("apiVersion", api_version)
        item.setdefault("kind", kind)
    metadata = metadata_of(answer)
    return ObjectList(
        items, str(metadata.get("resourceVersion") or ""), str(metadata.get("continue") or "")
    )

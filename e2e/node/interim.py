"""As much of a Cluster as a node needs, until the adapter is there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Self, cast

from e2e.cluster.client import ApiClient, ApiFailed, ApiUnreachable
from kanister_py.core.errors import ClusterUnavailable, Conflict, Invalid, NotFound
from kanister_py.core.objects.resources import GroupVersionResource
from kanister_py.ports.cluster import Cluster, EventType, KubeObject, ObjectList, WatchEvent

_ERRORS: Mapping[int, Any] = {404: NotFound, 409: Conflict, 422: Invalid}


class _Watch:
    def __init__(self, events: Iterator[dict[str, Any]]) -> None:
        self._events = events

    def __iter__(self) -> Iterator[WatchEvent]:
        return self

    def __next__(self) -> WatchEvent:
        try:
            said = next(self._events)
        except ApiUnreachable as error:
            raise ClusterUnavailable(str(error)) from error
        if said["type"] == "ERROR":
            raise ClusterUnavailable(said["object"].get("message", ""))
        return WatchEvent(EventType(said["type"]), said["object"])

    def close(self) -> None:
        return

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        return


class InterimCluster:
    def __init__(self, client: ApiClient) -> None:
        self._client = client

    def _ask(self, method: str, path: str, body: Any = None, **words: Any) -> dict[str, Any]:
        try:
            return self._client.request(method, path, body, **words)
        except ApiUnreachable as error:
            raise ClusterUnavailable(str(error)) from error
        except ApiFailed as error:
            raise _ERRORS.get(error.status, ClusterUnavailable)(error.message) from error

    def _path(
        self, gvr: GroupVersionResource, namespace: str = "", name: str = "", sub: str = ""
    ) -> str:
        root = f"/apis/{gvr.api_version}" if gvr.group else f"/api/{gvr.version}"
        scope = f"/namespaces/{namespace}" if namespace else ""
        return root + scope + "/".join(["", gvr.resource, *filter(None, (name, sub))])

    def create(self, obj: KubeObject) -> KubeObject:
        metadata = obj["metadata"]
        plural = {"Binding": "bindings", "Node": "nodes"}[obj["kind"]]
        gvr = GroupVersionResource("", "v1", plural)
        return self._ask("POST", self._path(gvr, metadata.get("namespace", "")), obj)

    def get(self, gvr: GroupVersionResource, name: str, *, namespace: str = "") -> KubeObject:
        return self._ask("GET", self._path(gvr, namespace, name))

    def list(self, gvr: GroupVersionResource) -> ObjectList:
        said = self._ask("GET", self._path(gvr))
        return ObjectList(said["items"], said["metadata"]["resourceVersion"])

    def watch(self, gvr: GroupVersionResource, *, resource_version: str) -> _Watch:
        query = {"resourceVersion": resource_version, "timeoutSeconds": "2"}
        return _Watch(self._client.watch(self._path(gvr), **query))

    def replace_status(self, obj: KubeObject) -> KubeObject:
        gvr = GroupVersionResource("", "v1", "nodes")
        return self._ask("PUT", self._path(gvr, "", obj["metadata"]["name"], "status"), obj)

    def patch(
        self,
        gvr: GroupVersionResource,
        name: str,
        patch: Any,
        *,
        namespace: str = "",
        subresource: str = "",
    ) -> KubeObject:
        path = self._path(gvr, namespace, name, subresource)
        return self._ask("PATCH", path, patch, media_type="application/merge-patch+json")

    def delete(
        self,
        gvr: GroupVersionResource,
        name: str,
        *,
        namespace: str,
        grace_period_seconds: int,
        uid: str,
    ) -> KubeObject:
        body = {"gracePeriodSeconds": grace_period_seconds, "preconditions": {"uid": uid}}
        return self._ask("DELETE", self._path(gvr, namespace, name), body)


def interim(client: ApiClient) -> Cluster:
    return cast("Cluster", InterimCluster(client))

"""Addresses of the pods that run packages of functions, from EndpointSlices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kanister_py.core.kube.parts import labels_of
from kanister_py.core.revisions.kinds import ENDPOINT_SLICES
from kanister_py.core.revisions.runtime import GRPC_PORT
from kanister_py.executor.object_cache import ObjectCache
from kanister_py.executor.watch_cache import key_of
from kanister_py.ports.cluster import KubeObject

_SERVICE_NAME: Final = "kubernetes.io/service-name"


class FunctionEndpoints:
    """Ready addresses by the Service of a function's revision, in one namespace."""

    def __init__(self, cache: ObjectCache, namespace: str) -> None:
        self._cache = cache
        self._namespace = namespace
        self._addresses: dict[str, tuple[str, ...]] = {}

    def update(self, endpoint_slice: KubeObject) -> str:
        """Recompute the addresses of the Service of a slice.

        Returns the name of the Service, or an empty string if it is in another namespace.
        """
        name = str(labels_of(endpoint_slice).get(_SERVICE_NAME) or "")
        if key_of(endpoint_slice).namespace != self._namespace or not name:
            return ""
        addresses: set[str] = set()
        for obj in self._cache.list_cached(ENDPOINT_SLICES):
            is_same_service = labels_of(obj).get(_SERVICE_NAME) == name
            if is_same_service and key_of(obj).namespace == self._namespace:
                addresses.update(_ready_addresses(obj))
        if addresses:
            self._addresses[name] = tuple(sorted(addresses))
        else:
            self._addresses.pop(name, None)
        return name

    def addresses_of(self, service: str) -> Sequence[str]:
        """Return the addresses of the ready pods behind a Service."""
        return self._addresses.get(service, ())


def _ready_addresses(endpoint_slice: KubeObject) -> list[str]:
    """Return the addresses of ready endpoints, with the port of gRPC."""
    port = next(
        (
            port.get("port")
            for port in endpoint_slice.get("ports") or ()
            if port.get("name") in ("grpc", "", None)
        ),
        GRPC_PORT,
    )
    return [
        f"{address}:{port}"
        for endpoint in endpoint_slice.get("endpoints") or ()
        if (endpoint.get("conditions") or {}).get("ready") is not False
        for address in endpoint.get("addresses") or ()
    ]

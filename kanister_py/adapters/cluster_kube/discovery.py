"""API discovery: the resource and the path of a kind."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from kanister_py.adapters.cluster_kube.error_responses import Subject
from kanister_py.adapters.cluster_kube.requests import Request, Requests
from kanister_py.core.errors import BadRequest, NoMatch, NotFound, TransientError
from kanister_py.core.kube.parts import metadata_of
from kanister_py.core.kube.request_paths import (
    api_path,
    check_resource,
    collection_path,
    object_path,
)
from kanister_py.core.kube.resources import (
    BUILTIN_KINDS,
    WELL_KNOWN_CUSTOM_KINDS,
    GroupVersionResource,
    ResourceKind,
    group_version_of,
)

# Definitions may change without notice.
_FRESH_SECONDS: Final = 60.0

_BUILTIN: Final = {builtin.gvr: builtin for builtin in BUILTIN_KINDS}
_BUILTIN_KINDS: Final = {
    (builtin.gvr.api_version, builtin.kind): builtin for builtin in BUILTIN_KINDS
}
_CUSTOM: Final = {kind.gvr: kind for kind in WELL_KNOWN_CUSTOM_KINDS}


class _ServedKinds(NamedTuple):
    """Kinds of one group and version, and the expiry of this cache entry."""

    kinds: tuple[ResourceKind, ...]
    fresh_until: float


class Discovery:
    """Kinds that an API server serves, fetched per group and version when first needed.

    Built-in kinds need no request. If a kind is unknown, its group is fetched once more, because
    the definition may have been created a moment ago.
    """

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self._lock = threading.Lock()
        self._served: dict[str, _ServedKinds] = {}

    def of_kind(self, api_version: str, kind: str) -> ResourceKind:
        """Return the resource of a kind; `NoMatch` if the cluster does not serve it."""
        builtin = _BUILTIN_KINDS.get((api_version, kind))
        kind_info = builtin or self._find(api_version, lambda candidate: candidate.kind == kind)
        if kind_info is None:
            raise NoMatch(f'no matches for kind "{kind}" in version "{api_version}"')
        return kind_info

    def of_resource(self, resource: GroupVersionResource) -> ResourceKind:
        """Return the discovery data of a resource; `NoMatch` if the cluster does not serve it."""
        check_resource(resource)
        builtin = _BUILTIN.get(resource)
        kind_info = builtin or self._find(
            resource.api_version, lambda candidate: candidate.gvr == resource
        )
        if kind_info is None:
            raise NoMatch(f'no matches for resource "{resource}"', resource=resource.group_resource)
        return kind_info

    def addressing(self, resource: GroupVersionResource) -> ResourceKind:
        """Return enough about a resource to address it, without a request if possible."""
        return _BUILTIN.get(resource) or _CUSTOM.get(resource) or self.of_resource(resource)

    def _find(
        self, api_version: str, matches: Callable[[ResourceKind], bool]
    ) -> ResourceKind | None:
        for is_fresh in (False, True):
            match = next(filter(matches, self._kinds(api_version, is_fresh=is_fresh)), None)
            if match is not None:
                return match
        return None

    def _kinds(self, api_version: str, *, is_fresh: bool) -> tuple[ResourceKind, ...]:
        now = self._requests.clock.monotonic()
        with self._lock:
            served = self._served.get(api_version)
        if served is not None and not is_fresh and now < served.fresh_until:
            return served.kinds
        if served is None and is_fresh:
            # It was fetched a moment ago, and there was nothing.
            return ()
        try:
            kinds = self._ask(api_version)
        except NotFound:
            with self._lock:
                self._served.pop(api_version, None)
            return ()
        except TransientError:
            if served is None or is_fresh:
                raise
            # If the server does not respond, an outdated result is used.
            return served.kinds
        with self._lock:
            self._served[api_version] = _ServedKinds(kinds, now + _FRESH_SECONDS)
        return kinds

    def _ask(self, api_version: str) -> tuple[ResourceKind, ...]:
        path = f"/{api_path(api_version)}"
        subject = Subject(api_version)
        listed = self._requests.json(
            Request("GET", path, subject, is_repeatable=True, required_key="resources")
        )
        return _kinds_in(api_version, listed.get("resources") or ())


def _kinds_in(api_version: str, rows: Any) -> tuple[ResourceKind, ...]:
    names = {str(row["name"]) for row in rows}
    group, version = group_version_of(api_version)
    return tuple(
        ResourceKind(
            GroupVersionResource(group, version, str(row["name"])),
            str(row["kind"]),
            is_namespaced=bool(row.get("namespaced")),
            has_status=f"{row['name']}/status" in names,
            has_scale=f"{row['name']}/scale" in names,
            short_names=tuple(row.get("shortNames") or ()),
            is_builtin=False,
        )
        for row in rows
        if "/" not in row["name"]
    )


class Addresses:
    """Paths of kinds and objects. Objects without a namespace are in the default one."""

    def __init__(self, discovery: Discovery, default_namespace: str) -> None:
        self._discovery = discovery
        self._default_namespace = default_namespace

    def kind_of(self, obj: Mapping[str, Any]) -> tuple[ResourceKind, Mapping[str, Any]]:
        """Return the kind and the metadata of an object."""
        api_version, kind = obj.get("apiVersion"), obj.get("kind")
        if not isinstance(kind, str) or not kind:
            raise BadRequest("Object 'Kind' is missing")
        if not isinstance(api_version, str) or not api_version:
            raise BadRequest("Object 'apiVersion' is missing")
        metadata = metadata_of(obj)
        if not isinstance(metadata, Mapping):
            raise BadRequest(f"metadata of a {kind} must be an object")
        return self._discovery.of_kind(api_version, kind), metadata

    def namespace_of(self, kind: ResourceKind, namespace: str) -> str:
        return (namespace or self._default_namespace) if kind.is_namespaced else ""

    def collection(self, kind: ResourceKind, namespace: str) -> str:
        """Build the path of a collection, in one namespace or in all."""
        return collection_path(kind.gvr, namespace if kind.is_namespaced else "")

    def path(
        self, resource: GroupVersionResource, namespace: str, name: str, subresource: str = ""
    ) -> str:
        """Build the path of an object or its subresource."""
        if not name:
            raise BadRequest(f"name is required to address one of {resource.group_resource}")
        kind = self._discovery.addressing(resource)
        return object_path(resource, self.namespace_of(kind, namespace), name, subresource)

"""Addresses: the paths under which an API server has its objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from kanister_py.adapters.cluster_kube.discovery import Discovery
from kanister_py.core.errors import BadRequest
from kanister_py.core.objects.parts import metadata_of
from kanister_py.core.objects.resources import GroupVersionResource, ResourceKind


class Addresses:
    """Knows where kinds and objects are; what names no namespace is in the default one."""

    def __init__(self, discovery: Discovery, default_namespace: str) -> None:
        self._discovery = discovery
        self._default_namespace = default_namespace

    def kind_of(self, obj: Mapping[str, Any]) -> tuple[ResourceKind, Mapping[str, Any]]:
        """Say of which kind an object is, and give its metadata."""
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
        """Give the address of all objects of a kind, in one namespace or in all."""
        resource = kind.gvr
        path = f"/apis/{resource.group}" if resource.group else "/api"
        path = f"{path}/{resource.version}"
        if namespace and kind.is_namespaced:
            path = f"{path}/namespaces/{quote(namespace, safe='')}"
        return f"{path}/{resource.resource}"

    def path(
        self, resource: GroupVersionResource, namespace: str, name: str, subresource: str = ""
    ) -> str:
        """Give the address of one object, or of a part of it."""
        if not name:
            raise BadRequest(f"a name is needed to address one of {resource.group_resource}")
        kind = self._discovery.addressing(resource)
        collection = self.collection(kind, self.namespace_of(kind, namespace))
        path = f"{collection}/{quote(name, safe='')}"
        return f"{path}/{subresource}" if subresource else path

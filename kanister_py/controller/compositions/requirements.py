"""Required resources of pipelines, read from the caches of the controller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kanister_py.core.compositions.messages import Data
from kanister_py.core.compositions.requirements import required_labels, text_of_selector
from kanister_py.core.errors import NoMatch, UsageError
from kanister_py.core.kube.parts import spec_of
from kanister_py.core.kube.resources import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    SECRETS,
    group_version_of,
)
from kanister_py.executor.object_cache import ObjectCache
from kanister_py.executor.watch_cache import ObjectKey
from kanister_py.ports.cluster import Cluster, find
from kanister_py.ports.requirement_source import RequirementSource


class ClusterSource:
    """Source of objects and schemas from watch caches; Secrets are read from the API server.

    Schemas of custom kinds come from their definitions, which have them before the API server
    publishes them. All other schemas come from the API server.
    """

    def __init__(
        self, cluster: Cluster, cache: ObjectCache, *, gives_resources: bool = True
    ) -> None:
        self._cluster = cluster
        self._cache = cache
        self._gives_resources = gives_resources

    def fetch_resources(self, selector: Mapping[str, Any]) -> Sequence[Data]:
        api_version, kind = str(selector.get("apiVersion")), str(selector.get("kind"))
        if not self._gives_resources:
            raise UsageError(
                f"A function asks for {kind} of {api_version}, and this controller provides no "
                "extra resources; start it without --disable-extra-resources",
                reason="ExtraResourcesDisabled",
            )
        try:
            resource = self._cache.resource_of(api_version, kind)
        except NoMatch:
            return ()
        is_namespaced = self._cluster.describe(resource).is_namespaced
        # Some functions set a namespace for cluster-scoped objects, too.
        namespace = str(selector.get("namespace") or "") if is_namespaced else ""
        if "matchName" in selector:
            obj = self._cache.get(resource, ObjectKey(namespace, str(selector["matchName"])))
            return () if obj is None else (obj,)
        labels = required_labels(selector)
        return self._cache.list(resource, namespace, labels)

    def fetch_schema(self, api_version: str, kind: str) -> Data | None:
        try:
            resource = self._cluster.resource_for(api_version, kind)
        except NoMatch:
            return None
        if not resource.is_builtin:
            group, version = group_version_of(api_version)
            name = f"{resource.gvr.resource}.{group}"
            definition = self._cache.get(CUSTOM_RESOURCE_DEFINITIONS, ObjectKey("", name))
            for served_version in spec_of(definition or {}).get("versions") or ():
                if served_version.get("name") == version:
                    schema: Data | None = (served_version.get("schema") or {}).get(
                        "openAPIV3Schema"
                    )
                    return schema
        published = self._cluster.schema_of(api_version, kind)
        return None if published is None else dict(published)

    def fetch_config_map(self, namespace: str, name: str) -> Data | None:
        return self._cache.get(CONFIG_MAPS, ObjectKey(namespace, name))

    def fetch_secret(self, namespace: str, name: str) -> Mapping[str, str] | None:
        secret = find(self._cluster, SECRETS, name, namespace)
        return None if secret is None else secret.get("data") or {}


class OwnNamespaceSource:
    """Source that refuses namespaced composite resources the resources of other namespaces.

    Schemas contain no data, and the Composition names credentials and inputs, so these are not
    restricted.
    """

    def __init__(self, source: RequirementSource, cluster: Cluster, namespace: str) -> None:
        self._source = source
        self._cluster = cluster
        self._namespace = namespace
        self.fetch_schema = source.fetch_schema
        self.fetch_config_map = source.fetch_config_map
        self.fetch_secret = source.fetch_secret

    def fetch_resources(self, selector: Mapping[str, Any]) -> Sequence[Data]:
        api_version, kind = str(selector.get("apiVersion")), str(selector.get("kind"))
        try:
            is_namespaced = self._cluster.resource_for(api_version, kind).is_namespaced
        except NoMatch:
            return ()
        if not is_namespaced or selector.get("namespace") != self._namespace:
            raise UsageError(
                f"A function asks for {text_of_selector(selector)}, and this controller provides "
                f"composite resources of namespace {self._namespace} resources of that namespace "
                "only; name it in the requirement, or start the controller without "
                "--restrict-extra-resources",
                reason="RequirementRefused",
            )
        return self._source.fetch_resources(selector)

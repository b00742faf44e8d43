"""Requirements of pipeline steps, fetched from manifests instead of a cluster."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kanister_py.core.compositions.masking import is_secret
from kanister_py.core.compositions.messages import Data
from kanister_py.core.compositions.requirements import required_labels
from kanister_py.core.kube.openapi import schema_in
from kanister_py.core.kube.parts import labels_of, metadata_of


class ManifestSource:
    """Source of objects, OpenAPI schemas and Secrets from manifests. Records all requests.

    Of objects with the same kind and name, the last one counts.
    """

    def __init__(
        self,
        objects: Iterable[Data] = (),
        schemas: Iterable[Mapping[str, Any]] = (),
        secrets: Iterable[Data] = (),
    ) -> None:
        self._objects = list(_once(objects))
        self._schemas = list(schemas)
        own_secrets = [obj for obj in self._objects if is_secret(obj)]
        self._secrets = {_place(secret): secret for secret in (*own_secrets, *secrets)}
        self.requested_resources: list[Data] = []
        self.requested_schemas: list[Data] = []

    def fetch_resources(self, selector: Mapping[str, Any]) -> Sequence[Data]:
        self.requested_resources.append(dict(selector))
        selected = [obj for obj in self._objects if _is_selected(obj, selector)]
        return sorted(selected, key=lambda obj: "/".join(_place(obj)))

    def fetch_schema(self, api_version: str, kind: str) -> Data | None:
        self.requested_schemas.append({"apiVersion": api_version, "kind": kind})
        return schema_in(self._schemas, api_version, kind)

    def fetch_config_map(self, namespace: str, name: str) -> Data | None:
        sought = {"apiVersion": "v1", "kind": "ConfigMap", "matchName": name}
        config_maps = self.fetch_resources({**sought, "namespace": namespace})
        return config_maps[0] if config_maps else None

    def fetch_secret(self, namespace: str, name: str) -> Mapping[str, str] | None:
        secret = self._secrets.get((namespace, name))
        if secret is None:
            return None
        plain = secret.get("stringData") or {}
        return {
            **(secret.get("data") or {}),
            **{key: b64encode(str(text).encode()).decode() for key, text in plain.items()},
        }


def _place(obj: Mapping[str, Any]) -> tuple[str, str]:
    metadata = metadata_of(obj)
    return metadata.get("namespace") or "", metadata.get("name") or ""


def _once(objects: Iterable[Data]) -> Iterable[Data]:
    """Return each object once. The last one wins if two have the same kind and name."""
    return {(obj.get("apiVersion"), obj.get("kind"), *_place(obj)): obj for obj in objects}.values()


def _is_selected(obj: Mapping[str, Any], selector: Mapping[str, Any]) -> bool:
    for key in ("apiVersion", "kind"):
        if obj.get(key) != selector.get(key):
            return False
    namespace, name = _place(obj)
    if "matchName" in selector:
        return name == selector["matchName"] and namespace == (selector.get("namespace") or "")
    if selector.get("namespace") and namespace != selector["namespace"]:
        return False
    labels = labels_of(obj)
    required = required_labels(selector)
    return all(labels.get(key) == value for key, value in required.items())

"""Requirements of steps out of files: objects, schemas and Secrets read before."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kanister_py.core.compositions.masking import is_secret
from kanister_py.core.compositions.messages import Data
from kanister_py.core.compositions.requirements import required_labels
from kanister_py.core.kube.openapi import schema_of_kind
from kanister_py.core.kube.parts import labels_of, metadata_of


class ManifestSource:
    """Objects, OpenAPI documents and Secrets, all read before. Keeps account of what was asked."""

    def __init__(
        self,
        objects: Iterable[Data] = (),
        schemas: Iterable[Mapping[str, Any]] = (),
        secrets: Iterable[Data] = (),
    ) -> None:
        self._objects = list(_once(objects))
        self._schemas = list(schemas)
        known = [each for each in self._objects if is_secret(each)]
        self._secrets = {_place(each): each for each in (*known, *secrets)}
        self.asked_resources: list[Data] = []
        self.asked_schemas: list[Data] = []

    def fetch_resources(self, selector: Mapping[str, Any]) -> Sequence[Data]:
        self.asked_resources.append(dict(selector))
        found = [each for each in self._objects if _is_selected(each, selector)]
        return sorted(found, key=lambda each: "/".join(_place(each)))

    def fetch_schema(self, api_version: str, kind: str) -> Data | None:
        self.asked_schemas.append({"apiVersion": api_version, "kind": kind})
        found = (schema_of_kind(each, api_version, kind) for each in self._schemas)
        return next((each for each in found if each is not None), None)

    def fetch_config_map(self, namespace: str, name: str) -> Data | None:
        sought = {"apiVersion": "v1", "kind": "ConfigMap", "matchName": name}
        found = self.fetch_resources({**sought, "namespace": namespace})
        return found[0] if found else None

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
    """Give each object once; of two descriptions of one, the first."""
    seen = set()
    for obj in objects:
        identity = (obj.get("apiVersion"), obj.get("kind"), *_place(obj))
        if identity not in seen:
            seen.add(identity)
            yield obj


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
    wanted = required_labels(selector)
    return all(labels.get(key) == value for key, value in wanted.items())

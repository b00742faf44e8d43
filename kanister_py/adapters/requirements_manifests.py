"""Finds what steps ask for among objects that lie in files."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kanister_py.core.compositions.messages import Data
from kanister_py.core.objects.resources import group_version_of

_GVK = "x-kubernetes-group-version-kind"


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
        self._secrets = {_place(each): each for each in secrets}
        self.asked_resources: list[Data] = []
        self.asked_schemas: list[Data] = []

    def fetch_resources(self, selector: Mapping[str, Any]) -> Sequence[Data]:
        self.asked_resources.append(dict(selector))
        found = [each for each in self._objects if _is_selected(each, selector)]
        return sorted(found, key=lambda each: "/".join(_place(each)))

    def fetch_schema(self, api_version: str, kind: str) -> Data | None:
        self.asked_schemas.append({"apiVersion": api_version, "kind": kind})
        group, version = group_version_of(api_version)
        wanted = {"group": group, "version": version, "kind": kind}
        for document in self._schemas:
            schemas = (document.get("components") or {}).get("schemas") or {}
            for name in sorted(schemas):
                if schemas[name].get(_GVK) == [wanted]:
                    inlined: Data = _inlined(schemas[name], schemas, ())
                    return inlined
        return None

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
    metadata = obj.get("metadata") or {}
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
    labels = (obj.get("metadata") or {}).get("labels") or {}
    wanted = (selector.get("matchLabels") or {}).get("labels") or {}
    return all(labels.get(key) == value for key, value in wanted.items())


def _inlined(value: Any, schemas: Mapping[str, Any], above: tuple[str, ...]) -> Any:
    """Put what a schema refers to in its place; where it refers to itself, nothing is said."""
    if isinstance(value, list):
        return [_inlined(each, schemas, above) for each in value]
    if not isinstance(value, dict):
        return value
    reference = value.get("$ref")
    if isinstance(reference, str):
        name = reference.rpartition("/")[2]
        if name in above or name not in schemas:
            return {}
        beside = {key: each for key, each in value.items() if key != "$ref"}
        inside = _inlined(schemas[name], schemas, (*above, name))
        return {**inside, **_inlined(beside, schemas, above)}
    return {key: _inlined(each, schemas, above) for key, each in value.items()}

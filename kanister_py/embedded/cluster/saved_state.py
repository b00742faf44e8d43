"""State of a cluster in memory: loading manifests, saving and restoring."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from kanister_py.core.errors import NotFound, UsageError
from kanister_py.core.kube.copies import copy_json
from kanister_py.core.kube.managed_fields import Manager
from kanister_py.core.kube.resources import CUSTOM_RESOURCE_DEFINITIONS
from kanister_py.embedded.cluster.lists import copy_as_served
from kanister_py.embedded.cluster.objects import DEFAULT_MANAGER, Objects
from kanister_py.embedded.cluster.store import place_of
from kanister_py.ports.cluster import KubeObject

STATE_FORMAT: Final = "kanister-py.io/cluster-state/v1"
_LOAD_ORDER: Final = {"CustomResourceDefinition": 0, "Namespace": 1}


def in_loading_order(objects: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Sort manifests so that definitions and namespaces come first. Lists are expanded."""
    manifests: list[Mapping[str, Any]] = []
    for manifest in objects:
        if manifest.get("kind") == "List" and manifest.get("apiVersion") == "v1":
            manifests.extend(in_loading_order(manifest.get("items") or ()))
        else:
            manifests.append(manifest)
    return sorted(
        manifests, key=lambda obj: _LOAD_ORDER.get(str(obj.get("kind")), len(_LOAD_ORDER))
    )


def load(objects: Objects, manifest: Mapping[str, Any]) -> KubeObject:
    """Store an object of a manifest with its status, over an existing one."""
    api_version, kind_name = manifest.get("apiVersion"), manifest.get("kind")
    if isinstance(api_version, str) and isinstance(kind_name, str) and kind_name:
        try:
            objects.catalogue.of(api_version, kind_name)
        except NotFound:
            objects.catalogue.guess(api_version, kind_name)
    entry, new = objects.parse_object(manifest)
    metadata = new["metadata"]
    status = copy_json(manifest.get("status"))
    metadata.pop("resourceVersion", None)
    metadata.pop("uid", None)
    namespace = metadata.get("namespace") or objects.default_namespace
    if entry.kind.is_namespaced:
        objects.ensure_namespace(namespace)
    existing = objects.lookup(entry, namespace, metadata.get("name", ""))
    if existing is None:
        kept = objects.create(entry, new, Manager(DEFAULT_MANAGER, "Update", ""))
    else:
        kept = objects.write(entry, existing, new)
    if status is not None and entry.kind.gvr != CUSTOM_RESOURCE_DEFINITIONS:
        with_status = {**copy_json(kept), "status": status}
        kept = objects.write(entry, kept, with_status, "status" if entry.kind.has_status else "")
    return copy_as_served(entry, kept)


def all_objects(objects: Objects) -> Sequence[KubeObject]:
    """Return all objects, by kind, namespace and name."""
    tables = objects.store.tables
    return [
        copy_json(obj)
        for key in sorted(tables)
        for obj in sorted(tables[key].scan(""), key=place_of)
    ]


def save(objects: Objects) -> dict[str, Any]:
    """Return the complete state as JSON data."""
    guessed = [
        {"apiVersion": entry.kind.gvr.api_version, "kind": entry.kind.kind}
        for entry in objects.catalogue
        if entry.is_guessed
    ]
    return {
        "format": STATE_FORMAT,
        "resourceVersion": objects.store.version,
        "guessedKinds": guessed,
        "objects": [*all_objects(objects)],
    }


def restore(objects: Objects, state: Mapping[str, Any]) -> None:
    """Load a saved state into an empty `Objects`."""
    if state.get("format") != STATE_FORMAT:
        raise UsageError(
            f"The saved state has format {state.get('format')!r}; this version reads "
            f"{STATE_FORMAT!r}",
            reason="StateNotReadable",
        )
    for guessed in state["guessedKinds"]:
        objects.catalogue.guess(guessed["apiVersion"], guessed["kind"])
    kept = [copy_json(obj) for obj in state["objects"]]
    for obj in kept:
        if obj["kind"] == "CustomResourceDefinition":
            objects.catalogue.define(obj)
    for obj in kept:
        entry = objects.catalogue.of(obj["apiVersion"], obj["kind"])
        objects.store.adopt(entry.key, obj)
        objects.deletions.index_owners(entry, obj, None)
    objects.store.version = int(state["resourceVersion"])
    objects.store.compact()

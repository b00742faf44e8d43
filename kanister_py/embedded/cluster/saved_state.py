"""States of a cluster in memory: loaded from manifests, saved as JSON, restored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from kanister_py.core.errors import NotFound, UsageError
from kanister_py.core.kube.copies import copy_json
from kanister_py.core.kube.managed_fields import Manager
from kanister_py.core.kube.resources import CUSTOM_RESOURCE_DEFINITIONS
from kanister_py.embedded.cluster.lists import copy_out
from kanister_py.embedded.cluster.objects import DEFAULT_MANAGER, Objects
from kanister_py.embedded.cluster.store import place_of
from kanister_py.ports.cluster import KubeObject

STATE_FORMAT: Final = "kanister-py.io/cluster-state/v1"
_LOAD_ORDER: Final = {"CustomResourceDefinition": 0, "Namespace": 1}


def in_loading_order(objects: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Order manifests so that definitions come before what they define; lists are opened."""
    found: list[Mapping[str, Any]] = []
    for given in objects:
        if given.get("kind") == "List" and given.get("apiVersion") == "v1":
            found.extend(in_loading_order(given.get("items") or ()))
        else:
            found.append(given)
    return sorted(found, key=lambda obj: _LOAD_ORDER.get(str(obj.get("kind")), len(_LOAD_ORDER)))


def load(objects: Objects, given: Mapping[str, Any]) -> KubeObject:
    """Take in an object as its manifest states it, with its status, over what is there."""
    api_version, kind_name = given.get("apiVersion"), given.get("kind")
    if isinstance(api_version, str) and isinstance(kind_name, str) and kind_name:
        try:
            objects.catalogue.of(api_version, kind_name)
        except NotFound:
            objects.catalogue.guess(api_version, kind_name)
    known, new = objects.take_in(given)
    metadata = new["metadata"]
    status = copy_json(given.get("status"))
    metadata.pop("resourceVersion", None)
    metadata.pop("uid", None)
    namespace = metadata.get("namespace") or objects.default_namespace
    if known.kind.is_namespaced:
        objects.ensure_namespace(namespace)
    there = objects.look_up(known, namespace, metadata.get("name", ""))
    if there is None:
        kept = objects.create(known, new, Manager(DEFAULT_MANAGER, "Update", ""))
    else:
        kept = objects.write(known, there, new)
    if status is not None and known.kind.gvr != CUSTOM_RESOURCE_DEFINITIONS:
        with_status = {**copy_json(kept), "status": status}
        kept = objects.write(known, kept, with_status, "status" if known.kind.has_status else "")
    return copy_out(known, kept)


def all_objects(objects: Objects) -> Sequence[KubeObject]:
    """Give back every object there is, by kind, namespace and name."""
    tables = objects.store.tables
    return [
        copy_json(obj)
        for key in sorted(tables)
        for obj in sorted(tables[key].scan(""), key=place_of)
    ]


def save(objects: Objects) -> dict[str, Any]:
    """Give back the whole state as JSON knows it."""
    guessed = [
        {"apiVersion": known.kind.gvr.api_version, "kind": known.kind.kind}
        for known in objects.catalogue
        if known.is_guessed
    ]
    return {
        "format": STATE_FORMAT,
        "resourceVersion": objects.store.version,
        "guessedKinds": guessed,
        "objects": [*all_objects(objects)],
    }


def restore(objects: Objects, state: Mapping[str, Any]) -> None:
    """Put a saved state into objects of which there are none yet."""
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
        known = objects.catalogue.of(obj["apiVersion"], obj["kind"])
        objects.store.adopt(known.key, obj)
        objects.deletions.note_owners(known, obj, None)
    objects.store.version = int(state["resourceVersion"])
    objects.store.compact()

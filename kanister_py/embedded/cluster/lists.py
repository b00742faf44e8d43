"""Lists of objects: selectors, and pages with a consistent resource version."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from os import urandom
from threading import Lock
from typing import Final

from kanister_py.core.errors import BadRequest, Cause, Expired, Invalid
from kanister_py.core.kube.copies import copy_json
from kanister_py.core.kube.selectors import (
    FieldSelector,
    matcher_of,
    parse_field_selector,
    parse_label_selector,
    unknown_fields,
)
from kanister_py.embedded.cluster.catalogue import KindEntry
from kanister_py.embedded.cluster.store import Store, place_of
from kanister_py.ports.cluster import KubeObject, ObjectList

_OPEN_LISTS: Final = 100


def copy_as_served(entry: KindEntry, obj: KubeObject) -> KubeObject:
    """Return a copy of a stored object in the requested version."""
    copied: KubeObject = copy_json(obj)
    copied["apiVersion"] = entry.kind.gvr.api_version
    return copied


def select(
    store: Store, entry: KindEntry, namespace: str, label_selector: str, field_selector: str
) -> Sequence[KubeObject]:
    """Return the selected objects in order. The caller holds the cluster's lock."""
    fields = field_selector_of(entry, field_selector)
    passes = matcher_of(parse_label_selector(label_selector), fields)
    rows = store.table(entry.key).scan(namespace)
    selected = [obj for obj in rows if passes(obj)] if passes is not None else [*rows]
    selected.sort(key=place_of)
    return selected


def field_selector_of(entry: KindEntry, text: str) -> FieldSelector:
    selector = parse_field_selector(text)
    resource = entry.kind.gvr.group_resource
    unknown = unknown_fields(selector, resource, entry.selectable)
    if unknown:
        raise BadRequest(f"field label not supported: {', '.join(unknown)}", resource=resource)
    return selector


def version_of(text: str) -> int:
    """Parse a resource version; 0 means any."""
    if not text or text == "0":
        return 0
    if not text.isdecimal():
        raise Invalid(
            f'Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax',
            causes=[Cause("resourceVersion", f'Invalid value: "{text}"')],
        )
    return int(text)


class Pages:
    """Remaining objects of lists that are read in pages."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._open: OrderedDict[str, tuple[str, Sequence[KubeObject]]] = OrderedDict()

    def first(
        self, entry: KindEntry, version: str, objects: Sequence[KubeObject], limit: int
    ) -> ObjectList:
        page, remaining = (objects[:limit], objects[limit:]) if limit else (objects, ())
        items = [copy_as_served(entry, obj) for obj in page]
        if not remaining:
            return ObjectList(items, version)
        token = f"{version}-{urandom(16).hex()}"
        with self._lock:
            self._open[token] = (version, remaining)
            if len(self._open) > _OPEN_LISTS:
                self._open.popitem(last=False)
        return ObjectList(items, version, token)

    def next(self, entry: KindEntry, token: str, limit: int) -> ObjectList:
        with self._lock:
            opened = self._open.get(token)
        if opened is None:
            raise Expired(
                "The provided continue parameter is too old to display a consistent list result; "
                "list again without it"
            )
        version, remaining = opened
        return self.first(entry, version, remaining, limit)

    def forget(self) -> None:
        with self._lock:
            self._open.clear()

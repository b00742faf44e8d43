"""Lists of objects in memory: what selectors choose, in pages of one moment."""

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
from kanister_py.embedded.cluster.catalogue import Known
from kanister_py.embedded.cluster.store import Store, place_of
from kanister_py.ports.cluster import KubeObject, ObjectList

_OPEN_LISTS: Final = 100


def copy_out(known: Known, obj: KubeObject) -> KubeObject:
    """Copy what is kept, in the version asked for."""
    copied: KubeObject = copy_json(obj)
    copied["apiVersion"] = known.kind.gvr.api_version
    return copied


def select(
    store: Store, known: Known, namespace: str, label_selector: str, field_selector: str
) -> Sequence[KubeObject]:
    """Give what selectors choose, in order. The caller holds the cluster's lock."""
    fields = field_selector_of(known, field_selector)
    passes = matcher_of(parse_label_selector(label_selector), fields)
    rows = store.table(known.key).scan(namespace)
    found = [obj for obj in rows if passes(obj)] if passes is not None else [*rows]
    found.sort(key=place_of)
    return found


def field_selector_of(known: Known, text: str) -> FieldSelector:
    selector = parse_field_selector(text)
    resource = known.kind.gvr.group_resource
    unknown = unknown_fields(selector, resource, known.selectable)
    if unknown:
        raise BadRequest(f"field label not supported: {', '.join(unknown)}", resource=resource)
    return selector


def version_of(text: str) -> int:
    """Read a resource version; zero for any."""
    if not text or text == "0":
        return 0
    if not text.isdecimal():
        raise Invalid(
            f'Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax',
            causes=[Cause("resourceVersion", f'Invalid value: "{text}"')],
        )
    return int(text)


class Pages:
    """Rests of lists whose reader took only a part."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._open: OrderedDict[str, tuple[str, Sequence[KubeObject]]] = OrderedDict()

    def first(
        self, known: Known, version: str, found: Sequence[KubeObject], limit: int
    ) -> ObjectList:
        shown, rest = (found[:limit], found[limit:]) if limit else (found, ())
        items = [copy_out(known, obj) for obj in shown]
        if not rest:
            return ObjectList(items, version)
        token = f"{version}-{urandom(16).hex()}"
        with self._lock:
            self._open[token] = (version, rest)
            if len(self._open) > _OPEN_LISTS:
                self._open.popitem(last=False)
        return ObjectList(items, version, token)

    def next(self, known: Known, token: str, limit: int) -> ObjectList:
        with self._lock:
            opened = self._open.get(token)
        if opened is None:
            raise Expired(
                "The provided continue parameter is too old to display a consistent list result; "
                "list again without it"
            )
        version, found = opened
        return self.first(known, version, found, limit)

    def forget(self) -> None:
        with self._lock:
            self._open.clear()

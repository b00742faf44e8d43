"""What stands on the pages of composite resources: a list of a kind, and one with its pipeline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from kanister_py.core.actionsets.status import parse_time
from kanister_py.core.compositions.definitions import machinery_of
from kanister_py.core.objects.parts import conditions_of, metadata_of, name_of, namespace_of
from kanister_py.core.objects.reading import mapping_of
from kanister_py.ports.overview import CompositeKind

_SHOWN: Final = ("Synced", "Ready")


def resources_content(kind: CompositeKind, found: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Give what the list of a kind shows."""
    rows = [_row(kind, each) for each in found]
    return {"kind": kind, "rows": sorted(rows, key=lambda each: (each["namespace"], each["name"]))}


def _row(kind: CompositeKind, obj: Mapping[str, Any]) -> dict[str, Any]:
    machinery = machinery_of(obj, legacy=kind.is_legacy)
    told = {str(each.get("type")): each for each in conditions_of(obj)}
    wrong = [each for each in told.values() if each.get("status") != "True"]
    return {
        "namespace": namespace_of(obj),
        "name": name_of(obj),
        "created": parse_time(metadata_of(obj).get("creationTimestamp")),
        "states": [(each, str(told[each].get("status"))) for each in _SHOWN if each in told],
        "composition": str(mapping_of(machinery.get("compositionRef")).get("name") or ""),
        "revision": str(mapping_of(machinery.get("compositionRevisionRef")).get("name") or ""),
        "policy": str(machinery.get("compositionUpdatePolicy") or "Automatic"),
        "message": next((str(each["message"]) for each in wrong if each.get("message")), ""),
    }


def resource_content(
    kind: CompositeKind, obj: Mapping[str, Any], last: Mapping[str, Any] | None
) -> dict[str, Any]:
    """Give what the page of one resource shows."""
    conditions = [
        {
            "type": str(each.get("type")),
            "status": str(each.get("status")),
            "reason": str(each.get("reason") or ""),
            "message": str(each.get("message") or ""),
            "since": parse_time(each.get("lastTransitionTime")),
        }
        for each in conditions_of(obj)
    ]
    refs = machinery_of(obj, legacy=kind.is_legacy).get("resourceRefs") or ()
    composed = [
        f"{each.get('kind')} {each.get('name')}" for each in refs if isinstance(each, Mapping)
    ]
    return {
        "kind": kind,
        "row": _row(kind, obj),
        "conditions": conditions,
        "composed": composed,
        "last": last,
    }

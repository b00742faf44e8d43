"""Parts of an object (spec, status, labels, conditions, owners): empty where there are none.

They are read by everybody and belong to the object: a change goes into a copy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Part = Mapping[str, Any]


def metadata_of(obj: Part) -> Part:
    return obj.get("metadata") or {}


def spec_of(obj: Part) -> Part:
    return obj.get("spec") or {}


def status_of(obj: Part) -> Part:
    return obj.get("status") or {}


def name_of(obj: Part) -> str:
    return str((obj.get("metadata") or {}).get("name") or "")


def namespace_of(obj: Part) -> str:
    return str((obj.get("metadata") or {}).get("namespace") or "")


def labels_of(obj: Part) -> Part:
    return (obj.get("metadata") or {}).get("labels") or {}


def annotations_of(obj: Part) -> Part:
    return (obj.get("metadata") or {}).get("annotations") or {}


def conditions_of(obj: Part) -> Sequence[Part]:
    return (obj.get("status") or {}).get("conditions") or ()


def owners_of(obj: Part) -> Sequence[Part]:
    return (obj.get("metadata") or {}).get("ownerReferences") or ()

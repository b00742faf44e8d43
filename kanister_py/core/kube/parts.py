"""Parts of an object (spec, status, labels, conditions, owners): empty where there are none.

They are read by everybody and belong to the object: a change goes into a copy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

Part = Mapping[str, Any]

STATUS_FIELD: Final = ("status",)
"""What makes a condition another one in Kubernetes: since when it is so, whatever the reason."""
STATUS_AND_REASON_FIELDS: Final = ("status", "reason", "message")
"""What does so for Crossplane, whose XRs are read by functions and tools."""


def mapping_of(value: Any) -> Part:
    """Return `value` if it is a mapping, else an empty mapping."""
    return value if isinstance(value, Mapping) else {}


def maps_in(value: Any, key: str) -> list[Part]:
    """Return the mappings in the list under a key; other items are left out."""
    items = mapping_of(value).get(key)
    return [item for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []


def kind_and_version(data: Part) -> str:
    """Describe an object by its kind and apiVersion, for messages."""
    kind, version = data.get("kind"), data.get("apiVersion")
    if not kind:
        return "a document without a kind"
    return f"{kind} of {version}" if version else f"{kind} without an apiVersion"


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


def condition_of(obj: Part, kind: str) -> Part:
    """Give one condition of an object; empty where it has none of this type."""
    return next((each for each in conditions_of(obj) if each.get("type") == kind), {})


def is_true(obj: Part, kind: str) -> bool:
    """Say whether a condition of an object is there and true."""
    return bool(condition_of(obj, kind).get("status") == "True")


def merge_condition(
    found: dict[str, dict[str, Any]], made: dict[str, Any], kept_by: Sequence[str]
) -> None:
    """Put a condition, dated now, where one of its type stands, or after all others.

    It keeps the time of that one while they agree in what `kept_by` names.
    """
    before = found.get(made["type"])
    if before is not None and all(before.get(key, "") == made.get(key, "") for key in kept_by):
        made["lastTransitionTime"] = before.get("lastTransitionTime", made["lastTransitionTime"])
    found[made["type"]] = made


def owners_of(obj: Part) -> Sequence[Part]:
    return (obj.get("metadata") or {}).get("ownerReferences") or ()


# Controllers


def controller_of(obj: Part) -> Part | None:
    """Give the one owner that controls an object, if it has one."""
    owners = owners_of(obj)
    return next(
        (each for each in owners if isinstance(each, dict) and each.get("controller")), None
    )


def is_controlled_by(obj: Part, owner: Part) -> bool:
    found = controller_of(obj)
    return found is not None and found.get("uid") == owner["metadata"]["uid"]


def controller_reference(owner: Part) -> dict[str, Any]:
    """Write the owner reference to the controller of an object."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def with_controller(obj: Part, owner: Part) -> dict[str, Any]:
    """Give an object whose owner was lost to it again, beside its other owners.

    A reference to an owner of the same name that is gone, as a backup restores it, makes way.
    """
    metadata = obj["metadata"]
    kept = [
        each
        for each in metadata.get("ownerReferences") or ()
        if (each.get("kind"), each.get("name")) != (owner["kind"], owner["metadata"]["name"])
    ]
    owners = [*kept, controller_reference(owner)]
    return {**obj, "metadata": {**metadata, "ownerReferences": owners}}

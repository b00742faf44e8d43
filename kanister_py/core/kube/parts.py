"""Accessors for parts of an object (spec, status, labels, conditions, owners).

Missing parts are empty. The parts are not copies and must not be modified.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

Part = Mapping[str, Any]

STATUS_FIELD: Final = ("status",)
"""Fields whose change sets `lastTransitionTime` in Kubernetes."""
STATUS_AND_REASON_FIELDS: Final = ("status", "reason", "message")
"""Fields whose change sets `lastTransitionTime` in Crossplane's resources."""


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
    """Return the condition of a type, or an empty mapping."""
    return next(
        (condition for condition in conditions_of(obj) if condition.get("type") == kind), {}
    )


def is_true(obj: Part, kind: str) -> bool:
    """Return whether an object has a condition with the status True."""
    return bool(condition_of(obj, kind).get("status") == "True")


def merge_condition(
    conditions: dict[str, dict[str, Any]], condition: dict[str, Any], kept_by: Sequence[str]
) -> None:
    """Replace the condition of the same type, or add the condition at the end.

    The old `lastTransitionTime` is kept if the fields in `kept_by` are unchanged.
    """
    before = conditions.get(condition["type"])
    if before is not None and all(before.get(key, "") == condition.get(key, "") for key in kept_by):
        condition["lastTransitionTime"] = before.get(
            "lastTransitionTime", condition["lastTransitionTime"]
        )
    conditions[condition["type"]] = condition


def owners_of(obj: Part) -> Sequence[Part]:
    return (obj.get("metadata") or {}).get("ownerReferences") or ()


# Controllers


def controller_of(obj: Part) -> Part | None:
    """Return the owner reference to the controller of an object, or None."""
    owners = owners_of(obj)
    return next(
        (owner for owner in owners if isinstance(owner, dict) and owner.get("controller")), None
    )


def is_controlled_by(obj: Part, owner: Part) -> bool:
    controller = controller_of(obj)
    return controller is not None and controller.get("uid") == owner["metadata"]["uid"]


def controller_reference(owner: Part) -> dict[str, Any]:
    """Build the owner reference to a controller."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def with_controller(obj: Part, owner: Part) -> dict[str, Any]:
    """Return an object with an owner reference to a controller, in addition to other owners.

    A reference to an owner of the same kind and name is replaced: after a restore from a
    backup it has an outdated UID.
    """
    metadata = obj["metadata"]
    kept = [
        reference
        for reference in metadata.get("ownerReferences") or ()
        if (reference.get("kind"), reference.get("name"))
        != (owner["kind"], owner["metadata"]["name"])
    ]
    owners = [*kept, controller_reference(owner)]
    return {**obj, "metadata": {**metadata, "ownerReferences": owners}}

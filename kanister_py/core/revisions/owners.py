"""Who controls an object?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kanister_py.core.objects.parts import owners_of


def controller_of(obj: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Give the one owner that controls an object, if it has one."""
    owners = owners_of(obj)
    return next(
        (each for each in owners if isinstance(each, dict) and each.get("controller")), None
    )


def is_controlled_by(obj: Mapping[str, Any], owner: Mapping[str, Any]) -> bool:
    found = controller_of(obj)
    return found is not None and found.get("uid") == owner["metadata"]["uid"]


def controller_reference(owner: Mapping[str, Any]) -> dict[str, Any]:
    """Say on an object that another one controls it."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def with_controller(obj: Mapping[str, Any], owner: Mapping[str, Any]) -> dict[str, Any]:
    """Give an object whose owner was lost to it again, beside whoever else owns it.

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

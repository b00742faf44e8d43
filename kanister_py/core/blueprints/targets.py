"""Targets of actions: the object that one action acts on, where another acted on a given one.

Deletions of most published blueprints read `.Namespace`, which only an object of that kind
fills, though their backups act on a workload.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kanister_py.core.blueprints.language import engine_of
from kanister_py.core.blueprints.model import Action, Blueprint
from kanister_py.core.blueprints.reads import reads_of_action

_ROOTS: Final = {
    "statefulset": "StatefulSet",
    "deployment": "Deployment",
    "deploymentconfig": "DeploymentConfig",
    "pvc": "PVC",
}


def target_of(blueprint: Blueprint, action: Action, reference: Mapping[str, Any]) -> dict[str, Any]:
    """Give the object that an action acts on: the given one, or the namespace it is in."""
    kind, namespace = str(reference.get("kind") or "").lower(), reference.get("namespace")
    if kind == "namespace" or not namespace:
        return dict(reference)
    roots = {read.names[0] for read in reads_of_action(action, engine_of(blueprint).engine)}
    if _ROOTS.get(kind) in roots or "Object" in roots:
        return dict(reference)
    if "Namespace" in roots or action.kind == "Namespace":
        return {"kind": "Namespace", "name": namespace, "namespace": namespace}
    return dict(reference)

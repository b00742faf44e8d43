"""Artifacts that an ActionSet left: as long as they exist, it is the record that leads to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kanister_py.core.actionsets.stored_status import read_status_data
from kanister_py.core.objects.parts import annotations_of

ARTIFACTS_ANNOTATION: Final = "kanister-py.io/artifacts"
"""Says of an ActionSet what its artifacts are worth."""
DELETED: Final = "Deleted"
"""What they lead to was deleted."""
DISPOSABLE: Final = "Disposable"
"""Nobody needs them: it may be collected."""


def holds_artifacts(actionset: Mapping[str, Any]) -> bool:
    """Say whether an ActionSet is complete and left artifacts that somebody may need."""
    if annotations_of(actionset).get(ARTIFACTS_ANNOTATION) in (DELETED, DISPOSABLE):
        return False
    status = read_status_data(dict(actionset)) or {}
    if status.get("state") != "complete":
        return False
    actions = status.get("actions")
    return any(
        isinstance(each, Mapping) and bool(each.get("artifacts"))
        for each in (actions if isinstance(actions, list) else ())
    )

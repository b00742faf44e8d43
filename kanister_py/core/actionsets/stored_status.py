"""Storage of the status of an ActionSet in its object.

Our CRD has a status subresource with all fields. Kanister's CRD prunes unknown fields, so the
fields that only this project has are stored in the annotation `kanister-py.io/status`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from kanister_py.core.actionsets.status import Status, parse_status, parse_time, size_of
from kanister_py.core.errors import KanisterError, UsageError
from kanister_py.core.kube.parts import annotations_of, maps_in, name_of, namespace_of

STATUS_ANNOTATION: Final = "kanister-py.io/status"
ARTIFACTS_ANNOTATION: Final = "kanister-py.io/artifacts"
"""Annotation for ActionSets whose artifacts are no longer needed."""
DELETED: Final = "Deleted"
"""The backups of the artifacts were deleted."""
DISPOSABLE: Final = "Disposable"
"""The artifacts are not needed, so the ActionSet may be garbage-collected."""

_MAX_STATUS_BYTES: Final = 1_000_000
_MAX_ANNOTATION_BYTES: Final = 200_000

# Fields of Kanister's CRDs, by level.
_KEPT_IN_SET: Final = frozenset({"state", "progress", "actions"})
_KEPT_IN_ACTION: Final = frozenset({"name", "object", "blueprint", "artifacts"})
_KEPT_IN_PHASE: Final = frozenset({"name", "state", "output", "progress"})


def status_as_dict(status: Status, generation: int) -> dict[str, Any]:
    """Return a status for an object of this generation, without facts if it is too large.

    Only facts may be omitted: without them, a new process reads the object again, as it is then.
    """
    data = status.as_dict()
    if generation:
        data["observedGeneration"] = generation
        for condition in data.get("conditions", ()):
            condition["observedGeneration"] = generation
    if size_of(data) > _MAX_STATUS_BYTES:
        for action in data.get("actions", ()):
            action.pop("facts", None)
    return data


def split_status(data: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split a status into the fields of Kanister's CRD and the remaining fields."""
    kanister_fields, extra_fields = _split(data, _KEPT_IN_SET)
    error = data.get("error") or {}
    kanister_fields["error"] = {"message": error.get("message", "")}
    if "actions" in data:
        parts = [_split_action(action) for action in data["actions"]]
        kanister_fields["actions"] = [part[0] for part in parts]
        extra_fields["actions"] = [part[1] for part in parts]
    return kanister_fields, extra_fields


def _split_action(data: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    kanister_fields, extra_fields = _split(data, _KEPT_IN_ACTION)
    if "phases" in extra_fields:
        phases = [_split(phase, _KEPT_IN_PHASE) for phase in extra_fields["phases"]]
        kanister_fields["phases"] = [phase[0] for phase in phases]
        extra_fields["phases"] = [phase[1] for phase in phases]
    if "deferPhase" in extra_fields:
        kanister_fields["deferPhase"], extra_fields["deferPhase"] = _split(
            extra_fields["deferPhase"], _KEPT_IN_PHASE
        )
    return kanister_fields, extra_fields


def _split(data: Mapping[str, Any], keys: frozenset[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    kanister_fields = {key: value for key, value in data.items() if key in keys}
    return kanister_fields, {key: value for key, value in data.items() if key not in keys}


def _merge(kanister_fields: Any, extra_fields: Any) -> Any:
    if isinstance(kanister_fields, dict) and isinstance(extra_fields, dict):
        return {
            **kanister_fields,
            **{key: _merge(kanister_fields.get(key), value) for key, value in extra_fields.items()},
        }
    if (
        isinstance(kanister_fields, list)
        and isinstance(extra_fields, list)
        and len(kanister_fields) == len(extra_fields)
    ):
        return [
            _merge(one, other) for one, other in zip(kanister_fields, extra_fields, strict=True)
        ]
    return kanister_fields if extra_fields is None else extra_fields


def read_status_data(obj: Mapping[str, Any]) -> dict[str, Any] | None:
    """Merge the status data of an object with its annotation. Returns None without a status."""
    data = obj.get("status")
    if not data:
        return None
    text = annotations_of(obj).get(STATUS_ANNOTATION)
    if not text:
        return dict(data)
    try:
        extra_fields = json.loads(text)
    except (ValueError, RecursionError):
        return dict(data)
    merged = _merge(dict(data), extra_fields)
    # Any client can write the annotation.
    return merged if isinstance(merged, dict) else dict(data)


def read_status(obj: Mapping[str, Any]) -> Status | None:
    """Parse the status of an object, or return None if it has none.

    Raises UsageError if it is not the status of an ActionSet.
    """
    try:
        data = read_status_data(obj)
        return parse_status(data) if data is not None else None
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UsageError(
            "status: Cannot be read as the status of an ActionSet; create "
            f"{namespace_of(obj)}/{name_of(obj)} again without a status",
            reason="StatusUnreadable",
        ) from error


def read_valid_status(obj: Mapping[str, Any]) -> Status | None:
    """Parse the status of an object, or return None if it has none or an invalid one."""
    try:
        return read_status(obj)
    except KanisterError:
        return None


def ended_at(data: Mapping[str, Any]) -> datetime | None:
    """Return when the ActionSet with this status ended, or None if unknown."""
    for condition in maps_in(data, "conditions"):
        if condition.get("type") in ("Complete", "Failed"):
            time = parse_time(condition.get("lastTransitionTime"))
            if time is not None:
                return time
    progress = data.get("progress")
    return parse_time(progress.get("lastTransitionTime")) if isinstance(progress, dict) else None


def annotation_of(extra_fields: dict[str, Any]) -> str:
    """Encode fields for the annotation. Removes the facts from `extra_fields` if it is too long."""
    text = json.dumps(extra_fields, ensure_ascii=False, separators=(",", ":"))
    if len(text) > _MAX_ANNOTATION_BYTES:
        for action in extra_fields.get("actions", ()):
            action.pop("facts", None)
        text = json.dumps(extra_fields, ensure_ascii=False, separators=(",", ":"))
    return text


def holds_artifacts(actionset: Mapping[str, Any]) -> bool:
    """Return whether an ActionSet is complete and its artifacts may still be needed."""
    if annotations_of(actionset).get(ARTIFACTS_ANNOTATION) in (DELETED, DISPOSABLE):
        return False
    status = read_status_data(actionset) or {}
    if status.get("state") != "complete":
        return False
    return any(action.get("artifacts") for action in maps_in(status, "actions"))

"""Stored status: the status of an ActionSet in its object, and the artifacts it is a record of.

On definitions with a status subresource it stands there as it is. On those that know none, as
Kanister installed them, fields that only we write would be pruned: they stand in the
annotation `kanister-py.io/status`.
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
"""The worth of an ActionSet's artifacts, as an annotation."""
DELETED: Final = "Deleted"
"""The backups behind them were deleted."""
DISPOSABLE: Final = "Disposable"
"""They are not needed any more: the ActionSet may be collected."""

_MOST_STATUS_BYTES: Final = 1_000_000
_MOST_ANNOTATION_BYTES: Final = 200_000

# What the definitions that Kanister installs keep, level by level.
_KEPT_IN_SET: Final = frozenset({"state", "progress", "actions"})
_KEPT_IN_ACTION: Final = frozenset({"name", "object", "blueprint", "artifacts"})
_KEPT_IN_PHASE: Final = frozenset({"name", "state", "output", "progress"})


def status_as_dict(status: Status, generation: int) -> dict[str, Any]:
    """Write a status for an object of this generation; what would not fit is left out.

    Only what was seen at launch may be left out: it can be looked at once more.
    """
    data = status.as_dict()
    if generation:
        data["observedGeneration"] = generation
        for condition in data.get("conditions", ()):
            condition["observedGeneration"] = generation
    if size_of(data) > _MOST_STATUS_BYTES:
        for action in data.get("actions", ()):
            action.pop("facts", None)
    return data


def split_status(data: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Part a status in what Kanister's own definition keeps, and the rest."""
    kept, rest = _split(data, _KEPT_IN_SET)
    error = data.get("error") or {}
    kept["error"] = {"message": error.get("message", "")}
    if "actions" in data:
        parts = [_split_action(action) for action in data["actions"]]
        kept["actions"] = [part[0] for part in parts]
        rest["actions"] = [part[1] for part in parts]
    return kept, rest


def _split_action(data: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    kept, rest = _split(data, _KEPT_IN_ACTION)
    if "phases" in rest:
        phases = [_split(phase, _KEPT_IN_PHASE) for phase in rest["phases"]]
        kept["phases"] = [phase[0] for phase in phases]
        rest["phases"] = [phase[1] for phase in phases]
    if "deferPhase" in rest:
        kept["deferPhase"], rest["deferPhase"] = _split(rest["deferPhase"], _KEPT_IN_PHASE)
    return kept, rest


def _split(data: Mapping[str, Any], keys: frozenset[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    kept = {key: each for key, each in data.items() if key in keys}
    return kept, {key: each for key, each in data.items() if key not in keys}


def _joined(kept: Any, rest: Any) -> Any:
    if isinstance(kept, dict) and isinstance(rest, dict):
        return {**kept, **{key: _joined(kept.get(key), each) for key, each in rest.items()}}
    if isinstance(kept, list) and isinstance(rest, list) and len(kept) == len(rest):
        return [_joined(one, other) for one, other in zip(kept, rest, strict=True)]
    return kept if rest is None else rest


def read_status_data(obj: Mapping[str, Any]) -> dict[str, Any] | None:
    """Give the status an object holds, from both places; None if it has none."""
    data = obj.get("status")
    if not data:
        return None
    text = annotations_of(obj).get(STATUS_ANNOTATION)
    if not text:
        return dict(data)
    try:
        rest = json.loads(text)
    except (ValueError, RecursionError):
        return dict(data)
    joined = _joined(dict(data), rest)
    # Any client may write an annotation.
    return joined if isinstance(joined, dict) else dict(data)


def read_status(obj: Mapping[str, Any]) -> Status | None:
    """Read the status of an object, ours or Kanister's; None if it has none."""
    try:
        data = read_status_data(obj)
        return parse_status(data) if data is not None else None
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UsageError(
            "status: What stands there cannot be read as the status of an ActionSet; "
            f"create {namespace_of(obj)}/{name_of(obj)} anew, without one",
            reason="StatusUnreadable",
        ) from error


def known_status(obj: Mapping[str, Any]) -> Status | None:
    """Read the status of an object; None too for one that cannot be read."""
    try:
        return read_status(obj)
    except KanisterError:
        return None


def ended_at(data: Mapping[str, Any]) -> datetime | None:
    """Say when an ActionSet with this status, ours or Kanister's, ended, if that can be known."""
    for each in maps_in(data, "conditions"):
        if each.get("type") in ("Complete", "Failed"):
            time = parse_time(each.get("lastTransitionTime"))
            if time is not None:
                return time
    progress = data.get("progress")
    return parse_time(progress.get("lastTransitionTime")) if isinstance(progress, dict) else None


def annotation_of(rest: dict[str, Any]) -> str:
    text = json.dumps(rest, ensure_ascii=False, separators=(",", ":"))
    if len(text) > _MOST_ANNOTATION_BYTES:
        for action in rest.get("actions", ()):
            action.pop("facts", None)
        text = json.dumps(rest, ensure_ascii=False, separators=(",", ":"))
    return text


def holds_artifacts(actionset: Mapping[str, Any]) -> bool:
    """Say whether an ActionSet is complete and left artifacts that may still be needed."""
    if annotations_of(actionset).get(ARTIFACTS_ANNOTATION) in (DELETED, DISPOSABLE):
        return False
    status = read_status_data(actionset) or {}
    if status.get("state") != "complete":
        return False
    return any(each.get("artifacts") for each in maps_in(status, "actions"))

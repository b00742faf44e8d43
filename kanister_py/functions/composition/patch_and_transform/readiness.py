"""Readiness checks of composed resources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from kanister_py.core.kube.field_paths import FieldNotFound, FieldPathError, parse_field_path
from kanister_py.functions.composition.patch_and_transform.fields import STRICT
from kanister_py.functions.composition.patch_and_transform.problems import (
    Problem,
    invalid,
    required,
)
from kanister_py.functions.composition.patch_and_transform.values import Unresolved, as_decoded

Check = Mapping[str, Any]


def check_readiness_check(check: Check) -> Problem | None:
    """Return the problem of a readiness check, without running anything."""
    kind = check.get("type", "")
    if kind == "None":
        return None
    if kind not in _KINDS:
        return invalid("type", kind, "unknown readiness check type", _KINDS)
    if kind == "MatchCondition":
        expected = check.get("matchCondition")
        for name in ("type", "status") if expected is not None else ():
            if not expected or not expected.get(name):
                return required(f"matchCondition.{name}", f"cannot be empty for type {kind}")
        return None
    for needed, name in (("MatchString", "matchString"), ("MatchInteger", "matchInteger")):
        if kind == needed and name not in check:
            return required(name, f"cannot be nil for type {kind}")
    return None if "fieldPath" in check else required("fieldPath", "cannot be empty")


def is_ready(resource: Mapping[str, Any], checks: Sequence[Check]) -> bool:
    """Return True if all checks pass; without any, if the condition Ready is True."""
    if not checks:
        return _condition_status(resource, "Ready") == "True"
    for at, check in enumerate(checks):
        try:
            if not _holds(check, resource):
                return False
        except (FieldPathError, Unresolved) as error:
            raise Unresolved(f"cannot run readiness check at index {at}: {error}") from error
    return True


def _holds(check: Check, resource: Mapping[str, Any]) -> bool:
    kind = check["type"]
    if kind == "None":
        return True
    if kind == "MatchCondition":
        expected = check.get("matchCondition")
        if expected is None:
            raise Unresolved("matchCondition is required by type MatchCondition")
        return bool(_condition_status(resource, expected["type"]) == expected["status"])
    path = check["fieldPath"]
    try:
        value = parse_field_path(path).get(resource)
    except FieldNotFound:
        return False
    if kind == "NonEmpty":
        return True
    expected, word = _WANTED[kind]
    if kind == "MatchInteger" and check.get(STRICT):
        value = as_decoded(value)
        if type(value) is int:
            return bool(value == check["matchInteger"])
    # Numbers in a request are doubles, so they never match an integer.
    if type(value) is not expected or kind == "MatchInteger":
        raise Unresolved(f"{path}: not a {word}")
    return bool(value == check["matchString"] if kind == "MatchString" else value is _BOOLS[kind])


_WANTED: Final[Mapping[str, tuple[type, str]]] = {
    "MatchString": (str, "string"),
    "MatchInteger": (int, "(int64) number"),
    "MatchTrue": (bool, "bool"),
    "MatchFalse": (bool, "bool"),
}
_BOOLS: Final = {"MatchTrue": True, "MatchFalse": False}
_KINDS: Final = frozenset({"NonEmpty", "MatchCondition", *_WANTED})


def _condition_status(resource: Mapping[str, Any], kind: str) -> str:
    """Return the status of a condition: Unknown if it is missing, empty if it is malformed."""
    if "status" not in resource:
        return ""
    status = resource["status"]
    if status is None:
        return "Unknown"
    conditions = status.get("conditions") if isinstance(status, dict) else False
    if conditions is None:
        return "Unknown"
    # Conditions are decoded together, so a malformed one makes all of them unreadable.
    if not isinstance(conditions, list) or not all(map(_is_condition, conditions)):
        return ""
    for condition in conditions:
        if condition and (condition.get("type") or "") == kind:
            return condition.get("status") or ""
    return "Unknown"


_TEXTS: Final = ("type", "status", "reason", "message")


def _is_condition(value: Any) -> bool:
    if value is None:
        return True
    if not isinstance(value, dict):
        return False
    for name in _TEXTS:
        if not isinstance(value.get(name), (str, type(None))):
            return False
    generation = value.get("observedGeneration")
    if generation is not None and (type(generation) not in (int, float) or generation % 1 != 0):
        return False
    return _is_moment(value.get("lastTransitionTime"))


def _is_moment(value: Any) -> bool:
    if value is None:
        return True
    if not isinstance(value, str) or len(value) < len("2006-01-02T15:04:05Z"):
        return False
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return value[10] == "T" and (value[-1] == "Z" or (value[-3] == ":" and value[-6] in "+-"))

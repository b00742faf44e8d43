"""State of one reconciliation of a composite resource, and the status that results from it."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Final, NamedTuple

from kanister_py.controller.machine.events import Subject, subject_of
from kanister_py.controller.machine.writing import has_fields
from kanister_py.core.actionsets.status import text_of_time
from kanister_py.core.compositions.definitions import MACHINERY_KEY
from kanister_py.core.compositions.messages import Data
from kanister_py.core.compositions.results import (
    FUNCTION_UNAVAILABLE,
    RECONCILE_ERROR,
    Conditions,
)
from kanister_py.core.kube.copies import copy_json
from kanister_py.core.kube.parts import condition_of, is_true, status_of
from kanister_py.ports.clock import Clock
from kanister_py.ports.cluster import KubeObject

_LOG: Final = logging.getLogger(__name__)
_FAILURES: Final = (RECONCILE_ERROR, FUNCTION_UNAVAILABLE)
_STATUS_KEY: Final = ""
"""Key of the digest of the desired status; the other keys are names of resources."""
_OWN_FIELDS: Final = ("lastHandledReconcileAt", "connectionDetails", "claimConditionTypes")
_VOLATILE: Final = ("seconds", "calls", "cached")


class Dependencies(NamedTuple):
    """Objects that a composite resource depends on.

    `needs` are selectors from the composition itself, `requirements` come from functions.
    """

    refs: tuple[Data, ...] = ()
    requirements: Mapping[str, Data] = {}
    needs: tuple[Data, ...] = ()


class Reconciliation:
    """State of one reconciliation."""

    def __init__(
        self, xr: KubeObject, clock: Clock, flooded_by: str, track: Callable[[Dependencies], None]
    ) -> None:
        self.xr = xr
        self.track = track
        self._flooded_by = flooded_by
        self.subject = subject_of(xr)
        self.status: dict[str, Any] = copy_json(status_of(xr))
        self.machinery: dict[str, Any] = {}
        """Changes of the references to the composition, not yet written."""
        machinery = self.status.get(MACHINERY_KEY) or {}
        self.applied_before: dict[str, str] = dict(machinery.get("applied") or {})
        self.applied: dict[str, str] = {}
        self.changed = ""
        self.adopted: set[str] = set()
        """Names of resources whose existing objects this reconciliation adopts."""
        self.steps: list[dict[str, Any]] = []
        self.results: list[tuple[str, str, str]] = []
        """Results of functions: type, reason and message."""
        self._clock = clock

    @cached_property
    def conditions(self) -> Conditions:
        """The conditions to write at the end, for the generation after all other writes."""
        conditions = Conditions(
            self.status.get("conditions") or (),
            text_of_time(self._clock.now()),
            int(self.metadata.get("generation") or 0),
        )
        if self._flooded_by:
            message = (
                f"Too many watch events from {self._flooded_by}. They are processed with a delay."
            )
            conditions.set("Responsive", "False", "WatchCircuitOpen", message)
        else:
            conditions.set("Responsive", "True", "WatchCircuitClosed")
        return conditions

    @property
    def metadata(self) -> Mapping[str, Any]:
        metadata: Mapping[str, Any] = self.xr["metadata"]
        return metadata

    def update(self, written: KubeObject) -> None:
        """Continue with the object that a write returned."""
        self.xr = written
        if "conditions" in self.__dict__:
            self.conditions.note_generation(int(self.metadata.get("generation") or 0))

    def restart(self) -> None:
        """Continue after the pipeline runs again over the resources that were just applied."""
        self.applied_before |= self.applied
        self.applied, self.changed, self.adopted = {}, "", set()

    def _functions_status(self) -> dict[str, Any]:
        """Return the status without the fields that this controller sets."""
        ours = (*_OWN_FIELDS, "conditions", MACHINERY_KEY)
        return {key: value for key, value in self.status.items() if key not in ours}

    def desired_status(self, desired: Mapping[str, Any] | None) -> dict[str, Any] | None:
        """Return the status to apply, or None if the object has it already.

        Applying it removes fields that functions no longer desire. After a failure there is no
        `desired` status, and the fields that functions desired before are kept.
        """
        before = self.status.get(MACHINERY_KEY) or {}
        if desired is not None:
            applied = {**self.applied, _STATUS_KEY: digest(desired)}
        else:
            applied = {**self.applied_before, **self.applied}
        machinery: dict[str, Any] = {"applied": dict(sorted(applied.items()))} if applied else {}
        if self.steps or before.get("pipeline"):
            machinery["pipeline"] = self.steps or before["pipeline"]
        status = dict(copy_json(desired if desired is not None else self._functions_status()))
        for key in _OWN_FIELDS:
            if key in self.status:
                status[key] = self.status[key]
        status["conditions"] = self.conditions.as_list()
        if machinery:
            status[MACHINERY_KEY] = machinery
        is_written = has_fields(
            _without_volatile_fields(status_of(self.xr)), _without_volatile_fields(status)
        )
        return None if is_written else status


def synced_of(xr: Mapping[str, Any]) -> Mapping[str, Any]:
    return condition_of(xr, "Synced")


def was_synced(xr: Mapping[str, Any]) -> bool:
    return is_true(xr, "Synced")


def log_transition(subject: Subject, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Log a failure once for each message, and the recovery from it."""
    path = f"{subject.namespace}/{subject.name}" if subject.namespace else subject.name
    if now.get("reason") in _FAILURES:
        if now.get("message") != before.get("message"):
            _LOG.warning("%s %s is failing: %s", subject.kind, path, now.get("message"))
    elif before.get("reason") in _FAILURES:
        _LOG.info("%s %s has recovered", subject.kind, path)


def digest(obj: Mapping[str, Any]) -> str:
    text = json.dumps(obj, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _without_volatile_fields(status: Mapping[str, Any]) -> dict[str, Any]:
    """Return the status without fields that differ although nothing has changed."""
    machinery = dict(status.get(MACHINERY_KEY) or {})
    machinery["pipeline"] = [
        {key: value for key, value in step.items() if key not in _VOLATILE}
        for step in machinery.get("pipeline") or ()
    ]
    return {**status, MACHINERY_KEY: machinery}

"""One pass over a composite resource: what it knows and gathers, and the status that it leaves."""

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
_NOT_IN_ORDER: Final = (RECONCILE_ERROR, FUNCTION_UNAVAILABLE)
_STATUS: Final = ""
"""Where the digest of the desired status stands among those of the resources."""
_OF_OURS: Final = ("lastHandledReconcileAt", "connectionDetails", "claimConditionTypes")
_FLEETING: Final = ("seconds", "calls", "cached")


class Dependencies(NamedTuple):
    """What a composite resource depends on, besides itself.

    `needs` selects what the composition itself wants functions to be given.
    """

    refs: tuple[Data, ...] = ()
    requirements: Mapping[str, Data] = {}
    needs: tuple[Data, ...] = ()


class Pass:
    """What one pass knows and gathers."""

    def __init__(
        self, xr: KubeObject, clock: Clock, flooded_by: str, track: Callable[[Dependencies], None]
    ) -> None:
        self.xr = xr
        self.track = track
        self._flooded_by = flooded_by
        self.subject = subject_of(xr)
        self.status: dict[str, Any] = copy_json(status_of(xr))
        self.machinery: dict[str, Any] = {}
        """What is to be written about its composition."""
        machinery = self.status.get(MACHINERY_KEY) or {}
        self.applied_before: dict[str, str] = dict(machinery.get("applied") or {})
        self.applied: dict[str, str] = {}
        self.changed = ""
        self.adopted: set[str] = set()
        """Resources whose objects are there, and nobody's: they are adopted in this pass."""
        self.steps: list[dict[str, Any]] = []
        self.results: list[tuple[str, str, str]] = []
        """Results of functions: type, reason and message."""
        self._clock = clock

    @cached_property
    def conditions(self) -> Conditions:
        """Hold the conditions to write in the end, for the generation there is after all writes."""
        made = Conditions(
            self.status.get("conditions") or (),
            text_of_time(self._clock.now()),
            int(self.metadata.get("generation") or 0),
        )
        if self._flooded_by:
            message = (
                f"Too many watch events from {self._flooded_by}. They are followed with a delay."
            )
            made.set("Responsive", "False", "WatchCircuitOpen", message)
        else:
            made.set("Responsive", "True", "WatchCircuitClosed")
        return made

    @property
    def metadata(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.xr["metadata"]
        return found

    def take(self, written: KubeObject) -> None:
        """Go on from what the cluster now has."""
        self.xr = written
        if "conditions" in self.__dict__:
            self.conditions.note_generation(int(self.metadata.get("generation") or 0))

    def begin_again(self) -> None:
        """Go on from what was applied: it is looked at anew."""
        self.applied_before |= self.applied
        self.applied, self.changed, self.adopted = {}, "", set()

    def _kept_status(self) -> dict[str, Any]:
        """Give what functions desired before, so far as it is not ours to say."""
        ours = (*_OF_OURS, "conditions", MACHINERY_KEY)
        return {key: value for key, value in self.status.items() if key not in ours}

    def wanted_status(self, desired: Mapping[str, Any] | None) -> dict[str, Any] | None:
        """Say how it went; None if the status says so already.

        What functions desire no longer is taken back with that. Without `desired`, as after
        a failure, what they desired before stays.
        """
        before = self.status.get(MACHINERY_KEY) or {}
        if desired is not None:
            applied = {**self.applied, _STATUS: digest(desired)}
        else:
            applied = {**self.applied_before, **self.applied}
        machinery: dict[str, Any] = {"applied": dict(sorted(applied.items()))} if applied else {}
        if self.steps or before.get("pipeline"):
            machinery["pipeline"] = self.steps or before["pipeline"]
        wanted = dict(copy_json(desired if desired is not None else self._kept_status()))
        for key in _OF_OURS:
            if key in self.status:
                wanted[key] = self.status[key]
        wanted["conditions"] = self.conditions.as_list()
        if machinery:
            wanted[MACHINERY_KEY] = machinery
        is_written = has_fields(_without_times(status_of(self.xr)), _without_times(wanted))
        return None if is_written else wanted


def synced_of(xr: Mapping[str, Any]) -> Mapping[str, Any]:
    return condition_of(xr, "Synced")


def was_synced(xr: Mapping[str, Any]) -> bool:
    return is_true(xr, "Synced")


def log_turn(subject: Subject, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Write down what keeps a resource from being in order, once, and when that is over."""
    where = f"{subject.namespace}/{subject.name}" if subject.namespace else subject.name
    if now.get("reason") in _NOT_IN_ORDER:
        if now.get("message") != before.get("message"):
            _LOG.warning("%s %s is not in order: %s", subject.kind, where, now.get("message"))
    elif before.get("reason") in _NOT_IN_ORDER:
        _LOG.info("%s %s is in order again", subject.kind, where)


def digest(obj: Mapping[str, Any]) -> str:
    text = json.dumps(obj, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _without_times(status: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out what differs from pass to pass though nothing has changed."""
    machinery = dict(status.get(MACHINERY_KEY) or {})
    machinery["pipeline"] = [
        {key: value for key, value in each.items() if key not in _FLEETING}
        for each in machinery.get("pipeline") or ()
    ]
    return {**status, MACHINERY_KEY: machinery}

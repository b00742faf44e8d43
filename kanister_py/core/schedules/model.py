"""Schedule manifests, read and checked."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, timedelta, tzinfo
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from kanister_py.core.blueprints.model import Found
from kanister_py.core.errors import InvalidDocument, Problem
from kanister_py.core.kube.durations import InvalidDuration, parse_seconds
from kanister_py.core.kube.names import MAX_LABEL
from kanister_py.core.kube.reading import Reader
from kanister_py.core.kube.resources import GroupVersionResource
from kanister_py.core.models import UnknownKey
from kanister_py.core.schedules.retention import COUNTS, Keep, parse_within
from kanister_py.core.schedules.times import (
    Cron,
    InvalidTimetable,
    Timetable,
    Window,
    check_windows,
    parse_timetable,
    zone_of,
)
from kanister_py.core.yaml.documents import Document, Path

SCHEDULES: Final = GroupVersionResource("kanister-py.io", "v1alpha1", "schedules")
KIND: Final = "Schedule"

_DAY: Final = 86_400
_MOST: Final = {"jitter": _DAY, "startingDeadline": 366 * _DAY, "duration": 31 * _DAY}
"""No more seconds than these: what lasts for ever says nothing, and leaves the calendar."""


class ConcurrencyPolicy(StrEnum):
    """Policies for a time at which a run is still under way."""

    FORBID = "Forbid"
    """It is left out."""
    REPLACE = "Replace"
    """What is under way is cancelled, and the new run begins when that has ended."""
    QUEUE = "Queue"
    """It waits; of several that wait, the last one."""


class HistoryLimits(NamedTuple):
    """Numbers of runs that are kept: of those that ended well, and of the others."""

    complete: int = 10
    failed: int = 10


class Schedule(NamedTuple):
    """A template of ActionSets, and the times at which one is made of it."""

    times: Timetable
    timing: str
    """All that says when it comes due, as a text: another one counts anew."""
    jitter_seconds: float = 0.0
    is_suspended: bool = False
    policy: ConcurrencyPolicy = ConcurrencyPolicy.FORBID
    deadline: timedelta | None = None
    windows: tuple[Window, ...] = ()
    history: HistoryLimits = HistoryLimits()
    keep: Keep = Keep()
    zone: tzinfo = UTC
    template: Mapping[str, Any] = MappingProxyType({})


_KEYS = ("apiVersion", "kind", "metadata", "spec", "status")
_SPEC_KEYS = (
    *("schedule", "timeZone", "jitter", "suspend", "concurrencyPolicy", "startingDeadline"),
    *("windows", "historyLimits", "keep", "template"),
)


def parse_schedule(obj: Mapping[str, Any]) -> Schedule:
    """Read an object as a Schedule, or refuse it with every problem in it."""
    reader = _Reader()
    read = reader.schedule(obj)
    if read is None or reader.problems:
        raise InvalidDocument(reader.problems_in(Document.of(dict(obj))))
    return read


def read_what_can_be_read(found: Found) -> tuple[list[UnknownKey], list[Problem]]:
    """Read a found object as a Schedule: the keys that nothing reads, and what is none."""
    reader = _Reader()
    reader.schedule(found.value)
    return reader.unknown, reader.problems_in(found.document, found.path)


class _Reader(Reader):
    """Reader of Schedules."""

    def schedule(self, value: Any) -> Schedule | None:
        data = self.mapping(value, (), _KEYS)
        metadata = self.mapping(data.get("metadata"), ("metadata",))
        name = self.text(metadata, "name", ("metadata",))
        if len(name) > MAX_LABEL:
            why = "it is a label of the ActionSets that are made"
            self.note(("metadata", "name"), f"Must be no more than {MAX_LABEL} characters: {why}")
        path = ("spec",)
        spec = self.mapping(data.get("spec"), path, _SPEC_KEYS)
        line = self.wanted(spec, "schedule", path)
        zone_name = self.text(spec, "timeZone", path)
        jitter = self._seconds(spec, "jitter", path) or 0.0
        deadline = self._seconds(spec, "startingDeadline", path)
        windows = self._windows(spec, path, zone_name)
        template = self._template(spec, path)
        times = self._times(line, zone_name, path)
        policy, history = self._policy(spec, path), self._history(spec, path)
        is_suspended = self.flag(spec, "suspend", path)
        keep = self._keep(spec, path)
        if times is None or self.problems:
            return None
        return Schedule(
            times,
            " ".join([*line.split(), zone_name or "UTC", f"{jitter:g}"]),
            jitter,
            is_suspended,
            policy,
            None if deadline is None else timedelta(seconds=deadline),
            windows,
            history,
            keep,
            zone_of(zone_name),
            template,
        )

    def _times(self, line: str, zone_name: str, path: Path) -> Timetable | None:
        try:
            zone = zone_of(zone_name)
        except InvalidTimetable as error:
            self.note((*path, "timeZone"), error.message)
            return None
        if not line:
            return None
        try:
            return parse_timetable(line, zone)
        except InvalidTimetable as error:
            self.note((*path, "schedule"), error.message)
            return None

    def _seconds(self, data: Mapping[str, Any], key: str, path: Path) -> float | None:
        text = self.text(data, key, path)
        if not text:
            return None
        try:
            seconds = parse_seconds(text)
        except InvalidDuration:
            seconds = -1.0
        if seconds < 0:
            self.refuse((*path, key), "a duration such as 30s or 1h30m", text)
            return None
        if seconds > _MOST[key]:
            self.note((*path, key), f"Must be no more than {_MOST[key] // 3600}h")
            return None
        return seconds

    def _windows(self, spec: Mapping[str, Any], path: Path, zone_name: str) -> tuple[Window, ...]:
        count, found = len(self.problems), []
        for data, inside in self.members(spec, "windows", path, ("schedule", "duration")):
            begins = self.wanted(data, "schedule", inside)
            self.wanted(data, "duration", inside)
            seconds = self._seconds(data, "duration", inside)
            if not begins or not seconds:
                continue
            try:
                times = parse_timetable(begins, zone_of(zone_name))
            except InvalidTimetable as error:
                self.note((*inside, "schedule"), error.message)
                continue
            if not isinstance(times, Cron):
                self.note((*inside, "schedule"), "Must be a cron line: a window has a time of day")
                continue
            found.append(Window(times, seconds))
        if len(self.problems) == count:
            try:
                check_windows(found)
            except InvalidTimetable as error:
                self.note((*path, "windows"), error.message)
        return tuple(found)

    def _policy(self, spec: Mapping[str, Any], path: Path) -> ConcurrencyPolicy:
        value = spec.get("concurrencyPolicy", ConcurrencyPolicy.FORBID)
        if value in tuple(ConcurrencyPolicy):
            return ConcurrencyPolicy(value)
        known = ", ".join(repr(str(each)) for each in ConcurrencyPolicy)
        self.refuse((*path, "concurrencyPolicy"), f"one of {known}", value)
        return ConcurrencyPolicy.FORBID

    def _history(self, spec: Mapping[str, Any], path: Path) -> HistoryLimits:
        inside = (*path, "historyLimits")
        data = self.mapping(spec.get("historyLimits"), inside, HistoryLimits._fields)
        return HistoryLimits(
            *(
                int(self.number(data, key, inside, default, least=0, whole=True))
                for key, default in HistoryLimits._field_defaults.items()
            )
        )

    def _keep(self, spec: Mapping[str, Any], path: Path) -> Keep:
        inside = (*path, "keep")
        if spec.get("keep") is None:
            return Keep()
        data = self.mapping(spec["keep"], inside, Keep._fields)
        counts = [int(self.number(data, key, inside, 0, least=0, whole=True)) for key in COUNTS]
        text, within = self.text(data, "within", inside), timedelta()
        if text:
            within = parse_within(text) or timedelta()
            if not within:
                self.refuse((*inside, "within"), "a time such as 30d, 2w or 12h", text)
        keep = Keep(**dict(zip(COUNTS, counts, strict=True)), within=within)
        if not keep.says_anything and not self.problems:
            self.note(inside, "Must say what stays, such as daily: 7")
        return keep

    def _template(self, spec: Mapping[str, Any], path: Path) -> Mapping[str, Any]:
        inside = (*path, "template")
        if spec.get("template") is None:
            self.note(inside, "Must be given: the ActionSet that is made each time")
            return {}
        data = self.mapping(spec["template"], inside, ("metadata", "spec"))
        metadata = self.mapping(
            data.get("metadata"), (*inside, "metadata"), ("labels", "annotations")
        )
        self.texts(metadata, "labels", (*inside, "metadata"))
        self.texts(metadata, "annotations", (*inside, "metadata"))
        content = self.mapping(data.get("spec"), (*inside, "spec"))
        if not self.items(content, "actions", (*inside, "spec")):
            self.note((*inside, "spec", "actions"), "Must have an action: without one nothing runs")
        return data

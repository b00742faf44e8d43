"""Pydantic model of Schedules, and the parsed Schedule."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, timedelta, tzinfo
from enum import StrEnum
from types import MappingProxyType
from typing import Annotated, Any, Final, NamedTuple

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from kanister_py.core.errors import Problem
from kanister_py.core.kube.durations import InvalidDuration, parse_seconds
from kanister_py.core.kube.names import MAX_LABEL
from kanister_py.core.kube.objects import LocatedObject, Metadata
from kanister_py.core.kube.resources import GroupVersionResource
from kanister_py.core.models import (
    ApiModel,
    Choice,
    DurationText,
    Items,
    NonEmptyText,
    TextMap,
    UnknownKey,
    read_model,
    read_partly,
    refusal,
)
from kanister_py.core.schedules.retention import Keep
from kanister_py.core.schedules.times import (
    Cron,
    InvalidTimetable,
    Timetable,
    Window,
    check_windows,
    parse_timetable,
    zone_of,
)
from kanister_py.core.yaml.documents import Document, shown

SCHEDULES: Final = GroupVersionResource("kanister-py.io", "v1alpha1", "schedules")
KIND: Final = "Schedule"


class ConcurrencyPolicy(StrEnum):
    """Policies for a time at which the previous run has not ended."""

    FORBID = "Forbid"
    """The time is skipped."""
    REPLACE = "Replace"
    """The previous run is cancelled; the new run starts when it has ended."""
    QUEUE = "Queue"
    """The new run waits for the end. Only the last waiting run starts."""


class HistoryLimits(ApiModel):
    """Numbers of ended ActionSets that are kept. ActionSets with artifacts do not count."""

    complete: int = Field(10, ge=0, description="Number of complete ActionSets that are kept.")
    failed: int = Field(10, ge=0, description="Number of other ended ActionSets that are kept.")


class _AtMost:
    """Validator for a duration between zero and a limit, which prevents overflows of dates."""

    def __init__(self, hours: int) -> None:
        self._hours = hours

    def __call__(self, text: str) -> str:
        try:
            seconds = parse_seconds(text) if text else 0.0
        except InvalidDuration:
            seconds = -1.0
        if seconds < 0:
            raise refusal(f"Must be a duration such as 30s or 1h30m, found {shown(text)}")
        if seconds > self._hours * 3600:
            raise refusal(f"Must be no more than {self._hours}h")
        return text


def _check_zone(name: str) -> str:
    try:
        zone_of(name)
    except InvalidTimetable as error:
        raise refusal(error.message) from None
    return name


def _timetable(text: str, zone_name: str) -> Timetable:
    try:
        return parse_timetable(text, zone_of(zone_name))
    except InvalidTimetable as error:
        raise refusal(error.message) from None


class WindowSpec(ApiModel):
    """Recurring time span in which no run starts."""

    schedule: NonEmptyText = Field(
        max_length=256, description="Start of the window, as five fields of cron."
    )
    duration: Annotated[NonEmptyText, AfterValidator(_AtMost(31 * 24))] = Field(
        max_length=32, description="Length of the window, such as 8h."
    )

    @field_validator("schedule")
    @classmethod
    def _check_line(cls, line: str) -> str:
        if not isinstance(_timetable(line, ""), Cron):
            raise refusal("Must be a cron line: a window starts at a time of day")
        return line

    def in_zone(self, zone_name: str) -> Window:
        begins = _timetable(self.schedule, zone_name)
        assert isinstance(begins, Cron)  # checked by the validator
        return Window(begins, parse_seconds(self.duration))


class TemplateMetadata(ApiModel):
    """Metadata of the ActionSets that a Schedule creates."""

    labels: TextMap = Field(default_factory=dict, description="Labels of the ActionSets.")
    annotations: TextMap = Field(default_factory=dict, description="Annotations of the ActionSets.")


class Template(ApiModel):
    """Template of the ActionSets that a Schedule creates."""

    metadata: TemplateMetadata = Field(
        default_factory=TemplateMetadata, description="Labels and annotations of the ActionSets."
    )
    spec: dict[str, Any] = Field(
        default_factory=dict, validate_default=True, description="The spec of the ActionSets."
    )

    @field_validator("spec")
    @classmethod
    def _require_actions(cls, spec: dict[str, Any]) -> dict[str, Any]:
        actions = spec.get("actions")
        if actions is not None and not isinstance(actions, list):
            raise refusal(f"Must be a list, found {shown(actions)}", ("actions",))
        if not actions:
            raise refusal("Must have an action: without one nothing runs", ("actions",))
        return spec


class ScheduleSpec(ApiModel):
    """Times at which ActionSets are created, and retention of their backups."""

    time_zone: Annotated[str, AfterValidator(_check_zone)] = Field(
        "", max_length=64, description="Time zone of the schedule, such as Europe/Berlin."
    )
    schedule: NonEmptyText = Field(
        max_length=256,
        description="Five fields of cron, @hourly, @daily, @weekly, @monthly, @yearly, or "
        "@every 6h.",
    )
    jitter: Annotated[DurationText, AfterValidator(_AtMost(24))] = Field(
        "",
        max_length=32,
        description="Longest delay of a run, such as 10m, to spread the load. A Schedule always "
        "has the same delay.",
    )
    suspend: bool = Field(
        False, description="While true, no run starts; skipped runs are not made up for."
    )
    concurrency_policy: Choice[ConcurrencyPolicy] = Field(
        ConcurrencyPolicy.FORBID,
        description="What happens at a time at which the last run has not ended: the time is "
        "skipped (Forbid, the default), the run is cancelled and the next one starts (Replace), "
        "or the next one waits for its end (Queue).",
    )
    starting_deadline: Annotated[DurationText, AfterValidator(_AtMost(366 * 24))] = Field(
        "",
        max_length=32,
        description="Longest time that a run may start late, such as 1h; until the next time if "
        "left out.",
    )
    windows: Items[WindowSpec] = Field(
        (),
        max_length=20,
        description="Times in which no run starts; a run that is due then starts once at the end.",
    )
    history_limits: HistoryLimits = Field(
        default_factory=HistoryLimits, description="Numbers of ended ActionSets that are kept."
    )
    keep: Keep | None = Field(
        None,
        description="Backups that are kept; the others are deleted by the action `delete` of "
        "their Blueprint. The newest one of each object is always kept. If left out, all are.",
    )
    template: Template = Field(description="The ActionSet that is created each time.")

    @field_validator("schedule")
    @classmethod
    def _check_line(cls, line: str, info: ValidationInfo) -> str:
        _timetable(line, info.data.get("time_zone", ""))
        return line

    @field_validator("windows")
    @classmethod
    def _check_windows(
        cls, windows: tuple[WindowSpec, ...], info: ValidationInfo
    ) -> tuple[WindowSpec, ...]:
        zone_name = info.data.get("time_zone", "")
        try:
            check_windows([window.in_zone(zone_name) for window in windows])
        except InvalidTimetable as error:
            raise refusal(error.message) from None
        return windows

    @field_validator("keep")
    @classmethod
    def _check_keep(cls, keep: Keep | None) -> Keep | None:
        if keep is not None and not keep.has_rules:
            raise refusal("Must have a rule, such as daily: 7")
        return keep


def _check_name(metadata: Metadata) -> Metadata:
    if len(metadata.name) > MAX_LABEL:
        why = "it is the value of a label of ActionSets"
        raise refusal(f"Must be no more than {MAX_LABEL} characters: {why}", ("name",))
    return metadata


class ScheduleObject(ApiModel):
    """Recurring creation of ActionSets."""

    api_version: str = ""
    kind: str = KIND
    metadata: Annotated[Metadata, AfterValidator(_check_name)] = Field(default_factory=Metadata)
    spec: ScheduleSpec = Field(
        description="When ActionSets are created, and which of their backups stay."
    )
    status: Any = Field(None, description="Times of the last and next runs, and conditions.")


class Schedule(NamedTuple):
    """Parsed Schedule: a template of ActionSets, and the times at which one is created."""

    times: Timetable
    timing: str
    """Text with all settings that decide when a run is due. A change restarts the counting."""
    jitter_seconds: float = 0.0
    is_suspended: bool = False
    policy: ConcurrencyPolicy = ConcurrencyPolicy.FORBID
    deadline: timedelta | None = None
    windows: tuple[Window, ...] = ()
    history: HistoryLimits = HistoryLimits()
    keep: Keep = Keep()
    zone: tzinfo = UTC
    template: Mapping[str, Any] = MappingProxyType({})


def parse_schedule(obj: Mapping[str, Any]) -> Schedule:
    """Parse an object as a Schedule. Raises InvalidDocument with all problems."""
    spec = read_model(ScheduleObject, Document.of(dict(obj))).spec
    jitter = parse_seconds(spec.jitter) if spec.jitter else 0.0
    deadline = spec.starting_deadline
    return Schedule(
        times=_timetable(spec.schedule, spec.time_zone),
        timing=" ".join([*spec.schedule.split(), spec.time_zone or "UTC", f"{jitter:g}"]),
        jitter_seconds=jitter,
        is_suspended=spec.suspend,
        policy=spec.concurrency_policy,
        deadline=timedelta(seconds=parse_seconds(deadline)) if deadline else None,
        windows=tuple(window.in_zone(spec.time_zone) for window in spec.windows),
        history=spec.history_limits,
        keep=spec.keep or Keep(),
        zone=zone_of(spec.time_zone),
        template={
            key: value for key, value in obj["spec"]["template"].items() if value is not None
        },
    )


def check_schema(manifest: LocatedObject) -> tuple[list[UnknownKey], list[Problem]]:
    """Return the unknown keys and the problems of a Schedule."""
    partial = read_partly(ScheduleObject, manifest.document, manifest.path)
    return [*partial.unknown_keys], [*partial.problems.values()]

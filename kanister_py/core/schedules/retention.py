"""Retention: which backups of a Schedule are kept, and why.

The rules are those of restic. For each of the last N hours, days and so on that have backups, the
newest backup is kept. While a rule has capacity left, the oldest backup of all is kept as well.
`within` counts back from the newest backup. Backups of different objects form groups; the newest
backup of a group is always kept.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Annotated, Any, Final, NamedTuple

from pydantic import BeforeValidator, Field, WithJsonSchema

from kanister_py.core.models import ApiModel, refusal
from kanister_py.core.yaml.documents import shown

_WITHIN: Final = re.compile(r"(?:(\d{1,5})w)?(?:(\d{1,6})d)?(?:(\d{1,7})h)?")

_MAX_WITHIN: Final = timedelta(days=36_600)


def parse_within(text: str) -> timedelta | None:
    """Parse a time span such as `30d`, `2w` or `1d12h`, or return None."""
    match = _WITHIN.fullmatch(text)
    if match is None or not text:
        return None
    weeks, days, hours = (int(number or 0) for number in match.groups())
    within = timedelta(weeks=weeks, days=days, hours=hours)
    return within if within <= _MAX_WITHIN else None


def _within(value: Any) -> Any:
    if value == "":
        return timedelta()
    if isinstance(value, timedelta):
        return value
    within = parse_within(value) if isinstance(value, str) else None
    if not within:
        raise refusal(f"Must be a time such as 30d, 2w or 12h, found {shown(value)}")
    return within


class Keep(ApiModel):
    """Numbers of backups to keep, by time spans."""

    last: int = Field(0, ge=0, description="Number of newest backups.")
    hourly: int = Field(0, ge=0, description="Number of hours whose newest backup is kept.")
    daily: int = Field(0, ge=0, description="Number of days whose newest backup is kept.")
    weekly: int = Field(0, ge=0, description="Number of weeks whose newest backup is kept.")
    monthly: int = Field(0, ge=0, description="Number of months whose newest backup is kept.")
    yearly: int = Field(0, ge=0, description="Number of years whose newest backup is kept.")
    within: Annotated[
        timedelta,
        BeforeValidator(_within),
        WithJsonSchema(
            {"type": "string", "pattern": f"^{_WITHIN.pattern}$", "minLength": 2, "maxLength": 24}
        ),
    ] = Field(
        timedelta(),
        description="Time before the newest backup in which all backups are kept, such as 30d.",
    )

    @property
    def has_rules(self) -> bool:
        return any(getattr(self, field) for field in type(self).model_fields)


COUNTS: Final = ("last", "hourly", "daily", "weekly", "monthly", "yearly")


class Backup(NamedTuple):
    """Complete run with artifacts. Rules apply to the backups of a group."""

    name: str
    time: datetime
    group: Hashable = ()


class Verdict(NamedTuple):
    """Decision about a backup, with the rules that keep it."""

    backup: Backup
    reasons: tuple[str, ...]

    @property
    def stays(self) -> bool:
        return bool(self.reasons)


_BUCKETS: Final[Sequence[tuple[str, Callable[[datetime], Any]]]] = (
    ("hourly", lambda time: (time.date(), time.hour)),
    ("daily", lambda time: time.date()),
    ("weekly", lambda time: time.isocalendar()[:2]),
    ("monthly", lambda time: (time.year, time.month)),
    ("yearly", lambda time: time.year),
)


def apply_retention(backups: Iterable[Backup], keep: Keep, zone: tzinfo = UTC) -> list[Verdict]:
    """Decide for each backup whether it is kept, newest first. Days are those of the time zone."""
    groups: dict[Hashable, list[Backup]] = {}
    for backup in backups:
        groups.setdefault(backup.group, []).append(backup)
    verdicts = [verdict for group in groups.values() for verdict in _verdicts_of(group, keep, zone)]
    return sorted(verdicts, key=lambda verdict: _age(verdict.backup), reverse=True)


def _age(backup: Backup) -> tuple[datetime, str]:
    return backup.time, backup.name


def _verdicts_of(group: Sequence[Backup], keep: Keep, zone: tzinfo) -> list[Verdict]:
    ordered = sorted(group, key=_age, reverse=True)
    if not keep.has_rules:
        return [Verdict(backup, ("no rule",)) for backup in ordered]
    capacity = keep.model_dump()
    last_buckets: dict[str, Any] = {}
    verdicts = []
    for index, backup in enumerate(ordered):
        is_oldest = index == len(ordered) - 1
        local = backup.time.astimezone(zone)
        reasons = []
        if capacity["last"] > 0:
            capacity["last"] -= 1
            reasons.append("last")
        for rule, bucket_of in _BUCKETS:
            bucket = bucket_of(local)
            if capacity[rule] > 0 and (is_oldest or last_buckets.get(rule) != bucket):
                capacity[rule] -= 1
                last_buckets[rule] = bucket
                reasons.append(rule)
        if keep.within and backup.time >= ordered[0].time - keep.within:
            reasons.append("within")
        verdicts.append(Verdict(backup, tuple(reasons)))
    return verdicts

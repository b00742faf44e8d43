"""Retention: which backups of a schedule stay, why, and which may go.

The rules are restic's: of each of the last so many hours, days and so on that have backups
the newest stays, and while a rule has room the oldest of all stays too. `within` counts back
from the newest backup. Backups of different objects are kept apart: each has its own newest
one, which always stays.
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

_MOST_WITHIN: Final = timedelta(days=36_600)


def parse_within(text: str) -> timedelta | None:
    """Read a time such as `30d`, `2w` or `1d12h`; None if it is none."""
    found = _WITHIN.fullmatch(text)
    if found is None or not text:
        return None
    weeks, days, hours = (int(each or 0) for each in found.groups())
    within = timedelta(weeks=weeks, days=days, hours=hours)
    return within if within <= _MOST_WITHIN else None


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
    """Numbers of backups that stay, by the spans that each is the newest of."""

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
    def says_anything(self) -> bool:
        return any(getattr(self, field) for field in type(self).model_fields)


COUNTS: Final = ("last", "hourly", "daily", "weekly", "monthly", "yearly")


class Backup(NamedTuple):
    """A complete run whose artifacts exist. Only those of one group compete."""

    name: str
    time: datetime
    group: Hashable = ()


class Verdict(NamedTuple):
    """Verdict on a backup: the rules by which it stays, if any."""

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


def judge_backups(backups: Iterable[Backup], keep: Keep, zone: tzinfo = UTC) -> list[Verdict]:
    """Say of each backup whether it stays, the newest first; days are those of a time zone."""
    groups: dict[Hashable, list[Backup]] = {}
    for backup in backups:
        groups.setdefault(backup.group, []).append(backup)
    verdicts = [each for group in groups.values() for each in _judged(group, keep, zone)]
    return sorted(verdicts, key=lambda each: _age(each.backup), reverse=True)


def _age(backup: Backup) -> tuple[datetime, str]:
    return backup.time, backup.name


def _judged(group: Sequence[Backup], keep: Keep, zone: tzinfo) -> list[Verdict]:
    ordered = sorted(group, key=_age, reverse=True)
    if not keep.says_anything:
        return [Verdict(each, ("no rule",)) for each in ordered]
    left = keep.model_dump()
    seen: dict[str, Any] = {}
    verdicts = []
    for index, backup in enumerate(ordered):
        is_oldest = index == len(ordered) - 1
        local = backup.time.astimezone(zone)
        reasons = []
        if left["last"] > 0:
            left["last"] -= 1
            reasons.append("last")
        for rule, bucket_of in _BUCKETS:
            bucket = bucket_of(local)
            if left[rule] > 0 and (is_oldest or seen.get(rule) != bucket):
                left[rule] -= 1
                seen[rule] = bucket
                reasons.append(rule)
        if keep.within and backup.time >= ordered[0].time - keep.within:
            reasons.append("within")
        verdicts.append(Verdict(backup, tuple(reasons)))
    return verdicts

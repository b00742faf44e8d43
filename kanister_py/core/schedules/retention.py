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
from typing import Any, Final, NamedTuple

_WITHIN: Final = re.compile(r"(?:(\d{1,5})w)?(?:(\d{1,6})d)?(?:(\d{1,7})h)?")

_MOST_WITHIN: Final = timedelta(days=36_600)


class Keep(NamedTuple):
    """Numbers of backups that stay, by the spans that each is the newest of."""

    last: int = 0
    hourly: int = 0
    daily: int = 0
    weekly: int = 0
    monthly: int = 0
    yearly: int = 0
    within: timedelta = timedelta()

    @property
    def says_anything(self) -> bool:
        return any(self)


COUNTS: Final = ("last", "hourly", "daily", "weekly", "monthly", "yearly")


def parse_within(text: str) -> timedelta | None:
    """Read a time such as `30d`, `2w` or `1d12h`; None if it is none."""
    found = _WITHIN.fullmatch(text)
    if found is None or not text:
        return None
    weeks, days, hours = (int(each or 0) for each in found.groups())
    within = timedelta(weeks=weeks, days=days, hours=hours)
    return within if within <= _MOST_WITHIN else None


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
    left = keep._asdict()
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

"""Restores: the backup that is meant, of those that there are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from kanister_py.core.actionsets.status import text_of_time
from kanister_py.core.errors import UsageError
from kanister_py.core.schedules.deletions import backups_among
from kanister_py.core.schedules.runs import Run


class NoBackup(UsageError):
    """There is no backup that could be restored."""

    reason = "NoBackup"


def time_of(run: Run) -> datetime:
    """Say of when a backup is: its time on the schedule, or when it was begun."""
    return run.time or run.created


def choose_backup(
    what: str, runs: Iterable[Run], deletions: Iterable[Run], at: datetime | None
) -> Run:
    """Give the newest backup, or the newest that is no younger than a moment.

    What somebody has begun to delete is no backup any more.
    """
    leaving = {each.parent for each in deletions}
    backups = sorted(
        (each for each in backups_among(runs) if each.name not in leaving),
        key=lambda each: (time_of(each), each.name),
        reverse=True,
    )
    found = next((each for each in backups if at is None or time_of(each) <= at), None)
    if found is None:
        raise NoBackup(_account(what, backups, at))
    return found


def _account(what: str, backups: Sequence[Run], at: datetime | None) -> str:
    if not backups or at is None:
        return f"{what} has no backup: no run of it is complete and has left artifacts that exist"
    oldest = backups[-1]
    return (
        f"{what} has no backup from {text_of_time(at)} or before; the oldest is {oldest.name}, "
        f"of {text_of_time(time_of(oldest))}"
    )

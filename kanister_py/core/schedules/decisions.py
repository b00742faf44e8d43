"""Decisions about a schedule: run, wait, skip or cancel, from its spec and what was done.

Exactly one run for each time rests on three things: the ActionSet of a time has a name that
follows from schedule and time, so that to create it is to take a lock; the time is noted
when that is done, and no earlier one counts after that; and of all times that were missed
the last one alone counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, NamedTuple

from kanister_py.core.schedules.model import ConcurrencyPolicy, Schedule
from kanister_py.core.schedules.times import free_at, jitter_of, last_until

_MOST_REMEMBERED: Final = 10
_NEXT_TIMES: Final = 3


class Act(StrEnum):
    """Acts that a pass over a schedule may come to."""

    REST = "Rest"
    START = "Start"
    SKIP = "Skip"
    """The time is noted as one that has been, and nothing runs."""
    WAIT = "Wait"
    """The time has come, and something is in its way that passes."""
    REPLACE = "Replace"
    """As WAIT, and what is in its way is cancelled."""


class Reason(StrEnum):
    """Reasons for an act."""

    SUSPENDED = "Suspended"
    NOTHING_DUE = "NothingDue"
    DUE = "Due"
    MISSED = "Missed"
    STILL_RUNNING = "StillRunning"
    IN_WINDOW = "InWindow"
    QUEUED = "Queued"


class Memory(NamedTuple):
    """Memory of a schedule, as its status keeps it."""

    since: datetime
    """Times count from here on: its creation, the last change of its timing, or a resumption."""
    last: datetime | None = None
    """The last time that was seen to."""
    recent: tuple[datetime, ...] = ()
    """The last times that something ran at, for a clock that goes back."""

    @property
    def seen_to(self) -> datetime:
        return self.since if self.last is None else max(self.since, self.last)

    def noting(self, time: datetime, *, has_run: bool) -> Memory:
        recent = (*self.recent, time)[-_MOST_REMEMBERED:] if has_run else self.recent
        return self._replace(last=time, recent=recent)


class Decision(NamedTuple):
    """An act, its time, and when to look again if nothing happens before."""

    act: Act
    reason: Reason
    memory: Memory
    time: datetime | None = None
    look_at: datetime | None = None


class Situation(NamedTuple):
    """A schedule, the object it stands in, and what is so at the moment."""

    schedule: Schedule
    uid: str
    created: datetime
    memory: Memory
    is_running: bool
    now: datetime

    @property
    def jitter(self) -> timedelta:
        return jitter_of(self.uid, self.schedule.jitter_seconds)

    def start_after(self, time: datetime) -> datetime | None:
        """Say when the first time after another one is to start, windows aside."""
        following = self.schedule.times.next_after(time, self.created)
        return None if following is None else following + self.jitter


def decide(situation: Situation) -> Decision:
    """Say what is to be done now."""
    schedule, now = situation.schedule, situation.now
    memory = _put_right(situation)
    situation = situation._replace(memory=memory)
    if schedule.is_suspended:
        return Decision(Act.REST, Reason.SUSPENDED, memory)
    due = last_until(schedule.times, memory.seen_to, now - situation.jitter, situation.created)
    following = situation.start_after(due or max(memory.seen_to, now - situation.jitter))
    if due is None or due in memory.recent:
        return Decision(Act.REST, Reason.NOTHING_DUE, memory, look_at=following)
    too_late = None
    if schedule.deadline is not None:
        # Within the last moment it is not too late yet.
        too_late = due + situation.jitter + schedule.deadline + timedelta(milliseconds=1)
        if now >= too_late:
            skipped = memory.noting(due, has_run=False)
            return Decision(Act.SKIP, Reason.MISSED, skipped, due, following)
    waits_until = earliest(following, too_late)
    free = free_at(schedule.windows, now)
    if free != now:
        look_at = earliest(free, waits_until)
        return Decision(Act.WAIT, Reason.IN_WINDOW, memory, due, look_at)
    if not situation.is_running:
        started = memory.noting(due, has_run=True)
        return Decision(Act.START, Reason.DUE, started, due, following)
    if schedule.policy is ConcurrencyPolicy.FORBID:
        skipped = memory.noting(due, has_run=False)
        return Decision(Act.SKIP, Reason.STILL_RUNNING, skipped, due, following)
    act = Act.REPLACE if schedule.policy is ConcurrencyPolicy.REPLACE else Act.WAIT
    return Decision(act, Reason.QUEUED, memory, due, waits_until)


def earliest(*moments: datetime | None) -> datetime | None:
    """Give the first of several moments, of those that there are."""
    return min((each for each in moments if each is not None), default=None)


def _put_right(situation: Situation) -> Memory:
    """Forget what lies more than one time ahead: the clock was wrong when it was written.

    Of one time ahead nothing is forgotten: that is a clock that was a little fast.
    """
    memory, now = situation.memory, situation.now
    if memory.seen_to <= now:
        return memory
    following = situation.schedule.times.next_after(now, situation.created)
    if following is None or memory.seen_to <= following:
        return memory
    return memory._replace(since=now, last=None)


def next_starts(situation: Situation, count: int = _NEXT_TIMES) -> Iterator[datetime]:
    """Say when the next runs begin, jitter and windows in, if nothing is in their way."""
    schedule = situation.schedule
    if schedule.is_suspended:
        return
    time = max(_put_right(situation).seen_to, situation.now - situation.jitter)
    last = None
    while count:
        following = schedule.times.next_after(time, situation.created)
        if following is None:
            return
        start = free_at(schedule.windows, following + situation.jitter)
        if start is None:
            return
        # Of several that fall into one window, one is made up for.
        time = max(following, start - situation.jitter)
        if start != last and following not in situation.memory.recent:
            yield start
            last, count = start, count - 1

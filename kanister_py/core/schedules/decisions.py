"""Decisions about a Schedule: start, wait, skip or replace a run.

Every time leads to exactly one run for three reasons. The name of the ActionSet is derived from the
Schedule and the time, so that creating it acts as a lock. The time is then recorded, and no earlier
time counts any longer. Of several missed times only the last one counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, NamedTuple

from kanister_py.core.schedules.model import ConcurrencyPolicy, Schedule
from kanister_py.core.schedules.times import jitter_of, last_until, unblocked_at

_MAX_RECENT: Final = 10
_NEXT_TIMES: Final = 3


class Act(StrEnum):
    """Action of a reconcile of a Schedule."""

    REST = "Rest"
    START = "Start"
    SKIP = "Skip"
    """The time is recorded as handled, and no run starts."""
    WAIT = "Wait"
    """A run is due, but must wait."""
    REPLACE = "Replace"
    """Like WAIT, and the running ActionSet is cancelled."""


class Reason(StrEnum):
    """Reason for an action."""

    SUSPENDED = "Suspended"
    NOTHING_DUE = "NothingDue"
    DUE = "Due"
    MISSED = "Missed"
    STILL_RUNNING = "StillRunning"
    IN_WINDOW = "InWindow"
    QUEUED = "Queued"


class Memory(NamedTuple):
    """Past of a Schedule, as stored in its status."""

    since: datetime
    """Times count from here: the creation, the last change of the timing, or a resumption."""
    last: datetime | None = None
    """Last time that was handled."""
    recent: tuple[datetime, ...] = ()
    """Times of the last runs, for clocks that are set back."""

    @property
    def handled_until(self) -> datetime:
        return self.since if self.last is None else max(self.since, self.last)

    def with_handled(self, time: datetime, *, has_run: bool) -> Memory:
        recent = (*self.recent, time)[-_MAX_RECENT:] if has_run else self.recent
        return self._replace(last=time, recent=recent)


class Decision(NamedTuple):
    """Action with its time, and when to reconcile next at the latest."""

    act: Act
    reason: Reason
    memory: Memory
    time: datetime | None = None
    requeue_at: datetime | None = None


class Situation(NamedTuple):
    """Schedule with everything that a decision depends on."""

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
        """Return the start for the first time after `time`, without regard to windows."""
        following = self.schedule.times.next_after(time, self.created)
        return None if following is None else following + self.jitter


def decide(situation: Situation) -> Decision:
    """Decide what to do now."""
    schedule, now = situation.schedule, situation.now
    memory = _corrected_memory(situation)
    situation = situation._replace(memory=memory)
    if schedule.is_suspended:
        return Decision(Act.REST, Reason.SUSPENDED, memory)
    due = last_until(
        schedule.times, memory.handled_until, now - situation.jitter, situation.created
    )
    following = situation.start_after(due or max(memory.handled_until, now - situation.jitter))
    if due is None or due in memory.recent:
        return Decision(Act.REST, Reason.NOTHING_DUE, memory, requeue_at=following)
    too_late = None
    if schedule.deadline is not None:
        # The deadline itself still counts as in time.
        too_late = due + situation.jitter + schedule.deadline + timedelta(milliseconds=1)
        if now >= too_late:
            skipped = memory.with_handled(due, has_run=False)
            return Decision(Act.SKIP, Reason.MISSED, skipped, due, following)
    wait_until = earliest(following, too_late)
    unblocked = unblocked_at(schedule.windows, now)
    if unblocked != now:
        requeue_at = earliest(unblocked, wait_until)
        return Decision(Act.WAIT, Reason.IN_WINDOW, memory, due, requeue_at)
    if not situation.is_running:
        started = memory.with_handled(due, has_run=True)
        return Decision(Act.START, Reason.DUE, started, due, following)
    if schedule.policy is ConcurrencyPolicy.FORBID:
        skipped = memory.with_handled(due, has_run=False)
        return Decision(Act.SKIP, Reason.STILL_RUNNING, skipped, due, following)
    act = Act.REPLACE if schedule.policy is ConcurrencyPolicy.REPLACE else Act.WAIT
    return Decision(act, Reason.QUEUED, memory, due, wait_until)


def earliest(*moments: datetime | None) -> datetime | None:
    """Return the earliest of the given moments, or None."""
    return min((moment for moment in moments if moment is not None), default=None)


def _corrected_memory(situation: Situation) -> Memory:
    """Reset a memory that is more than one time ahead of the clock, which was wrong before.

    A memory that is at most one time ahead is kept: the clock was only slightly fast.
    """
    memory, now = situation.memory, situation.now
    if memory.handled_until <= now:
        return memory
    following = situation.schedule.times.next_after(now, situation.created)
    if following is None or memory.handled_until <= following:
        return memory
    return memory._replace(since=now, last=None)


def next_starts(situation: Situation, count: int = _NEXT_TIMES) -> Iterator[datetime]:
    """Yield the next starts, including jitter and windows, if no other run delays them."""
    schedule = situation.schedule
    if schedule.is_suspended:
        return
    time = max(_corrected_memory(situation).handled_until, situation.now - situation.jitter)
    last = None
    while count:
        following = schedule.times.next_after(time, situation.created)
        if following is None:
            return
        start = unblocked_at(schedule.windows, following + situation.jitter)
        if start is None:
            return
        # Several times in one window lead to a single start.
        time = max(following, start - situation.jitter)
        if start != last and following not in situation.memory.recent:
            yield start
            last, count = start, count - 1

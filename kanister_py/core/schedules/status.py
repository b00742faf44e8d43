"""Status of a Schedule: its memory, and information for users."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Final, NamedTuple

from kanister_py.core.actionsets.status import parse_time, text_of_time
from kanister_py.core.kube.parts import (
    condition_of,
    conditions_of,
    is_true,
    metadata_of,
    status_of,
)
from kanister_py.core.schedules.decisions import Act, Decision, Memory, Situation, next_starts
from kanister_py.core.schedules.deletions import Plan
from kanister_py.core.schedules.model import Schedule
from kanister_py.core.schedules.runs import Run, backups_among

LAST_RUN_FAILED: Final = "LastRunFailed"
"""Reason of the condition `Ready` if the last run failed."""

_INTERVALS: Final = 8


def created_at(obj: Mapping[str, Any], now: datetime) -> datetime:
    return parse_time(metadata_of(obj).get("creationTimestamp")) or now


def is_suspended(obj: Mapping[str, Any]) -> bool:
    """Return whether the Schedule was suspended at the last reconcile."""
    return is_true(obj, "Suspended")


def not_ready_condition(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the condition `Ready` if it is false, else an empty mapping."""
    ready = condition_of(obj, "Ready")
    return ready if ready.get("status") == "False" else {}


def why_not_ready(status: Mapping[str, Any], *, is_suspended: bool) -> tuple[str, str]:
    """Return reason and message why a valid Schedule is not ready, or empty texts if it is."""
    if is_suspended:
        return "Suspended", "The Schedule is suspended: no run starts until it is resumed"
    failed, succeeded = (
        parse_time(status.get(key)) for key in ("lastFailureTime", "lastSuccessfulTime")
    )
    if failed is None or (succeeded is not None and succeeded >= failed):
        return "", ""
    why = ": ".join(
        str(status[key]) for key in ("lastFailureReason", "lastFailureMessage") if status.get(key)
    )
    message = f"The last run {status.get('lastFailed')} failed{': ' if why else ''}{why}"
    return LAST_RUN_FAILED, message


def longest_interval(schedule: Schedule, created: datetime, now: datetime) -> timedelta | None:
    """Return the longest interval between the next times, even of a suspended Schedule."""
    times = [now]
    while len(times) <= _INTERVALS:
        following = schedule.times.next_after(times[-1], created)
        if following is None:
            break
        times.append(following)
    return max((after - before for before, after in pairwise(times[1:])), default=None)


def memory_of(obj: Mapping[str, Any], schedule: Schedule, now: datetime) -> Memory:
    """Read the memory of a Schedule. After a change of the timing or a resumption, times count from
    now.
    """
    status = status_of(obj)
    last = parse_time(status.get("lastScheduleTime"))
    times = map(parse_time, status.get("recentTimes") or ())
    recent = tuple(time for time in times if time is not None)
    timing = status.get("timing")
    since = parse_time(status.get("countsFrom")) or created_at(obj, now)
    if timing is not None:
        is_resumed = is_suspended(obj) and not schedule.is_suspended
        if timing != schedule.timing or is_resumed:
            since = now
    return Memory(since, last, recent)


def has_handled(obj: Mapping[str, Any], time: datetime) -> bool:
    """Return whether a Schedule will not start another run for a time."""
    status = status_of(obj)
    if text_of_time(time) in (status.get("recentTimes") or ()):
        return True
    moments = (parse_time(status.get(key)) for key in ("lastScheduleTime", "countsFrom"))
    return any(moment is not None and time <= moment for moment in moments)


def situation_of(
    obj: Mapping[str, Any], schedule: Schedule, now: datetime, *, is_running: bool = False
) -> Situation:
    """Build the situation of a Schedule from its object."""
    uid, memory = str(metadata_of(obj).get("uid") or ""), memory_of(obj, schedule, now)
    return Situation(schedule, uid, created_at(obj, now), memory, is_running, now)


class RunReport(NamedTuple):
    """Runs and deletion plan for a status."""

    runs: Sequence[Run]
    started: str = ""
    """Name of the run that was just created and is not among `runs` yet."""
    plan: Plan = Plan()


def status_after(
    obj: Mapping[str, Any], situation: Situation, decision: Decision, report: RunReport
) -> dict[str, Any]:
    """Return the status of a Schedule after a decision has been carried out."""
    memory = decision.memory
    status: dict[str, Any] = {
        "observedGeneration": metadata_of(obj).get("generation", 0),
        "timing": situation.schedule.timing,
        "countsFrom": text_of_time(memory.since),
    }
    after = situation._replace(memory=memory)
    _set(status, "lastScheduleTime", memory.last)
    if memory.recent:
        status["recentTimes"] = list(map(text_of_time, memory.recent))
    nexts = [text_of_time(start) for start in next_starts(after)]
    if nexts:
        status["nextTimes"] = nexts
    if decision.act in (Act.WAIT, Act.REPLACE):
        _set(status, "waitingTime", decision.time)
    _add_runs(status, status_of(obj), report)
    if situation.schedule.keep.has_rules:
        kept = report.plan.kept
        status["backups"] = {"kept": kept, "leaving": len(backups_among(report.runs)) - kept}
    if conditions_of(obj):
        status["conditions"] = list(conditions_of(obj))
    return status


def _set(status: dict[str, Any], key: str, time: datetime | None) -> None:
    if time is not None:
        status[key] = text_of_time(time)


def _add_runs(status: dict[str, Any], before: Mapping[str, Any], report: RunReport) -> None:
    active = sorted(run.name for run in report.runs if run.is_active)
    if report.started and report.started not in active:
        active.append(report.started)
    if active:
        status["active"] = active
    for key, name, is_complete in (
        ("lastSuccessfulTime", "lastSuccessful", True),
        ("lastFailureTime", "lastFailed", False),
    ):
        last = _last_ended(
            run
            for run in report.runs
            # A run that was cancelled on request has not failed.
            if run.is_complete is is_complete and not (run.is_cancelled and not is_complete)
        )
        recorded = parse_time(before.get(key))
        if (
            last is not None
            and last.ended is not None
            and (recorded is None or last.ended >= recorded)
        ):
            status[key], status[name] = text_of_time(last.ended), last.name
            if not is_complete:
                status["lastFailureReason"], status["lastFailureMessage"] = last.reason, last.error
        elif recorded is not None:
            # The ActionSet may have been deleted; keep the recorded run.
            status[key], status[name] = before[key], before.get(name, "")
            if not is_complete:
                for field in ("lastFailureReason", "lastFailureMessage"):
                    status[field] = before.get(field, "")
    ended = _last_ended(report.runs)
    last_state = "running" if active else ended.state if ended else before.get("lastState")
    if last_state:
        status["lastState"] = last_state


def _last_ended(runs: Iterable[Run]) -> Run | None:
    ended = [run for run in runs if run.ended is not None]
    return max(ended, key=lambda run: (run.ended, run.name), default=None)

"""Decisions about a Schedule: start, wait, skip or replace."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kanister_py.core.errors import InvalidDocument
from kanister_py.core.schedules.decisions import (
    Act,
    Decision,
    Memory,
    Reason,
    Situation,
    decide,
    next_starts,
)
from kanister_py.core.schedules.model import ConcurrencyPolicy, parse_schedule
from kanister_py.core.schedules.retention import Keep
from kanister_py.core.schedules.times import jitter_of
from tests.core.schedules.schedules import CREATED, at, schedule


def situation(
    now: str | datetime,
    *,
    memory: Memory | None = None,
    is_running: bool = False,
    **spec: Any,
) -> Situation:
    moment = at(now) if isinstance(now, str) else now
    read = parse_schedule(schedule(**spec))
    return Situation(read, "uid", CREATED, memory or Memory(CREATED), is_running, moment)


OFFICE = [{"schedule": "0 1 * * *", "duration": "4h"}]


@pytest.mark.parametrize(
    ("now", "spec", "is_running", "expected", "requeue_at"),
    [
        pytest.param(
            "2026-11-19T01:59:59",
            {},
            False,
            (Act.REST, Reason.NOTHING_DUE),
            "2026-11-19T02:00",
            id="nothing is due",
        ),
        pytest.param(
            "2026-11-19T02:00:00",
            {},
            False,
            (Act.START, Reason.DUE),
            "2026-11-20T02:00",
            id="it is time",
        ),
        pytest.param(
            "2026-11-19T02:00:00",
            {"suspend": True},
            False,
            (Act.REST, Reason.SUSPENDED),
            None,
            id="due, but suspended",
        ),
        pytest.param(
            "2026-11-23T09:00:00",
            {},
            False,
            (Act.START, Reason.DUE),
            "2026-11-24T02:00",
            id="five times were missed",
        ),
        pytest.param(
            "2026-11-19T03:00:00",
            {"startingDeadline": "1h"},
            False,
            (Act.START, Reason.DUE),
            "2026-11-20T02:00",
            id="the last moment before the deadline",
        ),
        pytest.param(
            "2026-11-19T03:00:01",
            {"startingDeadline": "1h"},
            False,
            (Act.SKIP, Reason.MISSED),
            "2026-11-20T02:00",
            id="the deadline has passed",
        ),
        pytest.param(
            "2026-11-19T02:00:00",
            {"windows": OFFICE},
            False,
            (Act.WAIT, Reason.IN_WINDOW),
            "2026-11-19T05:00",
            id="a window is in the way",
        ),
        pytest.param(
            "2026-11-19T05:00:00",
            {"windows": OFFICE},
            False,
            (Act.START, Reason.DUE),
            "2026-11-20T02:00",
            id="the window has ended",
        ),
        pytest.param(
            "2026-11-19T02:00:00",
            {},
            True,
            (Act.SKIP, Reason.STILL_RUNNING),
            "2026-11-20T02:00",
            id="still running, Forbid",
        ),
        pytest.param(
            "2026-11-19T02:00:00",
            {"concurrencyPolicy": "Queue"},
            True,
            (Act.WAIT, Reason.QUEUED),
            "2026-11-20T02:00",
            id="still running, Queue",
        ),
        pytest.param(
            "2026-11-19T02:00:00",
            {"concurrencyPolicy": "Replace"},
            True,
            (Act.REPLACE, Reason.QUEUED),
            "2026-11-20T02:00",
            id="still running, Replace",
        ),
        pytest.param(
            "2026-11-19T01:00:00",
            {"concurrencyPolicy": "Replace"},
            True,
            (Act.REST, Reason.NOTHING_DUE),
            "2026-11-19T02:00",
            id="still running, nothing due",
        ),
        pytest.param(
            "2026-11-18T13:00:00",
            {"schedule": "@every 1h"},
            False,
            (Act.START, Reason.DUE),
            "2026-11-18T14:00",
            id="interval has passed since the creation",
        ),
    ],
)
def test_decision(
    now: str,
    spec: dict[str, Any],
    is_running: bool,
    expected: tuple[Act, Reason],
    requeue_at: str | None,
) -> None:
    decision = decide(situation(now, is_running=is_running, **spec))
    assert (decision.act, decision.reason) == expected
    assert decision.requeue_at == (at(requeue_at) if requeue_at else None)


def test_waiting_run_is_reconciled_at_its_deadline() -> None:
    waits = situation(
        "2026-11-19T02:10",
        is_running=True,
        concurrencyPolicy="Queue",
        startingDeadline="30m",
    )
    decision = decide(waits)
    assert decision.act is Act.WAIT
    assert decision.requeue_at is not None
    after = decide(waits._replace(now=decision.requeue_at))
    assert (after.act, after.reason) == (Act.SKIP, Reason.MISSED)


def test_last_of_several_waiting_times_runs() -> None:
    waits = situation(
        "2026-11-19T02:30", is_running=True, concurrencyPolicy="Queue", schedule="*/10 * * * *"
    )
    assert decide(waits).time == at("2026-11-19T02:30")
    started = decide(waits._replace(is_running=False, now=at("2026-11-19T03:05")))
    assert (started.act, started.time) == (Act.START, at("2026-11-19T03:00"))
    again = waits._replace(memory=started.memory, is_running=False, now=at("2026-11-19T03:06"))
    assert decide(again).act is Act.REST


def test_jitter_delays_every_run_by_the_same_time() -> None:
    late = jitter_of("uid", 600)
    assert timedelta() < late < timedelta(minutes=10)
    rests = situation("2026-11-19T02:00", jitter="10m")
    assert decide(rests).requeue_at == at("2026-11-19T02:00") + late
    started = decide(rests._replace(now=at("2026-11-19T02:00") + late))
    assert (started.act, started.time) == (Act.START, at("2026-11-19T02:00"))
    assert started.requeue_at == at("2026-11-20T02:00") + late


class TestClockChange:
    """Exactly one run for every time, even if the clock jumps."""

    def test_slightly_fast_clock_runs_nothing_twice(self) -> None:
        started = decide(situation("2026-11-19T02:00"))
        after = situation("2026-11-19T01:30", memory=started.memory)
        assert decide(after).act is Act.REST
        at_its_time = after._replace(now=at("2026-11-19T02:00"))
        assert decide(at_its_time).act is Act.REST
        assert decide(at_its_time).requeue_at == at("2026-11-20T02:00")

    def test_clock_a_year_ahead_does_not_stop_backups(self) -> None:
        started = decide(situation("2027-11-19T02:00"))
        after = situation("2026-11-19T12:00", memory=started.memory)
        assert decide(after).requeue_at == at("2026-11-20T02:00")
        next_one = after._replace(now=at("2026-11-20T02:00"))
        assert decide(next_one).act is Act.REST, "times count from when it was put right"
        kept = after._replace(memory=decide(after).memory, now=at("2026-11-20T02:00"))
        assert decide(kept).act is Act.START

    def test_runs_of_a_fast_clock_do_not_run_again(self) -> None:
        memory = Memory(CREATED)
        for day in range(19, 23):
            memory = decide(situation(f"2026-11-{day}T02:00", memory=memory)).memory
        back = situation("2026-11-19T12:00", memory=memory)
        memory = decide(back).memory
        for day in range(20, 23):
            decision = decide(situation(f"2026-11-{day}T02:00", memory=memory))
            assert decision.act is Act.REST
            memory = decision.memory
        assert decide(situation("2026-11-23T02:00", memory=memory)).act is Act.START


MOMENTS = st.integers(0, 6 * 24 * 60).map(lambda minutes: CREATED + timedelta(minutes=minutes))
SPECS = st.fixed_dictionaries(
    {
        "schedule": st.sampled_from(["0 2 * * *", "*/20 * * * *", "@every 7h", "30 23 * * 4"]),
        "concurrencyPolicy": st.sampled_from([str(entry) for entry in ConcurrencyPolicy]),
        "suspend": st.booleans(),
        "jitter": st.sampled_from(["0s", "15m"]),
    },
    optional={
        "startingDeadline": st.sampled_from(["0s", "10m", "12h"]),
        "windows": st.just(OFFICE),
    },
)


@settings(derandomize=True)
@given(SPECS, st.lists(st.tuples(MOMENTS, st.booleans()), min_size=1, max_size=12))
def test_every_time_runs_at_most_once_and_every_wait_ends(
    spec: dict[str, Any], looks: list[tuple[datetime, bool]]
) -> None:
    memory, ran = Memory(CREATED), list[datetime]()
    for now, is_running in looks:
        now_ = situation(now, memory=memory, is_running=is_running, **spec)
        decision = decide(now_)
        _check(now_, decision)
        if decision.act is Act.START and decision.time is not None:
            ran.append(decision.time)
        memory = decision.memory
        # A second decision at the same moment is to do nothing.
        again = decide(now_._replace(memory=memory))
        assert again.act not in (Act.START, Act.SKIP)
    assert len(ran) == len(set(ran))


def _check(now: Situation, decision: Decision) -> None:
    assert decision.requeue_at is None or decision.requeue_at > now.now
    assert (decision.requeue_at is None) is now.schedule.is_suspended
    assert (decision.time is None) is (decision.act is Act.REST)
    if decision.time is not None:
        assert decision.time + now.jitter <= now.now
    if decision.act is Act.START:
        assert not now.is_running
        assert not now.schedule.is_suspended


WILD = st.one_of(
    st.sampled_from(["", "0s", "1h", "24h", "744h", "8784h", "2562047h", "-1h", "x", "1e9s"]),
    st.text(max_size=12),
    st.none(),
    st.integers(),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)


@settings(derandomize=True)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "schedule": WILD
            | st.sampled_from(["@every 8784h", "@every 2562047h", "* * * * *", "0 0 29 2 *"]),
            "timeZone": WILD | st.sampled_from(["Pacific/Apia", "localtime", "..", "Europe"]),
            "jitter": WILD,
            "startingDeadline": WILD,
            "windows": WILD
            | st.lists(
                st.fixed_dictionaries(
                    {"schedule": st.sampled_from(["* * * * *", "0 0 * * 1", "x"]), "duration": WILD}
                ),
                max_size=3,
            ),
            "keep": WILD | st.dictionaries(st.sampled_from([*Keep.model_fields]), WILD, max_size=3),
            "historyLimits": WILD,
            "template": WILD,
        },
    )
)
def test_every_spec_is_decided_or_refused(spec: dict[str, Any]) -> None:
    """One invalid Schedule must not stop the others from being reconciled."""
    try:
        read = parse_schedule(schedule(**spec))
    except InvalidDocument:
        return
    rests = Situation(read, "uid", CREATED, Memory(CREATED), False, at("2026-12-01T00:00"))
    _check(rests, decide(rests))
    assert all(start >= rests.now for start in next_starts(rests))


def test_next_starts_include_jitter_and_windows() -> None:
    rests = situation("2026-11-19T12:00", windows=OFFICE)
    days = ["2026-11-20T05:00", "2026-11-21T05:00", "2026-11-22T05:00"]
    assert list(next_starts(rests)) == [*map(at, days)]
    often = situation("2026-11-19T00:30", windows=OFFICE, schedule="*/20 * * * *")
    assert list(next_starts(often)) == [
        at("2026-11-19T00:40"),
        at("2026-11-19T05:00"),
        at("2026-11-19T05:20"),
    ]
    assert list(next_starts(situation("2026-11-19T12:00", suspend=True))) == []

"""Cost of idle schedules, and delay of their starts, on a real API server."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

from kanister_py.core.actionsets.status import parse_time
from kanister_py.core.kube.resources import ACTION_SETS
from kanister_py.core.schedules.model import SCHEDULES
from tests.bench.bench_controller import SPACE, Process, Stage, staged_rows
from tests.bench.measure import Row
from tests.core.schedules.schedules import schedule

TITLE = "Schedules on a real API server on the same machine"

MANY = 5_000
_IDLE_SECONDS = 60.0
_STARTS = 8
_PATIENCE_SECONDS = 600.0


def rows() -> list[Row]:
    return staged_rows(_starts, _idle)


def _starts(stage: Stage) -> list[Row]:
    """Watch for ActionSets, and compare their creation with the scheduled time."""
    late: list[float] = []
    version = stage.cluster.list(ACTION_SETS, namespace=SPACE, limit=1).resource_version
    obj = schedule("often", namespace=SPACE, schedule="@every 2s", concurrencyPolicy="Queue")
    obj["spec"]["template"]["spec"]["actions"][0]["blueprint"] = "one"
    with (
        stage.controller(),
        stage.cluster.watch(
            ACTION_SETS,
            namespace=SPACE,
            resource_version=version,
            timeout_seconds=_PATIENCE_SECONDS,
        ) as events,
    ):
        stage.cluster.create(obj)
        for event in events:
            notes = event.object["metadata"].get("annotations") or {}
            time_ = parse_time(notes.get("kanister-py.io/scheduled-at"))
            if event.type != "ADDED" or time_ is None:
                continue
            late.append((_now() - time_).total_seconds())
            if len(late) > _STARTS:
                break
    stage.cluster.delete(SCHEDULES, "often", namespace=SPACE)
    # The first one waits for the start of the controller.
    worst = max(late[1:])
    return [Row("maximum delay of a start", f"{worst * 1000:.0f} ms", "< 1 s", worst < 1.0)]


def _idle(stage: Stage) -> list[Row]:
    with stage.controller() as process:
        idle, bare = _usage_when_idle(process)
    far = _now() + timedelta(hours=12)
    lines = [f"{number % 60} {far.hour} * * *" for number in range(MANY)]

    def create(number: int) -> object:
        obj: Any = schedule(f"nightly-{number}", namespace=SPACE, schedule=lines[number])
        obj["spec"]["timeZone"] = "Europe/Berlin" if number % 2 else "UTC"
        return stage.cluster.create(obj)

    with ThreadPoolExecutor(16) as threads:
        list(threads.map(create, range(MANY)))
    began = time.perf_counter()
    with stage.controller():
        while _not_reconciled(stage):
            assert time.perf_counter() - began < _PATIENCE_SECONDS, (
                "not all schedules were reconciled"
            )
            time.sleep(1)
    first = time.perf_counter() - began
    with stage.controller() as process:
        share, megabytes = _usage_when_idle(process)
    cost, more = share - idle, megabytes - bare
    return [
        Row(f"{MANY:,} new ones: time until all are reconciled", f"{first:.0f} s", "for reading"),
        Row(f"{MANY:,} idle ones: additional share of a core", f"{cost:.2%}", "< 1 %", cost < 0.01),
        Row(f"{MANY:,} idle ones: additional memory", f"{more:.0f} MB", "< 60 MB", more < 60),
    ]


def _usage_when_idle(process: Process) -> tuple[float, float]:
    time.sleep(15)
    before, began = process.processor_seconds, time.perf_counter()
    time.sleep(_IDLE_SECONDS)
    share = (process.processor_seconds - before) / (time.perf_counter() - began)
    return share, process.megabytes


def _not_reconciled(stage: Stage) -> int:
    schedules = stage.cluster.list(SCHEDULES, namespace=SPACE).items
    return sum(not (obj.get("status") or {}).get("nextTimes") for obj in schedules)


def _now() -> datetime:
    return datetime.now(UTC)  # noqa: TID251 # compared with the clock of the controller

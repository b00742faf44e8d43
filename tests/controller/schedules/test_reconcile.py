"""Reconciling schedules: runs that are due, their history, conditions and metrics."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from kanister_py.controller.schedules.reconcile import ScheduleReconciler
from kanister_py.core.actionsets.stored_status import ARTIFACTS_ANNOTATION, DELETED
from kanister_py.core.errors import KanisterError, LeadershipLost
from kanister_py.core.kube.resources import ACTION_SETS
from kanister_py.core.schedules.model import SCHEDULES
from tests.controller.conftest import Mortal
from tests.controller.part_tools import part_tools
from tests.controller.schedules.schedule_environment import KEY, ScheduleEnvironment
from tests.core.schedules.schedules import at, schedule


@pytest.fixture
def env() -> ScheduleEnvironment:
    return ScheduleEnvironment()


def test_the_actionset_of_a_due_time_follows_the_template(env: ScheduleEnvironment) -> None:
    template = schedule()["spec"]["template"]
    template["metadata"] = {"labels": {"team": "db"}, "annotations": {"why": "nightly"}}
    env.create(template=template)
    assert env.reconcile().requeue_seconds == 14 * 3600
    env.reconcile("2026-11-19T02:00")
    (created,) = env.actionsets()
    assert created["metadata"]["name"].startswith("nightly-20261119020000-")
    assert created["metadata"]["labels"] == {"team": "db", "kanister-py.io/schedule": "nightly"}
    assert created["metadata"]["annotations"] == {
        "why": "nightly",
        "kanister-py.io/scheduled-at": "2026-11-19T02:00:00Z",
    }
    assert "ownerReferences" not in created["metadata"], "what a backup left outlives its schedule"
    assert created["spec"] == template["spec"]
    status = env.status()
    assert status["lastScheduleTime"] == "2026-11-19T02:00:00Z"
    assert status["nextTimes"][0] == "2026-11-20T02:00:00Z"
    assert status["active"] == [created["metadata"]["name"]]
    assert env.conditions() == {"Ready": ("True", "Scheduled"), "Suspended": ("False", "AsSaid")}


def test_a_reported_run_of_this_process_needs_no_new_pass(env: ScheduleEnvironment) -> None:
    env.create()
    env.reconcile("2026-11-19T02:00")
    (created,) = env.actionsets()
    uid = created["metadata"]["uid"]
    assert env.reconciler.has_created(KEY, uid)
    assert not env.new_reconciler().has_created(KEY, uid)
    before = env.cluster.get(SCHEDULES, KEY.name, namespace="default")
    env.reconcile()
    assert env.cluster.get(SCHEDULES, KEY.name, namespace="default") == before
    assert not env.reconciler.has_created(KEY, uid)


def test_nothing_is_written_if_nothing_is_due(env: ScheduleEnvironment) -> None:
    env.create()
    env.reconcile()
    before = env.cluster.get(SCHEDULES, KEY.name, namespace="default")
    for hour in range(13, 20):
        env.reconcile(f"2026-11-18T{hour}:00")
    assert env.cluster.get(SCHEDULES, KEY.name, namespace="default") == before


# A pass that starts a run writes twice: the ActionSet, and the status that records it.
@pytest.mark.parametrize("is_lost", [True, False], ids=["write is lost", "write is made"])
@pytest.mark.parametrize("writes", [1, 2])
def test_a_due_time_runs_exactly_once_although_the_process_dies(
    env: ScheduleEnvironment, writes: int, *, is_lost: bool
) -> None:
    env.create()
    env.reconcile()
    mortal = Mortal(env.cluster, writes, before=is_lost)
    env.advance_to("2026-11-19T02:00")
    with pytest.raises(LeadershipLost):
        env.new_reconciler(mortal).reconcile(KEY)
    for minutes in (1, 2, 30):
        env.advance_to(at("2026-11-19T02:00") + timedelta(minutes=minutes))
        env.new_reconciler().reconcile(KEY)
    assert env.times() == ["2026-11-19T02:00"]
    assert env.status()["lastScheduleTime"] == "2026-11-19T02:00:00Z"


def test_a_run_is_replaced_exactly_once_although_the_process_dies(env: ScheduleEnvironment) -> None:
    for writes in (1, 2, 3, 4):
        for is_lost in (True, False):
            env = ScheduleEnvironment()
            env.create(concurrencyPolicy="Replace")
            env.reconcile("2026-11-19T02:00")
            mortal: Any = Mortal(env.cluster, writes, before=is_lost)
            _replaced(env, env.new_reconciler(mortal))
            _replaced(env, env.new_reconciler())
            assert env.times() == ["2026-11-19T02:00", "2026-11-20T02:00"]


def _replaced(env: ScheduleEnvironment, reconciler: ScheduleReconciler) -> None:
    try:
        env.advance_to(max(env.clock.now(), at("2026-11-20T02:00")))
        reconciler.reconcile(KEY)
        for actionset in env.actionsets():
            if actionset["spec"].get("cancel") and "status" not in actionset:
                env.end(actionset["metadata"]["name"], "failed")
        reconciler.reconcile(KEY)
    except LeadershipLost:
        return


def test_two_leaders_create_one_actionset(env: ScheduleEnvironment) -> None:
    env.create()
    first, second = env.new_reconciler(), env.new_reconciler()
    first.reconcile(KEY)
    env.advance_to("2026-11-19T02:00")

    class Behind:
        """A cluster that lets another reconciler run right before each write."""

        def __getattr__(self, name: str) -> Any:
            attribute = getattr(env.cluster, name)
            if name not in ("create", "replace_status"):
                return attribute

            def call(*args: Any, **options: Any) -> Any:
                second.reconcile(KEY)
                return attribute(*args, **options)

            return call

    cluster: Any = Behind()
    reconciler = env.new_reconciler(cluster)
    with pytest.raises(KanisterError):
        reconciler.reconcile(KEY)
    reconciler.reconcile(KEY)
    assert env.times() == ["2026-11-19T02:00"]


def test_an_outdated_status_starts_nothing_twice(env: ScheduleEnvironment) -> None:
    env.create()
    env.reconcile("2026-11-19T02:00")
    (created,) = env.actionsets()
    env.end(created["metadata"]["name"])
    # Each pass reads the schedule again, so an outdated watch does not matter.
    env.new_reconciler().reconcile(KEY)
    assert len(env.actionsets()) == 1


def test_missed_times_run_once(env: ScheduleEnvironment) -> None:
    env.create(schedule="*/10 * * * *")
    env.reconcile()
    env.reconcile("2026-11-21T09:05")
    assert env.times() == ["2026-11-21T09:00"]


def test_a_missed_starting_deadline_is_reported(env: ScheduleEnvironment) -> None:
    env.create(startingDeadline="1h")
    env.reconcile()
    env.reconcile("2026-11-19T03:30")
    assert env.times() == []
    assert env.events == [
        (
            "Missed",
            "Skipped the run at 2026-11-19T02:00:00Z: it was missed by more than startingDeadline",
        )
    ]
    assert env.status()["lastScheduleTime"] == "2026-11-19T02:00:00Z"
    env.reconcile()
    assert len(env.events) == 1


def test_an_active_run_forbids_the_next_one(env: ScheduleEnvironment) -> None:
    env.create()
    env.reconcile("2026-11-19T02:00")
    env.reconcile("2026-11-20T02:00")
    assert env.times() == ["2026-11-19T02:00"]
    assert env.events[-1][0] == "StillRunning"
    (created,) = env.actionsets()
    env.end(created["metadata"]["name"])
    env.reconcile("2026-11-20T03:00")
    assert env.times() == ["2026-11-19T02:00"], "a time that was left out is over"
    env.reconcile("2026-11-21T02:00")
    assert env.times() == ["2026-11-19T02:00", "2026-11-21T02:00"]


def test_a_run_waits_for_the_active_one(env: ScheduleEnvironment) -> None:
    env.create(concurrencyPolicy="Queue", schedule="*/10 * * * *")
    env.reconcile("2026-11-19T02:00")
    env.reconcile("2026-11-19T02:10")
    env.reconcile("2026-11-19T02:20")
    assert env.status()["waitingTime"] == "2026-11-19T02:20:00Z"
    (created,) = env.actionsets()
    env.end(created["metadata"]["name"])
    env.reconcile("2026-11-19T02:25")
    assert env.times() == ["2026-11-19T02:00", "2026-11-19T02:20"]
    assert "waitingTime" not in env.status()


def test_a_created_run_counts_as_active_before_the_watch_reports_it(
    env: ScheduleEnvironment,
) -> None:
    env.create(schedule="*/10 * * * *")
    blind = ScheduleReconciler(part_tools(env.cluster, env.clock), lambda _key: (), lambda _key: ())
    env.advance_to("2026-11-19T02:00")
    blind.reconcile(KEY)
    env.advance_to("2026-11-19T02:10")
    blind.reconcile(KEY)
    assert env.times() == ["2026-11-19T02:00"]
    assert len(env.status()["active"]) == 1


def test_the_outcome_of_each_due_time_is_counted(env: ScheduleEnvironment) -> None:
    env.create(schedule="*/10 * * * *")

    def counted() -> list[float | None]:
        value = env.metrics.registry.get_sample_value
        labels = {"namespace": "default", "schedule": "nightly"}
        name = "kanister_py_schedule_times_total"
        return [value(name, {**labels, "outcome": outcome}) for outcome in ("started", "skipped")]

    env.reconcile()
    assert counted() == [0, 0]
    env.reconcile("2026-11-19T02:00")
    assert counted() == [1, 0]
    env.reconcile("2026-11-19T02:10")
    assert counted() == [1, 1]


def test_due_times_during_suspension_are_not_made_up(env: ScheduleEnvironment) -> None:
    env.create()
    env.reconcile()
    env.change(suspend=True)
    env.reconcile("2026-11-18T20:00")
    assert env.conditions()["Suspended"] == ("True", "AsSaid")
    assert "nextTimes" not in env.status()
    assert env.reconcile("2026-11-20T12:00").requeue_seconds is None
    env.change(suspend=False)
    env.reconcile("2026-11-20T13:00")
    assert env.times() == []
    env.reconcile("2026-11-21T02:00")
    assert env.times() == ["2026-11-21T02:00"]


def test_a_changed_timing_applies_from_the_time_of_the_change(env: ScheduleEnvironment) -> None:
    env.create()
    env.reconcile("2026-11-19T02:00")
    (created,) = env.actionsets()
    env.end(created["metadata"]["name"])
    env.change(schedule="0 8 * * *")
    env.reconcile("2026-11-19T12:00")
    assert env.times() == ["2026-11-19T02:00"]
    assert env.status()["nextTimes"][0] == "2026-11-20T08:00:00Z"


def test_the_history_is_limited_by_outcome_and_runs_with_artifacts_are_kept(
    env: ScheduleEnvironment,
) -> None:
    env.create(schedule="@every 1h", historyLimits={"complete": 1, "failed": 2})
    for hour, (state, more) in enumerate(
        [
            ("complete", {"actions": [{"artifacts": {"dump": {"keyValue": {"path": "x"}}}}]}),
            ("complete", {}),
            ("failed", {}),
            ("failed", {}),
            ("complete", {}),
            ("failed", {}),
        ]
    ):
        env.reconcile(f"2026-11-18T{13 + hour}:00")
        (created,) = (actionset for actionset in env.actionsets() if not actionset.get("status"))
        env.end(created["metadata"]["name"], state, **more)
    env.reconcile()
    kept = ["2026-11-18T13:00", "2026-11-18T16:00", "2026-11-18T17:00", "2026-11-18T18:00"]
    assert env.times() == kept
    status = env.status()
    assert (status["lastSuccessfulTime"], status["lastFailureTime"], status["lastState"]) == (
        "2026-11-18T17:00:00Z",
        "2026-11-18T18:00:00Z",
        "failed",
    )
    note = {"metadata": {"annotations": {ARTIFACTS_ANNOTATION: DELETED}}}
    (first, *_others) = env.actionsets()
    env.cluster.patch(ACTION_SETS, first["metadata"]["name"], note, namespace="default")
    env.reconcile()
    assert env.times() == kept[1:]


def test_an_invalid_schedule_is_reported_and_not_run(env: ScheduleEnvironment) -> None:
    env.create(schedule="0 0 30 2 *")
    assert env.reconcile().requeue_seconds is None
    assert env.conditions() == {"Ready": ("False", "Invalid")}
    (event,) = env.events
    assert "never fires" in event[1]
    env.reconcile()
    assert len(env.events) == 1
    env.change(schedule="0 2 * * *")
    env.reconcile()
    assert env.conditions()["Ready"] == ("True", "Scheduled")


def test_a_refused_actionset_is_retried(env: ScheduleEnvironment) -> None:
    env.create()
    env.reconcile()
    template = schedule()["spec"]["template"]
    template["metadata"] = {"labels": {"no label": "at all"}}
    env.change(template=template)
    assert env.reconcile("2026-11-19T02:00").has_failed
    assert env.conditions()["Ready"] == ("False", "Invalid")
    template["metadata"] = {"labels": None}
    env.change(template=template)
    env.reconcile("2026-11-19T02:01")
    assert env.times() == ["2026-11-19T02:00"]
    assert env.conditions()["Ready"] == ("True", "Scheduled")


def test_a_deleted_schedule_runs_nothing(env: ScheduleEnvironment) -> None:
    env.create()
    env.reconcile()
    env.cluster.patch(
        SCHEDULES, KEY.name, {"metadata": {"finalizers": ["example.org/hold"]}}, namespace="default"
    )
    env.cluster.delete(SCHEDULES, KEY.name, namespace="default")
    env.reconcile("2026-11-19T02:00")
    assert env.times() == []
    env.cluster.patch(SCHEDULES, KEY.name, {"metadata": {"finalizers": None}}, namespace="default")
    env.reconcile("2026-11-20T02:00")
    assert env.times() == []


def ready_message(env: ScheduleEnvironment) -> str:
    (ready,) = (
        condition for condition in env.status()["conditions"] if condition["type"] == "Ready"
    )
    return str(ready.get("message") or "")


def test_a_schedule_whose_last_run_failed_is_not_ready_until_one_completes(
    env: ScheduleEnvironment,
) -> None:
    env.create()
    env.reconcile()
    error = {"message": "dump: exit code 1", "reason": "CommandFailed"}
    for day, state in ((19, "failed"), (20, "failed"), (21, "complete")):
        env.reconcile(f"2026-11-{day}T02:00")
        (created,) = (actionset for actionset in env.actionsets() if not actionset.get("status"))
        name = created["metadata"]["name"]
        env.end(name, state, **({"error": error} if state == "failed" else {}))
        env.reconcile()
        if state == "failed":
            assert env.conditions()["Ready"] == ("False", "LastRunFailed")
            why = f"The last run {name} failed: CommandFailed: dump: exit code 1"
            assert ready_message(env) == why
            assert env.events[-1] == ("LastRunFailed", why)
            env.reconcile()
            assert env.events.count(("LastRunFailed", why)) == 1
    assert env.conditions()["Ready"] == ("True", "Scheduled")
    assert env.status()["lastFailureReason"] == "CommandFailed"


def test_a_cancelled_run_is_no_failure(env: ScheduleEnvironment) -> None:
    env.create()
    env.reconcile()
    env.reconcile("2026-11-19T02:00")
    (created,) = env.actionsets()
    name = created["metadata"]["name"]
    env.cluster.patch(ACTION_SETS, name, {"spec": {"cancel": True}}, namespace="default")
    env.end(name, "failed", error={"message": "Cancelled", "reason": "Cancelled"})
    env.reconcile()
    assert env.conditions()["Ready"] == ("True", "Scheduled")
    assert "lastFailed" not in env.status()


def test_a_suspended_schedule_is_not_ready_and_reports_it_once(env: ScheduleEnvironment) -> None:
    env.create()
    env.reconcile()
    env.change(suspend=True)
    for _ in range(2):
        env.reconcile()
        assert env.conditions()["Ready"] == ("False", "Suspended")
    assert [reason for reason, _ in env.events] == ["Suspended"]
    env.change(suspend=False)
    env.reconcile()
    assert env.conditions()["Ready"] == ("True", "Scheduled")

"""Schedules: one look at each."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from kanister_py.controller.machine.metrics import ControllerMetrics
from kanister_py.controller.machine.work_loop import PassResult
from kanister_py.controller.schedules.reconcile import ScheduleReconciler
from kanister_py.core.actionsets.creation import SCHEDULE_LABEL
from kanister_py.core.actionsets.stored_status import ARTIFACTS_ANNOTATION, DELETED
from kanister_py.core.errors import KanisterError, LeadershipLost
from kanister_py.core.kube.resources import ACTION_SETS
from kanister_py.core.schedules.model import SCHEDULES
from kanister_py.core.schedules.runs import RETENTION_LABEL, read_run
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.executor.watch_cache import ObjectKey
from kanister_py.ports.cluster import KubeObject
from tests.controller.conftest import Mortal, definitions
from tests.controller.part_tools import part_tools
from tests.core.schedules.schedules import CREATED, at, schedule
from tests.fake_clock import FakeClock

KEY = ObjectKey("default", "nightly")


class Place:
    """A cluster with schedules whose clock stands still, and those who look at them."""

    def __init__(self) -> None:
        self.clock = FakeClock(CREATED)
        self.cluster = MemoryCluster(clock=self.clock)
        for definition in definitions():
            self.cluster.create(definition)
        self.events: list[tuple[str, str]] = []
        self.metrics = ControllerMetrics()
        self.looker = self.another()

    def another(self, cluster: Any = None) -> ScheduleReconciler:
        """Start another process, which has seen nothing but what the cluster tells."""

        def tell(_subject: object, _kind: str, reason: str, message: str) -> None:
            self.events.append((reason, message))

        return ScheduleReconciler(
            part_tools(cluster or self.cluster, self.clock, tell)._replace(metrics=self.metrics),
            lambda _key: list(map(read_run, self.actionsets())),
            lambda _key: list(map(read_run, self.deletions())),
        )

    def actionsets(self) -> list[KubeObject]:
        return self.cluster.list(ACTION_SETS, label_selector=SCHEDULE_LABEL).items

    def deletions(self) -> list[KubeObject]:
        return self.cluster.list(ACTION_SETS, label_selector=RETENTION_LABEL).items

    def times(self) -> list[str]:
        """List the times that something ran at."""
        return sorted(
            actionset["metadata"]["annotations"]["kanister-py.io/scheduled-at"][:16]
            for actionset in self.actionsets()
        )

    def create(self, **spec: Any) -> None:
        self.cluster.create(schedule(**spec))

    def change(self, **spec: Any) -> None:
        self.cluster.patch(SCHEDULES, KEY.name, {"spec": spec}, namespace="default")

    def go_to(self, moment: str | datetime) -> None:
        to = at(moment) if isinstance(moment, str) else moment
        self.clock.advance((to - self.clock.now()).total_seconds())

    def look(self, moment: str = "") -> PassResult:
        if moment:
            self.go_to(moment)
        return self.looker.reconcile(KEY)

    def end(self, name: str, state: str = "complete", **more: Any) -> None:
        obj = self.cluster.get(ACTION_SETS, name, namespace="default")
        kind = "Complete" if state == "complete" else "Failed"
        ended = {
            "type": kind,
            "status": "True",
            "lastTransitionTime": f"{self.clock.now():%Y-%m-%dT%H:%M:%SZ}",
        }
        status = {"state": state, "conditions": [ended], **more}
        self.cluster.replace_status({**obj, "status": status})

    def status(self) -> dict[str, Any]:
        obj = self.cluster.get(SCHEDULES, KEY.name, namespace="default")
        return obj.get("status") or {}

    def conditions(self) -> dict[str, tuple[str, str]]:
        return {
            condition["type"]: (condition["status"], condition["reason"])
            for condition in self.status()["conditions"]
        }


@pytest.fixture(name="there")
def _there() -> Place:
    return Place()


def test_the_actionset_of_a_time_says_what_the_template_says(there: Place) -> None:
    template = schedule()["spec"]["template"]
    template["metadata"] = {"labels": {"team": "db"}, "annotations": {"why": "nightly"}}
    there.create(template=template)
    assert there.look().requeue_seconds == 14 * 3600
    there.look("2026-11-19T02:00")
    (created,) = there.actionsets()
    assert created["metadata"]["name"].startswith("nightly-20261119020000-")
    assert created["metadata"]["labels"] == {"team": "db", "kanister-py.io/schedule": "nightly"}
    assert created["metadata"]["annotations"] == {
        "why": "nightly",
        "kanister-py.io/scheduled-at": "2026-11-19T02:00:00Z",
    }
    assert "ownerReferences" not in created["metadata"], "what a backup left outlives its schedule"
    assert created["spec"] == template["spec"]
    status = there.status()
    assert status["lastScheduleTime"] == "2026-11-19T02:00:00Z"
    assert status["nextTimes"][0] == "2026-11-20T02:00:00Z"
    assert status["active"] == [created["metadata"]["name"]]
    assert there.conditions() == {"Ready": ("True", "Scheduled"), "Suspended": ("False", "AsSaid")}


def test_to_see_a_run_that_was_made_here_is_no_news(there: Place) -> None:
    there.create()
    there.look("2026-11-19T02:00")
    (created,) = there.actionsets()
    uid = created["metadata"]["uid"]
    assert there.looker.has_created(KEY, uid)
    assert not there.another().has_created(KEY, uid)
    before = there.cluster.get(SCHEDULES, KEY.name, namespace="default")
    there.look()
    assert there.cluster.get(SCHEDULES, KEY.name, namespace="default") == before
    assert not there.looker.has_created(KEY, uid)


def test_at_rest_nothing_is_written(there: Place) -> None:
    there.create()
    there.look()
    before = there.cluster.get(SCHEDULES, KEY.name, namespace="default")
    for hour in range(13, 20):
        there.look(f"2026-11-18T{hour}:00")
    assert there.cluster.get(SCHEDULES, KEY.name, namespace="default") == before


# A look that starts something writes twice: the ActionSet, and the status that notes it.
@pytest.mark.parametrize("is_lost", [True, False], ids=["write is lost", "write is made"])
@pytest.mark.parametrize("writes", [1, 2])
def test_wherever_it_dies_a_time_runs_exactly_once(
    there: Place, writes: int, *, is_lost: bool
) -> None:
    there.create()
    there.look()
    mortal = Mortal(there.cluster, writes, before=is_lost)
    there.go_to("2026-11-19T02:00")
    with pytest.raises(LeadershipLost):
        there.another(mortal).reconcile(KEY)
    for minutes in (1, 2, 30):
        there.go_to(at("2026-11-19T02:00") + timedelta(minutes=minutes))
        there.another().reconcile(KEY)
    assert there.times() == ["2026-11-19T02:00"]
    assert there.status()["lastScheduleTime"] == "2026-11-19T02:00:00Z"


def test_wherever_it_dies_a_run_is_replaced_by_exactly_one(there: Place) -> None:
    for writes in (1, 2, 3, 4):
        for is_lost in (True, False):
            there = Place()
            there.create(concurrencyPolicy="Replace")
            there.look("2026-11-19T02:00")
            mortal: Any = Mortal(there.cluster, writes, before=is_lost)
            _replaced(there, there.another(mortal))
            _replaced(there, there.another())
            assert there.times() == ["2026-11-19T02:00", "2026-11-20T02:00"]


def _replaced(there: Place, looker: ScheduleReconciler) -> None:
    try:
        there.go_to(max(there.clock.now(), at("2026-11-20T02:00")))
        looker.reconcile(KEY)
        for actionset in there.actionsets():
            if actionset["spec"].get("cancel") and "status" not in actionset:
                there.end(actionset["metadata"]["name"], "failed")
        looker.reconcile(KEY)
    except LeadershipLost:
        return


def test_two_who_believe_to_lead_make_one_actionset(there: Place) -> None:
    there.create()
    first, second = there.another(), there.another()
    first.reconcile(KEY)
    there.go_to("2026-11-19T02:00")

    class Behind:
        """A cluster that lets somebody else look in between, right before each write."""

        def __getattr__(self, name: str) -> Any:
            attribute = getattr(there.cluster, name)
            if name not in ("create", "replace_status"):
                return attribute

            def call(*args: Any, **options: Any) -> Any:
                second.reconcile(KEY)
                return attribute(*args, **options)

            return call

    cluster: Any = Behind()
    looker = there.another(cluster)
    with pytest.raises(KanisterError):
        looker.reconcile(KEY)
    looker.reconcile(KEY)
    assert there.times() == ["2026-11-19T02:00"]


def test_a_status_that_is_behind_starts_nothing_twice(there: Place) -> None:
    there.create()
    there.look("2026-11-19T02:00")
    (created,) = there.actionsets()
    there.end(created["metadata"]["name"])
    # The look reads the schedule anew: what a watch has not told yet does not matter.
    there.another().reconcile(KEY)
    assert len(there.actionsets()) == 1


def test_missed_times_run_once(there: Place) -> None:
    there.create(schedule="*/10 * * * *")
    there.look()
    there.look("2026-11-21T09:05")
    assert there.times() == ["2026-11-21T09:00"]


def test_a_deadline_that_has_passed_is_told(there: Place) -> None:
    there.create(startingDeadline="1h")
    there.look()
    there.look("2026-11-19T03:30")
    assert there.times() == []
    assert there.events == [
        (
            "Missed",
            "Skipped the run at 2026-11-19T02:00:00Z: it was missed by more than startingDeadline",
        )
    ]
    assert there.status()["lastScheduleTime"] == "2026-11-19T02:00:00Z"
    there.look()
    assert len(there.events) == 1


def test_a_run_under_way_forbids_the_next_one(there: Place) -> None:
    there.create()
    there.look("2026-11-19T02:00")
    there.look("2026-11-20T02:00")
    assert there.times() == ["2026-11-19T02:00"]
    assert there.events[-1][0] == "StillRunning"
    (created,) = there.actionsets()
    there.end(created["metadata"]["name"])
    there.look("2026-11-20T03:00")
    assert there.times() == ["2026-11-19T02:00"], "a time that was left out is over"
    there.look("2026-11-21T02:00")
    assert there.times() == ["2026-11-19T02:00", "2026-11-21T02:00"]


def test_one_run_waits_for_the_one_under_way(there: Place) -> None:
    there.create(concurrencyPolicy="Queue", schedule="*/10 * * * *")
    there.look("2026-11-19T02:00")
    there.look("2026-11-19T02:10")
    there.look("2026-11-19T02:20")
    assert there.status()["waitingTime"] == "2026-11-19T02:20:00Z"
    (created,) = there.actionsets()
    there.end(created["metadata"]["name"])
    there.look("2026-11-19T02:25")
    assert there.times() == ["2026-11-19T02:00", "2026-11-19T02:20"]
    assert "waitingTime" not in there.status()


def test_a_run_that_no_watch_has_told_of_yet_is_under_way(there: Place) -> None:
    there.create(schedule="*/10 * * * *")
    blind = ScheduleReconciler(
        part_tools(there.cluster, there.clock), lambda _key: (), lambda _key: ()
    )
    there.go_to("2026-11-19T02:00")
    blind.reconcile(KEY)
    there.go_to("2026-11-19T02:10")
    blind.reconcile(KEY)
    assert there.times() == ["2026-11-19T02:00"]
    assert len(there.status()["active"]) == 1


def test_what_became_of_each_time_is_counted(there: Place) -> None:
    there.create(schedule="*/10 * * * *")

    def counted() -> list[float | None]:
        value = there.metrics.registry.get_sample_value
        labels = {"namespace": "default", "schedule": "nightly"}
        name = "kanister_py_schedule_times_total"
        return [value(name, {**labels, "outcome": outcome}) for outcome in ("started", "skipped")]

    there.look()
    assert counted() == [0, 0]
    there.look("2026-11-19T02:00")
    assert counted() == [1, 0]
    there.look("2026-11-19T02:10")
    assert counted() == [1, 1]


def test_what_was_suspended_is_not_made_up_for(there: Place) -> None:
    there.create()
    there.look()
    there.change(suspend=True)
    there.look("2026-11-18T20:00")
    assert there.conditions()["Suspended"] == ("True", "AsSaid")
    assert "nextTimes" not in there.status()
    assert there.look("2026-11-20T12:00").requeue_seconds is None
    there.change(suspend=False)
    there.look("2026-11-20T13:00")
    assert there.times() == []
    there.look("2026-11-21T02:00")
    assert there.times() == ["2026-11-21T02:00"]


def test_another_timing_counts_from_when_it_is_said(there: Place) -> None:
    there.create()
    there.look("2026-11-19T02:00")
    (created,) = there.actionsets()
    there.end(created["metadata"]["name"])
    there.change(schedule="0 8 * * *")
    there.look("2026-11-19T12:00")
    assert there.times() == ["2026-11-19T02:00"]
    assert there.status()["nextTimes"][0] == "2026-11-20T08:00:00Z"


def test_the_history_is_kept_by_outcome_and_what_has_artifacts_stays(there: Place) -> None:
    there.create(schedule="@every 1h", historyLimits={"complete": 1, "failed": 2})
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
        there.look(f"2026-11-18T{13 + hour}:00")
        (created,) = (actionset for actionset in there.actionsets() if not actionset.get("status"))
        there.end(created["metadata"]["name"], state, **more)
    there.look()
    kept = ["2026-11-18T13:00", "2026-11-18T16:00", "2026-11-18T17:00", "2026-11-18T18:00"]
    assert there.times() == kept
    status = there.status()
    assert (status["lastSuccessfulTime"], status["lastFailureTime"], status["lastState"]) == (
        "2026-11-18T17:00:00Z",
        "2026-11-18T18:00:00Z",
        "failed",
    )
    note = {"metadata": {"annotations": {ARTIFACTS_ANNOTATION: DELETED}}}
    (first, *_others) = there.actionsets()
    there.cluster.patch(ACTION_SETS, first["metadata"]["name"], note, namespace="default")
    there.look()
    assert there.times() == kept[1:]


def test_what_cannot_be_read_is_said_and_left_alone(there: Place) -> None:
    there.create(schedule="0 0 30 2 *")
    assert there.look().requeue_seconds is None
    assert there.conditions() == {"Ready": ("False", "Invalid")}
    (event,) = there.events
    assert "never fires" in event[1]
    there.look()
    assert len(there.events) == 1
    there.change(schedule="0 2 * * *")
    there.look()
    assert there.conditions()["Ready"] == ("True", "Scheduled")


def test_a_cluster_that_takes_no_actionset_is_asked_again(there: Place) -> None:
    there.create()
    there.look()
    template = schedule()["spec"]["template"]
    template["metadata"] = {"labels": {"no label": "at all"}}
    there.change(template=template)
    assert there.look("2026-11-19T02:00").has_failed
    assert there.conditions()["Ready"] == ("False", "Invalid")
    template["metadata"] = {"labels": None}
    there.change(template=template)
    there.look("2026-11-19T02:01")
    assert there.times() == ["2026-11-19T02:00"]
    assert there.conditions()["Ready"] == ("True", "Scheduled")


def test_a_schedule_that_is_gone_or_on_its_way_out_runs_nothing(there: Place) -> None:
    there.create()
    there.look()
    there.cluster.patch(
        SCHEDULES, KEY.name, {"metadata": {"finalizers": ["example.org/hold"]}}, namespace="default"
    )
    there.cluster.delete(SCHEDULES, KEY.name, namespace="default")
    there.look("2026-11-19T02:00")
    assert there.times() == []
    there.cluster.patch(
        SCHEDULES, KEY.name, {"metadata": {"finalizers": None}}, namespace="default"
    )
    there.look("2026-11-20T02:00")
    assert there.times() == []


def ready_message(there: Place) -> str:
    (ready,) = (
        condition for condition in there.status()["conditions"] if condition["type"] == "Ready"
    )
    return str(ready.get("message") or "")


def test_a_schedule_whose_last_run_failed_is_not_ready_until_one_completes(there: Place) -> None:
    there.create()
    there.look()
    error = {"message": "dump: exit code 1", "reason": "CommandFailed"}
    for day, state in ((19, "failed"), (20, "failed"), (21, "complete")):
        there.look(f"2026-11-{day}T02:00")
        (created,) = (actionset for actionset in there.actionsets() if not actionset.get("status"))
        name = created["metadata"]["name"]
        there.end(name, state, **({"error": error} if state == "failed" else {}))
        there.look()
        if state == "failed":
            assert there.conditions()["Ready"] == ("False", "LastRunFailed")
            why = f"The last run {name} failed: CommandFailed: dump: exit code 1"
            assert ready_message(there) == why
            assert there.events[-1] == ("LastRunFailed", why)
            there.look()
            assert there.events.count(("LastRunFailed", why)) == 1
    assert there.conditions()["Ready"] == ("True", "Scheduled")
    assert there.status()["lastFailureReason"] == "CommandFailed"


def test_a_run_that_was_cancelled_on_request_is_no_failure(there: Place) -> None:
    there.create()
    there.look()
    there.look("2026-11-19T02:00")
    (created,) = there.actionsets()
    name = created["metadata"]["name"]
    there.cluster.patch(ACTION_SETS, name, {"spec": {"cancel": True}}, namespace="default")
    there.end(name, "failed", error={"message": "Cancelled", "reason": "Cancelled"})
    there.look()
    assert there.conditions()["Ready"] == ("True", "Scheduled")
    assert "lastFailed" not in there.status()


def test_a_suspended_schedule_is_not_ready_and_says_so_once(there: Place) -> None:
    there.create()
    there.look()
    there.change(suspend=True)
    for _ in range(2):
        there.look()
        assert there.conditions()["Ready"] == ("False", "Suspended")
    assert [reason for reason, _ in there.events] == ["Suspended"]
    there.change(suspend=False)
    there.look()
    assert there.conditions()["Ready"] == ("True", "Scheduled")

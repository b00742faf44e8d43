"""A cluster with a schedule and a fake clock, for tests of schedules."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from kanister_py.controller.machine.metrics import ControllerMetrics
from kanister_py.controller.machine.work_loop import PassResult
from kanister_py.controller.schedules.reconcile import ScheduleReconciler
from kanister_py.core.actionsets.creation import SCHEDULE_LABEL
from kanister_py.core.kube.resources import ACTION_SETS
from kanister_py.core.schedules.model import SCHEDULES
from kanister_py.core.schedules.runs import RETENTION_LABEL, read_run
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.executor.watch_cache import ObjectKey
from kanister_py.ports.cluster import KubeObject
from tests.controller.conftest import definitions
from tests.controller.part_tools import part_tools
from tests.core.schedules.schedules import CREATED, at, schedule
from tests.fake_clock import FakeClock

KEY = ObjectKey("default", "nightly")


class ScheduleEnvironment:
    """A cluster with a fake clock and a schedule, and the reconcilers of its controllers."""

    def __init__(self) -> None:
        self.clock = FakeClock(CREATED)
        self.cluster = MemoryCluster(clock=self.clock)
        for definition in definitions():
            self.cluster.create(definition)
        self.events: list[tuple[str, str]] = []
        self.metrics = ControllerMetrics()
        self.reconciler = self.new_reconciler()

    def new_reconciler(self, cluster: Any = None) -> ScheduleReconciler:
        """Return the reconciler of another process, which shares only the cluster."""

        def post_event(_subject: object, _kind: str, reason: str, message: str) -> None:
            self.events.append((reason, message))

        return ScheduleReconciler(
            part_tools(cluster or self.cluster, self.clock, post_event)._replace(
                metrics=self.metrics
            ),
            lambda _key: list(map(read_run, self.actionsets())),
            lambda _key: list(map(read_run, self.deletions())),
        )

    def actionsets(self) -> list[KubeObject]:
        return self.cluster.list(ACTION_SETS, label_selector=SCHEDULE_LABEL).items

    def deletions(self) -> list[KubeObject]:
        return self.cluster.list(ACTION_SETS, label_selector=RETENTION_LABEL).items

    def times(self) -> list[str]:
        """Return the due times of all runs."""
        return sorted(
            actionset["metadata"]["annotations"]["kanister-py.io/scheduled-at"][:16]
            for actionset in self.actionsets()
        )

    def create(self, **spec: Any) -> None:
        self.cluster.create(schedule(**spec))

    def change(self, **spec: Any) -> None:
        self.cluster.patch(SCHEDULES, KEY.name, {"spec": spec}, namespace="default")

    def advance_to(self, moment: str | datetime) -> None:
        to = at(moment) if isinstance(moment, str) else moment
        self.clock.advance((to - self.clock.now()).total_seconds())

    def reconcile(self, moment: str = "") -> PassResult:
        if moment:
            self.advance_to(moment)
        return self.reconciler.reconcile(KEY)

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

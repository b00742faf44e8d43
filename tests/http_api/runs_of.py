"""Runs on a cluster in memory, and their pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from typing import Any, NamedTuple

from starlette.applications import Starlette

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.controller.machine.logs import LineSource, PhaseLines
from kanister_py.controller.overview import ClusterOverview
from kanister_py.core.kube.resources import ACTION_SETS
from kanister_py.core.yaml.documents import parse_documents
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.executor.watch_cache import ObjectKey
from kanister_py.http_api.app import build_app
from kanister_py.http_api.live.routes import Pages, live_routes
from kanister_py.http_api.metrics import Metrics
from tests.http_api.conftest import published, registered

HOSTILE = "<img src=x onerror=alert(1)>\x1b[31m\u202eevil"
BEGAN = datetime(2026, 3, 1, 2, 0, tzinfo=UTC)


class FixedClock(SystemClock):
    """Clock with a fixed time of day."""

    def now(self) -> datetime:
        return BEGAN


class RunsOf(NamedTuple):
    """Cluster with runs, and their overview."""

    cluster: MemoryCluster
    lines: PhaseLines
    overview: ClusterOverview

    def app(self, review: Any = None) -> Starlette:
        publication = published(registered(source="nobody", release="1.0.0"))

        def live(metrics: Metrics) -> Any:
            pages = Pages(self.overview, lambda: BEGAN + timedelta(minutes=2), review)
            return live_routes(pages, self.overview, metrics)

        return build_app(publication, live=live)

    def add(self, name: str, status: Mapping[str, Any], **spec: Any) -> None:
        labels = spec.pop("labels", {})
        metadata = {
            "name": name,
            "namespace": spec.pop("namespace", "shop"),
            "labels": labels,
        }
        action = {"name": "backup", "blueprint": spec.pop("blueprint", "postgres")}
        self.cluster.create(
            {
                "apiVersion": "cr.kanister.io/v1alpha1",
                "kind": "ActionSet",
                "metadata": metadata,
                "spec": {"actions": [action], **spec},
            }
        )
        if status:
            self.change(name, status, metadata["namespace"])

    def change(self, name: str, status: Mapping[str, Any], namespace: str = "shop") -> None:
        actionset = self.cluster.get(ACTION_SETS, name, namespace=namespace)
        self.cluster.replace({**actionset, "status": status}, subresource="status")

    def say(self, name: str, text: str, phase: str = "dump") -> None:
        place = LineSource("backup", phase, "KubeTask", "v0.0.0", 1)
        self.lines.write(ObjectKey("shop", name), "uid", place, text)


def at(seconds: float) -> str:
    return (BEGAN + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def phase(name: str, state: str, begin: float, end: float | None = None, **more: Any) -> Any:
    times = {"startTime": at(begin), **({"completionTime": at(end)} if end is not None else {})}
    return {"name": name, "state": state, "progress": {}, "funcVersion": "v0.1.0", **times, **more}


def status_of(state: str, *phases: Any, **more: Any) -> dict[str, Any]:
    action = {
        "name": "backup",
        "blueprint": "postgres",
        "object": {"kind": "StatefulSet", "namespace": "shop", "name": "db"},
        "phases": list(phases),
        "deferPhase": {"name": "", "state": "", "progress": {}},
    }
    return {"state": state, "progress": {}, "error": {"message": ""}, "actions": [action], **more}


ENDED = {"type": "Complete", "status": "True", "reason": "Complete", "message": ""}


NIGHTLY: dict[str, Any] = {
    "apiVersion": "kanister-py.io/v1alpha1",
    "kind": "Schedule",
    "metadata": {"name": "nightly", "namespace": "shop"},
    "spec": {
        "schedule": "30 3 * * *",
        "timeZone": "Europe/Berlin",
        "template": {"spec": {"actions": [{"name": "backup", "blueprint": "postgres"}]}},
    },
}


@contextmanager
def runs_of_a_cluster(kind: type[MemoryCluster] = MemoryCluster) -> Iterator[RunsOf]:
    """Create a cluster with one run in each state."""
    clock = FixedClock()
    cluster = kind(clock=clock)
    for file in ("actionsets", "schedules"):
        text = files("kanister_py.crds").joinpath(f"{file}.yaml").read_text("utf-8")
        for document in parse_documents(text):
            cluster.create(document.value)
    lines = PhaseLines(clock)
    overview = ClusterOverview(cluster, clock, lines, home="default")
    runs = RunsOf(cluster, lines, overview)
    runs.add(
        "done",
        status_of(
            "complete",
            phase("stop", "complete", 1, 3),
            phase("dump", "complete", 3, 60, attempt=2),
            conditions=[{**ENDED, "lastTransitionTime": at(60)}],
        ),
        labels={"kanister-py.io/schedule": "nightly"},
    )
    runs.add(
        "broken",
        status_of(
            "failed",
            phase("stop", "complete", 1, 3),
            phase("dump", "failed", 3, 9, error={"message": HOSTILE, "reason": "CommandFailed"}),
            error={"message": f"dump: {HOSTILE}", "reason": "CommandFailed", "phase": "dump"},
            warnings=[
                {
                    "reason": "FunctionVersionDeprecated",
                    "message": "KubeTask v0.0.9 is deprecated",
                    "action": "backup",
                    "phase": "dump",
                }
            ],
        ),
        blueprint="mysql",
    )
    runs.add(
        "under-way",
        status_of(
            "running",
            phase("stop", "complete", 1, 3),
            phase("dump", "running", 3),
            progress={"runningPhase": "dump", "percentCompleted": "50"},
        ),
    )
    runs.add("waiting", {})
    runs.add("held", {}, suspend=True, namespace="other")
    cluster.create(NIGHTLY)
    try:
        yield runs
    finally:
        overview.close()

"""Status of an ActionSet in the cluster, on our definitions and on Kanister's."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.controller.actionsets.status import StatusWriter
from kanister_py.core.actionsets.outcomes import PhaseProgressed, PhaseStarted
from kanister_py.core.actionsets.status import DEFER, Place, State, Status, parse_status
from kanister_py.core.actionsets.stored_status import (
    STATUS_ANNOTATION,
    read_status,
    split_status,
    status_as_dict,
)
from kanister_py.core.errors import JournalUnwritable
from kanister_py.core.kube.resources import ACTION_SETS
from kanister_py.embedded.cluster.cluster import MemoryCluster
from tests.controller.conftest import actionset, definitions
from tests.fake_clock import FakeClock

FULL = {
    "state": "failed",
    "error": {"message": "no luck", "reason": "Fault", "action": "act", "attempt": 2},
    "progress": {"percentCompleted": "50"},
    "warnings": [{"reason": "FunctionVersionDeprecated", "message": "old"}],
    "actions": [
        {
            "name": "act",
            "object": {"kind": "Namespace"},
            "blueprint": "made-up",
            "phases": [
                {
                    "name": "p",
                    "state": "failed",
                    "output": {"k": None},
                    "progress": {},
                    "funcVersion": "v0.0.0",
                    "attempt": 2,
                    "error": {"message": "no luck", "reason": "Fault"},
                }
            ],
            "deferPhase": {"name": "d", "state": "complete", "progress": {}, "attempt": 1},
            "startTime": "2026-01-01T00:00:00Z",
            "facts": {"object": {"kind": "Namespace"}},
        }
    ],
}


def kanisters_definition() -> dict[str, Any]:
    """Return a definition like Kanister's, which prunes our fields and has no subresource."""
    definition = deepcopy(next(iter(definitions())))
    version = definition["spec"]["versions"][0]
    version.pop("subresources")
    status = version["schema"]["openAPIV3Schema"]["properties"]["status"]
    _forget(status, "warnings", "conditions")
    _forget(status["properties"]["error"], "reason", "action", "phase", "attempt")
    action = status["properties"]["actions"]["items"]
    _forget(action)
    for phase in (action["properties"]["phases"]["items"], action["properties"]["deferPhase"]):
        _forget(phase, "funcVersion", "attempt", "startTime", "completionTime", "error")
    return definition


def _forget(schema: dict[str, Any], *names: str) -> None:
    schema.pop("x-kubernetes-preserve-unknown-fields", None)
    for name in names:
        schema["properties"].pop(name, None)


def test_splitting_a_status_loses_nothing() -> None:
    kept, extras = split_status(FULL)
    assert "reason" not in kept["error"]
    assert "attempt" not in kept["actions"][0]["phases"][0]
    cluster = MemoryCluster(clock=SystemClock())
    cluster.create(kanisters_definition())
    obj = cluster.create(actionset())
    writer = StatusWriter(
        cluster, FakeClock(), cluster.describe(ACTION_SETS).has_status, obj, check=lambda: None
    )
    writer.put(parse_status(FULL))
    stored = cluster.get(ACTION_SETS, "one", namespace="default")
    assert "warnings" not in stored["status"]
    assert STATUS_ANNOTATION in stored["metadata"]["annotations"]
    assert read_status(stored) == parse_status(FULL)
    assert extras["warnings"] == FULL["warnings"]


@pytest.fixture
def cluster() -> MemoryCluster:
    memory_cluster = MemoryCluster(clock=SystemClock())
    for definition in definitions():
        memory_cluster.create(definition)
    return memory_cluster


def writer_of(cluster: MemoryCluster, clock: FakeClock | None = None, **more: Any) -> StatusWriter:
    obj = cluster.get(ACTION_SETS, "one", namespace="default")
    return StatusWriter(
        cluster,
        clock or FakeClock(),
        cluster.describe(ACTION_SETS).has_status,
        obj,
        check=lambda: None,
        **more,
    )


RUNNING = Status(State.RUNNING)


def test_changes_of_other_fields_by_other_clients_are_kept(cluster: MemoryCluster) -> None:
    cluster.create(actionset())
    writer = writer_of(cluster)
    writer.put(RUNNING)
    cluster.patch(ACTION_SETS, "one", {"metadata": {"labels": {"a": "b"}}}, namespace="default")
    writer.put(RUNNING._replace(percent=10))
    stored = cluster.get(ACTION_SETS, "one", namespace="default")
    assert stored["metadata"]["labels"] == {"a": "b"}
    assert stored["status"]["progress"]["percentCompleted"] == "10"


def test_a_status_written_by_another_client_stops_the_run(cluster: MemoryCluster) -> None:
    cluster.create(actionset())
    ours, theirs = writer_of(cluster), writer_of(cluster)
    theirs.put(RUNNING._replace(percent=50))
    with pytest.raises(JournalUnwritable, match="Another client"):
        ours.put(RUNNING)
    assert read_status(cluster.get(ACTION_SETS, "one", namespace="default")) is not None


def test_an_actionset_that_replaced_ours_is_not_touched(cluster: MemoryCluster) -> None:
    cluster.create(actionset())
    writer = writer_of(cluster)
    cluster.delete(ACTION_SETS, "one", namespace="default")
    cluster.create(actionset())
    writer.put(RUNNING)
    assert writer.is_gone
    assert "status" not in cluster.get(ACTION_SETS, "one", namespace="default")


@pytest.mark.parametrize("is_replaced", [False, True], ids=["deleted", "replaced"])
def test_the_first_phase_of_a_deleted_actionset_may_not_start(
    cluster: MemoryCluster, is_replaced: bool
) -> None:
    cluster.create(actionset())
    clock = FakeClock()
    writer = writer_of(cluster, clock)
    cluster.delete(ACTION_SETS, "one", namespace="default")
    if is_replaced:
        cluster.create(actionset())
    for _ in range(2):
        with pytest.raises(JournalUnwritable, match="deleted before its first phase"):
            writer.write(PhaseStarted(clock.now(), Place(0, 0), 1), RUNNING, must_last=False)


@pytest.mark.parametrize("is_resumed", [False, True], ids=["same process", "resumed"])
def test_a_run_that_has_started_can_clean_up_after_its_actionset_is_gone(
    cluster: MemoryCluster, is_resumed: bool
) -> None:
    cluster.create(actionset())
    clock = FakeClock()
    writer = writer_of(cluster, clock)
    writer.write(PhaseStarted(clock.now(), Place(0, 0), 1), RUNNING, must_last=False)
    if is_resumed:
        writer = writer_of(cluster, clock)
    cluster.delete(ACTION_SETS, "one", namespace="default")
    writer.write(PhaseStarted(clock.now(), Place(0, DEFER), 1), RUNNING, must_last=False)
    assert writer.is_gone


def test_progress_is_written_at_intervals_and_never_lost(cluster: MemoryCluster) -> None:
    cluster.create(actionset())
    clock, late = FakeClock(), list[float]()
    writer = writer_of(cluster, clock, on_deferred=late.append)
    writer.put(RUNNING)
    for percent in (10, 20, 30):
        outcome = PhaseProgressed(clock.now(), Place(0, 0), percent)
        writer.write(outcome, RUNNING._replace(percent=percent), must_last=False)
    assert writer.writes == 1
    assert late == [5.0] * 3
    clock.advance(5.0)
    writer.flush()
    stored = cluster.get(ACTION_SETS, "one", namespace="default")
    assert stored["status"]["progress"]["percentCompleted"] == "30"


def test_facts_are_dropped_from_a_status_that_grows_too_large() -> None:
    data = deepcopy(FULL)
    action: Any = data["actions"][0]  # type: ignore[index] # the table above is plain JSON
    action["facts"] = {"object": {"text": "x" * 2_000_000}}
    written = status_as_dict(parse_status(data), 3)
    assert "facts" not in written["actions"][0]
    assert written["observedGeneration"] == 3

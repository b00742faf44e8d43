"""Requests that one ActionSet causes to the API server."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Condition, Semaphore
from typing import Any, cast

import pytest

from kanister_py.controller.actionsets.planner import Planner
from kanister_py.core.errors import Forbidden
from kanister_py.core.kube.resources import ACTION_SETS, EVENTS, NAMESPACES
from kanister_py.ports.cluster import Cluster
from tests.controller.conftest import (
    PATIENCE_SECONDS,
    Environment,
    actionset,
    blueprint,
    phase,
    until,
)
from tests.fake_clock import FakeClock

_REQUESTS = (
    "get",
    "list",
    "create",
    "replace",
    "replace_status",
    "patch",
    "apply",
    "delete",
)


class Counting:
    """A cluster that records all requests except those for Leases."""

    def __init__(self, cluster: Cluster, *, refuses_lists_of: Any = None) -> None:
        self._cluster = cluster
        self._refused = refuses_lists_of
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._cluster, name)
        if name not in _REQUESTS:
            return attribute

        def call(*args: Any, **options: Any) -> Any:
            if name == "list" and args[0] == self._refused:
                raise Forbidden("namespaces is forbidden")
            of = args[0]
            kind = of["kind"] if isinstance(of, Mapping) else of.resource
            if kind not in ("Lease", "leases"):
                self.asked.append(f"{name} {kind}")
            return attribute(*args, **options)

        return call


def cost_of_one(env: Environment, cluster: Counting) -> list[str]:
    """Return the requests that the second ActionSet of a controller causes."""
    env.create(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}},
        blueprint(phase("Echo")),
    )
    controller = env.controller(cluster)
    acts_on = {"object": {"kind": "Namespace", "name": "shop", "namespace": ""}}
    env.create(actionset("first", action=acts_on))
    until_last_event(env, "first")
    # Other parts of the controller send requests at the start, which are not counted.
    until(lambda: controller.is_settled)
    cluster.asked.clear()
    env.create(actionset("second", action=acts_on))
    until_last_event(env, "second")
    controller.stop()
    return sorted(cluster.asked)


def until_last_event(env: Environment, name: str) -> None:
    """Wait for the last event of an ActionSet, which is its last request."""
    with env.cluster.watch(EVENTS, namespace="default", timeout_seconds=PATIENCE_SECONDS) as watch:
        for event in watch:
            of = event.object["involvedObject"]["name"]
            if (of, event.object["reason"]) == (name, "Update Complete"):
                return
    raise AssertionError(f"nothing was told of the end of {name}")


def test_an_actionset_of_one_phase_sends_only_the_expected_requests(env: Environment) -> None:
    assert cost_of_one(env, Counting(env.cluster)) == [
        "create Event",
        "create Event",
        "get blueprints",
        "replace_status ActionSet",
        "replace_status ActionSet",
    ]


def test_namespaces_are_read_one_by_one_if_they_may_not_be_listed(
    env: Environment, caplog: pytest.LogCaptureFixture
) -> None:
    refusing = Counting(env.cluster, refuses_lists_of=NAMESPACES)
    assert cost_of_one(env, refusing).count("get namespaces") == 1
    assert "Cannot watch namespaces" not in caplog.text


def test_simultaneous_runs_share_a_read_of_their_blueprint(env: Environment) -> None:
    env.create(blueprint(phase("Echo")), *(actionset(f"run-{number}") for number in range(5)))
    first, *later = env.cluster.list(ACTION_SETS, namespace="default").items
    clock, cluster = FakeClock(), Counting(env.cluster)
    planner = Planner(cast("Cluster", cluster), clock, cast("Any", None))
    planner.plan(first, seen_at=-1.0)
    with ThreadPoolExecutor(len(later)) as threads:
        # Their Blueprint may have changed after the first read, so it is read again.
        planned = [threads.submit(planner.plan, obj, 0.0) for obj in later]
        assert clock.wait_for_sleepers(len(later))
        assert cluster.asked == ["get blueprints"]
        clock.advance(0.05)
        assert len([future.result() for future in planned]) == len(later)
    assert cluster.asked == ["get blueprints"] * 2


class Slow(Counting):
    """A cluster that answers requests for Blueprints one by one, when the test releases them."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.answers = Semaphore(0)

    def __getattr__(self, name: str) -> Any:
        attribute = super().__getattr__(name)

        def get(*args: Any, **options: Any) -> Any:
            try:
                return attribute(*args, **options)
            finally:
                assert self.answers.acquire(timeout=PATIENCE_SECONDS)

        return get if name == "get" else attribute


class WaitedFor(FakeClock):
    """A clock that counts waits without a timeout."""

    waits = 0

    def wait(self, condition: Condition, timeout_seconds: float | None = None) -> bool:
        self.waits += timeout_seconds is None
        return super().wait(condition, timeout_seconds)


def test_simultaneous_runs_share_a_slow_read_of_their_blueprint(env: Environment) -> None:
    env.create(blueprint(phase("Echo")), *(actionset(f"run-{number}") for number in range(5)))
    seen = env.cluster.list(ACTION_SETS, namespace="default").items
    clock, cluster = WaitedFor(), Slow(env.cluster)
    planner = Planner(cast("Cluster", cluster), clock, cast("Any", None))
    with ThreadPoolExecutor(5) as threads:
        planned = [threads.submit(planner.plan, obj, -1.0) for obj in seen]
        until(lambda: clock.waits == 4)
        clock.advance(5)
        cluster.answers.release(5)
        assert len([future.result() for future in planned]) == 5
    assert cluster.asked == ["get blueprints"]


def test_runs_of_a_missing_blueprint_do_not_wait_for_each_other(
    env: Environment,
) -> None:
    env.create(*(actionset(f"run-{number}") for number in range(8)))
    seen = env.cluster.list(ACTION_SETS, namespace="default").items
    clock, cluster = WaitedFor(), Slow(env.cluster)
    planner = Planner(cast("Cluster", cluster), clock, cast("Any", None))
    with ThreadPoolExecutor(8) as threads:
        planned = [threads.submit(planner.plan, obj, -1.0) for obj in seen]
        until(lambda: clock.waits == 7)
        cluster.answers.release()
        until(lambda: len(cluster.asked) == 2 and clock.waits == 7 + 6)
        cluster.answers.release()
        until(lambda: len(cluster.asked) == 8)
        cluster.answers.release(6)
        assert {getattr(future.exception(), "reason", "") for future in planned} == {
            "BlueprintNotFound"
        }

"""Unavailable and hanging functions: limits, conditions and recovery."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event
from typing import Any

import pytest

from kanister_py.controller.compositions.tasks import Role, Task
from kanister_py.controller.functions.settings import CompositionSettings
from kanister_py.core.compositions.messages import FunctionResponse
from kanister_py.executor.watch_cache import ObjectKey
from kanister_py.ports.cluster import KubeObject
from kanister_py.ports.function_runner import FunctionCall, FunctionRunner, FunctionUnavailable
from tests.controller.compositions.harness import BUCKETS, Harness, bucket, composition, definition

SETTINGS = CompositionSettings("kanister-py", workers=4)
PATIENCE_SECONDS = 180.0


class UnreliableRunner:
    """A runner in which steps named `hangs` hang, and all calls fail while `is_away` is set."""

    def __init__(self, inner: FunctionRunner) -> None:
        self._inner = inner
        self.is_away = False
        self.released = Event()

    def run(self, call: FunctionCall) -> FunctionResponse:
        if call.step == "hangs":
            self.released.wait(PATIENCE_SECONDS)
        if self.is_away:
            raise FunctionUnavailable(call.step, call.revision.function, "", "it is away")
        return self._inner.run(call)

    def close(self) -> None:
        self.released.set()
        self._inner.close()


@pytest.fixture
def harness() -> Iterator[Harness]:
    running = Harness(SETTINGS, calling=UnreliableRunner)
    running.start()
    running.define(definition())
    yield running
    runner_of(running).released.set()
    running.close()


def runner_of(harness: Harness) -> UnreliableRunner:
    assert isinstance(harness.runner, UnreliableRunner)
    return harness.runner


def vault(name: str) -> KubeObject:
    return {**bucket(name, ("a",)), "kind": "XVault"}


def vaults() -> dict[str, Any]:
    obj = definition(names={"kind": "XVault", "plural": "xvaults"})
    return {**obj, "metadata": {"name": "xvaults.example.org"}}


def hanging() -> dict[str, Any]:
    obj = composition(name="hanging")
    obj["spec"]["compositeTypeRef"]["kind"] = "XVault"
    (step,) = obj["spec"]["pipeline"]
    # It is another function, because users of a hanging function share its limit.
    obj["spec"]["pipeline"] = [
        {**step, "step": "hangs", "functionRef": {"name": "function-auto-ready"}}
    ]
    return obj


def test_a_hanging_function_does_not_delay_other_kinds(harness: Harness) -> None:
    harness.define(vaults())
    harness.apply(hanging())
    harness.apply(composition())
    for number in range(12):
        harness.apply(vault(f"hung-{number}"))
    harness.until(lambda: harness.compositions.queue.depth >= 8)
    for number in range(8):
        harness.apply(bucket(f"well-{number}", ("a",)))
    harness.until(lambda: all(harness.is_ready(f"well-{number}") for number in range(8)))


def test_a_resource_with_an_unavailable_function_is_not_reported_as_synced(
    harness: Harness,
) -> None:
    harness.apply(composition())
    harness.apply(bucket(names=("a",)))
    harness.until(harness.is_ready)
    harness.until_idle()
    runner_of(harness).is_away = True
    harness.apply(bucket("new", ("a",)))
    harness.until(lambda: harness.condition("Synced", "new").get("status") == "Unknown")
    condition = harness.condition("Synced", "new")
    assert condition["reason"] == "FunctionUnavailable"
    assert "it is away" in condition["message"]
    since = condition["lastTransitionTime"]
    # A resource that was synced has a grace period, for a restart of the pod.
    harness.apply({**bucket(names=("a", "b"))})
    harness.until(lambda: harness.condition("Synced").get("status") == "Unknown")
    assert harness.condition("Synced", "new")["lastTransitionTime"] == since


def test_waiting_resources_are_reconciled_after_the_first_response(harness: Harness) -> None:
    harness.apply(composition())
    runner_of(harness).is_away = True
    # With one attempt every four seconds, this test would time out.
    names = [f"waits-{number}" for number in range(30)]
    for name in names:
        harness.apply(bucket(name, ("a",)))
    for name in names:
        harness.until(lambda: harness.condition("Synced", name).get("status") == "Unknown")  # noqa: B023 # it is called immediately
    registry = harness.metrics.registry
    harness.until(lambda: registry.get_sample_value("kanister_py_open_breakers") == 1.0)
    runner_of(harness).is_away = False
    harness.until(lambda: all(map(harness.is_ready, names)))


def test_a_changed_composition_counts_against_the_limit_of_its_new_function(
    harness: Harness,
) -> None:
    harness.apply(composition())
    harness.apply(bucket(names=("a",)))
    harness.until(harness.is_ready)
    other = composition()
    other["spec"]["pipeline"].append(
        {"step": "ready", "functionRef": {"name": "function-auto-ready"}}
    )
    harness.apply(other)
    task = Task(Role.COMPOSITE, BUCKETS, ObjectKey("default", "mine"))
    groups_of = harness.compositions.limits.groups_of
    harness.until(lambda: "function-auto-ready" in dict(groups_of(task)))

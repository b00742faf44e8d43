"""Functions that hang or are away: whom that concerns, what is said of it, and for how long."""

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
from tests.controller.compositions.test_kinds import BUCKETS, World, bucket, composition, definition

SETTINGS = CompositionSettings("kanister-py", workers=4)
PATIENCE_SECONDS = 180.0


class Moody:
    """Calls functions; the steps called `hangs` hang, and none is answered while it is away."""

    def __init__(self, inner: FunctionRunner) -> None:
        self._inner = inner
        self.is_away = False
        self.goes_on = Event()

    def run(self, call: FunctionCall) -> FunctionResponse:
        if call.step == "hangs":
            self.goes_on.wait(PATIENCE_SECONDS)
        if self.is_away:
            raise FunctionUnavailable(call.step, call.revision.function, "", "it is away")
        return self._inner.run(call)

    def close(self) -> None:
        self.goes_on.set()
        self._inner.close()


@pytest.fixture
def world() -> Iterator[World]:
    made = World(SETTINGS, calling=Moody)
    made.start()
    made.define(definition())
    yield made
    moody(made).goes_on.set()
    made.close()


def moody(world: World) -> Moody:
    assert isinstance(world.runner, Moody)
    return world.runner


def vault(name: str) -> KubeObject:
    return {**bucket(name, ("a",)), "kind": "XVault"}


def vaults() -> dict[str, Any]:
    made = definition(names={"kind": "XVault", "plural": "xvaults"})
    return {**made, "metadata": {"name": "xvaults.example.org"}}


def hanging() -> dict[str, Any]:
    made = composition(name="hanging")
    made["spec"]["compositeTypeRef"]["kind"] = "XVault"
    (step,) = made["spec"]["pipeline"]
    # A caller of a function that hangs waits with it, so it is not the one of the others.
    made["spec"]["pipeline"] = [
        {**step, "step": "hangs", "functionRef": {"name": "function-auto-ready"}}
    ]
    return made


def test_a_function_that_hangs_keeps_nobody_else_waiting(world: World) -> None:
    world.define(vaults())
    world.say(hanging())
    world.say(composition())
    for number in range(12):
        world.say(vault(f"hung-{number}"))
    world.until(lambda: world.compositions.queue.depth >= 8)
    for number in range(8):
        world.say(bucket(f"well-{number}", ("a",)))
    world.until(lambda: all(world.is_ready(f"well-{number}") for number in range(8)))


def test_nobody_says_that_all_is_well_who_could_not_be_judged(world: World) -> None:
    world.say(composition())
    world.say(bucket(names=("a",)))
    world.until(world.is_ready)
    world.until_rest()
    moody(world).is_away = True
    world.say(bucket("new", ("a",)))
    world.until(lambda: world.condition("Synced", "new").get("status") == "Unknown")
    condition = world.condition("Synced", "new")
    assert condition["reason"] == "FunctionUnavailable"
    assert "it is away" in condition["message"]
    since = condition["lastTransitionTime"]
    # One that was well is given the time that a pod takes to come back.
    world.say({**bucket(names=("a", "b"))})
    world.until(lambda: world.condition("Synced").get("status") == "Unknown")
    assert world.condition("Synced", "new")["lastTransitionTime"] == since


def test_all_go_on_within_seconds_of_its_first_answer(world: World) -> None:
    world.say(composition())
    moody(world).is_away = True
    # One that is tried every four seconds would have them wait for longer than is waited here.
    names = [f"waits-{number}" for number in range(30)]
    for name in names:
        world.say(bucket(name, ("a",)))
    for name in names:
        world.until(lambda: world.condition("Synced", name).get("status") == "Unknown")  # noqa: B023 # it is asked for at once
    registry = world.metrics.registry
    world.until(lambda: registry.get_sample_value("kanister_py_open_breakers") == 1.0)
    moody(world).is_away = False
    world.until(lambda: all(map(world.is_ready, names)))


def test_a_composition_that_calls_another_function_shares_with_its_callers(world: World) -> None:
    world.say(composition())
    world.say(bucket(names=("a",)))
    world.until(world.is_ready)
    other = composition()
    other["spec"]["pipeline"].append(
        {"step": "ready", "functionRef": {"name": "function-auto-ready"}}
    )
    world.say(other)
    task = Task(Role.COMPOSITE, BUCKETS, ObjectKey("default", "mine"))
    groups_of = world.compositions.limits.groups_of
    world.until(lambda: "function-auto-ready" in dict(groups_of(task)))

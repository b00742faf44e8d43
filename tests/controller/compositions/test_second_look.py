"""Second look: what was just written is seen in the same pass, and its status says how it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kanister_py.core.compositions.messages import FunctionResponse
from kanister_py.core.revisions.kinds import COMPOSITION_REVISIONS
from kanister_py.ports.function_runner import (
    FunctionAnswerTooLarge,
    FunctionCall,
    FunctionRunner,
)
from tests.controller.compositions.test_kinds import (
    REVISIONS,
    World,
    bucket,
    composition,
    definition,
)

PIPELINE: list[dict[str, Any]] = [
    {
        "step": "make",
        "functionRef": {"name": "function-patch-and-transform"},
        "input": {
            "apiVersion": "pt.fn.crossplane.io/v1beta1",
            "kind": "Resources",
            "resources": [
                {
                    "name": "map",
                    "base": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"colour": "red"}},
                    "patches": [
                        {
                            "type": "ToCompositeFieldPath",
                            "fromFieldPath": "metadata.name",
                            "toFieldPath": "status.address",
                        }
                    ],
                }
            ],
        },
    },
    {"step": "ready", "functionRef": {"name": "function-auto-ready"}},
]


def until_composed_with(world: World) -> None:
    """Wait until there is something to compose with, and forget what that took."""
    made = composition()
    made["spec"]["pipeline"] = PIPELINE
    world.say(made)
    world.until(lambda: len(world.cluster.list(COMPOSITION_REVISIONS).items) == 1)
    world.say(bucket("first"))
    world.until(lambda: world.is_ready("first"))
    world.until_rest()
    world.writes.clear()
    world.events.clear()


@pytest.fixture
def world() -> Iterator[World]:
    made = World(REVISIONS)
    made.start()
    made.define(definition())
    yield made
    made.close()


def test_what_is_ready_as_soon_as_it_is_there_takes_three_writes(world: World) -> None:
    until_composed_with(world)
    world.say(bucket())
    world.until(world.is_ready)
    world.until_rest()
    # What it refers to, the object, and a status that says that it is ready.
    assert sorted(world.writes) == ["apply", "apply", "patch"]
    assert [each for each in world.events if "not yet ready" in each] == []
    (made,) = world.composed().values()
    assert world.bucket()["status"]["address"] == made["metadata"]["name"]


class Watched:
    """A runner that writes down which steps it was asked for, and may refuse one of them."""

    def __init__(self, runner: FunctionRunner, refuses: Callable[[FunctionCall], bool]) -> None:
        self._runner = runner
        self._refuses = refuses
        self.calls: list[str] = []
        self.refused = 0

    def run(self, call: FunctionCall) -> FunctionResponse:
        self.calls.append(call.step)
        if not self.refused and self._refuses(call):
            self.refused += 1
            raise FunctionAnswerTooLarge(call.step, call.revision.function, "", "too large")
        return self._runner.run(call)

    def close(self) -> None:
        self._runner.close()


class WatchedWorld(World):
    """A world that knows what its functions were asked."""

    runner: Watched

    def __init__(self, refuses: Callable[[FunctionCall], bool] = lambda _call: False) -> None:
        super().__init__(REVISIONS, calling=lambda runner: Watched(runner, refuses))
        self.start()
        self.define(definition())


@pytest.fixture
def make() -> Iterator[Callable[..., WatchedWorld]]:
    made: list[WatchedWorld] = []

    def begun(*refuses: Callable[[FunctionCall], bool]) -> WatchedWorld:
        made.append(WatchedWorld(*refuses))
        until_composed_with(made[0])
        return made[0]

    yield begun
    made[0].close()


def test_what_a_second_look_finds_as_it_was_is_not_looked_at_again(
    make: Callable[..., WatchedWorld],
) -> None:
    world = make()
    world.runner.calls.clear()
    world.say(bucket())
    world.until(world.is_ready)
    world.until_rest()
    assert world.runner.calls == ["make", "ready"] * 2


def test_a_second_look_that_fails_is_told_by_the_next_pass(
    make: Callable[..., WatchedWorld],
) -> None:
    world = make(_looks_at_mine_again)
    world.say(bucket())
    world.until(world.is_ready)
    world.until_rest()
    assert world.runner.refused == 1
    assert [each for each in world.events if "too large" in each] == []
    assert world.condition("Synced")["status"] == "True"


def _looks_at_mine_again(call: FunctionCall) -> bool:
    observed = call.request.observed.data
    name = observed["composite"]["resource"]["metadata"]["name"]
    return name == "mine" and bool(observed.get("resources"))

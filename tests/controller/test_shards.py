"""Several replicas at work side by side: each thing is done once, by one of them."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime, timedelta
from typing import Any

import pytest

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.controller.controller import Controller, ControllerSettings
from kanister_py.controller.functions.settings import CompositionSettings
from kanister_py.controller.machine.lease import LeaseTerms
from kanister_py.core.errors import NotFound
from kanister_py.core.kube.parts import conditions_of, status_of
from kanister_py.core.kube.resources import ACTION_SETS, CONFIG_MAPS, LEASES
from kanister_py.core.shards import shard_of
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.executor.loading import load_function
from kanister_py.executor.run.actions import FunctionSource
from kanister_py.wiring import FunctionAccess, composing_part, read_functions
from tests.controller.compositions.test_kinds import (
    BUCKETS,
    bucket,
    cluster_with_kinds,
    composition,
    definition,
)
from tests.controller.conftest import (
    PATIENCE_SECONDS,
    Counted,
    Touchy,
    World,
    actionset,
    blueprint,
    phase,
)

# As patient as in production, but quick to see who comes.
SHARED: Mapping[str, Any] = {
    "shards": 3,
    "terms": LeaseTerms(renews_every_seconds=0.05),
    "allows_other_namespaces": True,
}
SPACES = [f"team-{number}" for number in range(12)]


def until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < end, "it never came to be"
        time.sleep(0.01)


def hold_one_each(*controllers: Controller) -> bool:
    return sorted(each.shards for each in controllers) == [(at,) for at in range(3)]


def run_in(world: World, space: str, name: str = "one") -> None:
    made = actionset(name, blueprint="default/made-up")
    made["metadata"]["namespace"] = space
    world.create(made)


def states(world: World) -> list[str]:
    return [str(status_of(each).get("state")) for each in world.cluster.list(ACTION_SETS)]


def attempts(world: World) -> set[int]:
    return {
        each["attempt"]
        for obj in world.cluster.list(ACTION_SETS)
        for action in status_of(obj)["actions"]
        for each in action["phases"]
    }


@pytest.mark.parametrize(
    "namespaces",
    [
        pytest.param((), id="all namespaces"),
        pytest.param(("default", *SPACES), id="namespaces that are named, each watched by one"),
    ],
)
def test_everything_is_run_once_while_replicas_come_and_go(
    world: World, namespaces: tuple[str, ...]
) -> None:
    shared = {**SHARED, "namespaces": namespaces}
    world.create(blueprint(phase("Counted"), phase("Counted", "again")))
    for space in SPACES:
        run_in(world, space, "first")
    one = world.controller(**shared)
    for space in SPACES:
        run_in(world, space, "second")
    two, three = world.controller(**shared), world.controller(**shared)
    for space in SPACES:
        run_in(world, space, "third")
    until(lambda: hold_one_each(one, two, three))
    for space in SPACES:
        run_in(world, space, "fourth")
    one.stop()
    for space in SPACES:
        run_in(world, space, "fifth")
    until(lambda: states(world) == ["complete"] * 5 * len(SPACES))
    assert len(Counted.calls) == len(set(Counted.calls)) == 2 * 5 * len(SPACES)
    assert attempts(world) == {1}


def test_what_is_under_way_goes_to_one_that_comes_and_on_from_there(world: World) -> None:
    world.create(blueprint(phase("Gate"), phase("Echo")))
    for space in SPACES:
        run_in(world, space)
    one = world.controller(**SHARED)
    until(lambda: one.active_runs == len(SPACES))
    two, three = world.controller(**SHARED), world.controller(**SHARED)
    until(lambda: hold_one_each(one, two, three))
    each = (one, two, three)
    until(lambda: sum(who.active_runs for who in each) == len(SPACES))
    assert all(0 < who.active_runs < len(SPACES) for who in each)
    world.open_gate()
    until(lambda: states(world) == ["complete"] * len(SPACES))
    assert attempts(world) == {1}


def test_what_nobody_could_take_up_ends_where_it_began(world: World) -> None:
    world.create(blueprint(phase("Touchy"), phase("Echo")))
    for space in SPACES:
        run_in(world, space)
    one = world.controller(**SHARED)
    until(lambda: one.active_runs == len(SPACES))
    assert Touchy.began.wait(PATIENCE_SECONDS)
    two, three = world.controller(**SHARED), world.controller(**SHARED)
    until(lambda: two.is_leader and three.is_leader)
    assert (two.shards, three.shards) == ((), ())
    Touchy.gate.set()
    until(lambda: states(world) == ["complete"] * len(SPACES))
    assert attempts(world) == {1}
    until(lambda: hold_one_each(one, two, three))


def test_the_share_of_one_that_dies_is_taken_up_by_the_others(world: World) -> None:
    world.create(blueprint(phase("Gate"), phase("Counted")))
    replicas = [world.controller(**SHARED) for _ in range(3)]
    until(lambda: hold_one_each(*replicas))
    for space in SPACES:
        run_in(world, space)
    until(lambda: sum(each.active_runs for each in replicas) == len(SPACES))
    gone, *others = replicas
    gone.kill()
    # Counted from its last renewal: it may have been kept from renewing before it died.
    leases = world.cluster.list(LEASES, namespace="default").items
    held = [each["spec"] for each in leases if each["spec"]["holderIdentity"] == "replica-1"]
    until(lambda: sum(each.active_runs for each in others) == len(SPACES))
    # 13 s at the most, were everybody awake all the time.
    least = timedelta(seconds=LeaseTerms().acts_for_seconds)
    assert all(
        world.clock.now() - datetime.fromisoformat(each["renewTime"]) >= least for each in held
    )
    world.open_gate()
    until(lambda: states(world) == ["complete"] * len(SPACES))
    assert len(Counted.calls) == len(set(Counted.calls)) == len(SPACES)
    assert attempts(world) == {1}


class Seen:
    """A cluster that writes down what one replica has written."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster
        self.composed_by: list[str] = []
        self.kinds: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._cluster, name)
        if name not in ("create", "apply"):
            return found

        def call(obj: Mapping[str, Any], *args: Any, **options: Any) -> Any:
            self.kinds.add(obj["kind"])
            if obj["kind"] == "ConfigMap":
                self.composed_by.append(obj["metadata"]["labels"]["crossplane.io/composite"])
            return found(obj, *args, **options)

        return call


class Composing:
    """Replicas that compose on one cluster."""

    def __init__(self, stack: ExitStack) -> None:
        self.cluster = cluster_with_kinds()
        self._stack = stack
        self._names = 0

    def start(self) -> tuple[Controller, Seen]:
        self._names += 1
        seen, functions = Seen(self.cluster), read_functions()
        settings = CompositionSettings("default", uses_revisions=True)
        controller = Controller(
            seen,
            FunctionSource(functions.registry, load_function),
            clock=SystemClock(),
            settings=ControllerSettings(identity=f"replica-{self._names}", **SHARED),
            parts=[composing_part(functions, settings, FunctionAccess(), self._stack)],
        )
        controller.start()
        self._stack.callback(controller.kill)
        return controller, seen

    def say(self, obj: Mapping[str, Any]) -> None:
        self.cluster.apply(obj, field_manager="people", force=True)

    def is_served(self) -> bool:
        try:
            self.cluster.list(BUCKETS)
        except NotFound:
            return False
        return True

    def owners(self, replicas: Sequence[tuple[Controller, Seen]]) -> dict[str, set[int]]:
        """Say which replica holds the shard of each resource, as its UID has it."""
        holders = {at: number for number, (each, _) in enumerate(replicas) for at in each.shards}
        return {
            each["metadata"]["name"]: {holders[shard_of(each["metadata"]["uid"], 3)]}
            for each in self.cluster.list(BUCKETS)
        }

    def addresses(self) -> dict[str, str]:
        return {
            each["metadata"]["name"]: str(status_of(each).get("address"))
            for each in self.cluster.list(BUCKETS)
            if any(condition["type"] == "Ready" for condition in conditions_of(each))
        }


@pytest.fixture
def composing() -> Iterator[Composing]:
    with ExitStack() as stack:
        yield Composing(stack)


def test_each_composite_resource_is_composed_by_one_and_by_another_when_that_ends(
    composing: Composing,
) -> None:
    names = [f"bucket-{number}" for number in range(12)]
    one = composing.start()
    composing.say(definition())
    composing.say(composition("red"))
    until(composing.is_served)
    for name in names:
        composing.say(bucket(name))
    until(lambda: composing.addresses() == dict.fromkeys(names, "red"))
    replicas = [one, composing.start(), composing.start()]
    until(lambda: hold_one_each(*(each for each, _ in replicas)))
    until(lambda: all(each.is_settled for each, _ in replicas))
    _change(composing, replicas, "green")
    assert _composers(replicas) == composing.owners(replicas)
    revised = [0 in each.shards for each, _ in replicas]
    assert [("CompositionRevision" in seen.kinds) for _, seen in replicas] == revised
    # The first shard goes, and with it the maker of revisions.
    first = next(each for each in replicas if 0 in each[0].shards)
    replicas.remove(first)
    first[0].stop()
    until(lambda: sorted(at for each, _ in replicas for at in each.shards) == [0, 1, 2])
    _change(composing, replicas, "blue")
    assert _composers(replicas) == composing.owners(replicas)


def _change(composing: Composing, replicas: list[tuple[Controller, Seen]], colour: str) -> None:
    for _, seen in replicas:
        seen.composed_by.clear()
        seen.kinds.clear()
    composing.say(composition(colour))
    names = composing.addresses()
    until(lambda: composing.addresses() == dict.fromkeys(names, colour))
    made = {each["data"]["colour"] for each in composing.cluster.list(CONFIG_MAPS)}
    assert made == {colour}


def _composers(replicas: list[tuple[Controller, Seen]]) -> dict[str, set[int]]:
    found: dict[str, set[int]] = defaultdict(set)
    for number, (_, seen) in enumerate(replicas):
        for name in seen.composed_by:
            found[name].add(number)
    return found

"""ValidPipeline: a revision says whether its functions can compose, and none is called that cannot.

The revisions of functions here are written as their controller would write them, and
answered for by what comes with us.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from kanister_py.controller.compositions.tasks import Role, Task
from kanister_py.controller.functions.settings import CompositionSettings
from kanister_py.controller.machine.work_loop import FAILED
from kanister_py.core.compositions.endpoints import builtin_endpoint
from kanister_py.core.revisions.kinds import COMPOSITION_REVISIONS, FUNCTION_REVISIONS
from kanister_py.executor.watch_cache import ObjectKey
from kanister_py.ports.cluster import KubeObject
from tests.controller.compositions.test_kinds import (
    REVISIONS,
    World,
    bucket,
    composition,
    definition,
)

COMPOSES = ("composition",)
OPERATES = ("operation",)


@pytest.fixture
def world() -> Iterator[World]:
    made = World(REVISIONS)
    made.start()
    made.define(definition())
    yield made
    made.close()


def install(
    world: World,
    number: int = 1,
    can: tuple[str, ...] = COMPOSES,
    *,
    state: str = "Active",
    labels: Mapping[str, str] | None = None,
    function: str = "templates",
    runs: str = "function-go-templating",
) -> None:
    """Have a revision of a function in a cluster, up and running."""
    status: dict[str, Any] = {
        "endpoint": builtin_endpoint(runs, "v0.1.0"),
        "conditions": [{"type": "RuntimeHealthy", "status": "True"}],
    }
    if can:
        status["capabilities"] = list(can)
    world.cluster.load(
        [
            {
                "apiVersion": "pkg.crossplane.io/v1",
                "kind": "FunctionRevision",
                "metadata": {
                    "name": f"{function}-{number}",
                    "labels": {"pkg.crossplane.io/package": function, **(labels or {})},
                },
                "spec": {"desiredState": state, "revision": number, "image": "r.example.org/t:v1"},
                "status": status,
            }
        ]
    )


def using(colour: str = "red", **step: Any) -> dict[str, Any]:
    made = composition(colour)
    made["spec"]["pipeline"][0].update({"functionRef": {"name": "templates"}, **step})
    return made


def say_capabilities(world: World, name: str, *can: str) -> None:
    found = world.cluster.get(FUNCTION_REVISIONS, name)
    status = {**found["status"], "capabilities": list(can)}
    world.cluster.replace_status({**found, "status": status})


def say_state(world: World, name: str, state: str) -> None:
    found = world.cluster.get(FUNCTION_REVISIONS, name)
    world.cluster.replace({**found, "spec": {**found["spec"], "desiredState": state}})


def revision(world: World) -> KubeObject:
    (found,) = world.cluster.list(COMPOSITION_REVISIONS).items
    return found


def revision_condition(world: World, kind: str = "ValidPipeline") -> dict[str, Any]:
    for obj in world.cluster.list(COMPOSITION_REVISIONS).items:
        for each in (obj.get("status") or {}).get("conditions") or ():
            if each["type"] == kind:
                return dict(each)
    return {}


def is_valid(world: World) -> bool:
    return revision_condition(world).get("status") == "True"


def is_invalid(world: World) -> bool:
    return revision_condition(world).get("status") == "False"


def is_refused(world: World) -> bool:
    return "not for composition" in world.condition("Synced").get("message", "")


def complaints(world: World) -> list[str]:
    return [each for each in world.events if "CheckCapabilities" in each]


def test_a_revision_whose_functions_can_compose_says_so_and_nobody_is_warned(
    world: World,
) -> None:
    install(world)
    world.say(bucket())
    world.say(using())
    world.until(lambda: is_valid(world) and world.is_ready())
    found = revision(world)
    assert revision_condition(world)["reason"] == "ValidPipeline"
    assert revision_condition(world)["observedGeneration"] == found["metadata"]["generation"]
    assert (
        revision_condition(world, "Synced")["status"],
        revision_condition(world, "Synced")["reason"],
    ) == (
        "True",
        "ReconcileSuccess",
    )
    world.until_rest()
    assert complaints(world) == []
    assert revision(world)["status"]["composedWith"]
    assert is_valid(world)


def test_a_function_that_cannot_compose_is_refused_with_what_would_do(world: World) -> None:
    install(world, can=OPERATES)
    world.say(using())
    world.say(bucket())
    world.until(lambda: is_invalid(world) and is_refused(world))
    assert revision_condition(world)["reason"] == "MissingCapabilities"
    assert revision_condition(world, "Synced")["status"] == "True"
    for message in (revision_condition(world)["message"], world.condition("Synced")["message"]):
        for word in ('step "template"', "templates-1", "operation", "spec.capabilities"):
            assert word in message
    assert world.condition("Synced")["status"] == "False"
    assert world.composed() == {}
    world.until_rest()
    assert complaints(world) == [
        f"Warning CheckCapabilities: {revision_condition(world)['message']}"
    ]


def test_a_composition_itself_is_held_to_the_same_where_there_are_no_revisions() -> None:
    world = World(CompositionSettings("kanister-py"))
    world.start()
    try:
        world.define(definition())
        install(world, can=OPERATES)
        world.say(using())
        world.say(bucket())
        world.until(lambda: is_refused(world))
        assert world.composed() == {}
        say_capabilities(world, "templates-1", "composition")
        world.until(world.is_ready)
        assert world.cluster.list(COMPOSITION_REVISIONS).items == []
    finally:
        world.close()


def test_what_a_function_learns_or_forgets_reaches_everybody_who_calls_it(world: World) -> None:
    install(world, can=OPERATES)
    world.say(using())
    world.say(bucket())
    world.until(lambda: is_invalid(world) and is_refused(world))
    say_capabilities(world, "templates-1", "operation", "Composition")
    world.until(lambda: is_valid(world) and world.is_ready())
    assert "message" not in revision_condition(world)
    say_capabilities(world, "templates-1", "operation")
    world.until(lambda: is_invalid(world) and is_refused(world))
    assert set(world.composed()) == {"a", "b"}


def test_which_revision_serves_decides_whether_a_pipeline_is_valid(world: World) -> None:
    install(world)
    install(world, 2, OPERATES, state="Inactive")
    world.say(using())
    world.say(bucket())
    world.until(lambda: is_valid(world) and world.is_ready())
    say_state(world, "templates-2", "Active")
    world.until(lambda: is_invalid(world) and is_refused(world))
    assert "name templates-1 in functionRevisionRef" in revision_condition(world)["message"]
    say_state(world, "templates-2", "Inactive")
    world.until(lambda: is_valid(world) and world.condition("Synced")["status"] == "True")


@pytest.mark.parametrize(
    "step",
    [
        pytest.param({"functionRevisionRef": {"name": "templates-1"}}, id="its name"),
        pytest.param(
            {"functionRevisionSelector": {"matchLabels": {"channel": "stable"}}}, id="its labels"
        ),
    ],
)
def test_a_step_that_asks_for_a_revision_that_can_compose_is_composed(
    world: World, step: dict[str, Any]
) -> None:
    install(world, labels={"channel": "stable"})
    install(world, 2, OPERATES, labels={"channel": "alpha"})
    world.say(using(**step))
    world.say(bucket())
    world.until(lambda: is_valid(world) and world.is_ready())


@pytest.mark.parametrize(
    "function", [pytest.param("not-there", id="none"), pytest.param("unsaid", id="one unsaid")]
)
def test_what_nobody_knows_yet_counts_against_no_pipeline(world: World, function: str) -> None:
    install(world, can=(), function="unsaid")
    world.say(using(functionRef={"name": function}))
    world.until(lambda: is_valid(world))
    assert complaints(world) == []


def test_a_function_that_comes_with_us_is_valid(world: World) -> None:
    world.say(composition())
    world.until(lambda: is_valid(world))


def test_a_step_that_is_skipped_may_name_a_function_that_cannot_compose(world: World) -> None:
    install(world, can=OPERATES)
    made = composition()
    skipped = {"step": "later", "functionRef": {"name": "templates"}, "when": "false"}
    made["spec"]["pipeline"].append(skipped)
    world.say(made)
    world.say(bucket())
    world.until(lambda: is_invalid(world) and world.is_ready())


def test_a_composition_without_a_pipeline_is_held_to_the_function_that_it_stands_for(
    world: World,
) -> None:
    name = "function-patch-and-transform"
    install(world, can=OPERATES, function=name, runs=name)
    made = composition()
    template = {"apiVersion": "v1", "kind": "ConfigMap"}
    made["spec"] = {
        "compositeTypeRef": made["spec"]["compositeTypeRef"],
        "resources": [{"name": "a", "base": template}],
    }
    world.say(made)
    world.until(lambda: is_invalid(world))
    say_capabilities(world, f"{name}-1", "composition")
    world.until(lambda: is_valid(world))


def test_a_revision_that_cannot_be_read_says_why(world: World) -> None:
    world.say(using(functionRef={"name": "templates", "version": "newest"}))
    world.until(lambda: revision_condition(world, "Synced").get("status") == "False")
    assert revision_condition(world, "Synced")["reason"] == "ReconcileError"
    assert "newest" in revision_condition(world, "Synced")["message"]
    assert revision_condition(world) == {}


def test_going_back_to_a_revision_is_seen_in_what_it_says(world: World) -> None:
    install(world)

    def current_conditions() -> dict[int, list[bool]]:
        """Say by the number of each revision whether its conditions are of what it says now."""
        return {
            obj["spec"]["revision"]: [
                each["observedGeneration"] == obj["metadata"]["generation"]
                for each in (obj.get("status") or {}).get("conditions") or ()
            ]
            for obj in world.cluster.list(COMPOSITION_REVISIONS).items
        }

    world.say(using("red"))
    world.until(lambda: current_conditions() == {1: [True, True]})
    world.say(using("green"))
    world.until(lambda: current_conditions() == {1: [True, True], 2: [True, True]})
    world.say(using("red"))
    world.until(lambda: current_conditions() == {2: [True, True], 3: [True, True]})


def test_conditions_that_are_taken_away_are_written_again(world: World) -> None:
    install(world)
    world.say(using())
    world.until(lambda: is_valid(world))
    found = revision(world)
    world.cluster.replace_status({**found, "status": {**found["status"], "conditions": []}})
    world.until(lambda: is_valid(world))


def test_nothing_is_written_at_rest_nor_after_a_restart(world: World) -> None:
    install(world)
    install(world, function="other", can=OPERATES)
    world.say(using())
    broken = using()
    broken["metadata"]["name"] = "broken"
    broken["spec"]["pipeline"][0]["functionRef"]["name"] = "other"
    world.say(broken)
    world.say(bucket(compositionRef={"name": "bucket"}))
    world.until(world.is_ready)
    world.until(lambda: len(complaints(world)) == 1)
    world.until_rest()
    world.writes.clear()
    # What says nothing about what it can, or whether it is meant to serve, changes nothing.
    found = world.cluster.get(FUNCTION_REVISIONS, "other-1")
    world.cluster.replace_status({**found, "status": {**found["status"], "resolvedImage": "x"}})
    for each in world.cluster.list(COMPOSITION_REVISIONS).items:
        world.compositions.queue.add(_task(each))
    world.until_rest()
    assert world.writes == []
    world.close()
    again = World(REVISIONS, world.cluster)
    # Before the functions are seen nothing is said of them.
    for each in world.cluster.list(COMPOSITION_REVISIONS).items:
        assert again.compositions.reconcile(_task(each)) == FAILED
    again.start()
    try:
        again.until(lambda: len(again.compositions.index.names_with_revisions) == 2)
        again.until_rest()
        assert again.writes == []
        assert complaints(again) == []
    finally:
        again.close()


def _task(obj: KubeObject) -> Task:
    key = ObjectKey("", obj["metadata"]["name"])
    return Task(Role.COMPOSITION_REVISION, COMPOSITION_REVISIONS, key)

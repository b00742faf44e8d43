"""Controller: ActionSets that people create, steer, delete, or write badly."""

from __future__ import annotations

import json
import logging
import statistics
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, cast

import pytest

from kanister_py.controller.actionsets.concurrency import parse_limit
from kanister_py.controller.actionsets.projection import CONCURRENCY_KEY
from kanister_py.controller.actionsets.status import FINALIZER
from kanister_py.controller.controller import Controller
from kanister_py.controller.machine.lease import LEASE_NAME, LeaseTerms
from kanister_py.controller.machine.logs import JsonLines
from kanister_py.core.actionsets.creation import PARENT, SCHEDULE_LABEL
from kanister_py.core.errors import Forbidden, KanisterError, LeadershipLost, UsageError
from kanister_py.core.kube.resources import (
    ACTION_SETS,
    BLUEPRINTS,
    CONFIG_MAPS,
    EVENTS,
    LEASES,
    NAMESPACES,
    GroupVersionResource,
)
from kanister_py.executor.watch_cache import ObjectKey
from kanister_py.ports.cluster import Cluster, KubeObject
from tests.controller.conftest import (
    PATIENCE_SECONDS,
    Touchy,
    World,
    actionset,
    blueprint,
    phase,
    until,
)
from tests.fake_clock import FakeClock
from tests.raising import refused_as

BOTH_DEFINITIONS = pytest.mark.parametrize("world", ["ours", "kanisters"], indirect=True)


def events_of(world: World, name: str = "one") -> list[tuple[str, str]]:
    events = world.cluster.list(EVENTS).items
    return [
        (event["reason"], event["message"])
        for event in sorted(events, key=lambda each: int(each["metadata"]["resourceVersion"]))
        if event["involvedObject"]["name"] == name
    ]


def until_event(world: World, reason: str, name: str) -> None:
    """Wait for an event: they are posted beside everything else."""
    until = time.monotonic() + PATIENCE_SECONDS
    while reason not in dict(events_of(world, name)) and time.monotonic() < until:
        threading.Event().wait(0.005)
    assert reason in dict(events_of(world, name))


def sample(controller: Controller, name: str, **labels: str) -> float:
    return controller.metrics.registry.get_sample_value(name, labels) or 0.0


def states_of(world: World) -> list[str]:
    """Give the states of all ActionSets that have one."""
    actionsets = world.cluster.list(ACTION_SETS).items
    return [each["status"]["state"] for each in actionsets if "state" in (each.get("status") or {})]


def until_sampled(controller: Controller, want: float, name: str, **labels: str) -> None:
    """Wait for a number: what is told of a run is counted after it is written."""
    until = time.monotonic() + PATIENCE_SECONDS
    while sample(controller, name, **labels) != want and time.monotonic() < until:
        threading.Event().wait(0.005)
    assert sample(controller, name, **labels) == want


def until_logged(caplog: pytest.LogCaptureFixture, what: str) -> dict[str, Any]:
    """Wait for a message with these words, and give its line as it is in a log of JSON."""
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        for record in caplog.records[:]:
            if what in record.getMessage():
                return cast("dict[str, Any]", json.loads(JsonLines().format(record)))
        assert time.monotonic() < until, f"nothing says {what!r}: {caplog.text}"
        threading.Event().wait(0.005)


class Asked:
    """A cluster that counts how often an object of one kind is asked for."""

    def __init__(self, cluster: Cluster, resource: GroupVersionResource) -> None:
        self._cluster = cluster
        self._resource = resource
        self._lock = threading.Lock()
        self.count = 0

    def as_cluster(self) -> Cluster:
        return cast("Cluster", self)

    def get(self, resource: GroupVersionResource, name: str, **options: Any) -> KubeObject:
        if resource == self._resource:
            with self._lock:
                self.count += 1
        return self._cluster.get(resource, name, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)


# Runs


@BOTH_DEFINITIONS
def test_an_action_set_runs_to_its_end(world: World) -> None:
    world.create(
        blueprint(
            phase("Echo", "say", args={"say": "{{ .Options.word }}"}),
            phase("Echo", "again", args={"say": "{{ .Phases.say.Output.said }}"}),
            outputArtifacts={"a": {"keyValue": {"k": "{{ .Phases.again.Output.said }}"}}},
        )
    )
    world.controller()
    world.create(actionset(action={"options": {"word": "hello"}}))
    status = world.until_state("complete")
    assert status["actions"][0]["phases"][1]["output"] == {"said": "hello"}
    assert status["actions"][0]["artifacts"]["a"]["keyValue"] == {"k": "hello"}
    assert status["progress"]["percentCompleted"] == "100"
    assert [each["funcVersion"] for each in status["actions"][0]["phases"]] == ["v0.0.0"] * 2
    assert status["conditions"][0]["type"] == "Complete"


class Counting:
    """A cluster that counts what is written to ActionSets."""

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster
        self.writes: list[str] = []

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._cluster, name)
        if name not in ("replace", "replace_status", "patch"):
            return attribute

        def call(*args: Any, **options: Any) -> Any:
            first = args[0]
            kind = first["kind"] if isinstance(first, Mapping) else ""
            if first == ACTION_SETS or kind == "ActionSet":
                self.writes.append(name)
            return attribute(*args, **options)

        return call


@pytest.mark.parametrize(
    ("made", "most"),
    [
        pytest.param(blueprint(phase("Echo")), 2, id="one phase that leaves nothing behind"),
        pytest.param(blueprint(phase("Once", args={"name": "x"})), 4, id="one that may"),
        pytest.param(
            blueprint(
                phase("Once", args={"name": "x"}),
                deferred=phase("Echo", "d"),
                outputArtifacts={"a": {"keyValue": {"k": "v"}}},
            ),
            8,
            id="with a deferred phase and artifacts",
        ),
        pytest.param(blueprint(*(phase("Echo", f"p{n}") for n in range(10))), 20, id="ten phases"),
    ],
)
def test_a_run_takes_few_writes(world: World, made: dict[str, Any], most: int) -> None:
    counting = Counting(world.cluster)
    world.create(made)
    world.controller(counting)
    world.create(actionset())
    world.until(
        lambda obj: (
            (obj.get("status") or {}).get("state") == "complete"
            and not obj["metadata"].get("finalizers")
        )
    )
    assert len(counting.writes) <= most


def test_many_at_once_all_end_and_the_first_come_is_the_first_done(world: World) -> None:
    world.create(blueprint(phase("Echo"), phase("Echo", "second")))
    world.controller(workers=1, passes=1)
    names = [f"many-{number:03}" for number in range(200)]
    world.create(*map(actionset, names))
    ended: list[str] = []
    with world.cluster.watch(
        ACTION_SETS, namespace="default", timeout_seconds=PATIENCE_SECONDS
    ) as watch:
        for event in watch:
            name = event.object["metadata"]["name"]
            state = (event.object.get("status") or {}).get("state")
            if state == "complete" and name not in ended:
                ended.append(name)
                assert event.object["status"]["progress"]["percentCompleted"] == "100"
            if len(ended) == len(names):
                break
    assert ended == names


# What is wrong with what people write


@pytest.mark.parametrize(
    ("changes", "reason", "field"),
    [
        pytest.param({"spec": None}, "InvalidDocument", "spec: Is required", id="no spec"),
        pytest.param(
            {"spec": {"actions": [{"name": "act", "blueprint": ""}]}},
            "BlueprintNotFound",
            "spec.actions[0].blueprint",
            id="no blueprint",
        ),
        pytest.param(
            {"spec": {"actions": [{"name": "act", "blueprint": "nope"}]}},
            "BlueprintNotFound",
            "Blueprint nope in namespace default: Not found",
            id="a blueprint that is not there",
        ),
        pytest.param(
            {"spec": {"actions": [{"name": "act", "blueprint": "other/made-up"}]}},
            "BlueprintNotFound",
            "--allow-cross-namespace-blueprints",
            id="a blueprint of another namespace",
        ),
        pytest.param(
            {"spec": {"actions": [{"name": "nope", "blueprint": "made-up"}]}},
            "ActionNotFound",
            "nope",
            id="an action that is not there",
        ),
        pytest.param(
            {"spec": {"actions": ["act"]}}, "InvalidDocument", "spec.actions[0]", id="a text"
        ),
        pytest.param(
            {"spec": {"actions": [{"name": 5, "blueprint": "made-up"}]}},
            "InvalidDocument",
            "spec.actions[0].name",
            id="a number for a name",
        ),
        pytest.param(
            {"status": {"state": "running", "actions": [3]}},
            "StatusUnreadable",
            "status",
            id="status",
        ),
    ],
)
@pytest.mark.parametrize("world", ["kanisters"], indirect=True)
def test_what_cannot_be_understood_fails_and_names_the_field(
    world: World, changes: dict[str, Any], reason: str, field: str
) -> None:
    world.create(blueprint(phase("Echo")))
    made = {**actionset(), **changes}
    world.create({key: value for key, value in made.items() if value is not None})
    world.controller()
    error = world.until_state("failed")["error"]
    assert error["reason"] == reason
    assert field in error["message"]


def test_what_is_sure_to_fail_is_refused_whole_and_nothing_acts(world: World) -> None:
    misspelt = phase("Echo", "second", args={"sya": "x"})
    document = blueprint(
        phase("Echo", "first"), misspelt, phase("Nope"), deferred=phase("Echo", "tidy")
    )
    world.create(document, actionset())
    controller = world.controller()
    status = world.until_state("failed")
    controller.stop()
    error, action = status["error"], status["actions"][0]
    assert error["phase"] == "second"
    assert ["sya" in error["problems"][0], "Nope" in error["problems"][1]] == [True, True]
    assert len(error["problems"]) == 2
    assert [each["state"] for each in action["phases"]] == ["pending", "failed", "pending"]
    assert action["deferPhase"]["state"] == "pending"
    assert [reason for reason, _ in events_of(world)] == ["ActionSetFailed Action: act"]


class Grudging:
    """A cluster that lets us make no ConfigMaps in the namespace `default`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    def create(self, obj: KubeObject, **more: Any) -> KubeObject:
        if obj["kind"] != "SelfSubjectAccessReview":
            return self._cluster.create(obj, **more)
        review = obj["spec"]["resourceAttributes"]
        is_refused = (review["resource"], review["namespace"]) == ("configmaps", "default")
        return {"status": {"allowed": not is_refused}}


@pytest.mark.parametrize("checks_access", [True, False])
def test_a_right_that_a_later_phase_lacks_is_told_before_the_first_one_acts(
    world: World, *, checks_access: bool
) -> None:
    world.create(
        blueprint(phase("Brand", args={"colour": "red"}), phase("Once", args={"name": "m"}))
    )
    world.controller(Grudging(world.cluster), checks_access=checks_access)
    world.create(actionset())
    status = world.until_state("failed" if checks_access else "complete")
    labels = world.cluster.get(NAMESPACES, "default")["metadata"].get("labels") or {}
    assert ("colour" in labels) is not checks_access
    if checks_access:
        (problem,) = status["error"]["problems"]
        assert problem.startswith(
            "act/once (Blueprint default/made-up): the cluster does not allow"
        )
        assert "create configmaps in default; kanister-py rbac prints the Role" in problem


@pytest.mark.parametrize(
    ("made", "reason", "message"),
    [
        pytest.param(
            {"phases": [phase("Echo", timeout="soon")]},
            "InvalidDuration",
            "act/echo timeout",
            id="a time",
        ),
        pytest.param(
            {"phases": {"func": "Echo"}}, "InvalidDocument", "actions.act.phases", id="no list"
        ),
        pytest.param(
            {"phases": [phase("Echo", args={"say": "{{ .Nope"})]}, "", "", id="a broken template"
        ),
        pytest.param({"phases": [phase("Nope")]}, "FunctionNotRegistered", "Nope", id="a function"),
        pytest.param(
            {"phases": [phase("Echo", args={"nope": "x"})]}, "InvalidArgs", "nope", id="an argument"
        ),
    ],
)
@pytest.mark.parametrize("world", ["kanisters"], indirect=True)
def test_a_blueprint_that_is_wrong_fails_what_uses_it(
    world: World, made: dict[str, Any], reason: str, message: str
) -> None:
    world.create({**blueprint(), "actions": {"act": made}}, actionset())
    world.controller()
    error = world.until_state("failed")["error"]
    assert reason in error["reason"]
    assert message in error["message"]


def test_a_blueprint_of_another_namespace_is_read_where_that_is_allowed(world: World) -> None:
    document = blueprint(phase("Echo"))
    document["metadata"]["namespace"] = "shared"
    world.create(document, actionset(blueprint="shared/made-up"))
    world.controller(namespaces=("default",), allows_other_namespaces=True)
    world.until_state("complete")


# Steering a run


@BOTH_DEFINITIONS
def test_deleting_cancels_and_the_deferred_phase_still_runs(world: World) -> None:
    world.create(
        blueprint(phase("Gate"), deferred=phase("Once", "tidy", args={"name": "tidy"})),
        actionset(),
    )
    world.controller()
    world.until(
        lambda obj: (
            (obj.get("status") or {}).get("state") == "running"
            and FINALIZER in obj["metadata"]["finalizers"]
        )
    )
    world.cluster.delete(ACTION_SETS, "one", namespace="default")
    world.until_gone("one")
    assert len(world.cluster.list(CONFIG_MAPS, label_selector="made-by=once").items) == 1


def test_a_cancel_in_the_spec_ends_the_run_as_cancelled(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    world.create(blueprint(phase("Gate"), deferred=phase("Echo", "tidy")), actionset())
    world.controller()
    world.until_state("running")
    world.cluster.patch(ACTION_SETS, "one", {"spec": {"cancel": True}}, namespace="default")
    status = world.until_state("failed")
    assert status["error"]["reason"] == "Cancelled"
    assert status["actions"][0]["deferPhase"]["state"] == "complete"
    # The user asked for it, so it is no failure.
    until(lambda: "ActionSet default/one was cancelled: " in caplog.text)
    assert [record.message for record in caplog.records if record.levelname == "WARNING"] == []


def test_a_suspended_action_set_begins_when_it_is_resumed(world: World) -> None:
    world.create(blueprint(phase("Echo")), actionset(suspend=True))
    world.controller()

    def is_suspended(obj: KubeObject) -> bool:
        conditions = (obj.get("status") or {}).get("conditions") or ()
        return any(
            condition["type"] == "Suspended" and condition["status"] == "True"
            for condition in conditions
        )

    (condition,) = world.until(is_suspended)["status"]["conditions"]
    assert "spec.suspend is true" in condition["message"]
    assert world.status()["state"] == "pending"
    world.cluster.patch(ACTION_SETS, "one", {"spec": {"suspend": False}}, namespace="default")
    world.until_state("complete")


def test_no_finalizer_holds_what_leaves_nothing_behind(world: World) -> None:
    world.create(blueprint(phase("Echo")), actionset())
    world.controller()
    world.until_state("complete")
    assert not world.get()["metadata"].get("finalizers")


# One at a time


def keyed(name: str, **more: Any) -> dict[str, Any]:
    return actionset(name, metadata={"annotations": {CONCURRENCY_KEY: "db"}}, **more)


def waits_for(obj: KubeObject) -> str:
    for condition in (obj.get("status") or {}).get("conditions") or ():
        if condition["type"] == "Waiting" and condition["status"] == "True":
            return str(condition["message"])
    return ""


def test_one_of_a_key_runs_at_a_time_and_the_others_say_for_whom_they_wait(world: World) -> None:
    world.create(blueprint(phase("Gate")))
    world.controller()
    world.create(keyed("a"))
    world.until_state("running", "a")
    world.create(keyed("b"), keyed("c"))
    assert "default/a" in waits_for(world.until(waits_for, "b"))
    assert "default/b" in waits_for(world.until(waits_for, "c"))
    assert world.status("b")["state"] == "pending"
    world.open_gate()
    for name in ("a", "b", "c"):
        world.until_state("complete", name)
    began = [world.status(name)["actions"][0]["startTime"] for name in ("a", "b", "c")]
    ended = [world.status(name)["actions"][0]["completionTime"] for name in ("a", "b", "c")]
    assert ended[0] <= began[1] < ended[1] <= began[2]
    assert not waits_for(world.get("c"))


def test_who_is_deleted_while_waiting_holds_nobody_up(world: World) -> None:
    world.create(blueprint(phase("Gate")))
    world.controller()
    world.create(keyed("a"))
    world.until_state("running", "a")
    world.create(keyed("b"), keyed("c"))
    world.until(waits_for, "c")
    world.cluster.delete(ACTION_SETS, "b", namespace="default")
    world.until(lambda obj: "default/a" in waits_for(obj), "c")


class Interrupted:
    """A cluster in which something happens while a Blueprint is read."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.act: Callable[[], object] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    def get(self, resource: Any, name: str, **options: Any) -> KubeObject:
        act, self.act = (self.act, None) if resource == BLUEPRINTS else (None, self.act)
        if act is not None:
            act()
        return self._cluster.get(resource, name, **options)


def test_who_is_deleted_while_it_is_looked_at_holds_nobody_up(world: World) -> None:
    world.create(blueprint(phase("Gate")), blueprint(phase("Echo"), name="other"))
    cluster = Interrupted(world.cluster)
    world.controller(cluster)
    world.create(keyed("a"))
    world.until_state("running", "a")

    def delete() -> None:
        world.cluster.delete(ACTION_SETS, "b", namespace="default")
        # Who has seen this one has seen that, too.
        world.create(actionset("later", blueprint="other"))
        world.until_state("complete", "later")

    cluster.act = delete
    world.create(keyed("b"))
    world.until_state("complete", "later")
    world.create(keyed("c"))
    world.until(lambda obj: "default/a" in waits_for(obj), "c")


def test_no_more_run_at_once_of_a_blueprint_and_action_than_its_limit_says(world: World) -> None:
    world.create(blueprint(phase("Gate")), blueprint(phase("Echo"), name="other"))
    limits = tuple(map(parse_limit, ("made-up:act=2", "elsewhere/made-up=1", "*:other=1")))
    world.controller(limits=limits)
    names = ("a", "b", "c", "d")
    for name in names[:2]:
        world.create(actionset(name))
        world.until_state("running", name)
    world.create(*(actionset(name) for name in names[2:]), actionset("free", blueprint="other"))
    for name in names[2:]:
        world.until(
            lambda obj: (
                waits_for(obj) == "Waiting for other ActionSets to end (limit made-up:act=2)"
            ),
            name,
        )
    world.until_state("complete", "free")
    assert [world.status(name)["state"] for name in names[2:]] == ["pending"] * 2
    world.cluster.patch(ACTION_SETS, "a", {"spec": {"cancel": True}}, namespace="default")
    world.until_state("running", "c")
    assert world.status("d")["state"] == "pending"
    world.open_gate()
    for name in names[1:]:
        world.until_state("complete", name)
    assert not waits_for(world.get("d"))


def test_limits_and_keys_hold_together_and_after_a_restart(world: World) -> None:
    world.create(blueprint(phase("Gate")))
    limits = (parse_limit("default/made-up=2"),)
    first = world.controller(limits=limits)
    for name in ("a", "b"):
        world.create(keyed(name) if name == "a" else actionset(name))
        world.until_state("running", name)
    world.create(keyed("keyed"))
    world.until(lambda obj: "default/a" in waits_for(obj), "keyed")
    world.create(actionset("limited"))
    world.until(lambda obj: "limit" in waits_for(obj), "limited")
    first.stop()
    world.controller(limits=limits)
    world.open_gate()
    for name in ("a", "b", "keyed", "limited"):
        world.until_state("complete", name)


def test_a_paused_controller_ends_what_is_under_way_and_begins_nothing(world: World) -> None:
    world.create(blueprint(phase("Gate")))
    first = world.controller()
    world.create(actionset("under-way"))
    world.until_state("running", "under-way")
    first.stop()
    paused = world.controller(is_paused=True)
    world.create(actionset("new"), actionset("wrong", blueprint="missing"))
    world.open_gate()
    world.until_state("complete", "under-way")
    assert sample(paused, "kanister_py_paused") == 1
    for name in ("new", "wrong"):
        until_event(world, "Paused", name)
        assert not world.status(name)
    paused.stop()
    world.controller()
    world.until_state("complete", "new")
    world.until_state("failed", "wrong")


def test_the_order_of_those_that_wait_outlives_a_restart(world: World) -> None:
    world.create(blueprint(phase("Gate")))
    first = world.controller(identity="one-pod")
    world.create(keyed("z"))
    world.until_state("running", "z")
    world.create(keyed("a"))
    world.until(waits_for, "a")
    first.kill()
    world.controller(identity="one-pod")
    world.open_gate()
    world.until_state("complete", "a")
    ended = world.status("z")["actions"][0]["completionTime"]
    assert ended <= world.status("a")["actions"][0]["startTime"]


def test_a_namespace_has_no_more_phases_at_work_than_it_may(world: World) -> None:
    world.create(blueprint(phase("Echo")))
    controller = world.controller(workers=8, workers_per_namespace=1)
    names = [f"n{number}" for number in range(20)]
    world.create(*map(actionset, names))
    for name in names:
        world.until_state("complete", name)
    assert controller.active_runs == 0 or controller.is_leader


def test_a_run_that_waits_for_a_worker_hears_that_it_is_cancelled(world: World) -> None:
    world.create(blueprint(phase("Hangs"), name="hangs"), blueprint(phase("Echo")))
    world.create(actionset("first", blueprint="hangs"))
    world.controller(workers=1, workers_per_namespace=1)
    world.until_state("running", "first")
    world.create(actionset("second"))
    until = time.monotonic() + PATIENCE_SECONDS
    while world.controllers[0].active_runs < 2 and time.monotonic() < until:
        time.sleep(0.01)
    world.cluster.patch(ACTION_SETS, "second", {"spec": {"cancel": True}}, namespace="default")
    until = time.monotonic() + PATIENCE_SECONDS
    while world.status("second").get("state") != "failed" and time.monotonic() < until:
        time.sleep(0.01)
    assert world.status("second").get("state") == "failed"
    assert world.status("first")["state"] == "running"


def test_what_hangs_in_one_namespace_leaves_workers_for_the_others(world: World) -> None:
    world.create(blueprint(phase("Hangs")))
    elsewhere = blueprint(phase("Echo"), name="quick")
    world.create({**elsewhere, "metadata": {"name": "quick", "namespace": "other"}})
    world.controller(workers=4)
    for number in range(8):
        world.create(actionset(f"hung-{number}"))
    # Which of them come first is the order of the threads that look at them.
    until = time.monotonic() + PATIENCE_SECONDS
    while states_of(world).count("running") < 3:
        assert time.monotonic() < until, states_of(world)
        threading.Event().wait(0.005)
    world.create(in_namespace(actionset("well", blueprint="quick"), "other"))
    with world.cluster.watch(
        ACTION_SETS, namespace="other", timeout_seconds=PATIENCE_SECONDS
    ) as watch:
        states = ((event.object.get("status") or {}).get("state") for event in watch)
        assert next(state for state in states if state in ("complete", "failed")) == "complete"


# What is kept


def test_what_has_lived_long_enough_is_deleted(world: World) -> None:
    world.create(blueprint(phase("Echo")), blueprint(phase("Fails"), name="bad"))
    world.create(
        actionset("good", ttlSecondsAfterFinished=0),
        actionset("stays"),
        actionset("failed", blueprint="bad", ttlSecondsAfterFinished=0, ttlSecondsAfterFailure=999),
    )
    world.controller()
    world.until_gone("good")
    world.until_state("complete", "stays")
    world.until_state("failed", "failed")


def test_what_a_living_one_was_made_from_stays(world: World) -> None:
    world.create(blueprint(phase("Gate"), name="gated"), blueprint(phase("Echo")))
    child = actionset("child", blueprint="gated", metadata={"annotations": {PARENT: "parent"}})
    world.create(child)
    controller = world.controller()
    world.until_state("running", "child")
    world.create(actionset("parent", ttlSecondsAfterFinished=0), actionset("other"))
    world.until_state("complete", "parent")
    world.until_state("complete", "other")
    assert controller.is_leader
    world.get("parent")


# Who else is there


def test_a_second_controller_is_refused(world: World) -> None:
    world.controller(identity="one")
    world.create(blueprint(phase("Echo")), actionset())
    world.until_state("complete")
    second = world.controller(identity="two", starts=False)
    with refused_as("AnotherController", match="one"):
        second.run()


KANISTER_OPERATOR = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "kanister-operator", "namespace": "kanister"},
    "spec": {
        "selector": {"matchLabels": {"app": "k"}},
        "template": {
            "metadata": {"labels": {"app": "k"}},
            "spec": {
                "containers": [{"name": "c", "image": "ghcr.io/kanisterio/controller:0.119.0"}]
            },
        },
    },
}


@pytest.mark.parametrize(
    ("namespaces", "is_refused"),
    [
        pytest.param((), True, id="all namespaces"),
        pytest.param(("kanister",), True, id="its namespace"),
        pytest.param(("default",), False, id="another one"),
    ],
)
def test_kanister_beside_us_is_refused(
    world: World, namespaces: tuple[str, ...], is_refused: bool
) -> None:
    world.create(KANISTER_OPERATOR, blueprint(phase("Echo")), actionset())
    controller = world.controller(namespaces=namespaces, starts=not is_refused)
    if is_refused:
        with refused_as("AnotherController", match="kanister/kanister-operator"):
            controller.run()
    else:
        world.until_state("complete")


def test_kanister_that_comes_later_is_noticed_and_makes_us_stop(world: World) -> None:
    world.create(blueprint(phase("Echo")), actionset())
    controller = world.controller(starts=False, neighbours_every_seconds=0.01)
    ended: list[UsageError] = []

    def run() -> None:
        try:
            controller.run()
        except UsageError as error:
            ended.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    world.until_state("complete")
    world.create(KANISTER_OPERATOR)
    thread.join(PATIENCE_SECONDS)
    assert ended[0].reason == "AnotherController"
    assert "kanister/kanister-operator" in ended[0].message
    assert not controller.is_leader


def in_namespace(made: dict[str, Any], namespace: str) -> dict[str, Any]:
    """Move an object to a namespace; an ActionSet acts on that namespace, too."""
    moved = {**made, "metadata": {**made["metadata"], "namespace": namespace}}
    for action in moved.get("spec", {}).get("actions", ()):
        action["object"] = {"kind": "Namespace", "name": namespace, "namespace": namespace}
    return moved


def test_a_namespace_that_is_not_there_is_told_once_and_served_when_it_comes(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "kanister_py"):
        world.controller(namespaces=("default", "shop"))
        until_logged(caplog, "Namespace shop does not exist")
    assert "namespace default" not in caplog.text
    world.create(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}},
        in_namespace(blueprint(phase("Echo")), "shop"),
        in_namespace(actionset(), "shop"),
    )
    with world.cluster.watch(
        ACTION_SETS, namespace="shop", timeout_seconds=PATIENCE_SECONDS
    ) as watch:
        assert any((event.object.get("status") or {}).get("state") == "complete" for event in watch)


class WithoutRole:
    """Cluster in which the controller may not read Blueprints until `is_granted` is set."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.is_granted = False

    def get(self, resource: GroupVersionResource, name: str, **options: Any) -> KubeObject:
        if resource == BLUEPRINTS and not self.is_granted:
            raise Forbidden("blueprints is forbidden in the namespace default")
        return self._cluster.get(resource, name, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)


def test_an_actionset_whose_blueprint_is_forbidden_waits_with_a_condition(world: World) -> None:
    cluster = WithoutRole(world.cluster)
    world.create(blueprint(phase("Echo")), actionset())
    world.controller(cluster)
    obj = world.until(waits_for)
    (condition,) = obj["status"]["conditions"]
    assert (condition["reason"], obj["status"]["state"]) == ("AccessMissing", "pending")
    assert "blueprints is forbidden" in condition["message"]
    until_event(world, "AccessMissing", "one")
    cluster.is_granted = True
    world.until_state("complete")
    assert not waits_for(world.get())


def test_a_cancelled_actionset_does_not_wait_for_access(world: World) -> None:
    world.create(blueprint(phase("Echo")), actionset(cancel=True))
    world.controller(WithoutRole(world.cluster))
    assert world.until_state("failed")["error"]["reason"] == "Forbidden"


class Blind:
    """A cluster that shows nobody whether there is a namespace called shop."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.asked = threading.Event()

    def get(self, resource: GroupVersionResource, name: str, **options: Any) -> KubeObject:
        if (resource, name) == (NAMESPACES, "shop"):
            self.asked.set()
            raise Forbidden("namespaces is forbidden")
        return self._cluster.get(resource, name, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)


def test_who_may_not_look_for_a_namespace_acts_there_all_the_same(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    blind = Blind(world.cluster)
    world.create(blueprint(phase("Echo")), actionset())
    with caplog.at_level(logging.WARNING, "kanister_py"):
        controller = world.controller(blind, namespaces=("shop", "default"))
        world.until_state("complete")
        assert blind.asked.wait(PATIENCE_SECONDS)
        controller.stop()
    assert "does not exist" not in caplog.text


# Its end


def ended_in_background(controller: Controller) -> tuple[threading.Thread, list[KanisterError]]:
    errors: list[KanisterError] = []

    def run() -> None:
        try:
            controller.run()
        except KanisterError as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, errors


def test_a_controller_whose_lease_somebody_else_has_taken_ends_and_says_who(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.create(blueprint(phase("Echo")), actionset())
    terms = LeaseTerms(renews_every_seconds=0.01)
    controller = world.controller(starts=False, identity="first", terms=terms)
    with caplog.at_level(logging.INFO, "kanister_py"):
        thread, errors = ended_in_background(controller)
        world.until_state("complete")
        lease = {"spec": {"holderIdentity": "second"}}
        world.cluster.patch(LEASES, LEASE_NAME, lease, namespace="default")
        thread.join(PATIENCE_SECONDS)
    assert controller.has_ended
    (error,) = errors
    assert isinstance(error, LeadershipLost)
    (record,) = [record for record in caplog.records if "Leadership is lost" in record.getMessage()]
    assert record.levelno == logging.ERROR
    who = f"second holds the lease default/{LEASE_NAME} now"
    assert who in record.getMessage()
    assert who in error.message
    assert "This process ends. Restart it" in record.getMessage()
    assert "Stopped after" not in caplog.text


class Silent:
    """A cluster that at some time gives no answer any more to who asks for a Lease."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.is_silent = False
        self.asked, self.answers = threading.Event(), threading.Event()

    def get(self, resource: GroupVersionResource, name: str, **options: Any) -> KubeObject:
        if resource == LEASES and self.is_silent:
            self.asked.set()
            self.answers.wait(PATIENCE_SECONDS)
        return self._cluster.get(resource, name, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)


def test_a_controller_ends_in_time_though_nobody_answers_who_renews_its_lease(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    silent, clock = Silent(world.cluster), FakeClock()
    world.clock = clock
    world.create(blueprint(phase("Echo")), actionset())
    terms = LeaseTerms()
    controller = world.controller(silent, starts=False, identity="first", terms=terms)
    with caplog.at_level(logging.ERROR, "kanister_py"):
        thread, errors = ended_in_background(controller)
        world.until_state("complete")
        silent.is_silent = True
        # Less than it acts for without an answer, so that it has asked before it ends.
        for _ in range(140):
            clock.advance(0.05)
            if silent.asked.wait(0.05):
                break
        until = time.monotonic() + PATIENCE_SECONDS
        while thread.is_alive() and time.monotonic() < until:
            # Whoever begins to wait in between is woken by the next step.
            clock.advance(1.0)
            thread.join(0.01)
    assert [error.reason for error in errors] == ["LeadershipLost"]
    assert silent.asked.is_set()
    assert not silent.answers.is_set()
    assert "could not be renewed for 7.5 s; first held it last" in caplog.text
    silent.answers.set()


def test_a_stop_is_told_with_what_it_waits_for_and_when_it_is_done(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.create(
        blueprint(phase("Touchy"), name="touchy"),
        blueprint(phase("Gate"), name="gated"),
        actionset("a", blueprint="touchy"),
        actionset("b", blueprint="gated"),
    )
    with caplog.at_level(logging.INFO, "kanister_py"):
        controller = world.controller()
        assert Touchy.began.wait(PATIENCE_SECONDS)
        world.until_state("running", "b")
        until_logged(caplog, "ActionSet default/b starts phase")
        controller.request_stop("SIGTERM")
        message = until_logged(caplog, "Stopping on SIGTERM")["message"]
        Touchy.gate.set()
        controller.stop()
        until_logged(caplog, "Stopped after")
    assert message == (
        "Stopping on SIGTERM: starting nothing new; waiting up to 20 s for 1 phase that cannot be "
        "resumed, leaving 1 phase more to the next controller"
    )
    assert "no phase was interrupted" in caplog.text
    assert caplog.text.count("Stopping on SIGTERM") == 1


def test_a_stop_with_nothing_at_work_says_so(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.create(blueprint(phase("Echo")), actionset())
    with caplog.at_level(logging.INFO, "kanister_py"):
        controller = world.controller()
        world.until_state("complete")
        controller.stop()
        until_logged(caplog, "Stopping: starting nothing new; no phase is running")
        until_logged(caplog, "Stopped after")


def test_a_stop_that_has_to_cut_something_off_says_how_much(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.create(blueprint(phase("Touchy")), actionset())
    with caplog.at_level(logging.INFO, "kanister_py"):
        controller = world.controller(drain_seconds=0.0)
        assert Touchy.began.wait(PATIENCE_SECONDS)
        controller.stop()
        # Another test's controller may say that it has stopped, too: that one cut nothing off.
        line = until_logged(caplog, "interrupting 1 phase that cannot be resumed")
    assert line["level"] == "warning"
    assert line["message"].startswith("Stopped after")


def test_one_that_never_led_says_so_when_it_is_stopped(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.create(blueprint(phase("Echo")), actionset())
    world.controller(identity="first")
    world.until_state("complete")
    with caplog.at_level(logging.INFO, "kanister_py"):
        second = world.controller(identity="second", stands_by=True)
        until_logged(caplog, "Standby second: first is the leader")
        second.request_stop("SIGTERM")
        second.stop()
    assert "Stopping on SIGTERM; it was not the leader" in caplog.text
    assert "Stopped after" not in caplog.text


# What is told


def test_an_action_set_of_one_phase_is_two_events(world: World) -> None:
    world.create(blueprint(phase("Echo", "say")), actionset())
    controller = world.controller()
    world.until_state("complete")
    controller.stop()
    assert events_of(world) == [
        ("Started Action", "Executing action act: phase say"),
        ("Update Complete", "Updated ActionSet 'one' Status->complete: completed phase say"),
    ]


def test_the_end_of_the_last_phase_is_told_though_its_artifacts_cannot_be_had(
    world: World,
) -> None:
    broken = {"a": {"keyValue": {"x": "{{ .Phases.say.Output.x }}"}}}
    world.create(blueprint(phase("Echo", "say"), outputArtifacts=broken), actionset())
    controller = world.controller()
    world.until_state("failed")
    controller.stop()
    reasons = [reason for reason, _ in events_of(world)]
    assert reasons == ["Started Action", "Ended Phase", "ActionSetFailed Action: act"]


def test_events_tell_what_happened_as_they_always_did(world: World) -> None:
    world.create(
        blueprint(phase("Echo", "say"), phase("Echo", "again"), deferred=phase("Echo", "tidy")),
        actionset(),
    )
    world.controller()
    world.until_state("complete")
    with world.cluster.watch(
        EVENTS, namespace="default", timeout_seconds=PATIENCE_SECONDS
    ) as watch:
        for event in watch:
            if event.object["reason"] == "Update Complete":
                break
    assert events_of(world) == [
        ("Started Action", "Executing action act: phase say"),
        ("Ended Phase", "Completed phase say"),
        ("Started Phase", "Executing phase again"),
        ("Ended Phase", "Completed phase again"),
        ("Started deferPhase", "Executing deferPhase tidy"),
        ("Update Complete", "Updated ActionSet 'one' Status->complete: completed deferPhase tidy"),
    ]


def test_a_failure_is_told_on_the_action_set_and_on_its_blueprint(world: World) -> None:
    world.create(blueprint(phase("Fails", "bad")), actionset())
    controller = world.controller()
    world.until_state("failed")
    controller.stop()
    event = ("ActionSetFailed Action: act", "Failed to execute phase: bad: ")
    for name in ("one", "made-up"):
        matching = [each for each in events_of(world, name) if each[0] == event[0]]
        assert len(matching) == 1
        assert matching[0][1].startswith(event[1])


def test_why_a_failure_was_not_tried_again_is_told_wherever_the_failure_is(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    retry = {"limit": 3, "on": ["Slow", "Away"]}
    world.create(blueprint(phase("Fails", "bad", retry=retry)), actionset())
    with caplog.at_level(logging.INFO, "kanister_py"):
        controller = world.controller()
        status = world.until_state("failed")
        controller.stop()
    reason = status["error"]["reason"]
    why = f"not retried: retry.on lists Away, Slow, not {reason}"
    assert why in status["error"]["message"]
    assert why in status["actions"][0]["phases"][0]["error"]["message"]
    assert why in until_logged(caplog, "failed in phase bad")["message"]
    (event,) = [event for event in events_of(world) if event[0] == "ActionSetFailed Action: act"]
    assert why in event[1]


def test_metrics_count_actions_phases_and_ends(world: World) -> None:
    world.create(blueprint(phase("Echo")), blueprint(phase("Fails"), name="bad"))
    controller = world.controller()
    world.create(actionset("good"), actionset("bad", blueprint="bad"))
    world.until_state("complete", "good")
    world.until_state("failed", "bad")
    resolutions = "kanister_action_set_resolutions_total"
    until_sampled(controller, 1, resolutions, resolution="success")
    until_sampled(controller, 1, resolutions, resolution="failure")
    act = {"namespace": "default", "schedule": "", "action": "act"}
    good, bad = {**act, "blueprint": "made-up"}, {**act, "blueprint": "bad"}
    phase_labels = {"phase": "echo", "function": "Echo", "version": "v0.0.0"}
    phases, runs = "kanister_py_phases_total", "kanister_py_runs_total"
    until_sampled(controller, 1, phases, **good, **phase_labels, outcome="complete")
    until_sampled(controller, 1, runs, **good, outcome="complete")
    until_sampled(controller, 1, runs, **bad, outcome="failed")
    until_sampled(controller, 1, "kanister_py_run_duration_seconds_count", **bad)
    failures = "kanister_py_phase_failures_total"
    reason = world.status("bad")["error"]["reason"]
    until_sampled(controller, 1, failures, function="Fails", version="v0.0.0", reason=reason)
    # What has not happened yet is zero, not absent: the first time is an increase as well.
    sampled = controller.metrics.registry.get_sample_value
    assert sampled(phases, {**good, **phase_labels, "outcome": "failed"}) == 0
    assert sampled(runs, {**bad, "outcome": "complete"}) == 0


def scheduled(name: str, **more: Any) -> dict[str, Any]:
    return actionset(name, metadata={"labels": {SCHEDULE_LABEL: "nightly"}}, **more)


def last(controller: Controller, how: str, blueprint: str) -> float:
    act = {"namespace": "default", "schedule": "nightly", "blueprint": blueprint, "action": "act"}
    labels = {**act, "object": "Namespace/default/default"}
    name = f"kanister_py_last_{how}_timestamp_seconds"
    metric_value = controller.metrics.registry.get_sample_value(name, labels)
    return -1.0 if metric_value is None else metric_value


def test_the_time_of_the_last_good_run_outlives_a_restart(world: World) -> None:
    world.create(blueprint(phase("Echo")), blueprint(phase("Fails"), name="bad"))
    world.create(blueprint(phase("Gate"), name="gate"))
    first = world.controller()
    began = time.time() - 1
    names = ("good", "bad", "refused", "cancelled")
    blueprints = ("made-up", "bad", "missing", "gate")
    for name, blueprint_name in zip(names, blueprints, strict=True):
        world.create(scheduled(name, blueprint=blueprint_name))
    world.until_state("running", "cancelled")
    world.cluster.patch(ACTION_SETS, "cancelled", {"spec": {"cancel": True}}, namespace="default")
    world.until_state("complete", "good")
    for name in names[1:]:
        world.until_state("failed", name)

    def ends(controller: Controller) -> dict[tuple[str, str], bool]:
        return {
            (each, how): last(controller, how, each) > began
            for each in blueprints
            for how in ("success", "failure")
        }

    want = dict.fromkeys(ends(first), False)
    want |= {("made-up", "success"): True, ("bad", "failure"): True, ("missing", "failure"): True}
    first.stop()
    second = world.controller()
    for controller in (first, second):
        until = time.monotonic() + PATIENCE_SECONDS
        while ends(controller) != want and time.monotonic() < until:
            threading.Event().wait(0.005)
        assert ends(controller) == want
    # Who was cancelled has neither failed nor done well, and never did before.
    assert last(second, "success", "gate") == last(second, "failure", "gate") == 0
    second.metrics.forget_schedule("default", "nightly")
    assert last(second, "success", "made-up") == -1


def test_what_goes_wrong_before_the_first_phase_gives_no_secret_away(world: World) -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "login", "namespace": "default"},
        "stringData": {"password": "correct-horse"},
    }
    template = '{{ fail (index .Secrets.login.Data "password" | toString) }}'
    objects = {"map": {"kind": "ConfigMap", "name": template, "namespace": "default"}}
    reference = {"apiVersion": "v1", "kind": "Secret", "name": "login", "namespace": "default"}
    world.create(secret, blueprint(phase("Echo", objects=objects)))
    world.create(actionset(action={"secrets": {"login": reference}}))
    world.controller()
    status = world.until_state("failed")
    assert "***" in status["error"]["message"]
    assert "correct-horse" not in json.dumps(status)


def test_action_sets_that_come_together_share_one_look_at_their_blueprint(world: World) -> None:
    looks = Asked(world.cluster, BLUEPRINTS)
    world.create(blueprint(phase("Echo")), *(actionset(f"set-{at}") for at in range(20)))
    world.controller(cluster=looks.as_cluster())
    for at in range(20):
        world.until_state("complete", f"set-{at}")
    # How many more than one depends on how long it takes; each for itself would be twenty.
    assert 1 <= looks.count < 20


def test_who_comes_first_is_done_first(world: World) -> None:
    many, workers = 200, 8
    world.create(blueprint(phase("Echo")))
    world.controller(workers=workers)
    world.create(actionset("first-of-all"))
    world.until_state("complete", "first-of-all")
    listed = world.cluster.list(ACTION_SETS, namespace="default").resource_version
    done: list[int] = []
    with world.cluster.watch(
        ACTION_SETS,
        namespace="default",
        resource_version=listed,
        timeout_seconds=PATIENCE_SECONDS,
    ) as watch:
        world.create(*(actionset(f"set-{at}") for at in range(many)))
        for event in watch:
            if (event.object.get("status") or {}).get("state") == "complete":
                _, _, number = event.object["metadata"]["name"].partition("set-")
                done += [int(number)] if number and int(number) not in done else []
            if len(done) == many:
                break
    assert sorted(done) == list(range(many))
    # Those that are at work together may overtake each other; a thread may be kept waiting.
    assert statistics.mean(abs(came - went) for went, came in enumerate(done)) <= 2 * workers


def test_an_action_set_gets_its_blueprint_as_it_is_when_it_comes(world: World) -> None:
    world.create(blueprint(phase("Echo", args={"say": "old"})))
    world.controller()
    for at in range(10):
        changed = blueprint(phase("Echo", args={"say": f"new {at}"}))
        found = world.cluster.get(BLUEPRINTS, "made-up", namespace="default")
        world.cluster.replace({**found, "actions": changed["actions"]})
        world.create(actionset(f"set-{at}"))
        status = world.until_state("complete", f"set-{at}")
        assert status["actions"][0]["phases"][0]["output"] == {"said": f"new {at}"}


def test_the_lines_of_a_phase_are_kept_with_whose_they_are(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.create(blueprint(phase("Echo", "say", args={"say": "hello"})), actionset())
    with caplog.at_level(logging.INFO, "kanister_py"):
        controller = world.controller()
        world.until_state("complete")
    lines = [line.as_dict() for line in controller.lines.lines(ObjectKey("default", "one"))]
    assert [line["line"] for line in lines] == ["echo hello"]
    assert (lines[0]["phase"], lines[0]["function"], lines[0]["attempt"]) == ("say", "Echo", 1)
    assert "echo hello" in caplog.text


def test_the_log_says_why_an_action_set_failed_though_none_of_its_phases_began(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.create(blueprint(phase("Ageing", funcVersion="v0.0.1")), actionset())
    with caplog.at_level(logging.INFO, "kanister_py"):
        world.controller()
        error = world.until_state("failed")["error"]
        line = until_logged(caplog, "is failed")
    assert (line["level"], line["reason"]) == ("warning", "FunctionVersionRemoved")
    assert error["message"] in line["message"]


def test_the_log_counts_attempts_in_numbers_wherever_it_tells_of_one(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.create(blueprint(phase("Echo", "say", args={"say": "hello"})), actionset())
    with caplog.at_level(logging.INFO, "kanister_py"):
        world.controller()
        assert until_logged(caplog, "starts phase say")["attempt"] == 1


def test_a_deprecated_version_is_told_everywhere_and_a_removed_one_stops_before_anything_acts(
    world: World,
) -> None:
    world.create(
        blueprint(phase("Ageing", funcVersion="v0.1.0"), name="ageing"),
        blueprint(
            phase("Once", args={"name": "early"}),
            phase("Ageing", funcVersion="v0.0.1"),
            name="gone",
        ),
    )
    controller = world.controller()
    world.create(actionset("old", blueprint="ageing"), actionset("older", blueprint="gone"))
    status = world.until_state("complete", "old")
    warning = status["warnings"][0]
    assert (warning["reason"], warning["function"]) == ("FunctionVersionDeprecated", "Ageing")
    assert world.until_state("failed", "older")["error"]["reason"] == "FunctionVersionRemoved"
    assert world.cluster.list(CONFIG_MAPS, label_selector="made-by=once").items == []
    controller.stop()
    assert [event for event in events_of(world, "old") if event[0] == "FunctionVersionDeprecated"]
    labels = {"function": "Ageing", "version": "v0.1.0", "removed_in": "9.0.0"}
    assert sample(controller, "kanister_py_deprecated_function_uses_total", **labels) == 1
    assert json.dumps(status).count("FunctionVersionDeprecated") == 1

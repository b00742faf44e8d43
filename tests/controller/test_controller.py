"""Controller: ActionSets that users create, cancel, suspend, delete, or write incorrectly."""

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
    Environment,
    Touchy,
    actionset,
    blueprint,
    phase,
    until,
)
from tests.fake_clock import FakeClock
from tests.raising import refused_as

BOTH_DEFINITIONS = pytest.mark.parametrize("env", ["ours", "kanisters"], indirect=True)


def events_of(env: Environment, name: str = "one") -> list[tuple[str, str]]:
    events = env.cluster.list(EVENTS).items
    return [
        (event["reason"], event["message"])
        for event in sorted(events, key=lambda obj: int(obj["metadata"]["resourceVersion"]))
        if event["involvedObject"]["name"] == name
    ]


def until_event(env: Environment, reason: str, name: str) -> None:
    """Wait for an event, because events are posted in the background."""
    until = time.monotonic() + PATIENCE_SECONDS
    while reason not in dict(events_of(env, name)) and time.monotonic() < until:
        threading.Event().wait(0.005)
    assert reason in dict(events_of(env, name))


def sample(controller: Controller, name: str, **labels: str) -> float:
    return controller.metrics.registry.get_sample_value(name, labels) or 0.0


def states_of(env: Environment) -> list[str]:
    """Return the states of all ActionSets that have one."""
    actionsets = env.cluster.list(ACTION_SETS).items
    return [obj["status"]["state"] for obj in actionsets if "state" in (obj.get("status") or {})]


def until_sampled(controller: Controller, want: float, name: str, **labels: str) -> None:
    """Wait for a metric, which is updated after the status is written."""
    until = time.monotonic() + PATIENCE_SECONDS
    while sample(controller, name, **labels) != want and time.monotonic() < until:
        threading.Event().wait(0.005)
    assert sample(controller, name, **labels) == want


def until_logged(caplog: pytest.LogCaptureFixture, what: str) -> dict[str, Any]:
    """Wait for a log message that contains a text; return its line of the JSON log."""
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        for record in caplog.records[:]:
            if what in record.getMessage():
                return cast("dict[str, Any]", json.loads(JsonLines().format(record)))
        assert time.monotonic() < until, f"{what!r} was not logged: {caplog.text}"
        threading.Event().wait(0.005)


class CountingReads:
    """A cluster that counts the reads of objects of one kind."""

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
def test_an_actionset_runs_to_its_end(env: Environment) -> None:
    env.create(
        blueprint(
            phase("Echo", "say", args={"say": "{{ .Options.word }}"}),
            phase("Echo", "again", args={"say": "{{ .Phases.say.Output.said }}"}),
            outputArtifacts={"a": {"keyValue": {"k": "{{ .Phases.again.Output.said }}"}}},
        )
    )
    env.controller()
    env.create(actionset(action={"options": {"word": "hello"}}))
    status = env.until_state("complete")
    assert status["actions"][0]["phases"][1]["output"] == {"said": "hello"}
    assert status["actions"][0]["artifacts"]["a"]["keyValue"] == {"k": "hello"}
    assert status["progress"]["percentCompleted"] == "100"
    assert [entry["funcVersion"] for entry in status["actions"][0]["phases"]] == ["v0.0.0"] * 2
    assert status["conditions"][0]["type"] == "Complete"


class CountingWrites:
    """A cluster that records the writes of ActionSets."""

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
        pytest.param(blueprint(phase("Echo")), 2, id="one phase without cleanup"),
        pytest.param(blueprint(phase("Once", args={"name": "x"})), 4, id="one phase with cleanup"),
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
def test_a_run_takes_few_writes(env: Environment, made: dict[str, Any], most: int) -> None:
    counting = CountingWrites(env.cluster)
    env.create(made)
    env.controller(counting)
    env.create(actionset())
    env.until(
        lambda obj: (
            (obj.get("status") or {}).get("state") == "complete"
            and not obj["metadata"].get("finalizers")
        )
    )
    assert len(counting.writes) <= most


def test_many_actionsets_end_in_the_order_of_their_creation(env: Environment) -> None:
    env.create(blueprint(phase("Echo"), phase("Echo", "second")))
    env.controller(workers=1, passes=1)
    names = [f"many-{number:03}" for number in range(200)]
    env.create(*map(actionset, names))
    ended: list[str] = []
    with env.cluster.watch(
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


# Invalid objects


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
            id="a missing blueprint",
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
            id="a missing action",
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
@pytest.mark.parametrize("env", ["kanisters"], indirect=True)
def test_an_invalid_actionset_fails_and_names_the_field(
    env: Environment, changes: dict[str, Any], reason: str, field: str
) -> None:
    env.create(blueprint(phase("Echo")))
    manifest = {**actionset(), **changes}
    env.create({key: value for key, value in manifest.items() if value is not None})
    env.controller()
    error = env.until_state("failed")["error"]
    assert error["reason"] == reason
    assert field in error["message"]


def test_a_run_that_is_sure_to_fail_is_refused_before_its_first_phase(env: Environment) -> None:
    misspelt = phase("Echo", "second", args={"sya": "x"})
    document = blueprint(
        phase("Echo", "first"), misspelt, phase("Nope"), deferred=phase("Echo", "tidy")
    )
    env.create(document, actionset())
    controller = env.controller()
    status = env.until_state("failed")
    controller.stop()
    error, action = status["error"], status["actions"][0]
    assert error["phase"] == "second"
    assert ["sya" in error["problems"][0], "Nope" in error["problems"][1]] == [True, True]
    assert len(error["problems"]) == 2
    assert [entry["state"] for entry in action["phases"]] == ["pending", "failed", "pending"]
    assert action["deferPhase"]["state"] == "pending"
    assert [reason for reason, _ in events_of(env)] == ["ActionSetFailed Action: act"]


class WithoutConfigMaps:
    """A cluster that forbids the creation of ConfigMaps in the namespace `default`."""

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
def test_a_missing_permission_of_a_later_phase_is_reported_before_the_first_phase(
    env: Environment, *, checks_access: bool
) -> None:
    env.create(blueprint(phase("Brand", args={"colour": "red"}), phase("Once", args={"name": "m"})))
    env.controller(WithoutConfigMaps(env.cluster), checks_access=checks_access)
    env.create(actionset())
    status = env.until_state("failed" if checks_access else "complete")
    labels = env.cluster.get(NAMESPACES, "default")["metadata"].get("labels") or {}
    assert ("colour" in labels) is not checks_access
    if checks_access:
        (problem,) = status["error"]["problems"]
        assert problem.startswith(
            "act/once (Blueprint default/made-up): the account may not create configmaps"
        )
        assert "in default; kanister-py rbac prints a Role" in problem


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
@pytest.mark.parametrize("env", ["kanisters"], indirect=True)
def test_an_invalid_blueprint_fails_its_actionsets(
    env: Environment, made: dict[str, Any], reason: str, message: str
) -> None:
    env.create({**blueprint(), "actions": {"act": made}}, actionset())
    env.controller()
    error = env.until_state("failed")["error"]
    assert reason in error["reason"]
    assert message in error["message"]


def test_a_blueprint_of_another_namespace_is_read_if_that_is_allowed(env: Environment) -> None:
    document = blueprint(phase("Echo"))
    document["metadata"]["namespace"] = "shared"
    env.create(document, actionset(blueprint="shared/made-up"))
    env.controller(namespaces=("default",), allows_other_namespaces=True)
    env.until_state("complete")


# Cancelling, deleting and suspending


@BOTH_DEFINITIONS
def test_deleting_cancels_and_the_deferred_phase_still_runs(env: Environment) -> None:
    env.create(
        blueprint(phase("Gate"), deferred=phase("Once", "tidy", args={"name": "tidy"})),
        actionset(),
    )
    env.controller()
    env.until(
        lambda obj: (
            (obj.get("status") or {}).get("state") == "running"
            and FINALIZER in obj["metadata"]["finalizers"]
        )
    )
    env.cluster.delete(ACTION_SETS, "one", namespace="default")
    env.until_gone("one")
    assert len(env.cluster.list(CONFIG_MAPS, label_selector="made-by=once").items) == 1


def test_a_cancel_in_the_spec_ends_the_run_as_cancelled(
    env: Environment, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    env.create(blueprint(phase("Gate"), deferred=phase("Echo", "tidy")), actionset())
    env.controller()
    env.until_state("running")
    env.cluster.patch(ACTION_SETS, "one", {"spec": {"cancel": True}}, namespace="default")
    status = env.until_state("failed")
    assert status["error"]["reason"] == "Cancelled"
    assert status["actions"][0]["deferPhase"]["state"] == "complete"
    # A cancellation by the user is no failure.
    until(lambda: "ActionSet default/one was cancelled: " in caplog.text)
    assert [record.message for record in caplog.records if record.levelname == "WARNING"] == []


def test_a_suspended_actionset_starts_when_it_is_resumed(env: Environment) -> None:
    env.create(blueprint(phase("Echo")), actionset(suspend=True))
    env.controller()

    def is_suspended(obj: KubeObject) -> bool:
        conditions = (obj.get("status") or {}).get("conditions") or ()
        return any(
            condition["type"] == "Suspended" and condition["status"] == "True"
            for condition in conditions
        )

    (condition,) = env.until(is_suspended)["status"]["conditions"]
    assert "spec.suspend is true" in condition["message"]
    assert env.status()["state"] == "pending"
    env.cluster.patch(ACTION_SETS, "one", {"spec": {"suspend": False}}, namespace="default")
    env.until_state("complete")


def test_a_run_without_cleanup_has_no_finalizer(env: Environment) -> None:
    env.create(blueprint(phase("Echo")), actionset())
    env.controller()
    env.until_state("complete")
    assert not env.get()["metadata"].get("finalizers")


# Concurrency


def keyed(name: str, **more: Any) -> dict[str, Any]:
    return actionset(name, metadata={"annotations": {CONCURRENCY_KEY: "db"}}, **more)


def waits_for(obj: KubeObject) -> str:
    for condition in (obj.get("status") or {}).get("conditions") or ():
        if condition["type"] == "Waiting" and condition["status"] == "True":
            return str(condition["message"])
    return ""


def test_actionsets_with_the_same_key_run_one_at_a_time(
    env: Environment,
) -> None:
    env.create(blueprint(phase("Gate")))
    env.controller()
    env.create(keyed("a"))
    env.until_state("running", "a")
    env.create(keyed("b"), keyed("c"))
    assert "default/a" in waits_for(env.until(waits_for, "b"))
    assert "default/b" in waits_for(env.until(waits_for, "c"))
    assert env.status("b")["state"] == "pending"
    env.open_gate()
    for name in ("a", "b", "c"):
        env.until_state("complete", name)
    began = [env.status(name)["actions"][0]["startTime"] for name in ("a", "b", "c")]
    ended = [env.status(name)["actions"][0]["completionTime"] for name in ("a", "b", "c")]
    assert ended[0] <= began[1] < ended[1] <= began[2]
    assert not waits_for(env.get("c"))


def test_a_waiting_actionset_that_is_deleted_does_not_block_others(env: Environment) -> None:
    env.create(blueprint(phase("Gate")))
    env.controller()
    env.create(keyed("a"))
    env.until_state("running", "a")
    env.create(keyed("b"), keyed("c"))
    env.until(waits_for, "c")
    env.cluster.delete(ACTION_SETS, "b", namespace="default")
    env.until(lambda obj: "default/a" in waits_for(obj), "c")


class Interrupted:
    """A cluster that runs a callback when a Blueprint is read."""

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


def test_an_actionset_that_is_deleted_during_its_pass_does_not_block_others(
    env: Environment,
) -> None:
    env.create(blueprint(phase("Gate")), blueprint(phase("Echo"), name="other"))
    cluster = Interrupted(env.cluster)
    env.controller(cluster)
    env.create(keyed("a"))
    env.until_state("running", "a")

    def delete() -> None:
        env.cluster.delete(ACTION_SETS, "b", namespace="default")
        # When this one has run, the deletion has been seen as well.
        env.create(actionset("later", blueprint="other"))
        env.until_state("complete", "later")

    cluster.act = delete
    env.create(keyed("b"))
    env.until_state("complete", "later")
    env.create(keyed("c"))
    env.until(lambda obj: "default/a" in waits_for(obj), "c")


def test_a_limit_bounds_the_concurrent_runs_of_a_blueprint_and_action(
    env: Environment,
) -> None:
    env.create(blueprint(phase("Gate")), blueprint(phase("Echo"), name="other"))
    limits = tuple(map(parse_limit, ("made-up:act=2", "elsewhere/made-up=1", "*:other=1")))
    env.controller(limits=limits)
    names = ("a", "b", "c", "d")
    for name in names[:2]:
        env.create(actionset(name))
        env.until_state("running", name)
    env.create(*(actionset(name) for name in names[2:]), actionset("free", blueprint="other"))
    for name in names[2:]:
        env.until(
            lambda obj: (
                waits_for(obj) == "Waiting for other ActionSets to end (limit made-up:act=2)"
            ),
            name,
        )
    env.until_state("complete", "free")
    assert [env.status(name)["state"] for name in names[2:]] == ["pending"] * 2
    env.cluster.patch(ACTION_SETS, "a", {"spec": {"cancel": True}}, namespace="default")
    env.until_state("running", "c")
    assert env.status("d")["state"] == "pending"
    env.open_gate()
    for name in names[1:]:
        env.until_state("complete", name)
    assert not waits_for(env.get("d"))


def test_limits_and_keys_apply_together_and_after_a_restart(env: Environment) -> None:
    env.create(blueprint(phase("Gate")))
    limits = (parse_limit("default/made-up=2"),)
    first = env.controller(limits=limits)
    for name in ("a", "b"):
        env.create(keyed(name) if name == "a" else actionset(name))
        env.until_state("running", name)
    env.create(keyed("keyed"))
    env.until(lambda obj: "default/a" in waits_for(obj), "keyed")
    env.create(actionset("limited"))
    env.until(lambda obj: "limit" in waits_for(obj), "limited")
    first.stop()
    env.controller(limits=limits)
    env.open_gate()
    for name in ("a", "b", "keyed", "limited"):
        env.until_state("complete", name)


def test_a_paused_controller_finishes_active_runs_and_starts_none(env: Environment) -> None:
    env.create(blueprint(phase("Gate")))
    first = env.controller()
    env.create(actionset("under-way"))
    env.until_state("running", "under-way")
    first.stop()
    paused = env.controller(is_paused=True)
    env.create(actionset("new"), actionset("wrong", blueprint="missing"))
    env.open_gate()
    env.until_state("complete", "under-way")
    assert sample(paused, "kanister_py_paused") == 1
    for name in ("new", "wrong"):
        until_event(env, "Paused", name)
        assert not env.status(name)
    paused.stop()
    env.controller()
    env.until_state("complete", "new")
    env.until_state("failed", "wrong")


def test_the_order_of_waiting_actionsets_survives_a_restart(env: Environment) -> None:
    env.create(blueprint(phase("Gate")))
    first = env.controller(identity="one-pod")
    env.create(keyed("z"))
    env.until_state("running", "z")
    env.create(keyed("a"))
    env.until(waits_for, "a")
    first.kill()
    env.controller(identity="one-pod")
    env.open_gate()
    env.until_state("complete", "a")
    ended = env.status("z")["actions"][0]["completionTime"]
    assert ended <= env.status("a")["actions"][0]["startTime"]


def test_a_namespace_runs_no_more_phases_than_its_limit(env: Environment) -> None:
    env.create(blueprint(phase("Echo")))
    controller = env.controller(workers=8, workers_per_namespace=1)
    names = [f"n{number}" for number in range(20)]
    env.create(*map(actionset, names))
    for name in names:
        env.until_state("complete", name)
    assert controller.active_runs == 0 or controller.is_leader


def test_a_run_that_waits_for_a_worker_can_be_cancelled(env: Environment) -> None:
    env.create(blueprint(phase("Hangs"), name="hangs"), blueprint(phase("Echo")))
    env.create(actionset("first", blueprint="hangs"))
    env.controller(workers=1, workers_per_namespace=1)
    env.until_state("running", "first")
    env.create(actionset("second"))
    until = time.monotonic() + PATIENCE_SECONDS
    while env.controllers[0].active_runs < 2 and time.monotonic() < until:
        time.sleep(0.01)
    env.cluster.patch(ACTION_SETS, "second", {"spec": {"cancel": True}}, namespace="default")
    until = time.monotonic() + PATIENCE_SECONDS
    while env.status("second").get("state") != "failed" and time.monotonic() < until:
        time.sleep(0.01)
    assert env.status("second").get("state") == "failed"
    assert env.status("first")["state"] == "running"


def test_hanging_functions_of_one_namespace_leave_workers_for_others(env: Environment) -> None:
    env.create(blueprint(phase("Hangs")))
    elsewhere = blueprint(phase("Echo"), name="quick")
    env.create({**elsewhere, "metadata": {"name": "quick", "namespace": "other"}})
    env.controller(workers=4)
    for number in range(8):
        env.create(actionset(f"hung-{number}"))
    # The order of the first ones depends on the threads.
    until = time.monotonic() + PATIENCE_SECONDS
    while states_of(env).count("running") < 3:
        assert time.monotonic() < until, states_of(env)
        threading.Event().wait(0.005)
    env.create(in_namespace(actionset("well", blueprint="quick"), "other"))
    with env.cluster.watch(
        ACTION_SETS, namespace="other", timeout_seconds=PATIENCE_SECONDS
    ) as watch:
        states = ((event.object.get("status") or {}).get("state") for event in watch)
        assert next(state for state in states if state in ("complete", "failed")) == "complete"


# Deletion of ended ActionSets


def test_expired_actionsets_are_deleted(env: Environment) -> None:
    env.create(blueprint(phase("Echo")), blueprint(phase("Fails"), name="bad"))
    env.create(
        actionset("good", ttlSecondsAfterFinished=0),
        actionset("stays"),
        actionset("failed", blueprint="bad", ttlSecondsAfterFinished=0, ttlSecondsAfterFailure=999),
    )
    env.controller()
    env.until_gone("good")
    env.until_state("complete", "stays")
    env.until_state("failed", "failed")


def test_the_parent_of_an_active_actionset_is_kept(env: Environment) -> None:
    env.create(blueprint(phase("Gate"), name="gated"), blueprint(phase("Echo")))
    child = actionset("child", blueprint="gated", metadata={"annotations": {PARENT: "parent"}})
    env.create(child)
    controller = env.controller()
    env.until_state("running", "child")
    env.create(actionset("parent", ttlSecondsAfterFinished=0), actionset("other"))
    env.until_state("complete", "parent")
    env.until_state("complete", "other")
    assert controller.is_leader
    env.get("parent")


# Other controllers


def test_a_second_controller_is_refused(env: Environment) -> None:
    env.controller(identity="one")
    env.create(blueprint(phase("Echo")), actionset())
    env.until_state("complete")
    second = env.controller(identity="two", starts=False)
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
def test_a_running_kanister_controller_is_refused(
    env: Environment, namespaces: tuple[str, ...], is_refused: bool
) -> None:
    env.create(KANISTER_OPERATOR, blueprint(phase("Echo")), actionset())
    controller = env.controller(namespaces=namespaces, starts=not is_refused)
    if is_refused:
        with refused_as("AnotherController", match="kanister/kanister-operator"):
            controller.run()
    else:
        env.until_state("complete")


def test_a_kanister_controller_that_is_installed_later_stops_this_one(env: Environment) -> None:
    env.create(blueprint(phase("Echo")), actionset())
    controller = env.controller(starts=False, neighbours_every_seconds=0.01)
    ended: list[UsageError] = []

    def run() -> None:
        try:
            controller.run()
        except UsageError as error:
            ended.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    env.until_state("complete")
    env.create(KANISTER_OPERATOR)
    thread.join(PATIENCE_SECONDS)
    assert ended[0].reason == "AnotherController"
    assert "kanister/kanister-operator" in ended[0].message
    assert not controller.is_leader


def in_namespace(made: dict[str, Any], namespace: str) -> dict[str, Any]:
    """Return an object in another namespace; an ActionSet also acts on that namespace."""
    moved = {**made, "metadata": {**made["metadata"], "namespace": namespace}}
    for action in moved.get("spec", {}).get("actions", ()):
        action["object"] = {"kind": "Namespace", "name": namespace, "namespace": namespace}
    return moved


def test_a_missing_namespace_is_logged_and_watched_once_it_exists(
    env: Environment, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "kanister_py"):
        env.controller(namespaces=("default", "shop"))
        until_logged(caplog, "Namespace shop does not exist")
    assert "namespace default" not in caplog.text
    env.create(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}},
        in_namespace(blueprint(phase("Echo")), "shop"),
        in_namespace(actionset(), "shop"),
    )
    with env.cluster.watch(
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


def test_an_actionset_whose_blueprint_is_forbidden_waits_with_a_condition(env: Environment) -> None:
    cluster = WithoutRole(env.cluster)
    env.create(blueprint(phase("Echo")), actionset())
    env.controller(cluster)
    obj = env.until(waits_for)
    (condition,) = obj["status"]["conditions"]
    assert (condition["reason"], obj["status"]["state"]) == ("AccessMissing", "pending")
    assert "blueprints is forbidden" in condition["message"]
    until_event(env, "AccessMissing", "one")
    cluster.is_granted = True
    env.until_state("complete")
    assert not waits_for(env.get())


def test_a_cancelled_actionset_does_not_wait_for_access(env: Environment) -> None:
    env.create(blueprint(phase("Echo")), actionset(cancel=True))
    env.controller(WithoutRole(env.cluster))
    assert env.until_state("failed")["error"]["reason"] == "Forbidden"


class Blind:
    """A cluster that forbids reading the namespace shop."""

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


def test_a_namespace_that_may_not_be_read_is_watched_without_a_warning(
    env: Environment, caplog: pytest.LogCaptureFixture
) -> None:
    blind = Blind(env.cluster)
    env.create(blueprint(phase("Echo")), actionset())
    with caplog.at_level(logging.WARNING, "kanister_py"):
        controller = env.controller(blind, namespaces=("shop", "default"))
        env.until_state("complete")
        assert blind.asked.wait(PATIENCE_SECONDS)
        controller.stop()
    assert "does not exist" not in caplog.text


# Stopping


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


def test_a_controller_that_lost_its_lease_ends_and_names_the_holder(
    env: Environment, caplog: pytest.LogCaptureFixture
) -> None:
    env.create(blueprint(phase("Echo")), actionset())
    terms = LeaseTerms(renews_every_seconds=0.01)
    controller = env.controller(starts=False, identity="first", terms=terms)
    with caplog.at_level(logging.INFO, "kanister_py"):
        thread, errors = ended_in_background(controller)
        env.until_state("complete")
        lease = {"spec": {"holderIdentity": "second"}}
        env.cluster.patch(LEASES, LEASE_NAME, lease, namespace="default")
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
    """A cluster whose reads of Leases hang once `is_silent` is set."""

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


def test_a_controller_ends_in_time_although_the_renewal_hangs(
    env: Environment, caplog: pytest.LogCaptureFixture
) -> None:
    silent, clock = Silent(env.cluster), FakeClock()
    env.clock = clock
    env.create(blueprint(phase("Echo")), actionset())
    terms = LeaseTerms()
    controller = env.controller(silent, starts=False, identity="first", terms=terms)
    with caplog.at_level(logging.ERROR, "kanister_py"):
        thread, errors = ended_in_background(controller)
        env.until_state("complete")
        silent.is_silent = True
        # Less than the time it may act without a renewal, so that a request is sent before.
        for _ in range(140):
            clock.advance(0.05)
            if silent.asked.wait(0.05):
                break
        until = time.monotonic() + PATIENCE_SECONDS
        while thread.is_alive() and time.monotonic() < until:
            # A thread that starts to wait in between is woken by the next step.
            clock.advance(1.0)
            thread.join(0.01)
    assert [error.reason for error in errors] == ["LeadershipLost"]
    assert silent.asked.is_set()
    assert not silent.answers.is_set()
    assert "could not be renewed for 7.5 s; first held it last" in caplog.text
    silent.answers.set()


def test_a_stop_logs_the_phases_it_waits_for_and_its_end(
    env: Environment, caplog: pytest.LogCaptureFixture
) -> None:
    env.create(
        blueprint(phase("Touchy"), name="touchy"),
        blueprint(phase("Gate"), name="gated"),
        actionset("a", blueprint="touchy"),
        actionset("b", blueprint="gated"),
    )
    with caplog.at_level(logging.INFO, "kanister_py"):
        controller = env.controller()
        assert Touchy.began.wait(PATIENCE_SECONDS)
        env.until_state("running", "b")
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


def test_a_stop_without_running_phases_logs_that(
    env: Environment, caplog: pytest.LogCaptureFixture
) -> None:
    env.create(blueprint(phase("Echo")), actionset())
    with caplog.at_level(logging.INFO, "kanister_py"):
        controller = env.controller()
        env.until_state("complete")
        controller.stop()
        until_logged(caplog, "Stopping: starting nothing new; no phase is running")
        until_logged(caplog, "Stopped after")


def test_a_stop_logs_the_phases_that_it_interrupts(
    env: Environment, caplog: pytest.LogCaptureFixture
) -> None:
    env.create(blueprint(phase("Touchy")), actionset())
    with caplog.at_level(logging.INFO, "kanister_py"):
        controller = env.controller(drain_seconds=0.0)
        assert Touchy.began.wait(PATIENCE_SECONDS)
        controller.stop()
        # A controller of another test may log its stop too, but it interrupts nothing.
        line = until_logged(caplog, "interrupting 1 phase that cannot be resumed")
    assert line["level"] == "warning"
    assert line["message"].startswith("Stopped after")


def test_a_standby_that_is_stopped_logs_that_it_was_not_the_leader(
    env: Environment, caplog: pytest.LogCaptureFixture
) -> None:
    env.create(blueprint(phase("Echo")), actionset())
    env.controller(identity="first")
    env.until_state("complete")
    with caplog.at_level(logging.INFO, "kanister_py"):
        second = env.controller(identity="second", stands_by=True)
        until_logged(caplog, "Standby second: first is the leader")
        second.request_stop("SIGTERM")
        second.stop()
    assert "Stopping on SIGTERM; it was not the leader" in caplog.text
    assert "Stopped after" not in caplog.text


# Events, metrics and logs


def test_an_actionset_of_one_phase_has_two_events(env: Environment) -> None:
    env.create(blueprint(phase("Echo", "say")), actionset())
    controller = env.controller()
    env.until_state("complete")
    controller.stop()
    assert events_of(env) == [
        ("Started Action", "Executing action act: phase say"),
        ("Update Complete", "Updated ActionSet 'one' Status->complete: completed phase say"),
    ]


def test_the_end_of_the_last_phase_is_an_event_although_the_artifacts_fail(
    env: Environment,
) -> None:
    broken = {"a": {"keyValue": {"x": "{{ .Phases.say.Output.x }}"}}}
    env.create(blueprint(phase("Echo", "say"), outputArtifacts=broken), actionset())
    controller = env.controller()
    env.until_state("failed")
    controller.stop()
    reasons = [reason for reason, _ in events_of(env)]
    assert reasons == ["Started Action", "Ended Phase", "ActionSetFailed Action: act"]


def test_events_are_those_of_kanister(env: Environment) -> None:
    env.create(
        blueprint(phase("Echo", "say"), phase("Echo", "again"), deferred=phase("Echo", "tidy")),
        actionset(),
    )
    env.controller()
    env.until_state("complete")
    with env.cluster.watch(EVENTS, namespace="default", timeout_seconds=PATIENCE_SECONDS) as watch:
        for event in watch:
            if event.object["reason"] == "Update Complete":
                break
    assert events_of(env) == [
        ("Started Action", "Executing action act: phase say"),
        ("Ended Phase", "Completed phase say"),
        ("Started Phase", "Executing phase again"),
        ("Ended Phase", "Completed phase again"),
        ("Started deferPhase", "Executing deferPhase tidy"),
        ("Update Complete", "Updated ActionSet 'one' Status->complete: completed deferPhase tidy"),
    ]


def test_a_failure_is_an_event_of_the_actionset_and_of_its_blueprint(env: Environment) -> None:
    env.create(blueprint(phase("Fails", "bad")), actionset())
    controller = env.controller()
    env.until_state("failed")
    controller.stop()
    event = ("ActionSetFailed Action: act", "Failed to execute phase: bad: ")
    for name in ("one", "made-up"):
        matching = [row for row in events_of(env, name) if row[0] == event[0]]
        assert len(matching) == 1
        assert matching[0][1].startswith(event[1])


def test_the_reason_for_not_retrying_is_in_every_report_of_the_failure(
    env: Environment, caplog: pytest.LogCaptureFixture
) -> None:
    retry = {"limit": 3, "on": ["Slow", "Away"]}
    env.create(blueprint(phase("Fails", "bad", retry=retry)), actionset())
    with caplog.at_level(logging.INFO, "kanister_py"):
        controller = env.controller()
        status = env.until_state("failed")
        controller.stop()
    reason = status["error"]["reason"]
    why = f"not retried: retry.on lists Away, Slow, not {reason}"
    assert why in status["error"]["message"]
    assert why in status["actions"][0]["phases"][0]["error"]["message"]
    assert why in until_logged(caplog, "failed in phase bad")["message"]
    (event,) = [event for event in events_of(env) if event[0] == "ActionSetFailed Action: act"]
    assert why in event[1]


def test_metrics_count_actions_phases_and_ends(env: Environment) -> None:
    env.create(blueprint(phase("Echo")), blueprint(phase("Fails"), name="bad"))
    controller = env.controller()
    env.create(actionset("good"), actionset("bad", blueprint="bad"))
    env.until_state("complete", "good")
    env.until_state("failed", "bad")
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
    reason = env.status("bad")["error"]["reason"]
    until_sampled(controller, 1, failures, function="Fails", version="v0.0.0", reason=reason)
    # Counters start at zero and not absent, so that `increase` counts the first time.
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


def test_the_time_of_the_last_success_survives_a_restart(env: Environment) -> None:
    env.create(blueprint(phase("Echo")), blueprint(phase("Fails"), name="bad"))
    env.create(blueprint(phase("Gate"), name="gate"))
    first = env.controller()
    began = time.time() - 1
    names = ("good", "bad", "refused", "cancelled")
    blueprints = ("made-up", "bad", "missing", "gate")
    for name, blueprint_name in zip(names, blueprints, strict=True):
        env.create(scheduled(name, blueprint=blueprint_name))
    env.until_state("running", "cancelled")
    env.cluster.patch(ACTION_SETS, "cancelled", {"spec": {"cancel": True}}, namespace="default")
    env.until_state("complete", "good")
    for name in names[1:]:
        env.until_state("failed", name)

    def ends(controller: Controller) -> dict[tuple[str, str], bool]:
        return {
            (name, how): last(controller, how, name) > began
            for name in blueprints
            for how in ("success", "failure")
        }

    want = dict.fromkeys(ends(first), False)
    want |= {("made-up", "success"): True, ("bad", "failure"): True, ("missing", "failure"): True}
    first.stop()
    second = env.controller()
    for controller in (first, second):
        until = time.monotonic() + PATIENCE_SECONDS
        while ends(controller) != want and time.monotonic() < until:
            threading.Event().wait(0.005)
        assert ends(controller) == want
    # A cancelled run neither succeeds nor fails.
    assert last(second, "success", "gate") == last(second, "failure", "gate") == 0
    second.metrics.forget_schedule("default", "nightly")
    assert last(second, "success", "made-up") == -1


def test_an_error_before_the_first_phase_contains_no_secret(env: Environment) -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "login", "namespace": "default"},
        "stringData": {"password": "correct-horse"},
    }
    template = '{{ fail (index .Secrets.login.Data "password" | toString) }}'
    objects = {"map": {"kind": "ConfigMap", "name": template, "namespace": "default"}}
    reference = {"apiVersion": "v1", "kind": "Secret", "name": "login", "namespace": "default"}
    env.create(secret, blueprint(phase("Echo", objects=objects)))
    env.create(actionset(action={"secrets": {"login": reference}}))
    env.controller()
    status = env.until_state("failed")
    assert "***" in status["error"]["message"]
    assert "correct-horse" not in json.dumps(status)


def test_simultaneous_actionsets_share_reads_of_their_blueprint(env: Environment) -> None:
    looks = CountingReads(env.cluster, BLUEPRINTS)
    env.create(blueprint(phase("Echo")), *(actionset(f"set-{at}") for at in range(20)))
    env.controller(cluster=looks.as_cluster())
    for at in range(20):
        env.until_state("complete", f"set-{at}")
    # The number depends on timing; without sharing there would be twenty reads.
    assert 1 <= looks.count < 20


def test_actionsets_end_roughly_in_the_order_of_their_creation(env: Environment) -> None:
    many, workers = 200, 8
    env.create(blueprint(phase("Echo")))
    env.controller(workers=workers)
    env.create(actionset("first-of-all"))
    env.until_state("complete", "first-of-all")
    listed = env.cluster.list(ACTION_SETS, namespace="default").resource_version
    done: list[int] = []
    with env.cluster.watch(
        ACTION_SETS,
        namespace="default",
        resource_version=listed,
        timeout_seconds=PATIENCE_SECONDS,
    ) as watch:
        env.create(*(actionset(f"set-{at}") for at in range(many)))
        for event in watch:
            if (event.object.get("status") or {}).get("state") == "complete":
                _, _, number = event.object["metadata"]["name"].partition("set-")
                done += [int(number)] if number and int(number) not in done else []
            if len(done) == many:
                break
    assert sorted(done) == list(range(many))
    # Concurrent runs may overtake each other.
    assert statistics.mean(abs(came - went) for went, came in enumerate(done)) <= 2 * workers


def test_an_actionset_uses_the_blueprint_as_it_is_at_its_creation(env: Environment) -> None:
    env.create(blueprint(phase("Echo", args={"say": "old"})))
    env.controller()
    for at in range(10):
        changed = blueprint(phase("Echo", args={"say": f"new {at}"}))
        stored = env.cluster.get(BLUEPRINTS, "made-up", namespace="default")
        env.cluster.replace({**stored, "actions": changed["actions"]})
        env.create(actionset(f"set-{at}"))
        status = env.until_state("complete", f"set-{at}")
        assert status["actions"][0]["phases"][0]["output"] == {"said": f"new {at}"}


def test_the_lines_of_a_phase_are_stored_with_their_phase(
    env: Environment, caplog: pytest.LogCaptureFixture
) -> None:
    env.create(blueprint(phase("Echo", "say", args={"say": "hello"})), actionset())
    with caplog.at_level(logging.INFO, "kanister_py"):
        controller = env.controller()
        env.until_state("complete")
    lines = [line.as_dict() for line in controller.lines.lines(ObjectKey("default", "one"))]
    assert [line["line"] for line in lines] == ["echo hello"]
    assert (lines[0]["phase"], lines[0]["function"], lines[0]["attempt"]) == ("say", "Echo", 1)
    assert "echo hello" in caplog.text


def test_the_log_contains_the_failure_of_an_actionset_without_started_phases(
    env: Environment, caplog: pytest.LogCaptureFixture
) -> None:
    env.create(blueprint(phase("Ageing", funcVersion="v0.0.1")), actionset())
    with caplog.at_level(logging.INFO, "kanister_py"):
        env.controller()
        error = env.until_state("failed")["error"]
        line = until_logged(caplog, "is failed")
    assert (line["level"], line["reason"]) == ("warning", "FunctionVersionRemoved")
    assert error["message"] in line["message"]


def test_the_log_contains_the_number_of_the_attempt(
    env: Environment, caplog: pytest.LogCaptureFixture
) -> None:
    env.create(blueprint(phase("Echo", "say", args={"say": "hello"})), actionset())
    with caplog.at_level(logging.INFO, "kanister_py"):
        env.controller()
        assert until_logged(caplog, "starts phase say")["attempt"] == 1


def test_a_deprecated_version_warns_and_a_removed_one_fails_before_the_first_phase(
    env: Environment,
) -> None:
    env.create(
        blueprint(phase("Ageing", funcVersion="v0.1.0"), name="ageing"),
        blueprint(
            phase("Once", args={"name": "early"}),
            phase("Ageing", funcVersion="v0.0.1"),
            name="gone",
        ),
    )
    controller = env.controller()
    env.create(actionset("old", blueprint="ageing"), actionset("older", blueprint="gone"))
    status = env.until_state("complete", "old")
    warning = status["warnings"][0]
    assert (warning["reason"], warning["function"]) == ("FunctionVersionDeprecated", "Ageing")
    assert env.until_state("failed", "older")["error"]["reason"] == "FunctionVersionRemoved"
    assert env.cluster.list(CONFIG_MAPS, label_selector="made-by=once").items == []
    controller.stop()
    assert [event for event in events_of(env, "old") if event[0] == "FunctionVersionDeprecated"]
    labels = {"function": "Ageing", "version": "v0.1.0", "removed_in": "9.0.0"}
    assert sample(controller, "kanister_py_deprecated_function_uses_total", **labels) == 1
    assert json.dumps(status).count("FunctionVersionDeprecated") == 1

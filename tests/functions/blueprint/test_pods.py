"""Pods that do not come to run, whose logs break off, or that belong to others."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from threading import Event
from typing import Any, Self

import pytest

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.core.errors import (
    AlreadyExists,
    BadRequest,
    CommandFailed,
    Forbidden,
    KanisterError,
    StreamLost,
)
from kanister_py.core.kube.patches import InvalidPatch
from kanister_py.core.kube.resources import NODES, PODS, GroupVersionResource
from kanister_py.core.templates.facts import ActionFacts
from kanister_py.core.templates.params import Params
from kanister_py.core.yaml.weak import problems_of_args
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.functions.blueprint.kube_exec.v0_0_0 import KubeExec
from kanister_py.functions.blueprint.kube_task.v0_0_0 import KubeTask, KubeTaskArgs, job_of
from kanister_py.functions.blueprint.kube_task.v0_1_0 import KubeTaskV010
from kanister_py.functions.blueprint.pods import pod_of
from kanister_py.functions.blueprint.prepare_data.v0_0_0 import PrepareData
from kanister_py.functions.blueprint.running_pod import PodNotReady, ready_seconds
from kanister_py.ports.cluster import LogOptions
from kanister_py.ports.function import Func
from tests.fake_clock import FakeClock
from tests.functions.blueprint.conftest import Called, World, failure
from tests.raising import refused_as

ARGS = {"image": "busybox", "command": ["true"], "namespace": "default"}


class ScriptedLog:
    """A log in the pieces a test wants."""

    def __init__(self, pieces: tuple[bytes | KanisterError, ...]) -> None:
        self._pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._pieces:
            if isinstance(piece, KanisterError):
                raise piece
            yield piece

    def close(self) -> None:
        """Nothing is held."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class ScriptedKubelet:
    """Runs nothing: a test says how pods are, and what is in their logs."""

    def __init__(self, *logs: tuple[bytes | KanisterError, ...]) -> None:
        self._logs = iter(logs)
        self.asked: list[LogOptions] = []
        self._changed = threading.Condition()

    def read_log(self, name: str, *, namespace: str, options: LogOptions) -> Any:
        del name, namespace
        with self._changed:
            self.asked.append(options)
            self._changed.notify_all()
        pieces = next(self._logs, None)
        if pieces is None:
            raise BadRequest("the log is gone")
        return ScriptedLog(pieces)

    def wait_until_asked(self, times: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.asked) >= times, 30)

    def exec(self, name: str, command: Any, **_: Any) -> Any:
        raise NotImplementedError


def scripted(
    *logs: tuple[bytes | KanisterError, ...], clock: FakeClock | None = None
) -> tuple[World, ScriptedKubelet]:
    cluster, kubelet = MemoryCluster(clock=SystemClock()), ScriptedKubelet(*logs)
    cluster.attach_pods(kubelet)
    return World(cluster, clock), kubelet


def tell(world: World, **status: Any) -> None:
    """Wait for the pod, and say how it is."""
    pod = world.seen_pod()
    world.cluster.replace_status({**pod, "status": status})


def container(**state: Any) -> list[Mapping[str, Any]]:
    return [{"name": "container", "state": state}]


SUCCEEDED = {"phase": "Succeeded", "containerStatuses": container(terminated={"exitCode": 0})}


def begun(world: World, function: type[Func] = KubeTask) -> Called:
    return world.start(function, ARGS)


# Pods that do not come to run


@pytest.mark.parametrize(
    ("status", "problem"),
    [
        pytest.param(
            {
                "phase": "Pending",
                "containerStatuses": container(
                    waiting={"reason": "ImagePullBackOff", "message": "no such image"}
                ),
            },
            "Container container cannot start: ImagePullBackOff: no such image",
            id="its image cannot be pulled",
        ),
        pytest.param(
            {
                "phase": "Pending",
                "conditions": [
                    {
                        "type": "PodScheduled",
                        "status": "False",
                        "reason": "Unschedulable",
                        "message": "0/3 nodes are available",
                    }
                ],
            },
            "No node takes the pod: Unschedulable: 0/3 nodes are available",
            id="no node takes it",
        ),
        pytest.param(
            {
                "phase": "Pending",
                "containerStatuses": container(
                    waiting={"reason": "CreateContainerConfigError", "message": "no secret"}
                ),
            },
            "Container container cannot start: CreateContainerConfigError: no secret",
            id="something it refers to is missing",
        ),
    ],
)
def test_a_pod_that_cannot_start_is_told_at_once_where_that_is_promised(
    status: dict[str, Any], problem: str
) -> None:
    world, _ = scripted()
    called = begun(world, KubeTaskV010)
    tell(world, **status)
    error = failure(called.result)
    assert isinstance(error, PodNotReady)
    assert error.message == f"Failed while waiting for Pod to be ready: {problem}"
    assert world.pods() == []


def test_it_is_waited_for_where_that_is_how_it_always_was() -> None:
    world, _ = scripted((b"came after all\n",))
    called = begun(world)
    tell(world, phase="Pending", containerStatuses=container(waiting={"reason": "ErrImagePull"}))
    tell(world, **SUCCEEDED)
    assert called.result() == {}
    assert world.log == ["came after all"]


def test_what_a_pod_waits_for_is_told_once_while_it_waits() -> None:
    world, _ = scripted((b"came after all\n",))
    called = begun(world)
    lacks = {"reason": "ContainerCreating", "message": 'persistentvolumeclaim "nope" not found'}
    tell(world, phase="Pending", containerStatuses=container(waiting=lacks))
    name = world.seen_pod()["metadata"]["name"]
    line = f"Pod default/{name}: container container waits: ContainerCreating: {lacks['message']}"
    world.wait_for_line(line)
    tell(world, phase="Pending", containerStatuses=container(waiting=lacks), hostIP="127.0.0.1")
    tell(world, **SUCCEEDED)
    called.result()
    assert world.log == [line, "came after all"]


@pytest.mark.parametrize("reason", ["OutOfmemory", "OutOfcpu"])
def test_a_node_without_room_is_told_at_once(reason: str) -> None:
    world, _ = scripted()
    called = begun(world)
    tell(world, phase="Pending", reason=reason)
    error = failure(called.result)
    assert isinstance(error, PodNotReady)
    assert error.message.endswith(f"Pod stuck in pending state, reason: {reason}")


@pytest.mark.parametrize(
    ("spec", "conditions", "message"),
    [
        pytest.param({"unschedulable": True}, [], "Node one is unschedulable", id="cordoned"),
        pytest.param(
            {}, [{"type": "Ready", "status": "Unknown"}], "Node one is not ready", id="not ready"
        ),
    ],
)
def test_a_node_that_takes_nothing_is_told_at_once(
    spec: dict[str, Any], conditions: list[Any], message: str
) -> None:
    world, _ = scripted()
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "one"}, "spec": spec}
    created_node = world.cluster.create(node)
    world.cluster.replace_status({**created_node, "status": {"conditions": conditions}})
    override = {"podOverride": {"nodeName": "one"}}
    error = failure(lambda: world.call(KubeTask, {**ARGS, **override}))
    assert isinstance(error, PodNotReady)
    assert message in error.message


def test_an_account_that_may_not_read_nodes_asks_once_for_all_pods() -> None:
    requests: list[str] = []
    looked = Event()

    class WithoutNodes(MemoryCluster):
        def get(self, resource: GroupVersionResource, name: str, **options: Any) -> Any:
            refuse(resource)
            return super().get(resource, name, **options)

        def list(self, resource: GroupVersionResource, **options: Any) -> Any:
            refuse(resource)
            return super().list(resource, **options)

    def refuse(resource: GroupVersionResource) -> None:
        if resource == NODES:
            requests.append(resource.resource)
            looked.set()
            raise Forbidden("nodes is forbidden")

    cluster = WithoutNodes(clock=SystemClock())
    cluster.attach_pods(ScriptedKubelet(*[(b"",)] * 3))
    world = World(cluster)
    override = {"podOverride": {"nodeName": "one"}}
    for phase in range(3):
        called = world.start(KubeTask, {**ARGS, **override}, phase=phase)
        tell(world, phase="Pending")
        assert looked.wait(60)
        tell(world, **SUCCEEDED)
        called.result()
    assert requests == ["nodes"]


_WRONG_OVERRIDES = [
    ({"containers": [{"name": "container", "env": 5}]}, "containers[0].env must be a list"),
    ({"containers": 7}, "containers must be a list, not the number 7"),
    ({"nodeSelector": "x"}, "nodeSelector must be a map, not text"),
    ({"volumes": ["a"]}, "volumes[0] must be a map, not text"),
]


@pytest.mark.parametrize(("override", "message"), _WRONG_OVERRIDES)
def test_a_wrong_pod_override_is_refused_with_its_path_before_anything_acts(
    override: dict[str, Any], message: str
) -> None:
    (problem,) = problems_of_args(KubeTask.Args, {**ARGS, "podOverride": override})
    assert (problem.path, message in problem.message) == ("podOverride", True)


@pytest.mark.parametrize(("override", "message"), _WRONG_OVERRIDES)
def test_a_wrong_pod_override_of_an_actionset_is_the_users_mistake(
    override: dict[str, Any], message: str
) -> None:
    world, _ = scripted()
    facts = ActionFacts(time="2026-01-01T00:00:00Z", pod_override=override)
    error = failure(lambda: world.call(KubeTask, ARGS, facts=facts))
    assert isinstance(error, InvalidPatch)
    assert f"podOverride.{message}" in error.message


def test_a_field_of_a_pod_that_is_misspelt_or_newer_than_we_are_is_left_to_the_api_server() -> None:
    override = {
        "quiteNew": 5,
        "conainers": [],
        "$patch": "replace",
        "terminationGracePeriodSeconds": 5.0,
    }
    assert problems_of_args(KubeTask.Args, {**ARGS, "podOverride": override}) == []


def test_a_volume_that_is_lost_is_told_at_once() -> None:
    world, _ = scripted()
    claim = world.cluster.create(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "namespace": "default"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Mi"}},
            },
        }
    )
    world.cluster.replace_status({**claim, "status": {"phase": "Lost"}})
    error = failure(lambda: world.call(PrepareData, {**ARGS, "volumes": {"data": "/v"}}))
    assert isinstance(error, PodNotReady)
    assert "PVC data is lost" in error.message


def test_a_pod_that_never_runs_is_given_up_with_what_it_waits_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TIMEOUT_WORKER_POD_READY", "0")
    world, _ = scripted()
    error = failure(lambda: world.call(KubeTask, ARGS))
    assert isinstance(error, PodNotReady)
    assert "Pod did not transition into running state. Timeout: 0s" in error.message
    assert world.pods() == []


@pytest.mark.parametrize(
    ("minutes", "seconds"),
    [
        pytest.param("", 900, id="nothing said"),
        pytest.param("3", 180, id="three minutes"),
        pytest.param("soon", 900, id="no number"),
    ],
)
def test_how_long_a_pod_may_take_can_be_said(
    monkeypatch: pytest.MonkeyPatch, minutes: str, seconds: int
) -> None:
    monkeypatch.setenv("TIMEOUT_WORKER_POD_READY", minutes)
    assert ready_seconds() == seconds


# Pods that end otherwise


def test_a_pod_that_was_thrown_out_says_why() -> None:
    world, _ = scripted()
    called = begun(world)
    tell(world, phase="Failed", reason="Evicted", message="the node was low on memory")
    with refused_as("PodFailed") as caught:
        called.result()
    assert caught.value.message == (
        "Failed while waiting for Pod to complete: Pod failed: Evicted: the node was low on memory"
    )


# Pods whose node is silent


def ready(status: str, **more: str) -> list[dict[str, str]]:
    return [{"type": "Ready", "status": status, **more}]


@pytest.mark.parametrize(
    ("stranded", "detail"),
    [
        pytest.param({"conditions": ready("False")}, "", id="it is marked as not ready"),
        pytest.param({"conditions": ready("Unknown")}, "", id="nobody knows"),
        pytest.param(
            {"reason": "NodeLost", "message": "Node one is unresponsive"},
            " (Node one is unresponsive)",
            id="it is to go",
        ),
    ],
)
def test_a_pod_on_a_node_that_does_not_answer_says_why_nothing_moves(
    stranded: dict[str, Any], detail: str
) -> None:
    world, _ = scripted((b"the end\n",))
    called = world.start(KubeTask, {**ARGS, "podOverride": {"nodeName": "one"}})
    name = world.seen_pod()["metadata"]["name"]
    tell(world, phase="Running", **stranded)
    line = (
        f"Pod default/{name} is on node one, which does not answer{detail}: the phase goes on when "
        "the node is back, and fails when the pod is gone or the phase's time is over"
    )
    world.wait_for_line(line)
    tell(world, phase="Running", conditions=ready("True"))
    back = f"Pod default/{name} is on node one, which answers again"
    world.wait_for_line(back)
    tell(world, **SUCCEEDED)
    assert called.result() == {}
    assert world.log == [line, back, "the end"]


def test_a_pod_that_is_not_ready_for_a_reason_of_its_own_says_nothing_of_its_node() -> None:
    world, kubelet = scripted((b"the end\n",), clock=FakeClock())
    called = begun(world)
    unready = ready("False", reason="ContainersNotReady")
    running = container(running={})
    tell(world, phase="Running", conditions=unready, containerStatuses=running)
    kubelet.wait_until_asked(1)
    tell(world, **SUCCEEDED, conditions=ready("False"))
    assert called.result() == {}
    assert world.log == ["the end"]


# Logs that break off

LINE = b'###Phase-output###: {"key": "%s", "value": "1"}\n'


def test_a_log_that_breaks_off_in_the_middle_of_a_line_is_read_on() -> None:
    first, second = LINE % b"first", LINE % b"second"
    lost = StreamLost("the connection is gone")
    world, kubelet = scripted((first + second[:30], lost), (second, b"the end"))
    called = begun(world)
    tell(world, phase="Running", containerStatuses=container(running={}))
    kubelet.wait_until_asked(2)
    tell(world, **SUCCEEDED)
    assert called.result() == {"first": "1", "second": "1"}
    assert world.log == ["the end"]
    assert kubelet.asked[0].since_seconds is None
    assert kubelet.asked[1].since_seconds is not None


def test_a_log_that_ends_before_its_container_is_read_on() -> None:
    clock = FakeClock()
    world, kubelet = scripted((LINE % b"first",), (LINE % b"second",), clock=clock)
    called = begun(world)
    tell(world, phase="Running", containerStatuses=container(running={}))
    kubelet.wait_until_asked(1)
    assert clock.wait_for_sleepers(1)
    clock.advance(10)
    kubelet.wait_until_asked(2)
    tell(world, **SUCCEEDED)
    assert called.result() == {"first": "1", "second": "1"}


def test_outputs_that_nobody_can_read_any_more_are_no_success() -> None:
    clock = FakeClock()
    world, _ = scripted(clock=clock)
    called = begun(world)
    tell(world, **SUCCEEDED)
    while called.thread.is_alive():
        if clock.wait_for_sleepers(1, 0.1):
            clock.advance(1)
    assert isinstance(failure(called.result), BadRequest)


def test_a_pod_that_failed_and_whose_log_is_gone_says_how_it_ended() -> None:
    clock = FakeClock()
    world, _ = scripted(clock=clock)
    called = begun(world)
    ended = container(terminated={"exitCode": 255, "reason": "Unknown"})
    tell(world, phase="Failed", message="its process is gone", containerStatuses=ended)
    while called.thread.is_alive():
        if clock.wait_for_sleepers(1, 0.1):
            clock.advance(1)
    error = failure(called.result)
    assert isinstance(error, CommandFailed)
    assert error.exit_code == 255
    assert error.message.endswith("ended with exit code 255: its process is gone")


# Pods of others


def test_a_pod_of_somebody_else_is_left_alone(paper: World) -> None:
    pod = planned(paper)
    pod["metadata"]["labels"] = {"who": "else"}
    paper.cluster.create(pod)
    assert isinstance(failure(lambda: paper.call(KubeTask, ARGS)), AlreadyExists)
    assert len(paper.pods()) == 1


def test_a_pod_whose_end_only_a_dead_process_saw_is_not_run_again(paper: World) -> None:
    pod = planned(paper)
    pod["metadata"]["finalizers"] = ["example.com/slow"]
    paper.cluster.create(pod)
    paper.cluster.delete(PODS, pod["metadata"]["name"], namespace="default")
    with refused_as("Interrupted"):
        paper.call(KubeTask, ARGS)


def planned(world: World) -> dict[str, Any]:
    """The pod that a call will want."""
    params = Params(ActionFacts(time="2026-01-01T00:00:00Z"))
    return pod_of(world.context(), params, job_of(params, KubeTaskArgs.model_validate(ARGS)))


def test_secure_defaults_leave_a_pod_no_token_unless_it_is_overridden(
    monkeypatch: pytest.MonkeyPatch, paper: World
) -> None:
    monkeypatch.setenv("SECURE_DEFAULTS_FOR_JOB_PODS", "true")
    spec = planned(paper)["spec"]
    assert (spec["automountServiceAccountToken"], spec["serviceAccountName"]) == (False, "default")
    params = Params(ActionFacts(time="", pod_override={"serviceAccountName": "mover"}))
    args = KubeTaskArgs.model_validate(ARGS)
    spec = pod_of(paper.context(), params, job_of(params, args))["spec"]
    assert spec["serviceAccountName"] == "mover"


def test_pods_meet_the_restricted_standard_if_the_operator_wants_it(
    monkeypatch: pytest.MonkeyPatch, paper: World
) -> None:
    assert "securityContext" not in planned(paper)["spec"]
    monkeypatch.setenv("KANISTER_PY_JOB_POD_SECURITY", "restricted")
    monkeypatch.setenv("KANISTER_PY_JOB_POD_USER", "65532")
    sidecar = {"name": "sidecar", "image": "tools"}
    params = Params(ActionFacts(time="", pod_override={"containers": [sidecar]}))
    args = KubeTaskArgs.model_validate({**ARGS, "podOverride": {"securityContext": {"fsGroup": 7}}})
    spec = pod_of(paper.context(), params, job_of(params, args))["spec"]
    assert spec["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
        "fsGroup": 7,
    }
    assert len(spec["containers"]) == 2
    for container in spec["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        }


@pytest.mark.parametrize(("standard", "user"), [("baseline", ""), ("restricted", "root")])
def test_an_unknown_pod_security_standard_is_refused(
    monkeypatch: pytest.MonkeyPatch, paper: World, standard: str, user: str
) -> None:
    monkeypatch.setenv("KANISTER_PY_JOB_POD_SECURITY", standard)
    monkeypatch.setenv("KANISTER_PY_JOB_POD_USER", user)
    with refused_as("PodSecurityUnknown"):
        planned(paper)


# What they may do


@pytest.mark.parametrize(
    ("function", "args", "want"),
    [
        pytest.param(
            KubeTaskV010,
            {"namespace": "here"},
            ["get, list, watch, create, delete pods in here", "get pods/log in here"],
            id="a pod of its own",
        ),
        pytest.param(
            KubeExec,
            {"namespace": "here", "pod": "db"},
            ["get, create pods/exec db in here"],
            id="a pod that is there",
        ),
        pytest.param(
            PrepareData,
            {"volumes": {"data": "/v"}},
            [
                "get, list, watch, create, delete pods",
                "get pods/log",
                "get persistentvolumeclaims data",
            ],
            id="a pod with volumes",
        ),
    ],
)
def test_each_function_says_what_it_does_to_a_cluster(
    function: type[Func], args: Mapping[str, Any], want: list[str]
) -> None:
    assert [str(access) for access in function.access(args) or ()] == want

"""Pods that do not start, lose their logs, or belong to other runs."""

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
from tests.functions.blueprint.conftest import Called, Harness, failure
from tests.raising import refused_as

ARGS = {"image": "busybox", "command": ["true"], "namespace": "default"}


class ScriptedLog:
    """A log in the chunks that a test defines."""

    def __init__(self, pieces: tuple[bytes | KanisterError, ...]) -> None:
        self._pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._pieces:
            if isinstance(piece, KanisterError):
                raise piece
            yield piece

    def close(self) -> None:
        """Do nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class ScriptedKubelet:
    """Runs no pods: a test sets their status and logs."""

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
) -> tuple[Harness, ScriptedKubelet]:
    cluster, kubelet = MemoryCluster(clock=SystemClock()), ScriptedKubelet(*logs)
    cluster.attach_pods(kubelet)
    return Harness(cluster, clock), kubelet


def tell(harness: Harness, **status: Any) -> None:
    """Wait for the pod, and set its status."""
    pod = harness.seen_pod()
    harness.cluster.replace_status({**pod, "status": status})


def container(**state: Any) -> list[Mapping[str, Any]]:
    return [{"name": "container", "state": state}]


SUCCEEDED = {"phase": "Succeeded", "containerStatuses": container(terminated={"exitCode": 0})}


def begun(harness: Harness, function: type[Func] = KubeTask) -> Called:
    return harness.start(function, ARGS)


# Pods that do not start


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
def test_pod_that_cannot_start_fails_immediately_from_v0_1_0_on(
    status: dict[str, Any], problem: str
) -> None:
    harness, _ = scripted()
    called = begun(harness, KubeTaskV010)
    tell(harness, **status)
    error = failure(called.result)
    assert isinstance(error, PodNotReady)
    assert error.message == f"Failed while waiting for Pod to be ready: {problem}"
    assert harness.pods() == []


def test_pod_that_cannot_start_is_waited_for_in_v0_0_0() -> None:
    harness, _ = scripted((b"came after all\n",))
    called = begun(harness)
    tell(harness, phase="Pending", containerStatuses=container(waiting={"reason": "ErrImagePull"}))
    tell(harness, **SUCCEEDED)
    assert called.result() == {}
    assert harness.log == ["came after all"]


def test_reason_of_a_pending_pod_is_logged_once() -> None:
    harness, _ = scripted((b"came after all\n",))
    called = begun(harness)
    lacks = {"reason": "ContainerCreating", "message": 'persistentvolumeclaim "nope" not found'}
    tell(harness, phase="Pending", containerStatuses=container(waiting=lacks))
    name = harness.seen_pod()["metadata"]["name"]
    line = f"Pod default/{name}: container container waits: ContainerCreating: {lacks['message']}"
    harness.wait_for_line(line)
    tell(harness, phase="Pending", containerStatuses=container(waiting=lacks), hostIP="127.0.0.1")
    tell(harness, **SUCCEEDED)
    called.result()
    assert harness.log == [line, "came after all"]


@pytest.mark.parametrize("reason", ["OutOfmemory", "OutOfcpu"])
def test_unschedulable_pod_fails_immediately(reason: str) -> None:
    harness, _ = scripted()
    called = begun(harness)
    tell(harness, phase="Pending", reason=reason)
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
def test_unschedulable_node_fails_immediately(
    spec: dict[str, Any], conditions: list[Any], message: str
) -> None:
    harness, _ = scripted()
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "one"}, "spec": spec}
    created_node = harness.cluster.create(node)
    harness.cluster.replace_status({**created_node, "status": {"conditions": conditions}})
    override = {"podOverride": {"nodeName": "one"}}
    error = failure(lambda: harness.call(KubeTask, {**ARGS, **override}))
    assert isinstance(error, PodNotReady)
    assert message in error.message


def test_forbidden_nodes_are_requested_once() -> None:
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
    harness = Harness(cluster)
    override = {"podOverride": {"nodeName": "one"}}
    for phase in range(3):
        called = harness.start(KubeTask, {**ARGS, **override}, phase=phase)
        tell(harness, phase="Pending")
        assert looked.wait(60)
        tell(harness, **SUCCEEDED)
        called.result()
    assert requests == ["nodes"]


_WRONG_OVERRIDES = [
    ({"containers": [{"name": "container", "env": 5}]}, "containers[0].env must be a list"),
    ({"containers": 7}, "containers must be a list, not the number 7"),
    ({"nodeSelector": "x"}, "nodeSelector must be a map, not text"),
    ({"volumes": ["a"]}, "volumes[0] must be a map, not text"),
]


@pytest.mark.parametrize(("override", "message"), _WRONG_OVERRIDES)
def test_invalid_pod_override_is_rejected_with_its_path(
    override: dict[str, Any], message: str
) -> None:
    (problem,) = problems_of_args(KubeTask.Args, {**ARGS, "podOverride": override})
    assert (problem.path, message in problem.message) == ("podOverride", True)


@pytest.mark.parametrize(("override", "message"), _WRONG_OVERRIDES)
def test_invalid_pod_override_of_an_actionset_is_a_usage_error(
    override: dict[str, Any], message: str
) -> None:
    harness, _ = scripted()
    facts = ActionFacts(time="2026-01-01T00:00:00Z", pod_override=override)
    error = failure(lambda: harness.call(KubeTask, ARGS, facts=facts))
    assert isinstance(error, InvalidPatch)
    assert f"podOverride.{message}" in error.message


def test_unknown_pod_fields_are_left_to_the_api_server() -> None:
    override = {
        "quiteNew": 5,
        "conainers": [],
        "$patch": "replace",
        "terminationGracePeriodSeconds": 5.0,
    }
    assert problems_of_args(KubeTask.Args, {**ARGS, "podOverride": override}) == []


def test_lost_volume_fails_immediately() -> None:
    harness, _ = scripted()
    claim = harness.cluster.create(
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
    harness.cluster.replace_status({**claim, "status": {"phase": "Lost"}})
    error = failure(lambda: harness.call(PrepareData, {**ARGS, "volumes": {"data": "/v"}}))
    assert isinstance(error, PodNotReady)
    assert "PVC data is lost" in error.message


def test_pod_start_times_out_with_its_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TIMEOUT_WORKER_POD_READY", "0")
    harness, _ = scripted()
    error = failure(lambda: harness.call(KubeTask, ARGS))
    assert isinstance(error, PodNotReady)
    assert "Pod did not transition into running state. Timeout: 0s" in error.message
    assert harness.pods() == []


@pytest.mark.parametrize(
    ("minutes", "seconds"),
    [
        pytest.param("", 900, id="nothing said"),
        pytest.param("3", 180, id="three minutes"),
        pytest.param("soon", 900, id="no number"),
    ],
)
def test_start_timeout_is_configurable(
    monkeypatch: pytest.MonkeyPatch, minutes: str, seconds: int
) -> None:
    monkeypatch.setenv("TIMEOUT_WORKER_POD_READY", minutes)
    assert ready_seconds() == seconds


# Other ends of pods


def test_evicted_pod_error_has_its_reason() -> None:
    harness, _ = scripted()
    called = begun(harness)
    tell(harness, phase="Failed", reason="Evicted", message="the node was low on memory")
    with refused_as("PodFailed") as caught:
        called.result()
    assert caught.value.message == (
        "Failed while waiting for Pod to complete: Pod failed: Evicted: the node was low on memory"
    )


# Nodes that do not respond


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
def test_pod_on_an_unresponsive_node_logs_the_reason(stranded: dict[str, Any], detail: str) -> None:
    harness, _ = scripted((b"the end\n",))
    called = harness.start(KubeTask, {**ARGS, "podOverride": {"nodeName": "one"}})
    name = harness.seen_pod()["metadata"]["name"]
    tell(harness, phase="Running", **stranded)
    line = (
        f"Pod default/{name} is on node one, which does not respond{detail}: the phase continues "
        "when the node is back, and fails when the pod is deleted or the phase times out"
    )
    harness.wait_for_line(line)
    tell(harness, phase="Running", conditions=ready("True"))
    back = f"Pod default/{name} is on node one, which responds again"
    harness.wait_for_line(back)
    tell(harness, **SUCCEEDED)
    assert called.result() == {}
    assert harness.log == [line, back, "the end"]


def test_unready_pod_does_not_blame_its_node() -> None:
    harness, kubelet = scripted((b"the end\n",), clock=FakeClock())
    called = begun(harness)
    unready = ready("False", reason="ContainersNotReady")
    running = container(running={})
    tell(harness, phase="Running", conditions=unready, containerStatuses=running)
    kubelet.wait_until_asked(1)
    tell(harness, **SUCCEEDED, conditions=ready("False"))
    assert called.result() == {}
    assert harness.log == ["the end"]


# Broken logs

LINE = b'###Phase-output###: {"key": "%s", "value": "1"}\n'


def test_log_broken_within_a_line_is_resumed() -> None:
    first, second = LINE % b"first", LINE % b"second"
    lost = StreamLost("the connection is gone")
    harness, kubelet = scripted((first + second[:30], lost), (second, b"the end"))
    called = begun(harness)
    tell(harness, phase="Running", containerStatuses=container(running={}))
    kubelet.wait_until_asked(2)
    tell(harness, **SUCCEEDED)
    assert called.result() == {"first": "1", "second": "1"}
    assert harness.log == ["the end"]
    assert kubelet.asked[0].since_seconds is None
    assert kubelet.asked[1].since_seconds is not None


def test_log_that_ends_early_is_resumed() -> None:
    clock = FakeClock()
    harness, kubelet = scripted((LINE % b"first",), (LINE % b"second",), clock=clock)
    called = begun(harness)
    tell(harness, phase="Running", containerStatuses=container(running={}))
    kubelet.wait_until_asked(1)
    assert clock.wait_for_sleepers(1)
    clock.advance(10)
    kubelet.wait_until_asked(2)
    tell(harness, **SUCCEEDED)
    assert called.result() == {"first": "1", "second": "1"}


def test_lost_outputs_are_an_error() -> None:
    clock = FakeClock()
    harness, _ = scripted(clock=clock)
    called = begun(harness)
    tell(harness, **SUCCEEDED)
    while called.thread.is_alive():
        if clock.wait_for_sleepers(1, 0.1):
            clock.advance(1)
    assert isinstance(failure(called.result), BadRequest)


def test_failed_pod_without_log_reports_its_exit_code() -> None:
    clock = FakeClock()
    harness, _ = scripted(clock=clock)
    called = begun(harness)
    ended = container(terminated={"exitCode": 255, "reason": "Unknown"})
    tell(harness, phase="Failed", message="its process is gone", containerStatuses=ended)
    while called.thread.is_alive():
        if clock.wait_for_sleepers(1, 0.1):
            clock.advance(1)
    error = failure(called.result)
    assert isinstance(error, CommandFailed)
    assert error.exit_code == 255
    assert error.message.endswith("ended with exit code 255: its process is gone")


# Pods of other runs


def test_pod_of_another_run_is_not_touched(harness_without_pods: Harness) -> None:
    pod = planned(harness_without_pods)
    pod["metadata"]["labels"] = {"who": "else"}
    harness_without_pods.cluster.create(pod)
    assert isinstance(failure(lambda: harness_without_pods.call(KubeTask, ARGS)), AlreadyExists)
    assert len(harness_without_pods.pods()) == 1


def test_terminating_pod_of_a_dead_process_is_not_repeated(
    harness_without_pods: Harness,
) -> None:
    pod = planned(harness_without_pods)
    pod["metadata"]["finalizers"] = ["example.com/slow"]
    harness_without_pods.cluster.create(pod)
    harness_without_pods.cluster.delete(PODS, pod["metadata"]["name"], namespace="default")
    with refused_as("Interrupted"):
        harness_without_pods.call(KubeTask, ARGS)


def planned(harness: Harness) -> dict[str, Any]:
    """Return the pod that a call would create."""
    params = Params(ActionFacts(time="2026-01-01T00:00:00Z"))
    return pod_of(harness.context(), params, job_of(params, KubeTaskArgs.model_validate(ARGS)))


def test_secure_defaults_mount_no_token(
    monkeypatch: pytest.MonkeyPatch, harness_without_pods: Harness
) -> None:
    monkeypatch.setenv("SECURE_DEFAULTS_FOR_JOB_PODS", "true")
    spec = planned(harness_without_pods)["spec"]
    assert (spec["automountServiceAccountToken"], spec["serviceAccountName"]) == (False, "default")
    params = Params(ActionFacts(time="", pod_override={"serviceAccountName": "mover"}))
    args = KubeTaskArgs.model_validate(ARGS)
    spec = pod_of(harness_without_pods.context(), params, job_of(params, args))["spec"]
    assert spec["serviceAccountName"] == "mover"


def test_pods_meet_the_restricted_standard_if_configured(
    monkeypatch: pytest.MonkeyPatch, harness_without_pods: Harness
) -> None:
    assert "securityContext" not in planned(harness_without_pods)["spec"]
    monkeypatch.setenv("KANISTER_PY_JOB_POD_SECURITY", "restricted")
    monkeypatch.setenv("KANISTER_PY_JOB_POD_USER", "65532")
    sidecar = {"name": "sidecar", "image": "tools"}
    params = Params(ActionFacts(time="", pod_override={"containers": [sidecar]}))
    args = KubeTaskArgs.model_validate({**ARGS, "podOverride": {"securityContext": {"fsGroup": 7}}})
    spec = pod_of(harness_without_pods.context(), params, job_of(params, args))["spec"]
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
def test_unknown_pod_security_standard_is_rejected(
    monkeypatch: pytest.MonkeyPatch, harness_without_pods: Harness, standard: str, user: str
) -> None:
    monkeypatch.setenv("KANISTER_PY_JOB_POD_SECURITY", standard)
    monkeypatch.setenv("KANISTER_PY_JOB_POD_USER", user)
    with refused_as("PodSecurityUnknown"):
        planned(harness_without_pods)


# Permissions


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
def test_functions_declare_their_permissions(
    function: type[Func], args: Mapping[str, Any], want: list[str]
) -> None:
    assert [str(access) for access in function.access(args) or ()] == want

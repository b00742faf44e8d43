"""Replicas of a workload, and the number before the change."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.core.errors import (
    ClusterUnavailable,
    NotFound,
    RunCancelled,
)
from kanister_py.core.kube.resources import (
    DEPLOYMENT_CONFIGS,
    DEPLOYMENTS,
    PODS,
    STATEFUL_SETS,
    GroupVersionResource,
)
from kanister_py.core.templates.facts import ActionFacts, Workload
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.embedded.pods.node import ProcessNode
from kanister_py.embedded.pods.runner import ProcessPodRunner
from kanister_py.embedded.pods.workloads import Workloads
from kanister_py.functions.blueprint.scale_workload.v0_0_0 import ScaleWorkload
from kanister_py.functions.blueprint.scale_workload.v0_1_0 import (
    ScaleWorkloadV010,
)
from kanister_py.ports.cluster import ExecSession, KubeObject, LogStream
from kanister_py.ports.function import Func
from tests.functions.blueprint.api_calls import TIME, Api
from tests.functions.blueprint.conftest import Harness
from tests.raising import refused_as

BOTH = pytest.mark.parametrize("scale", [ScaleWorkload, ScaleWorkloadV010])
TEMPLATE = {
    "metadata": {"labels": {"app": "db"}},
    "spec": {"containers": [{"name": "main", "image": "x", "command": ["sleep", "1000"]}]},
}
SPEC = {"selector": {"matchLabels": {"app": "db"}}, "template": TEMPLATE}


class Kubelet:
    """Pod runner that does nothing, so that waiting for pods is allowed."""

    def read_log(self, *args: Any, **options: Any) -> LogStream:
        raise ClusterUnavailable("there is no log here")

    def exec(self, *args: Any, **options: Any) -> ExecSession:
        raise ClusterUnavailable("no command runs here")


@pytest.fixture
def api() -> Api:
    api = Api()
    api.cluster.attach_pods(Kubelet())
    return api


def stateful_set(api: Api, name: str, replicas: int) -> KubeObject:
    workload = api.add("apps/v1", "StatefulSet", name, spec={**SPEC, "replicas": replicas})
    give_pods(api, workload, replicas)
    return workload


def owner_of(owner: KubeObject) -> dict[str, Any]:
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }


def give_pods(api: Api, owner: KubeObject, count: int) -> None:
    """Act as the controllers for a StatefulSet: create pods and set the status."""
    name = owner["metadata"]["name"]
    for pod in api.cluster.list(PODS, namespace="default").items:
        if pod["metadata"]["ownerReferences"][0]["uid"] == owner["metadata"]["uid"]:
            api.cluster.delete(
                PODS, pod["metadata"]["name"], namespace="default", grace_period_seconds=0
            )
    for index in range(count):
        metadata = {"ownerReferences": [owner_of(owner)]}
        api.add(
            "v1",
            "Pod",
            f"{name}-{index}",
            metadata=metadata,
            spec=TEMPLATE["spec"],
            status={"phase": "Running"},
        )
    api.cluster.patch(
        STATEFUL_SETS,
        name,
        {"status": {"readyReplicas": count, "replicas": count}},
        namespace="default",
        subresource="status",
    )


def facts_of(name: str) -> ActionFacts:
    return ActionFacts(time=TIME, stateful_set=Workload(name, "default"))


def replicas_of(api: Api, name: str, resource: GroupVersionResource = STATEFUL_SETS) -> Any:
    return api.cluster.get(resource, name, namespace="default")["spec"]["replicas"]


@BOTH
@pytest.mark.parametrize("replicas", [0, "0"])
def test_phase_waits_until_the_workload_has_its_pods(
    api: Api, scale: type[Func], replicas: object
) -> None:
    workload = stateful_set(api, "db", 3)
    with api.waiting(scale, {"replicas": replicas}, facts=facts_of("db")) as called:
        assert replicas_of(api, "db") == 0
        give_pods(api, workload, 0)
        assert called.result() == {"originalReplicaCount": 3}


@BOTH
def test_phase_does_not_wait_without_wait_for_ready(api: Api, scale: type[Func]) -> None:
    stateful_set(api, "db", 1)
    args = {
        "replicas": 4,
        "kind": "StatefulSet",
        "name": "db",
        "namespace": "default",
        "waitForReady": False,
    }
    assert api.call(scale, args) == {"originalReplicaCount": 1}
    assert replicas_of(api, "db") == 4


@BOTH
def test_arguments_override_the_object_of_the_actionset(api: Api, scale: type[Func]) -> None:
    stateful_set(api, "db", 1)
    stateful_set(api, "other", 2)
    args = {"replicas": 2, "name": "other"}
    assert api.call(scale, args, facts=facts_of("db")) == {"originalReplicaCount": 2}
    assert replicas_of(api, "db") == 1


@BOTH
def test_concurrent_scalings_keep_their_own_original_number(api: Api, scale: type[Func]) -> None:
    one, two = stateful_set(api, "one", 1), stateful_set(api, "two", 2)
    with (
        api.waiting(scale, {"replicas": 3}, facts=facts_of("one"), uid="a") as first,
        api.waiting(scale, {"replicas": 4}, facts=facts_of("two"), uid="b") as second,
    ):
        assert (replicas_of(api, "one"), replicas_of(api, "two")) == (3, 4)
        give_pods(api, two, 4)
        assert second.result() == {"originalReplicaCount": 2}
        give_pods(api, one, 3)
        assert first.result() == {"originalReplicaCount": 1}


@BOTH
def test_resumed_phase_returns_the_original_number(api: Api, scale: type[Func]) -> None:
    stateful_set(api, "db", 3)
    args = {"replicas": 0, "waitForReady": False}
    api.call(scale, args, facts=facts_of("db"))
    again = api.call(scale, args, facts=facts_of("db"), is_resumed=True)
    assert again == {"originalReplicaCount": 3}
    retried = api.call(scale, args, facts=facts_of("db"), attempt=2)
    assert retried == {"originalReplicaCount": 3}
    other = api.call(scale, args, facts=facts_of("db"), uid="another-run")
    assert other == {"originalReplicaCount": 0}


@BOTH
def test_number_of_recorded_scalings_is_limited(api: Api, scale: type[Func]) -> None:
    stateful_set(api, "db", 0)
    for count in range(20):
        args = {"replicas": count + 1, "waitForReady": False}
        api.call(scale, args, facts=facts_of("db"), uid=f"run-{count}")
    workload = api.cluster.get(STATEFUL_SETS, "db", namespace="default")
    kept = json.loads(workload["metadata"]["annotations"]["kanister-py.io/original-replicas"])
    assert [*kept.values()] == [12, 13, 14, 15, 16, 17, 18, 19]


class Contested(MemoryCluster):
    """Cluster in which another writer changes the object first, twice."""

    meddlings = 0

    def _meddle(self, name: str) -> None:
        if self.meddlings < 2:
            self.meddlings += 1
            label = {"metadata": {"labels": {"meddled": str(self.meddlings)}}}
            super().patch(STATEFUL_SETS, name, label, namespace="default")

    def replace(self, obj: Any, **options: Any) -> Any:
        self._meddle(obj["metadata"]["name"])
        return super().replace(obj, **options)

    def patch(self, resource: Any, name: str, patch: Any, **options: Any) -> Any:
        self._meddle(name)
        return super().patch(resource, name, patch, **options)


@BOTH
def test_update_conflict_is_retried(scale: type[Func]) -> None:
    api = Api(kind=Contested)
    api.add("apps/v1", "StatefulSet", "db", spec={**SPEC, "replicas": 1})
    args = {"replicas": 2, "waitForReady": False}
    assert api.call(scale, args, facts=facts_of("db")) == {"originalReplicaCount": 1}
    workload = api.cluster.get(STATEFUL_SETS, "db", namespace="default")
    assert workload["spec"]["replicas"] == 2
    assert workload["metadata"]["labels"]["meddled"] == "2"


@BOTH
def test_deployment_config_waits_for_its_newest_controller(api: Api, scale: type[Func]) -> None:
    config = api.add(
        "apps.openshift.io/v1", "DeploymentConfig", "web", spec={"replicas": 1, "template": {}}
    )
    controller = api.add(
        "v1",
        "ReplicationController",
        "web-2",
        metadata={
            "annotations": {"openshift.io/deployment-config.latest-version": "2"},
            "ownerReferences": [owner_of(config)],
        },
        spec={"replicas": 0, "selector": {"app": "db"}, "template": TEMPLATE},
    )
    facts = ActionFacts(time=TIME, deployment_config=Workload("web", "default"))
    with api.waiting(scale, {"replicas": 1}, facts=facts) as called:
        for name, phase in (("web-2-run", "Running"), ("web-2-deploy", "Succeeded")):
            api.add(
                "v1",
                "Pod",
                name,
                metadata={"ownerReferences": [owner_of(controller)]},
                spec=TEMPLATE["spec"],
                status={"phase": phase},
            )
        counts = dict.fromkeys(("replicas", "updatedReplicas", "availableReplicas"), 1)
        api.cluster.patch(
            DEPLOYMENT_CONFIGS,
            "web",
            {"status": {**counts, "observedGeneration": 9, "latestVersion": 2}},
            namespace="default",
            subresource="status",
        )
        assert called.result() == {"originalReplicaCount": 1}


@BOTH
def test_waiting_for_pods_can_be_cancelled(api: Api, scale: type[Func]) -> None:
    stateful_set(api, "db", 1)
    with api.waiting(scale, {"replicas": 2}, facts=facts_of("db")) as called:
        called.cancel()
        with pytest.raises(RunCancelled):
            called.result()


def test_timeout_of_v0_1_0_reports_missing_pods(api: Api) -> None:
    stateful_set(api, "db", 1)
    args = {"replicas": 2, "timeout": "90s"}
    with api.waiting(ScaleWorkloadV010, args, facts=facts_of("db")) as called:
        api.clock.advance(90)
        with refused_as("WaitTimedOut") as caught:
            called.result()
    assert caught.value.message == (
        "Timed out after 90 s waiting for the pods of statefulsets.apps default/db: "
        "Specified 2 replicas and only 1 are ready"
    )


def test_deleted_workload_is_waited_for_only_in_v0_0_0(api: Api) -> None:
    for scale in (ScaleWorkload, ScaleWorkloadV010):
        workload = stateful_set(api, "db", 1)
        with api.waiting(scale, {"replicas": 2}, facts=facts_of("db"), uid=scale.version) as called:
            api.cluster.delete(STATEFUL_SETS, "db", namespace="default")
            if scale is ScaleWorkloadV010:
                with pytest.raises(NotFound):
                    called.result()
            else:
                workload = stateful_set(api, "db", 2)
                give_pods(api, workload, 2)
                assert called.result() == {"originalReplicaCount": 1}
                api.cluster.delete(STATEFUL_SETS, "db", namespace="default")


@BOTH
def test_scaling_fails_immediately_without_pods(scale: type[Func]) -> None:
    api = Api()
    api.add("apps/v1", "StatefulSet", "db", spec={**SPEC, "replicas": 1})
    with refused_as("PodsNotRun"):
        api.call(scale, {"replicas": 2}, facts=facts_of("db"))


@BOTH
@pytest.mark.parametrize(
    ("args", "reason", "message"),
    [
        pytest.param(
            {"replicas": 1},
            "WorkloadNotKnown",
            "Workload information not available via defaults or namespace/name/kind parameters",
            id="nobody says which",
        ),
        pytest.param(
            {"replicas": 1, "name": "db", "namespace": "default", "kind": "DaemonSet"},
            "WorkloadNotSupported",
            "Workload type not supported DaemonSet",
            id="a kind without replicas",
        ),
        pytest.param(
            {"replicas": 1, "name": "no", "namespace": "default", "kind": "deployment"},
            "NotFound",
            'deployments.apps "no" not found',
            id="a workload that is not there",
        ),
        pytest.param(
            {"replicas": 1.5}, "InvalidArgs", "invalid arg type float for arg replicas", id="a half"
        ),
        pytest.param(
            {"replicas": "three"}, "InvalidArgs", "cannot convert 'three' to a number", id="a word"
        ),
    ],
)
def test_unsupported_workload_is_rejected(
    api: Api, scale: type[Func], args: dict[str, Any], reason: str, message: str
) -> None:
    with refused_as(reason) as caught:
        api.call(scale, args)
    assert message in str(caught.value)


# With running pods


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    clock = SystemClock()
    runner = ProcessPodRunner(clock, state=tmp_path)
    if runner.why_no_mounts:
        runner.close()
        pytest.skip(f"this machine gives no namespaces: {runner.why_no_mounts}")
    cluster, node = MemoryCluster(clock=SystemClock()), ProcessNode(runner, clock)
    cluster.attach_pods(node)
    node.start(cluster)
    workloads = Workloads(cluster, clock)
    workloads.start()
    yield Harness(cluster)
    workloads.close()
    node.close()


@BOTH
@pytest.mark.parametrize(
    ("kind", "resource"), [("Deployment", DEPLOYMENTS), ("StatefulSet", STATEFUL_SETS)]
)
def test_workload_is_scaled_down_and_up(
    harness: Harness, scale: type[Func], kind: str, resource: GroupVersionResource
) -> None:
    manifest = {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "db", "namespace": "default"},
        "spec": {
            **SPEC,
            "template": {
                **TEMPLATE,
                "spec": {
                    "terminationGracePeriodSeconds": 0,
                    "containers": [{"name": "main", "image": "x"}],
                },
            },
            "replicas": 2,
        },
    }
    harness.cluster.create(manifest)
    target = {"kind": kind, "name": "db", "namespace": "default"}
    up = harness.call(scale, {**target, "replicas": 2}, uid="first")
    assert up == {"originalReplicaCount": 2}
    assert len(harness.pods()) == 2
    down = harness.call(scale, {**target, "replicas": 0}, uid="second")
    assert down == {"originalReplicaCount": 2}
    assert harness.call(scale, {**target, "replicas": 1}, uid="third") == {
        "originalReplicaCount": 0
    }
    assert [pod["status"]["phase"] for pod in harness.pods()] == ["Running"]
    assert harness.cluster.get(resource, "db", namespace="default")["spec"]["replicas"] == 1

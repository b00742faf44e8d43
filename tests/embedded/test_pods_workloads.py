"""Workloads of manifests run as processes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.core.kube.resources import (
    DEPLOYMENTS,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
)
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.embedded.pods.pod_host import PodHost
from kanister_py.embedded.pods.runner import ProcessPodRunner
from kanister_py.ports.cluster import Cluster, KubeObject
from tests.contracts.pods import NAMESPACE, claim, exec_in, in_phase, is_ready, wait_for, wait_gone


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[PodHost]:
    clock = SystemClock()
    runner = ProcessPodRunner(clock, state=tmp_path, restart_backoff_seconds=0.05)
    if runner.why_no_mounts:
        runner.close()
        pytest.skip(f"this machine gives no namespaces: {runner.why_no_mounts}")
    cluster = MemoryCluster(clock=SystemClock())
    pods = PodHost(cluster, runner, clock)
    cluster.attach_pods(pods.node)
    pods.start()
    yield pods
    pods.close()


@pytest.fixture
def cluster(pods: PodHost) -> Cluster:
    return pods.cluster


def workload(kind: str, name: str, script: str, *, version: str = "apps/v1", **spec: Any) -> Any:
    labels = {"app": name}
    container = {"name": "main", "image": "x", "command": ["sh", "-c", script]}
    container |= spec.pop("container", {})
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"terminationGracePeriodSeconds": 2, "containers": [container]},
            },
            **spec,
        },
    }


def has_ready(count: int) -> Any:
    def check(obj: KubeObject) -> bool:
        status = obj.get("status") or {}
        return (
            status.get("readyReplicas") == count
            and status.get("replicas") == count
            and status.get("observedGeneration") == obj["metadata"]["generation"]
        )

    return check


def has_replicas(obj: KubeObject, count: int) -> bool:
    return bool((obj.get("status") or {}).get("replicas") == count)


def pods_of(cluster: Cluster, name: str) -> list[str]:
    listed = cluster.list(PODS, namespace=NAMESPACE, label_selector=f"app={name}")
    return sorted(pod["metadata"]["name"] for pod in listed)


def test_a_deployment_starts_and_its_pods_run_commands(cluster: Cluster) -> None:
    cluster.create(workload("Deployment", "web", "exec sleep 1000", replicas=2))
    deployment = wait_for(cluster, DEPLOYMENTS, "web", has_ready(2))
    (replica_set,) = cluster.list(REPLICA_SETS, namespace=NAMESPACE)
    revision = "deployment.kubernetes.io/revision"
    assert deployment["metadata"]["annotations"][revision] == "1"
    assert replica_set["metadata"]["annotations"][revision] == "1"
    assert replica_set["metadata"]["ownerReferences"][0]["uid"] == deployment["metadata"]["uid"]
    names = pods_of(cluster, "web")
    assert len(names) == 2
    for name in names:
        assert exec_in(cluster, name, "echo", "in")[:2] == (0, b"in\n")


def test_a_deployment_is_scaled_to_zero_and_back(cluster: Cluster) -> None:
    cluster.create(workload("Deployment", "web", "exec sleep 1000"))
    wait_for(cluster, DEPLOYMENTS, "web", has_ready(1))
    (name,) = pods_of(cluster, "web")
    cluster.scale(DEPLOYMENTS, "web", 0, namespace=NAMESPACE)
    wait_for(cluster, DEPLOYMENTS, "web", has_ready(0))
    wait_gone(cluster, PODS, name)
    assert pods_of(cluster, "web") == []
    cluster.scale(DEPLOYMENTS, "web", 3, namespace=NAMESPACE)
    wait_for(cluster, DEPLOYMENTS, "web", has_ready(3))
    assert len(pods_of(cluster, "web")) == 3


def test_a_changed_template_replaces_the_pods(cluster: Cluster) -> None:
    cluster.create(workload("Deployment", "web", "exec sleep 1000"))
    wait_for(cluster, DEPLOYMENTS, "web", has_ready(1))
    (old,) = pods_of(cluster, "web")
    changed = workload("Deployment", "web", "exec sleep 1001")["spec"]["template"]
    cluster.patch(DEPLOYMENTS, "web", {"spec": {"template": changed}}, namespace=NAMESPACE)
    wait_gone(cluster, PODS, old)

    def is_second(obj: KubeObject) -> bool:
        annotations = obj["metadata"].get("annotations") or {}
        # As `kubectl rollout status` asks: until it is gone, one of the old ones is ready, too.
        is_updated = (obj.get("status") or {}).get("updatedReplicas") == 1
        is_named = annotations.get("deployment.kubernetes.io/revision") == "2"
        return is_named and is_updated and has_ready(1)(obj)

    wait_for(cluster, DEPLOYMENTS, "web", is_second)
    assert len(pods_of(cluster, "web")) == 1


def test_pods_of_a_deleted_deployment_are_deleted(cluster: Cluster) -> None:
    cluster.create(workload("Deployment", "web", "exec sleep 1000"))
    wait_for(cluster, DEPLOYMENTS, "web", has_ready(1))
    (name,) = pods_of(cluster, "web")
    cluster.delete(DEPLOYMENTS, "web", namespace=NAMESPACE)
    wait_gone(cluster, PODS, name)
    assert pods_of(cluster, "web") == []


def test_a_stateful_set_keeps_the_data_of_its_pods(cluster: Cluster) -> None:
    template = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}},
    }
    mount = {"volumeMounts": [{"name": "data", "mountPath": "/var/lib/db"}]}
    script = "hostname >> /var/lib/db/starts; exec sleep 1000"
    cluster.create(
        workload(
            "StatefulSet",
            "db",
            script,
            container=mount,
            replicas=2,
            serviceName="db",
            volumeClaimTemplates=[template],
        )
    )
    wait_for(cluster, STATEFUL_SETS, "db", has_ready(2))
    assert pods_of(cluster, "db") == ["db-0", "db-1"]
    for name in ("data-db-0", "data-db-1"):
        wait_for(cluster, PERSISTENT_VOLUME_CLAIMS, name, in_phase("Bound"))

    def written(name: str, lines: int) -> bytes:
        script = f"until [ $(wc -l < /var/lib/db/starts) -ge {lines} ]; do sleep 0.05; done"
        return exec_in(cluster, name, "sh", "-c", f"{script}; cat /var/lib/db/starts")[1]

    # A pod is ready before its script has written anything.
    assert [written(name, 1) for name in ("db-0", "db-1")] == [b"db-0\n", b"db-1\n"]
    cluster.scale(STATEFUL_SETS, "db", 0, namespace=NAMESPACE)
    wait_for(cluster, STATEFUL_SETS, "db", has_ready(0))
    wait_gone(cluster, PODS, "db-0")
    assert pods_of(cluster, "db") == []
    cluster.scale(STATEFUL_SETS, "db", 2, namespace=NAMESPACE)
    wait_for(cluster, STATEFUL_SETS, "db", has_ready(2))
    assert written("db-0", 2) == b"db-0\ndb-0\n"
    assert written("db-1", 2) == b"db-1\ndb-1\n"


def test_a_parallel_stateful_set_starts_all_pods_together(cluster: Cluster, tmp_path: Path) -> None:
    meet = " && ".join(f"test -e {tmp_path}/db-{index}" for index in range(2))
    probe = {"exec": {"command": ["sh", "-c", meet]}, "periodSeconds": 1}
    cluster.create(
        workload(
            "StatefulSet",
            "db",
            f"touch {tmp_path}/$(hostname); exec sleep 1000",
            container={"readinessProbe": probe},
            replicas=2,
            serviceName="db",
            podManagementPolicy="Parallel",
        )
    )
    wait_for(cluster, STATEFUL_SETS, "db", has_ready(2))


def test_a_deleted_pod_of_a_workload_is_replaced(cluster: Cluster) -> None:
    cluster.create(workload("StatefulSet", "db", "exec sleep 1000", serviceName="db"))
    first = wait_for(cluster, PODS, "db-0", is_ready)
    cluster.delete(PODS, "db-0", namespace=NAMESPACE)
    uid = first["metadata"]["uid"]
    wait_for(cluster, PODS, "db-0", lambda obj: is_ready(obj) and obj["metadata"]["uid"] != uid)


def test_a_claim_is_bound_immediately(cluster: Cluster) -> None:
    cluster.create(claim("data"))
    bound = wait_for(cluster, PERSISTENT_VOLUME_CLAIMS, "data", in_phase("Bound"))
    assert bound["status"]["capacity"] == {"storage": "1Mi"}
    assert bound["spec"]["volumeName"] == f"pvc-{bound['metadata']['uid']}"


def test_waiting_for_workloads_covers_all_of_them(cluster: Cluster, pods: PodHost) -> None:
    for kind in ("Deployment", "StatefulSet"):
        cluster.create(workload(kind, f"a-{kind.lower()}", "exec sleep 1000"))
    assert pods.wait_until_workloads_ready(lambda: True) == []
    for kind in ("Deployment", "StatefulSet"):
        (name,) = pods_of(cluster, f"a-{kind.lower()}")
        assert exec_in(cluster, name, "echo", "in")[:2] == (0, b"in\n")


def test_a_late_workload_is_reported_with_the_reasons_of_its_pods(
    cluster: Cluster, pods: PodHost
) -> None:
    missing = {"command": ["no-such-program"]}
    cluster.create(workload("Deployment", "web", "", container=missing, replicas=2))
    wait_for(cluster, DEPLOYMENTS, "web", lambda obj: has_replicas(obj, 2))
    for name in pods_of(cluster, "web"):
        wait_for(
            cluster, PODS, name, lambda obj: "no-such-program" in json.dumps(obj.get("status"))
        )
    (notice,) = pods.wait_until_workloads_ready(lambda: True, timeout_seconds=0.5)
    assert notice.reason == "WorkloadNotReady"
    assert notice.message.startswith(f"Deployment {NAMESPACE}/web has 0 of 2 pods ready")
    assert all(f"pod {name}: " in notice.message for name in pods_of(cluster, "web"))
    assert "no-such-program" in notice.message


def test_waiting_for_workloads_ends_after_a_cancel(cluster: Cluster, pods: PodHost) -> None:
    cluster.create(workload("Deployment", "web", "", container={"command": ["no-such-program"]}))
    answers = iter([True, False])
    assert pods.wait_until_workloads_ready(lambda: next(answers)) == []

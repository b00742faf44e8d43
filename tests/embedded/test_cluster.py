"""Behaviour of the embedded cluster beyond the contract of clusters."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.core.errors import (
    BadRequest,
    Conflict,
    Expired,
    Forbidden,
    Invalid,
    NoMatch,
    NotFound,
    UsageError,
)
from kanister_py.core.kube.resources import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    NAMESPACES,
    PODS,
    GroupVersionResource,
)
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.ports.cluster import KubeObject, Propagation
from tests.contracts.cluster import definition
from tests.fake_clock import FakeClock
from tests.raising import refused_as


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster(clock=FakeClock(jumps=True), seed=1)


def config_map(name: str, *owners: KubeObject, **metadata: Any) -> KubeObject:
    obj: KubeObject = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, **metadata},
        "data": {},
    }
    if owners:
        obj["metadata"]["ownerReferences"] = [
            {
                "apiVersion": owner["apiVersion"],
                "kind": owner["kind"],
                "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"],
            }
            for owner in owners
        ]
    return obj


def names(cluster: MemoryCluster, resource: GroupVersionResource = CONFIG_MAPS) -> list[str]:
    return [obj["metadata"]["name"] for obj in cluster.list(resource)]


def test_dependents_are_deleted_recursively(cluster: MemoryCluster) -> None:
    root = cluster.create(config_map("root"))
    child = cluster.create(config_map("child", root))
    cluster.create(config_map("grandchild", child))
    cluster.create(config_map("stranger"))
    cluster.delete(CONFIG_MAPS, "root")
    assert names(cluster) == ["stranger"]


def test_an_object_with_another_owner_loses_only_the_reference(
    cluster: MemoryCluster,
) -> None:
    one, two = cluster.create(config_map("one")), cluster.create(config_map("two"))
    cluster.create(config_map("shared", one, two))
    cluster.delete(CONFIG_MAPS, "one")
    left = cluster.get(CONFIG_MAPS, "shared")["metadata"]["ownerReferences"]
    assert [owner["name"] for owner in left] == ["two"]
    cluster.delete(CONFIG_MAPS, "two")
    assert names(cluster) == []


def test_orphans_lose_their_owner_reference(cluster: MemoryCluster) -> None:
    root = cluster.create(config_map("root"))
    cluster.create(config_map("child", root))
    cluster.delete(CONFIG_MAPS, "root", propagation=Propagation.ORPHAN)
    assert "ownerReferences" not in cluster.get(CONFIG_MAPS, "child")["metadata"]


def test_foreground_deletion_waits_for_dependents(cluster: MemoryCluster) -> None:
    root = cluster.create(config_map("root"))
    cluster.create(config_map("child", root, finalizers=["example.org/hold"]))
    cluster.delete(CONFIG_MAPS, "root", propagation=Propagation.FOREGROUND)
    waiting = cluster.get(CONFIG_MAPS, "root")["metadata"]
    assert waiting["finalizers"] == ["foregroundDeletion"]
    cluster.patch(CONFIG_MAPS, "child", {"metadata": {"finalizers": None}})
    assert names(cluster) == []


def test_pods_of_a_job_are_orphaned_by_default(cluster: MemoryCluster) -> None:
    template = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}}
    created = cluster.create({**job, "spec": {"template": template}})
    cluster.create(config_map("child", created))
    cluster.delete(GroupVersionResource("batch", "v1", "jobs"), "j")
    assert names(cluster) == ["child"]


def test_a_deleted_namespace_waits_for_finalizers_of_its_content(
    cluster: MemoryCluster,
) -> None:
    cluster.create(config_map("a", namespace="shop"))
    cluster.create(config_map("held", namespace="shop", finalizers=["example.org/hold"]))
    cluster.create(config_map("elsewhere"))
    cluster.delete(NAMESPACES, "shop")
    assert cluster.get(NAMESPACES, "shop")["status"]["phase"] == "Terminating"
    assert names(cluster) == ["elsewhere", "held"]
    with pytest.raises(Forbidden):
        cluster.create(config_map("late", namespace="shop"))
    cluster.patch(CONFIG_MAPS, "held", {"metadata": {"finalizers": None}}, namespace="shop")
    with pytest.raises(NotFound):
        cluster.get(NAMESPACES, "shop")


def test_system_namespaces_cannot_be_deleted(cluster: MemoryCluster) -> None:
    with pytest.raises(Forbidden):
        cluster.delete(NAMESPACES, "default")


def test_manifests_are_loaded_with_status_in_any_order(
    cluster: MemoryCluster,
) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "shop"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
        "status": {"phase": "Running"},
    }
    unknown = {"apiVersion": "db.example.org/v1", "kind": "Policy", "metadata": {"name": "x"}}
    cluster.load([{"apiVersion": "v1", "kind": "List", "items": [pod]}, unknown])
    cluster.load([pod])
    assert cluster.get(PODS, "p", namespace="shop")["status"] == {"phase": "Running"}
    guessed = cluster.resource_for("db.example.org/v1", "Policy").gvr
    assert guessed.resource == "policies"
    assert names(cluster, guessed) == ["x"]
    with pytest.raises(NoMatch):
        cluster.create({"apiVersion": "db.example.org/v1", "kind": "Other", "metadata": {}})


def test_a_restored_cluster_continues_from_its_saved_state(cluster: MemoryCluster) -> None:
    root = cluster.create(config_map("root"))
    cluster.create(config_map("child", root))
    cluster.load([{"apiVersion": "x.example.org/v1", "kind": "Thing", "metadata": {"name": "t"}}])
    state = json.loads(json.dumps(cluster.save()))
    again = MemoryCluster(clock=SystemClock())
    again.restore(state)
    assert again.objects() == cluster.objects()
    assert again.resource_for("x.example.org/v1", "Thing").gvr.resource == "things"
    with pytest.raises(Expired):
        again.watch(CONFIG_MAPS, resource_version="2")
    newer = again.create(config_map("new"))
    assert int(newer["metadata"]["resourceVersion"]) > int(state["resourceVersion"])
    again.delete(CONFIG_MAPS, "root")
    assert names(again) == ["new"]


def test_a_state_of_another_format_is_refused(cluster: MemoryCluster) -> None:
    before = cluster.objects()
    with pytest.raises(UsageError, match="format"):
        cluster.restore({"format": "something/v9"})
    assert cluster.objects() == before


def test_a_watch_older_than_the_history_expires() -> None:
    short = MemoryCluster(clock=SystemClock(), history_limit=3)
    since = short.create(config_map("a"))["metadata"]["resourceVersion"]
    for index in range(5):
        short.patch(CONFIG_MAPS, "a", {"data": {"n": str(index)}})
    with pytest.raises(Expired):
        short.watch(CONFIG_MAPS, resource_version=since)


def test_an_old_continue_token_expires(cluster: MemoryCluster) -> None:
    cluster.create(config_map("a"))
    cluster.create(config_map("b"))
    page = cluster.list(CONFIG_MAPS, limit=1)
    cluster.compact()
    with pytest.raises(Expired):
        cluster.list(CONFIG_MAPS, limit=1, continue_token=page.continue_token)


def test_logs_and_exec_need_a_pod_runner(cluster: MemoryCluster) -> None:
    spec = {"containers": [{"name": "c", "image": "i"}]}
    cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
    assert cluster.runs_pods is False
    with refused_as("PodsNotRun"):
        cluster.read_log("p", namespace="default")
    with pytest.raises(NotFound):
        cluster.exec("nobody", ["true"], namespace="default")


def test_fields_that_are_no_longer_applied_are_removed_from_list_items(
    cluster: MemoryCluster,
) -> None:
    def workload(*containers: dict[str, Any]) -> KubeObject:
        return {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "w"},
            "spec": {
                "selector": {"matchLabels": {"a": "b"}},
                "template": {
                    "metadata": {"labels": {"a": "b"}},
                    "spec": {"containers": list(containers)},
                },
            },
        }

    main, side = {"name": "main", "image": "m"}, {"name": "side", "image": "s"}
    cluster.apply(workload(main, {**side, "command": ["x"]}), field_manager="one")
    kept = cluster.apply(workload(main, side), field_manager="one")
    containers = kept["spec"]["template"]["spec"]["containers"]
    assert [c.get("command") for c in containers] == [None, None]
    gone = cluster.apply(workload(main), field_manager="one")
    assert [c["name"] for c in gone["spec"]["template"]["spec"]["containers"]] == ["main"]
    assert names(cluster, DEPLOYMENTS) == ["w"]


def test_a_status_is_written_although_the_spec_has_become_invalid(
    cluster: MemoryCluster,
) -> None:
    defined = definition("gadgets")
    cluster.create(defined)
    version, name = "contract.example.org/v1", "small"
    created = cluster.create(
        {"apiVersion": version, "kind": "Gadgets", "metadata": {"name": name}, "spec": {"size": 1}}
    )
    gadgets = GroupVersionResource("contract.example.org", "v1", "gadgets")
    before = cluster.get(gadgets, name)
    stored = cluster.get(CUSTOM_RESOURCE_DEFINITIONS, defined["metadata"]["name"])
    schema = stored["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["properties"]["size"]["minimum"] = 2
    cluster.replace(stored)
    written = cluster.replace_status({**created, "status": {"phase": "Ready"}})
    assert (written["spec"], written["status"]) == (before["spec"], {"phase": "Ready"})
    # Returned objects are copies, although stored states share data.
    written["spec"]["size"] = 7
    assert cluster.get(gadgets, name)["spec"] == before["spec"]
    with pytest.raises(Invalid):
        cluster.replace({**cluster.get(gadgets, name), "spec": {"size": 0}})


def test_concurrent_updates_are_not_lost() -> None:
    shared = MemoryCluster(clock=SystemClock())
    shared.create({**config_map("counter"), "data": {"n": "0"}})

    def count() -> None:
        done = 0
        while done < 50:
            read = shared.get(CONFIG_MAPS, "counter")
            read["data"]["n"] = str(int(read["data"]["n"]) + 1)
            try:
                shared.replace(read)
            except Conflict:
                continue
            done += 1

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(180)
    assert shared.get(CONFIG_MAPS, "counter")["data"]["n"] == "200"


def test_a_write_wakes_a_waiting_watch() -> None:
    shared = MemoryCluster(clock=SystemClock())
    watch = shared.watch(CONFIG_MAPS, field_selector="metadata.name=mine", resource_version="1")
    seen: list[str] = []

    def read() -> None:
        seen.append(next(watch).object["metadata"]["name"])

    reader = threading.Thread(target=read)
    reader.start()
    shared.create(config_map("other"))
    shared.create(config_map("mine"))
    reader.join(180)
    watch.close()
    assert seen == ["mine"]


@pytest.mark.parametrize("key", ["name", "generateName", "namespace"])
def test_name_that_is_not_text_is_refused(cluster: MemoryCluster, key: str) -> None:
    metadata = {"name": "settings", key: True}  # the value of `y` in YAML
    with pytest.raises(BadRequest, match=f"ConfigMap.metadata.{key} of type string"):
        cluster.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param({"serviceAccount": 5}, "number into Go struct field Pod.spec.serviceAccount"),
        pytest.param({"nodeSelector": "x"}, "string into Go struct field Pod.spec.nodeSelector"),
        pytest.param({"containers": 7}, "number into Go struct field Pod.spec.containers"),
        pytest.param({"volumes": ["a"]}, "Pod.spec.volumes[0]"),
        pytest.param({"terminationGracePeriodSeconds": "1h"}, "of type int64"),
        pytest.param(
            {"containers": [{"name": "main", "image": "x", "env": [{"name": "A", "value": 5}]}]},
            "Pod.spec.containers[0].env[0].value of type string",
        ),
    ],
)
def test_a_pod_with_invalid_structure_is_refused(
    cluster: MemoryCluster, spec: dict[str, Any], message: str
) -> None:
    complete = {"containers": [{"name": "main", "image": "x"}], **spec}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "wrong"}, "spec": complete}
    with pytest.raises(BadRequest) as caught:
        cluster.create(pod)
    assert message in caught.value.message
    good = {**pod, "spec": {"containers": [{"name": "main", "image": "x"}]}}
    cluster.create(good)
    with pytest.raises(BadRequest):
        cluster.patch(PODS, "wrong", {"spec": spec}, namespace="default")
    template = {"metadata": {"labels": {"a": "b"}}, "spec": complete}
    selector = {"matchLabels": {"a": "b"}}
    with pytest.raises(BadRequest):
        cluster.create(
            {
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "wrong"},
                "spec": {"selector": selector, "template": template},
            }
        )


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param({"restartPolicy": "Sometimes"}, 'supported values: "Always", "OnFailure"'),
        pytest.param({"volumes": [{"emptyDir": {}}]}, "spec.volumes[0].name: Required value"),
        pytest.param(
            {"containers": [{"name": "main", "image": "x", "env": [{"nam": "A"}]}]},
            "spec.containers[0].env[0].name: Required value",
        ),
    ],
)
def test_a_pod_with_invalid_values_is_refused(
    cluster: MemoryCluster, spec: dict[str, Any], message: str
) -> None:
    complete = {"containers": [{"name": "main", "image": "x"}], **spec}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "wrong"}, "spec": complete}
    with pytest.raises(Invalid) as caught:
        cluster.create(pod)
    assert message in caught.value.message

from __future__ import annotations

import copy
from typing import Any

import pytest

from kanister_py.functions.composition.auto_ready.v0_1_0 import AutoReady


def conditions(*pairs: tuple[str, str]) -> dict[str, Any]:
    return {"conditions": [{"type": type_, "status": status} for type_, status in pairs]}


def seen(kind: str, status: Any = None, spec: Any = None) -> dict[str, Any]:
    api_version, _, name = kind.rpartition(" ")
    resource: dict[str, Any] = {
        "apiVersion": api_version,
        "kind": name,
        "metadata": {"name": "o", "generation": 2},
    }
    if status is not None:
        resource["status"] = status
    if spec is not None:
        resource["spec"] = spec
    return resource


def judged(
    resource: dict[str, Any] | None,
    given: dict[str, Any] | None = None,
    wanted: dict[str, Any] | None = None,
    context: dict[str, Any] | None = None,
) -> tuple[str, list[str]]:
    request: dict[str, Any] = {
        "meta": {"tag": "t"},
        "observed": {"resources": {} if resource is None else {"r": {"resource": resource}}},
        "desired": {"resources": {"r": wanted or {"resource": {"kind": "Any"}}}},
        "context": context or {},
    }
    if given is not None:
        AutoReady.described_input().model_validate(given)
        request["input"] = given
    before = copy.deepcopy(request)
    answer = AutoReady().run(request)
    assert request == before, "a function leaves its request alone"
    messages = [result["message"] for result in answer.get("results", [])]
    return answer["desired"]["resources"]["r"].get("ready", ""), messages


LB = {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}}
DAEMON = {
    "desiredNumberScheduled": 2,
    "currentNumberScheduled": 2,
    "numberReady": 2,
    "numberAvailable": 2,
    "updatedNumberScheduled": 2,
}
STATEFUL = {
    "readyReplicas": 1,
    "currentReplicas": 1,
    "currentRevision": "a",
    "updateRevision": "a",
}
SCHEDULED = {"lastScheduleTime": "2024-01-01T00:01:00Z"}

READY = {
    "a ConfigMap": seen("v1 ConfigMap"),
    "a Secret": seen("v1 Secret"),
    "a Namespace": seen("v1 Namespace"),
    "a ServiceAccount": seen("v1 ServiceAccount"),
    "a Service inside the cluster": seen("v1 Service", spec={"type": "ClusterIP"}),
    "a Service with its load balancer": seen("v1 Service", LB, {"type": "LoadBalancer"}),
    "an Ingress with its load balancer": seen("networking.k8s.io/v1 Ingress", LB),
    "a Deployment of one": seen(
        "apps/v1 Deployment",
        {"updatedReplicas": 1, "availableReplicas": 1, **conditions(("Available", "True"))},
    ),
    "a Deployment of none": seen(
        "apps/v1 Deployment", conditions(("Available", "True")), {"replicas": 0}
    ),
    "a StatefulSet": seen("apps/v1 StatefulSet", STATEFUL),
    "a DaemonSet": seen("apps/v1 DaemonSet", DAEMON),
    "a ReplicaSet": seen("apps/v1 ReplicaSet", {"observedGeneration": 2, "availableReplicas": 1}),
    "a Pod that is done": seen("v1 Pod", {"phase": "Succeeded"}),
    "a Pod that runs": seen(
        "v1 Pod",
        {"phase": "Running", **conditions(("Ready", "True"))},
        {"restartPolicy": "Always"},
    ),
    "a claim that is bound": seen("v1 PersistentVolumeClaim", {"phase": "Bound"}),
    "a Job that is done": seen("batch/v1 Job", conditions(("Complete", "True"))),
    "a CronJob that is suspended": seen("batch/v1 CronJob", spec={"suspend": True}),
    "a CronJob at work": seen("batch/v1 CronJob", {**SCHEDULED, "active": [{}]}),
    "a CronJob that worked": seen(
        "batch/v1 CronJob", {**SCHEDULED, "lastSuccessfulTime": "2024-01-01T01:01:00+01:00"}
    ),
    "an autoscaler": seen(
        "autoscaling/v2 HorizontalPodAutoscaler", conditions(("ScalingLimited", "True"))
    ),
    "anything with the condition": seen("x.org/v1 Thing", conditions(("Ready", "True"))),
    "a Deployment that says so itself": seen("apps/v1 Deployment", conditions(("Ready", "True"))),
}
NOT_READY = {
    "what does not exist": None,
    "a Service without its load balancer": seen("v1 Service", {}, {"type": "LoadBalancer"}),
    "an Ingress without its load balancer": seen("networking.k8s.io/v1 Ingress"),
    "a Deployment on its way": seen(
        "apps/v1 Deployment",
        {"updatedReplicas": 1, "availableReplicas": 2, **conditions(("Available", "True"))},
        {"replicas": 2},
    ),
    "a Deployment that is not available": seen(
        "apps/v1 Deployment", {"updatedReplicas": 1, "availableReplicas": 1}
    ),
    "a StatefulSet on its way": seen("apps/v1 StatefulSet", {**STATEFUL, "updateRevision": "b"}),
    "a StatefulSet of none that nobody has seen": seen("apps/v1 StatefulSet", {}, {"replicas": 0}),
    "a DaemonSet on its way": seen("apps/v1 DaemonSet", {**DAEMON, "numberReady": 1}),
    "a DaemonSet that nobody has seen": seen("apps/v1 DaemonSet"),
    "a ReplicaSet of an older generation": seen(
        "apps/v1 ReplicaSet", {"observedGeneration": 1, "availableReplicas": 1}
    ),
    "a ReplicaSet that failed": seen(
        "apps/v1 ReplicaSet",
        {"observedGeneration": 2, "availableReplicas": 1, **conditions(("ReplicaFailure", "True"))},
    ),
    "a Pod that runs once": seen(
        "v1 Pod",
        {"phase": "Running"},
        {"restartPolicy": "Never"},
    ),
    "a Pod that failed": seen("v1 Pod", {"phase": "Failed"}),
    "a claim that waits": seen("v1 PersistentVolumeClaim", {"phase": "Pending"}),
    "a Job that failed": seen("batch/v1 Job", conditions(("Failed", "True"), ("Complete", "True"))),
    "a CronJob that was never scheduled": seen("batch/v1 CronJob", {"active": [{}]}),
    "a CronJob that failed": seen(
        "batch/v1 CronJob", {**SCHEDULED, "lastSuccessfulTime": "2024-01-01T00:00:00Z"}
    ),
    "a CronJob with a time that is none": seen(
        "batch/v1 CronJob", {**SCHEDULED, "lastSuccessfulTime": "now"}
    ),
    "an autoscaler that fails": seen(
        "autoscaling/v2 HorizontalPodAutoscaler",
        conditions(("FailedGetScale", "True"), ("ScalingActive", "True")),
    ),
    "an autoscaler of another version": seen(
        "autoscaling/v1 HorizontalPodAutoscaler", conditions(("ScalingActive", "True"))
    ),
    "anything without the condition": seen("x.org/v1 Thing", conditions(("Synced", "True"))),
    "a status that is none": seen("x.org/v1 Thing", "up"),
    "conditions that are none": seen("apps/v1 Deployment", {"conditions": ["Ready"]}),
    "a count that is none": seen("apps/v1 StatefulSet", {**STATEFUL, "readyReplicas": "1"}),
}


@pytest.mark.parametrize("resource", READY.values(), ids=READY)
def test_resource_is_ready_by_the_check_of_its_kind(resource: dict[str, Any]) -> None:
    assert judged(resource) == ("READY_TRUE", [])


@pytest.mark.parametrize("resource", NOT_READY.values(), ids=NOT_READY)
def test_resource_that_is_not_ready_is_not_marked(resource: dict[str, Any] | None) -> None:
    assert judged(resource) == ("", [])


@pytest.mark.parametrize("ready", ["READY_FALSE", "READY_TRUE"])
def test_readiness_of_an_earlier_step_is_kept(ready: str) -> None:
    composed = {"resource": {}, "ready": ready}
    assert judged(seen("v1 ConfigMap"), wanted=composed) == (ready, [])


def test_cel_expression_decides_for_its_kind() -> None:
    customization = {"celHealthCheckCustomization": {"_v1_ConfigMap": "has(object.data)"}}
    assert judged(seen("v1 ConfigMap"), customization) == ("READY_FALSE", [])
    with_data = {**seen("v1 ConfigMap"), "data": {}}
    assert judged(with_data, customization) == ("READY_TRUE", [])
    assert judged(seen("v1 Secret"), customization) == ("READY_TRUE", [])


def test_expressions_of_the_input_precede_those_of_the_context() -> None:
    context = {"a.b/c": {"checks": {"_v1_Secret": "false", "_v1_ConfigMap": "false"}}}
    customization = {
        "celHealthCheckCustomization": {"_v1_ConfigMap": "true"},
        "celHealthCheckCustomizationFrom": "[a.b/c].checks",
    }
    assert judged(seen("v1 Secret"), customization, context=context) == ("READY_FALSE", [])
    assert judged(seen("v1 ConfigMap"), customization, context=context) == ("READY_TRUE", [])


@pytest.mark.parametrize("text", ["object.nope", "1", "1 +", "[1,2,3].all(x, nope)"])
def test_failed_expression_is_a_warning(text: str) -> None:
    ready, (message,) = judged(
        seen("v1 ConfigMap"), {"celHealthCheckCustomization": {"_v1_ConfigMap": text}}
    )
    assert ready == ""
    assert 'composed resource "r" (_v1_ConfigMap)' in message


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ({"celHealthCheckCustomizationFrom": "nope"}, "nope: no such field"),
        ({"celHealthCheckCustomizationFrom": "a["}, "cannot parse path"),
        ({"celHealthCheckCustomizationFrom": "text"}, "text: not a map of strings"),
    ],
)
def test_misplaced_expressions_are_fatal(given: dict[str, Any], part: str) -> None:
    ready, (message,) = judged(seen("v1 ConfigMap"), given, context={"text": "x"})
    assert (ready, part in message) == ("", True)


def test_ttl_of_the_input_is_used() -> None:
    assert AutoReady().run({"input": {"ttl": "90s"}})["meta"] == {"ttl": "90s"}
    assert AutoReady().run({})["meta"] == {"ttl": "60s"}

"""Workloads: their replicas, and whether they have the desired pods."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from kanister_py.core.errors import UsageError
from kanister_py.core.kube.access import Access
from kanister_py.core.kube.parts import annotations_of, owners_of, spec_of, status_of
from kanister_py.core.kube.resources import (
    DEPLOYMENT_CONFIGS,
    DEPLOYMENTS,
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    GroupVersionResource,
)
from kanister_py.core.templates.facts import ActionFacts
from kanister_py.ports.cluster import Cluster, KubeObject

ORIGINAL_REPLICAS: Final = "kanister-py.io/original-replicas"
"""Annotation with the numbers of replicas before a workload was scaled."""

_KINDS: Final[Mapping[str, GroupVersionResource]] = {
    "statefulset": STATEFUL_SETS,
    "deployment": DEPLOYMENTS,
    "deploymentconfig": DEPLOYMENT_CONFIGS,
}
_NAMES: Final = ("StatefulSet", "Deployment", "DeploymentConfig")
KIND_PATTERN: Final = f"(?i:{'|'.join(_KINDS)})"
_REVISION: Final = "deployment.kubernetes.io/revision"
_LATEST_VERSION: Final = "openshift.io/deployment-config.latest-version"
# Every run that scales a workload adds an entry; this exceeds the number of concurrent runs.
_MOST_TRACES: Final = 8


class Target(NamedTuple):
    """Workload to scale."""

    resource: GroupVersionResource
    name: str
    namespace: str

    def read(self, cluster: Cluster) -> KubeObject:
        return cluster.get(self.resource, self.name, namespace=self.namespace)

    def __str__(self) -> str:
        return f"{self.resource.group_resource} {self.namespace}/{self.name}"


def target_of(args: Any, facts: ActionFacts) -> Target:
    """Return the workload to scale; missing arguments default to the ActionSet's object."""
    kind: str | None = args.kind
    name, namespace = args.name, args.namespace
    workload = facts.workload
    if workload is not None:
        kind = _kind_of(facts) if kind is None else kind
        name = workload.name if name is None else name
        namespace = workload.namespace if namespace is None else namespace
    if kind is None or name is None or namespace is None:
        raise UsageError(
            "Workload information not available via defaults or namespace/name/kind parameters",
            reason="WorkloadNotKnown",
        )
    resource = _KINDS.get(kind.lower())
    if resource is None:
        raise _not_supported(kind)
    return Target(resource, name, namespace)


def refusals_of(args: Mapping[str, Any]) -> Iterator[tuple[str, UsageError]]:
    """Yield an error if the kind cannot be scaled."""
    kind = args.get("kind")
    if isinstance(kind, str) and kind.lower() not in _KINDS:
        yield "kind", _not_supported(kind)


def _not_supported(kind: str) -> UsageError:
    message = f"Workload type not supported {kind}; use {', '.join(_NAMES)}"
    return UsageError(message, reason="WorkloadNotSupported")


def access_of(args: Mapping[str, Any], *verbs: str, scales: bool = False) -> list[Access]:
    """Return the permissions to scale a workload; for every kind if none is named."""
    namespace, name = str(args.get("namespace") or ""), str(args.get("name") or "")
    named = _KINDS.get(str(args.get("kind") or "").lower())
    accesses = []
    for resource in [named] if named is not None else _KINDS.values():
        group = resource.group
        accesses.append(
            Access(group, resource.resource, ("get", "list", "watch", *verbs), namespace, name)
        )
        if scales:
            scale = f"{resource.resource}/scale"
            accesses.append(Access(group, scale, ("get", "update", "patch"), namespace, name))
    watched = ("get", "list", "watch")
    return [
        *accesses,
        *(
            Access(resource.group, resource.resource, watched, namespace)
            for resource in (PODS, REPLICA_SETS, REPLICATION_CONTROLLERS)
        ),
    ]


def _kind_of(facts: ActionFacts) -> str:
    if facts.stateful_set is not None:
        return "statefulset"
    return "deployment" if facts.deployment is not None else "deploymentconfig"


def replicas_of(workload: Mapping[str, Any]) -> int:
    """Return the desired number of replicas of a workload; the default is one."""
    replicas = spec_of(workload).get("replicas")
    return 1 if replicas is None else int(replicas)


# Original number of replicas


def original_replicas(workload: Mapping[str, Any], key: str) -> int | None:
    """Return the number of replicas before the attempt `key` scaled the workload."""
    count = _recorded_replicas(workload).get(key)
    return count if isinstance(count, int) else None


def original_replicas_annotation(workload: Mapping[str, Any], key: str) -> str:
    """Return the annotation with the current number of replicas added for the attempt `key`."""
    traces = {name: count for name, count in _recorded_replicas(workload).items() if name != key}
    traces[key] = replicas_of(workload)
    kept = list(traces.items())[-_MOST_TRACES:]
    return json.dumps(dict(kept), separators=(",", ":"))


def _recorded_replicas(workload: Mapping[str, Any]) -> dict[str, Any]:
    annotations = annotations_of(workload)
    try:
        traces = json.loads(annotations.get(ORIGINAL_REPLICAS, "{}"))
    except ValueError:
        return {}
    return traces if isinstance(traces, dict) else {}


# Rollout


def why_not_ready(cluster: Cluster, target: Target) -> str:
    """Return why a workload does not have the desired pods; empty if it has them."""
    # List the pods first, so that a cluster without pods fails before any wait begins.
    pods = cluster.list(PODS, namespace=target.namespace).items
    workload = target.read(cluster)
    if target.resource == STATEFUL_SETS:
        return _stateful_set(workload, pods)
    return _rolled_out(cluster, target, workload, pods)


def _stateful_set(workload: KubeObject, pods: Iterable[KubeObject]) -> str:
    replicas = replicas_of(workload)
    ready = _count(workload, "readyReplicas")
    if ready != replicas:
        return f"Specified {replicas} replicas and only {ready} are ready"
    running, _ = _pods_of(workload, pods)
    if len(running) != replicas:
        return f"Specified {replicas} replicas and only {len(running)} are running"
    return ""


class _Rollout(NamedTuple):
    """Objects between a workload and its pods: one per revision."""

    kind: str
    owners: GroupVersionResource
    owner_kind: str
    mark: str
    """Annotation of an owner with its revision."""


_ROLLOUTS: Final[Mapping[GroupVersionResource, _Rollout]] = {
    DEPLOYMENTS: _Rollout("Deployment", REPLICA_SETS, "ReplicaSet", _REVISION),
    DEPLOYMENT_CONFIGS: _Rollout(
        "DeploymentConfig", REPLICATION_CONTROLLERS, "ReplicationController", _LATEST_VERSION
    ),
}


def _rolled_out(
    cluster: Cluster, target: Target, workload: KubeObject, pods: Iterable[KubeObject]
) -> str:
    why = _why_not_rolled_out(workload)
    if why:
        return why
    is_deployment = target.resource == DEPLOYMENTS
    rollout = _ROLLOUTS[target.resource]
    owner = _owned(
        cluster.list(rollout.owners, namespace=target.namespace).items,
        workload,
        rollout.mark,
        _annotation(workload, _REVISION)
        if is_deployment
        else str(_count(workload, "latestVersion")),
    )
    if owner is None:
        return f"Could not find a {rollout.owner_kind} for {rollout.kind}"
    running, not_running = _pods_of(owner, pods)
    available = _count(workload, "availableReplicas")
    if len(running) != available:
        return f"{len(running)} out of {available} available pods are running"
    if is_deployment:
        total = len(running) + len(not_running)
        return f"{len(running)} out of {total} pods are running" if not_running else ""
    # Completed pods remain in some clusters, and can be ignored.
    left = [pod for pod in not_running if status_of(pod).get("phase") != "Succeeded"]
    return f"{len(left)} pods are not running" if left else ""


def _why_not_rolled_out(workload: KubeObject) -> str:
    replicas = replicas_of(workload)
    for key, state in (
        ("replicas", ""),
        ("updatedReplicas", "updated "),
        ("availableReplicas", "available "),
    ):
        count = _count(workload, key)
        if count != replicas:
            return f"Specified {replicas} replicas and only have {count} {state}replicas"
    generation = int(workload["metadata"].get("generation") or 0)
    observed = _count(workload, "observedGeneration")
    if observed < generation:
        return f"Need generation of at least {generation} and observed {observed}"
    return ""


def _count(workload: KubeObject, key: str) -> int:
    return int(status_of(workload).get(key) or 0)


def _annotation(obj: KubeObject, key: str) -> str:
    return str(annotations_of(obj).get(key, ""))


def _owned(
    objects: Iterable[KubeObject], owner: KubeObject, annotation: str, revision: str
) -> KubeObject | None:
    """Find the object of a workload's newest revision."""
    return next(
        (
            obj
            for obj in objects
            if _is_owned_by(obj, owner) and _annotation(obj, annotation) == revision
        ),
        None,
    )


def _pods_of(
    owner: KubeObject, pods: Iterable[KubeObject]
) -> tuple[list[KubeObject], list[KubeObject]]:
    """Return the pods of an owner: running ones, and all others."""
    own = [pod for pod in pods if _is_owned_by(pod, owner)]
    running = [pod for pod in own if status_of(pod).get("phase") == "Running"]
    return running, [pod for pod in own if pod not in running]


def _is_owned_by(obj: KubeObject, owner: KubeObject) -> bool:
    owners = owners_of(obj)
    return len(owners) == 1 and owners[0].get("uid") == owner["metadata"]["uid"]

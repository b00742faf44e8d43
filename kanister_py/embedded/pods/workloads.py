"""Pods of Deployments, ReplicaSets and StatefulSets, and the volumes of claims."""

from __future__ import annotations

import copy
import hashlib
import json
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from kanister_py.core.errors import AlreadyExists, ApiError, NotFound
from kanister_py.core.kube.parts import (
    annotations_of,
    controller_of,
    controller_reference,
    is_true,
    labels_of,
    metadata_of,
    spec_of,
    status_of,
)
from kanister_py.core.kube.resources import (
    DEPLOYMENTS,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    GroupVersionResource,
)
from kanister_py.embedded.pods.following import follow_objects
from kanister_py.ports.clock import Clock
from kanister_py.ports.cluster import Cluster, KubeObject

REVISION: Final = "deployment.kubernetes.io/revision"
_HASH_LABEL: Final = "pod-template-hash"
_REVISION_LABEL: Final = "controller-revision-hash"
_RETRY_SECONDS: Final = 0.2
_KINDS: Final[Mapping[str, GroupVersionResource]] = {
    "Deployment": DEPLOYMENTS,
    "ReplicaSet": REPLICA_SETS,
    "StatefulSet": STATEFUL_SETS,
}
_Key = tuple[str, str, str]


class Workloads:
    """Controller of workloads: makes and removes their pods until closed, as a cluster's would.

    Level-based: each look at a workload starts from what is there. Claims are
    bound as soon as they are seen.
    """

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._changed = threading.Condition()
        self._queue: deque[_Key] = deque()
        self._is_closed = False
        self._reconcilers: Mapping[str, Callable[[KubeObject], None]] = {
            "Deployment": self._deployment,
            "ReplicaSet": self._replica_set,
            "StatefulSet": self._stateful_set,
        }
        self._caches = [
            follow_objects(cluster, resource, self._noticer(kind), self._noticer(kind), clock)
            for kind, resource in _KINDS.items()
        ]
        self._caches += [
            follow_objects(cluster, PODS, self._notice_owner, self._notice_owner, clock),
            follow_objects(cluster, PERSISTENT_VOLUME_CLAIMS, self._bind, self._unbind, clock),
        ]
        self._thread = threading.Thread(target=self._work, name="workloads", daemon=True)

    def start(self) -> None:
        for cache in self._caches:
            cache.start()
        self._thread.start()

    def make_replica_sets(self) -> None:
        """Give each Deployment the ReplicaSet that it would have, where nobody runs pods.

        What reads a Deployment looks for its pods through that.
        """
        for deployment in self._cluster.list(DEPLOYMENTS):
            if not self._owned(REPLICA_SETS, deployment):
                template_hash = _hash(deployment["spec"]["template"])
                self._cluster.create(_new_replica_set(deployment, template_hash, 1))
                self._annotate(DEPLOYMENTS, deployment, "1")

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        for cache in self._caches:
            cache.close(waits=True)
        if self._thread.is_alive():
            self._thread.join()

    # Which workload to look at

    def _noticer(self, kind: str) -> Callable[[KubeObject], None]:
        def notice(obj: KubeObject) -> None:
            metadata = obj["metadata"]
            self._add((kind, metadata["namespace"], metadata["name"]))
            self._notice_owner(obj)

        return notice

    def _notice_owner(self, obj: KubeObject) -> None:
        owner = controller_of(obj)
        if owner is not None and owner["kind"] in _KINDS:
            self._add((owner["kind"], obj["metadata"]["namespace"], owner["name"]))

    def _add(self, key: _Key) -> None:
        with self._changed:
            if key not in self._queue:
                self._queue.append(key)
                self._changed.notify_all()

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._queue and not self._is_closed:
                    self._clock.wait(self._changed)
                if self._is_closed:
                    return
                key = self._queue.popleft()
            try:
                self._reconcile(key)
            except ApiError:
                # Another writer came at the same time, or the cluster is away: look again.
                self._add(key)
                with self._changed:
                    if not self._is_closed:
                        self._clock.wait(self._changed, _RETRY_SECONDS)

    def _reconcile(self, key: _Key) -> None:
        kind, namespace, name = key
        try:
            obj = self._cluster.get(_KINDS[kind], name, namespace=namespace)
        except NotFound:
            return
        # What goes takes its pods with it through their owner references.
        if not obj["metadata"].get("deletionTimestamp"):
            self._reconcilers[kind](obj)

    # Deployments

    def _deployment(self, deployment: KubeObject) -> None:
        spec = deployment["spec"]
        wanted = _replicas(spec)
        template_hash = _hash(spec["template"])
        sets = self._owned(REPLICA_SETS, deployment)
        current = next((one for one in sets if _label(one, _HASH_LABEL) == template_hash), None)
        newest = max((_revision(one) for one in sets), default=0)
        if current is None:
            current = self._cluster.create(_new_replica_set(deployment, template_hash, newest + 1))
            sets.append(current)
        elif _revision(current) < newest:
            self._annotate(REPLICA_SETS, current, str(newest + 1))
        revision = _revision(current)
        if annotations_of(deployment).get(REVISION) != str(revision):
            self._annotate(DEPLOYMENTS, deployment, str(revision))
        old = [one for one in sets if one is not current]
        for one in old:
            self._set_replicas(one, 0)
        # Pods here share one network: the new ones start when the old have let go of their ports.
        if not any(status_of(one).get("replicas") for one in old):
            self._set_replicas(current, 0 if spec.get("paused") and not wanted else wanted)
        self._write_status(DEPLOYMENTS, deployment, _deployment_status(deployment, sets, current))

    def _annotate(self, resource: GroupVersionResource, obj: KubeObject, revision: str) -> None:
        self._patch(resource, obj, {"metadata": {"annotations": {REVISION: revision}}})
        obj["metadata"].setdefault("annotations", {})[REVISION] = revision

    def _set_replicas(self, replica_set: KubeObject, replicas: int) -> None:
        if _replicas(replica_set["spec"]) != replicas:
            self._patch(REPLICA_SETS, replica_set, {"spec": {"replicas": replicas}})

    def _replica_set(self, replica_set: KubeObject) -> None:
        pods = self._keep_count(replica_set, _replicas(replica_set["spec"]))
        self._write_status(
            REPLICA_SETS, replica_set, _counts(pods) | {"fullyLabeledReplicas": len(pods)}
        )

    def _keep_count(self, owner: KubeObject, wanted: int) -> list[KubeObject]:
        """Make or remove pods until there are as many as wanted; give those that are there."""
        pods = [pod for pod in self._owned(PODS, owner) if not _is_over(pod)]
        for _ in range(wanted - len(pods)):
            pods.append(self._cluster.create(_new_pod(owner)))  # noqa: PERF401 - each one is a write
        # Those that are not ready go first: they serve nobody yet.
        pods.sort(key=lambda pod: (not _is_ready(pod), pod["metadata"]["name"]))
        for pod in pods[: max(0, len(pods) - wanted)]:
            self._delete_pod(pod)
        # Those that are about to go count until they are gone: they still hold their ports.
        return pods

    # StatefulSets

    def _stateful_set(self, stateful_set: KubeObject) -> None:
        spec, metadata = stateful_set["spec"], stateful_set["metadata"]
        wanted = _replicas(spec)
        revision = f"{metadata['name']}-{_hash(spec['template'])}"
        is_parallel = spec.get("podManagementPolicy") == "Parallel"
        pods = {pod["metadata"]["name"]: pod for pod in self._owned(PODS, stateful_set)}
        names = [f"{metadata['name']}-{index}" for index in range(wanted)]
        may_go_on = True
        for index, name in enumerate(names):
            if not may_go_on:
                break
            pod = pods.get(name)
            if pod is None:
                self._claims_of(stateful_set, index)
                pods[name] = self._cluster.create(_stateful_pod(stateful_set, index, revision))
                may_go_on = is_parallel
            elif _is_over(pod):
                self._delete_pod(pod)
                may_go_on = is_parallel
            else:
                may_go_on = is_parallel or _is_ready(pod)
        surplus = sorted(set(pods) - set(names), key=_ordinal, reverse=True)
        for name in surplus if is_parallel else surplus[:1]:
            # In order, and one at a time: the next goes when this one is gone.
            self._delete_pod(pods[name])
        if not surplus and may_go_on:
            self._replace_one_outdated([pods[name] for name in names], revision)
        there = [pods[name] for name in names if name in pods]
        updated = [pod for pod in there if _label(pod, _REVISION_LABEL) == revision]
        status = _counts([pods[name] for name in pods if not _is_over(pods[name])]) | {
            "currentReplicas": len(updated),
            "updatedReplicas": len(updated),
            "currentRevision": revision,
            "updateRevision": revision,
            "collisionCount": 0,
        }
        self._write_status(STATEFUL_SETS, stateful_set, status)

    def _replace_one_outdated(self, pods: Sequence[KubeObject], revision: str) -> None:
        for pod in reversed(pods):
            if _label(pod, _REVISION_LABEL) != revision:
                self._delete_pod(pod)
                return

    def _claims_of(self, stateful_set: KubeObject, ordinal: int) -> None:
        metadata = stateful_set["metadata"]
        for template in stateful_set["spec"].get("volumeClaimTemplates") or ():
            claim = {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {
                    "name": f"{template['metadata']['name']}-{metadata['name']}-{ordinal}",
                    "namespace": metadata["namespace"],
                    "labels": {
                        **(stateful_set["spec"]["selector"].get("matchLabels") or {}),
                        **labels_of(template),
                    },
                    "annotations": annotations_of(template),
                },
                "spec": copy.deepcopy(spec_of(template)),
            }
            # The claim of an earlier pod of this ordinal is the same claim: its data is there.
            with suppress(AlreadyExists):
                self._cluster.create(claim)

    # Claims

    def _bind(self, claim: KubeObject) -> None:
        metadata, spec = claim["metadata"], claim["spec"]
        is_bound = status_of(claim).get("phase") == "Bound"
        if is_bound or metadata.get("deletionTimestamp"):
            return
        name = spec.get("volumeName") or f"pvc-{metadata['uid']}"
        modes = spec.get("accessModes") or ["ReadWriteOnce"]
        capacity = {
            "storage": ((spec.get("resources") or {}).get("requests") or {}).get("storage", "1Gi")
        }
        with suppress(AlreadyExists):
            self._cluster.create(_new_volume(name, claim, modes, capacity))
        if not spec.get("volumeName"):
            bound = {"metadata": {"uid": metadata["uid"]}, "spec": {"volumeName": name}}
            self._patch(PERSISTENT_VOLUME_CLAIMS, claim, bound)
        status = {"phase": "Bound", "accessModes": modes, "capacity": capacity}
        self._patch(PERSISTENT_VOLUME_CLAIMS, claim, {"status": status}, "status")

    def _unbind(self, claim: KubeObject) -> None:
        with suppress(NotFound):
            self._cluster.delete(PERSISTENT_VOLUMES, f"pvc-{claim['metadata']['uid']}")

    # Reading and writing

    def _owned(self, resource: GroupVersionResource, owner: KubeObject) -> list[KubeObject]:
        uid = owner["metadata"]["uid"]
        listed = self._cluster.list(resource, namespace=owner["metadata"]["namespace"])
        return [obj for obj in listed if (controller_of(obj) or {}).get("uid") == uid]

    def _delete_pod(self, pod: KubeObject) -> None:
        metadata = pod["metadata"]
        if metadata.get("deletionTimestamp"):
            return
        with suppress(NotFound):
            self._cluster.delete(
                PODS, metadata["name"], namespace=metadata["namespace"], uid=metadata["uid"]
            )

    def _write_status(
        self, resource: GroupVersionResource, obj: KubeObject, status: dict[str, Any]
    ) -> None:
        status["observedGeneration"] = obj["metadata"].get("generation", 1)
        old = status_of(obj)
        if {key: old.get(key) for key in status} != status:
            self._patch(resource, obj, {"status": status}, "status")

    def _patch(
        self,
        resource: GroupVersionResource,
        obj: KubeObject,
        patch: Mapping[str, Any],
        subresource: str = "",
    ) -> None:
        metadata = obj["metadata"]
        self._cluster.patch(
            resource,
            metadata["name"],
            patch,
            namespace=metadata["namespace"],
            subresource=subresource,
        )


def _new_replica_set(deployment: KubeObject, template_hash: str, revision: int) -> KubeObject:
    metadata, spec = deployment["metadata"], deployment["spec"]
    template = copy.deepcopy(spec["template"])
    labels = template.setdefault("metadata", {}).setdefault("labels", {})
    labels[_HASH_LABEL] = template_hash
    selector = copy.deepcopy(spec["selector"])
    selector.setdefault("matchLabels", {})[_HASH_LABEL] = template_hash
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{metadata['name']}-{template_hash}",
            "namespace": metadata["namespace"],
            "labels": dict(labels),
            "annotations": {REVISION: str(revision)},
            "ownerReferences": [controller_reference(deployment)],
        },
        # It begins empty, and grows once the pods of its forerunner are gone.
        "spec": {"replicas": 0, "selector": selector, "template": template},
    }


def _new_pod(owner: KubeObject) -> KubeObject:
    metadata, template = owner["metadata"], copy.deepcopy(owner["spec"]["template"])
    of_template = metadata_of(template)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": f"{metadata['name']}-",
            "namespace": metadata["namespace"],
            "labels": dict(of_template.get("labels") or {}),
            "annotations": dict(of_template.get("annotations") or {}),
            "ownerReferences": [controller_reference(owner)],
        },
        "spec": template["spec"],
    }


def _stateful_pod(stateful_set: KubeObject, ordinal: int, revision: str) -> KubeObject:
    pod = _new_pod(stateful_set)
    metadata, spec = pod["metadata"], pod["spec"]
    set_name = stateful_set["metadata"]["name"]
    del metadata["generateName"]
    metadata["name"] = f"{set_name}-{ordinal}"
    metadata["labels"] |= {
        "statefulset.kubernetes.io/pod-name": metadata["name"],
        "apps.kubernetes.io/pod-index": str(ordinal),
        _REVISION_LABEL: revision,
    }
    spec["hostname"] = metadata["name"]
    spec["subdomain"] = stateful_set["spec"].get("serviceName", "")
    templates = stateful_set["spec"].get("volumeClaimTemplates") or ()
    names = {template["metadata"]["name"] for template in templates}
    volumes = [one for one in spec.get("volumes") or () if one["name"] not in names]
    volumes += [
        {"name": name, "persistentVolumeClaim": {"claimName": f"{name}-{set_name}-{ordinal}"}}
        for name in sorted(names)
    ]
    spec["volumes"] = volumes
    return pod


def _new_volume(
    name: str, claim: KubeObject, modes: Sequence[str], capacity: Mapping[str, str]
) -> KubeObject:
    metadata, spec = claim["metadata"], claim["spec"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "accessModes": list(modes),
            "capacity": dict(capacity),
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "name": metadata["name"],
                "namespace": metadata["namespace"],
                "uid": metadata["uid"],
            },
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": spec.get("storageClassName") or "",
            "volumeMode": spec.get("volumeMode") or "Filesystem",
            "local": {"path": f"/{name}"},
        },
    }


def _deployment_status(
    deployment: KubeObject, sets: Sequence[KubeObject], current: KubeObject
) -> dict[str, Any]:
    wanted = _replicas(deployment["spec"])
    counts = {
        name: sum(status_of(one).get(name, 0) for one in sets)
        for name in ("replicas", "readyReplicas", "availableReplicas")
    }
    is_available = counts["availableReplicas"] >= wanted
    return counts | {
        "updatedReplicas": status_of(current).get("replicas", 0),
        "unavailableReplicas": max(0, wanted - counts["availableReplicas"]),
        "conditions": [
            {
                "type": "Available",
                "status": "True" if is_available else "False",
                "reason": f"MinimumReplicas{'Available' if is_available else 'Unavailable'}",
            },
            {
                "type": "Progressing",
                "status": "True",
                "reason": "NewReplicaSetAvailable" if is_available else "ReplicaSetUpdated",
            },
        ],
    }


def _counts(pods: Sequence[KubeObject]) -> dict[str, Any]:
    ready = sum(map(_is_ready, pods))
    return {"replicas": len(pods), "readyReplicas": ready, "availableReplicas": ready}


def _replicas(spec: Mapping[str, Any]) -> int:
    replicas = spec.get("replicas")
    return 1 if replicas is None else int(replicas)


def _revision(replica_set: KubeObject) -> int:
    text = annotations_of(replica_set).get(REVISION, "0")
    return int(text) if text.isdigit() else 0


def _label(obj: KubeObject, name: str) -> str:
    return str(labels_of(obj).get(name, ""))


def _ordinal(name: str) -> int:
    ordinal = name.rpartition("-")[2]
    return int(ordinal) if ordinal.isdigit() else -1


def _phase(pod: KubeObject) -> str:
    return str(status_of(pod).get("phase", ""))


def _is_over(pod: KubeObject) -> bool:
    return _phase(pod) in {"Succeeded", "Failed"}


def _is_ready(pod: KubeObject) -> bool:
    return not pod["metadata"].get("deletionTimestamp") and is_true(pod, "Ready")


def _hash(template: Mapping[str, Any]) -> str:
    text = json.dumps(template, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:10]

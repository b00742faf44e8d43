"""Controllers of Deployments, ReplicaSets, StatefulSets and PersistentVolumeClaims."""

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
    """Workload controllers, which create and delete pods until closed.

    Level-based: every reconciliation starts from the current state. Claims are bound immediately.
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
        """Create the ReplicaSets of Deployments if no pods run.

        Code that reads a Deployment finds its pods through its ReplicaSet.
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

    # Work queue

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
                # A conflict, or the cluster is unavailable: retry.
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
        # Garbage collection deletes the pods of a deleted workload.
        if not obj["metadata"].get("deletionTimestamp"):
            self._reconcilers[kind](obj)

    # Deployments

    def _deployment(self, deployment: KubeObject) -> None:
        spec = deployment["spec"]
        replicas = _replicas(spec)
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
        # Pods share one network: new ones start after the old ones have released their ports.
        if not any(status_of(one).get("replicas") for one in old):
            self._set_replicas(current, 0 if spec.get("paused") and not replicas else replicas)
        self._write_status(DEPLOYMENTS, deployment, _deployment_status(deployment, sets, current))

    def _annotate(self, resource: GroupVersionResource, obj: KubeObject, revision: str) -> None:
        self._patch(resource, obj, {"metadata": {"annotations": {REVISION: revision}}})
        obj["metadata"].setdefault("annotations", {})[REVISION] = revision

    def _set_replicas(self, replica_set: KubeObject, replicas: int) -> None:
        if _replicas(replica_set["spec"]) != replicas:
            self._patch(REPLICA_SETS, replica_set, {"spec": {"replicas": replicas}})

    def _replica_set(self, replica_set: KubeObject) -> None:
        pods = self._scale_pods(replica_set, _replicas(replica_set["spec"]))
        self._write_status(
            REPLICA_SETS, replica_set, _counts(pods) | {"fullyLabeledReplicas": len(pods)}
        )

    def _scale_pods(self, owner: KubeObject, replicas: int) -> list[KubeObject]:
        """Create or delete pods until their number is right, and return them."""
        pods = [pod for pod in self._owned(PODS, owner) if not _is_over(pod)]
        for _ in range(replicas - len(pods)):
            pods.append(self._cluster.create(_new_pod(owner)))  # noqa: PERF401 - every call is a request
        # Delete pods that are not ready first.
        pods.sort(key=lambda pod: (not _is_ready(pod), pod["metadata"]["name"]))
        for pod in pods[: max(0, len(pods) - replicas)]:
            self._delete_pod(pod)
        # Terminating pods count, because they still hold their ports.
        return pods

    # StatefulSets

    def _stateful_set(self, stateful_set: KubeObject) -> None:
        spec, metadata = stateful_set["spec"], stateful_set["metadata"]
        replicas = _replicas(spec)
        revision = f"{metadata['name']}-{_hash(spec['template'])}"
        is_parallel = spec.get("podManagementPolicy") == "Parallel"
        pods = {pod["metadata"]["name"]: pod for pod in self._owned(PODS, stateful_set)}
        names = [f"{metadata['name']}-{index}" for index in range(replicas)]
        may_continue = True
        for index, name in enumerate(names):
            if not may_continue:
                break
            pod = pods.get(name)
            if pod is None:
                self._claims_of(stateful_set, index)
                pods[name] = self._cluster.create(_stateful_pod(stateful_set, index, revision))
                may_continue = is_parallel
            elif _is_over(pod):
                self._delete_pod(pod)
                may_continue = is_parallel
            else:
                may_continue = is_parallel or _is_ready(pod)
        surplus = sorted(set(pods) - set(names), key=_ordinal, reverse=True)
        for name in surplus if is_parallel else surplus[:1]:
            # One at a time, in reverse order: the next is deleted when this one is gone.
            self._delete_pod(pods[name])
        if not surplus and may_continue:
            self._replace_one_outdated([pods[name] for name in names], revision)
        existing = [pods[name] for name in names if name in pods]
        updated = [pod for pod in existing if _label(pod, _REVISION_LABEL) == revision]
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
            # Claims of earlier pods with this ordinal are reused with their data.
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
        # It starts with 0 replicas, and grows when the pods of its predecessor are gone.
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
    replicas = _replicas(deployment["spec"])
    counts = {
        name: sum(status_of(one).get(name, 0) for one in sets)
        for name in ("replicas", "readyReplicas", "availableReplicas")
    }
    is_available = counts["availableReplicas"] >= replicas
    return counts | {
        "updatedReplicas": status_of(current).get("replicas", 0),
        "unavailableReplicas": max(0, replicas - counts["availableReplicas"]),
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

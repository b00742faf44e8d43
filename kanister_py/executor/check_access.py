"""Access check: rights that a Blueprint needs and a cluster does not give."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kanister_py.core.kube.access import Access
from kanister_py.core.kube.parts import mapping_of, status_of
from kanister_py.ports.cluster import Cluster


def missing_accesses(cluster: Cluster, accesses: Iterable[Access], namespace: str) -> list[Access]:
    """Ask the cluster about every verb, and give back what it would refuse to us.

    `namespace` is the one of the run, which an access without one means.
    """
    missing = []
    for access in accesses:
        refused = tuple(
            verb for verb in access.verbs if not _is_allowed(cluster, access, verb, namespace)
        )
        if refused:
            missing.append(access._replace(verbs=refused))
    return missing


def own_user(cluster: Cluster) -> str:
    """Ask an API server as whom we write to it."""
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview", "metadata": {}}
    answer = cluster.create(asked)
    return str(mapping_of(status_of(answer).get("userInfo")).get("username") or "")


def _is_allowed(cluster: Cluster, access: Access, verb: str, namespace: str) -> bool:
    resource, _, subresource = access.resource.partition("/")
    attributes: dict[str, Any] = {
        "verb": verb,
        "group": access.group,
        "resource": resource,
        "subresource": subresource,
        "namespace": "" if access.is_cluster_wide else access.namespace or namespace,
        "name": access.name,
    }
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
    answer = cluster.create({**review, "spec": {"resourceAttributes": attributes}})
    return bool(status_of(answer).get("allowed"))

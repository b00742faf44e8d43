"""Access check: rights that a Blueprint needs and the cluster does not grant."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kanister_py.core.kube.access import Access
from kanister_py.core.kube.parts import mapping_of, status_of
from kanister_py.ports.cluster import Cluster


def missing_accesses(cluster: Cluster, accesses: Iterable[Access], namespace: str) -> list[Access]:
    """Return the accesses that the cluster would forbid. Sends one request per verb.

    `namespace` is the namespace of the run, used for accesses without one.
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
    """Return the name of the user that the API server sees in our requests."""
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview", "metadata": {}}
    answer = cluster.create(review)
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

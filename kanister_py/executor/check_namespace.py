"""Detection of namespaces that do not exist, with similar names as suggestions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kanister_py.core.errors import ApiError, NotFound, UsageError, did_you_mean
from kanister_py.core.kube.resources import NAMESPACES
from kanister_py.core.yaml.documents import nearest
from kanister_py.ports.cluster import Cluster


class NamespaceUnknown(UsageError, reason="NamespaceNotFound"):
    """The namespace does not exist on the cluster."""

    def __init__(self, name: str, near: Sequence[str] = ()) -> None:
        suggestion = did_you_mean(near)
        super().__init__(f"Namespace {name} does not exist{suggestion}")
        self.name = name
        self.near = tuple(near)


_MOST: Final = 500


def check_namespace(cluster: Cluster, name: str) -> None:
    """Raise `NamespaceUnknown`, with similar names, if a namespace does not exist.

    Nothing is raised if the namespace cannot be read: users with rights in a namespace often have
    no right to read the namespace itself.
    """
    try:
        cluster.get(NAMESPACES, name)
    except NotFound:
        raise NamespaceUnknown(name, _similar_names(cluster, name)) from None
    except ApiError:
        return


def _similar_names(cluster: Cluster, name: str) -> tuple[str, ...]:
    try:
        namespaces = cluster.list(NAMESPACES, limit=_MOST)
    except ApiError:
        return ()
    return nearest(name, [namespace["metadata"]["name"] for namespace in namespaces])

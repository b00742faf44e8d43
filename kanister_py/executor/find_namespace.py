"""Missing namespaces, as distinct from empty ones, and the names near theirs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kanister_py.core.errors import ApiError, NotFound, UsageError, did_you_mean
from kanister_py.core.kube.resources import NAMESPACES
from kanister_py.core.yaml.documents import nearest
from kanister_py.ports.cluster import Cluster


class NamespaceUnknown(UsageError, reason="NamespaceNotFound"):
    """A namespace that the cluster does not have."""

    def __init__(self, name: str, near: Sequence[str] = ()) -> None:
        meant = did_you_mean(near)
        super().__init__(f"There is no namespace {name}{meant}")
        self.name = name
        self.near = tuple(near)


_MOST: Final = 500


def check_namespace(cluster: Cluster, name: str) -> None:
    """Raise `NamespaceUnknown`, with names that are near, for one that is not there.

    Without the right to look there is no answer, and no error either: a right in a namespace is
    none to see it.
    """
    try:
        cluster.get(NAMESPACES, name)
    except NotFound:
        raise NamespaceUnknown(name, _near(cluster, name)) from None
    except ApiError:
        return


def _near(cluster: Cluster, name: str) -> tuple[str, ...]:
    try:
        found = cluster.list(NAMESPACES, limit=_MOST)
    except ApiError:
        return ()
    return nearest(name, [each["metadata"]["name"] for each in found])

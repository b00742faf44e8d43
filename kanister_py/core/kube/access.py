"""Permissions that a run needs in a cluster: verbs, resources and namespaces."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Access(NamedTuple):
    """Verbs on one resource or subresource, such as `pods/log`.

    `namespace` and `name` may be unrendered templates. An empty namespace is that of the
    run, an empty name means all objects. `is_cluster_wide` is set for cluster-scoped resources.
    """

    group: str
    resource: str
    verbs: tuple[str, ...]
    namespace: str = ""
    name: str = ""
    is_cluster_wide: bool = False

    def __str__(self) -> str:
        where = self.resource if not self.group else f"{self.resource}.{self.group}"
        named = f" {self.name}" if self.name else ""
        inside = f" in {self.namespace}" if self.namespace else ""
        return f"{', '.join(self.verbs)} {where}{named}{inside}"


def merged(accesses: Iterable[Access]) -> list[Access]:
    """Merge permissions for the same objects, in a fixed order and without repeated verbs.

    Verbs on a named object are left out if they are allowed on all objects anyway.
    """
    verbs: dict[tuple[str, str, str, bool, str], set[str]] = {}
    for group, resource, more, namespace, name, is_cluster_wide in accesses:
        key = (group, resource, namespace, is_cluster_wide, name)
        verbs.setdefault(key, set()).update(more)
    result = []
    for (group, resource, namespace, is_cluster_wide, name), allowed in sorted(verbs.items()):
        left = allowed
        if name:
            left = allowed - verbs.get((group, resource, namespace, is_cluster_wide, ""), set())
        if left:
            ordered = tuple(sorted(left, key=_rank))
            result.append(Access(group, resource, ordered, namespace, name, is_cluster_wide))
    return result


_VERBS = ("get", "list", "watch", "create", "update", "patch", "delete")


def _rank(verb: str) -> tuple[int, str]:
    return (_VERBS.index(verb) if verb in _VERBS else len(_VERBS), verb)

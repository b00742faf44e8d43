"""Accesses to a cluster: verbs, the objects they act on, and where."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Access(NamedTuple):
    """Verbs on one resource. `resource` may name a part of it: `pods/log`.

    A `namespace` or `name` may still be a template; an empty namespace is the one of
    the run, an empty name any object. `is_cluster_wide`: the resource has no namespaces.
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
    """Bring accesses to the same objects together, in a fixed order, each verb once.

    What names an object goes into what names none, where that allows the verb already.
    """
    verbs: dict[tuple[str, str, str, bool, str], set[str]] = {}
    for group, resource, more, namespace, name, is_cluster_wide in accesses:
        key = (group, resource, namespace, is_cluster_wide, name)
        verbs.setdefault(key, set()).update(more)
    result = []
    for (group, resource, namespace, is_cluster_wide, name), found in sorted(verbs.items()):
        left = found
        if name:
            left = found - verbs.get((group, resource, namespace, is_cluster_wide, ""), set())
        if left:
            ordered = tuple(sorted(left, key=_rank))
            result.append(Access(group, resource, ordered, namespace, name, is_cluster_wide))
    return result


_VERBS = ("get", "list", "watch", "create", "update", "patch", "delete")


def _rank(verb: str) -> tuple[int, str]:
    return (_VERBS.index(verb) if verb in _VERBS else len(_VERBS), verb)

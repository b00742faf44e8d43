"""Following the objects of a kind, for the node and the controllers of a laptop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kanister_py.core.kube.resources import GroupVersionResource
from kanister_py.core.retries import NO_LIMIT, RetryRule
from kanister_py.executor.reflector import Pacing
from kanister_py.executor.watch_cache import ObjectKey, WatchCache
from kanister_py.ports.clock import Clock
from kanister_py.ports.cluster import Cluster, KubeObject

_PACING: Final = Pacing(
    watch_seconds=None, retry=RetryRule(NO_LIMIT, 1.0, 1.0, 1.0), refused_seconds=1.0
)


def follow_objects(
    cluster: Cluster,
    resource: GroupVersionResource,
    on_present: Callable[[KubeObject], None],
    on_gone: Callable[[KubeObject], None],
    clock: Clock,
) -> WatchCache[KubeObject]:
    """Return a watch cache, not yet started, that calls back for every change of an object.

    A callback that raises an error of the cluster is called again after a pause. After a gap in
    the cluster's history `on_present` is called again for every object.
    """

    def on_change(_key: ObjectKey, old: KubeObject | None, new: KubeObject | None) -> None:
        is_replaced = (
            old is not None and new is not None and old["metadata"]["uid"] != new["metadata"]["uid"]
        )
        if old is not None and (new is None or is_replaced):
            on_gone(old)
        if new is not None:
            on_present(new)

    return WatchCache(cluster, clock, resource, lambda obj: obj, on_change, pacing=_PACING)

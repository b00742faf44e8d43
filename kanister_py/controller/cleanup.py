"""Cleanup before a controller is uninstalled: ends its runs and releases its objects.

Finalizers without a controller to remove them block the deletion of namespaces. Runs are
therefore cancelled while the controller still exists to end them. Then its Deployments are
scaled to zero, its finalizers are removed, and its Leases are deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from threading import Condition
from typing import Final, NamedTuple

from kanister_py.controller.actionsets.status import FINALIZER
from kanister_py.controller.machine.lease import (
    COMPOSING_LEASE_NAME,
    LEASE_NAME,
    LeaseTerms,
    ObservedLease,
    lease_name,
)
from kanister_py.core.actionsets.partitions import Scope, partition_of
from kanister_py.core.actionsets.stored_status import read_status_data
from kanister_py.core.errors import Conflict, NotFound
from kanister_py.core.kube.parts import name_of, namespace_of, spec_of
from kanister_py.core.kube.resources import ACTION_SETS, DEPLOYMENTS, LEASES
from kanister_py.executor.watch_cache import key_of
from kanister_py.ports.clock import Clock, pause
from kanister_py.ports.cluster import Cluster, KubeObject, PatchType, find

_CHECK_SECONDS: Final = 1.0
_PAGE: Final = 250
_ENDS: Final = ("complete", "failed")


class CleanupResult(NamedTuple):
    """Names of the ActionSets, Deployments and Leases that were changed."""

    cancelled: tuple[str, ...] = ()
    unfinished: tuple[str, ...] = ()
    """Runs that did not end in time; another controller can resume them."""
    scaled: tuple[str, ...] = ()
    released: tuple[str, ...] = ()
    leases: tuple[str, ...] = ()


class Cleanup:
    """Cleanup after the controller of a scope, whose Leases are in the namespace `home`."""

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        scope: Scope,
        home: str,
        *,
        deployments: Sequence[str] = (),
        timeout_seconds: float = 60.0,
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._scope = scope
        self._home = home
        self._deployments = deployments
        self._timeout_seconds = timeout_seconds
        term = LeaseTerms().term_seconds
        self._observed = {name: ObservedLease(clock, term) for name in self._lease_names()}

    def run(self) -> CleanupResult:
        """Stop the controller and release its objects. Safe to repeat."""
        cancelled: dict[str, None] = {}

        def have_ended() -> bool:
            unfinished = [obj for obj in self._actionsets() if not _has_ended(obj)]
            for obj in unfinished:
                self._cancel(obj)
                cancelled[str(key_of(obj))] = None
            return not unfinished

        self._wait(lambda: have_ended() or not self._is_led())
        scaled = tuple(name for name in self._deployments if self._scale_down(name))
        self._wait(lambda: not self._is_led())
        unfinished = tuple(str(key_of(obj)) for obj in self._actionsets() if not _has_ended(obj))
        released = tuple(str(key_of(obj)) for obj in self._actionsets() if self._release(obj))
        return CleanupResult(tuple(cancelled), unfinished, scaled, released, self._delete_leases())

    def _wait(self, is_done: Callable[[], bool]) -> None:
        changed = Condition()
        deadline = self._clock.monotonic() + self._timeout_seconds
        while not is_done() and self._clock.monotonic() < deadline:
            pause(self._clock, changed, _CHECK_SECONDS, lambda: False)

    # ActionSets

    def _actionsets(self) -> Iterator[KubeObject]:
        for namespace in self._scope.namespaces or ("",):
            token = ""
            while True:
                try:
                    page = self._cluster.list(
                        ACTION_SETS, namespace=namespace, limit=_PAGE, continue_token=token
                    )
                except NotFound:
                    # The definition is gone, and all objects with it.
                    return
                for obj in page.items:
                    if partition_of(obj) == self._scope.partition:
                        yield obj
                token = page.continue_token
                if not token:
                    break

    def _cancel(self, obj: KubeObject) -> None:
        if spec_of(obj).get("cancel") is True:
            return
        patch = {"spec": {"cancel": True}}
        try:
            self._cluster.patch(ACTION_SETS, name_of(obj), patch, namespace=namespace_of(obj))
        except NotFound:
            return

    def _release(self, obj: KubeObject) -> bool:
        """Remove our finalizer; return whether the object had it."""
        while FINALIZER in (obj["metadata"].get("finalizers") or ()):
            kept = [
                finalizer for finalizer in obj["metadata"]["finalizers"] if finalizer != FINALIZER
            ]
            version = obj["metadata"]["resourceVersion"]
            operations = [
                {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
                {"op": "replace", "path": "/metadata/finalizers", "value": kept},
            ]
            name, namespace = name_of(obj), namespace_of(obj)
            try:
                self._cluster.patch(
                    ACTION_SETS, name, operations, namespace=namespace, patch_type=PatchType.JSON
                )
            except NotFound:
                return False
            except Conflict:
                current = find(self._cluster, ACTION_SETS, name, namespace)
                if current is None:
                    return False
                obj = current
            else:
                return True
        return False

    # The controller itself

    def _lease_names(self) -> tuple[str, ...]:
        bases = (LEASE_NAME, COMPOSING_LEASE_NAME)
        return tuple(lease_name(base, self._scope.partition) for base in bases)

    def _is_led(self) -> bool:
        """Return whether a Lease of the controller is held, and was renewed within its term."""
        return any(self._holder_of(name) for name in self._lease_names())

    def _holder_of(self, name: str) -> str:
        lease = find(self._cluster, LEASES, name, self._home)
        return "" if lease is None else self._observed[name].update(spec_of(lease))

    def _scale_down(self, name: str) -> bool:
        try:
            self._cluster.scale(DEPLOYMENTS, name, 0, namespace=self._home)
        except NotFound:
            return False
        return True

    def _delete_leases(self) -> tuple[str, ...]:
        """Delete the Leases that are free or expired."""
        deleted = []
        for name in self._lease_names():
            lease = find(self._cluster, LEASES, name, self._home)
            if lease is None or self._observed[name].update(spec_of(lease)):
                continue
            try:
                self._cluster.delete(
                    LEASES, name, namespace=self._home, uid=lease["metadata"]["uid"]
                )
            except (NotFound, Conflict):
                continue
            deleted.append(name)
        return tuple(deleted)


def _has_ended(obj: KubeObject) -> bool:
    return (read_status_data(obj) or {}).get("state") in _ENDS

"""Partitions: a controller refuses to act on objects that another live controller acts on.

Each partition has its own Lease, whose annotations describe the objects that its holder acts on.
A controller that has acquired its Lease checks the other Leases before it acts. It observes them
for at most one term: a holder that renews its Lease in that time is live. Clocks are not compared.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Condition
from typing import Final

from kanister_py.controller.machine.lease import LEASE_LABELS, LeaseTerms, ObservedLease
from kanister_py.controller.machine.neighbours import another_controller
from kanister_py.core.actionsets.partitions import Scope, scope_of_lease
from kanister_py.core.errors import ApiError, Forbidden, TransientError
from kanister_py.core.kube.parts import name_of, namespace_of, spec_of
from kanister_py.core.kube.resources import LEASES
from kanister_py.ports.clock import Clock
from kanister_py.ports.cluster import Cluster, KubeObject

_LOG: Final = logging.getLogger(__name__)

_CHECK_SECONDS: Final = 1.0
_SELECTOR: Final = ",".join(f"{key}={value}" for key, value in sorted(LEASE_LABELS.items()))


class OverlapCheck:
    """Check that no live controller acts on the same objects as this one.

    Leases named in `own_leases` and in the namespace `home` belong to its own replicas.
    """

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        scope: Scope,
        home: str,
        own_leases: tuple[str, ...],
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._scope = scope
        self._home = home
        self._own_leases = own_leases
        self._observed: dict[tuple[str, str], ObservedLease] = {}
        self._first: dict[tuple[str, str], tuple[str, str] | None] = {}
        self._sees_all = True

    def refuse_overlap(self, changed: Condition, is_stopping: Callable[[], bool]) -> None:
        """Wait until it is certain that no live controller overlaps.

        Raises `UsageError` if one does.
        """
        while not is_stopping():
            try:
                undecided = self._check()
            except TransientError as error:
                _LOG.warning("Cannot check for other controllers yet: %s", error.message)
                undecided = True
            if not undecided:
                return
            with changed:
                if not is_stopping():
                    self._clock.wait(changed, _CHECK_SECONDS)

    def _check(self) -> bool:
        """Return whether it is still unknown if the holder of an overlapping Lease is live.

        Raises `UsageError` if it is live.
        """
        is_undecided = False
        for lease in self._leases():
            key = (namespace_of(lease), name_of(lease))
            if key[0] == self._home and key[1] in self._own_leases:
                continue
            other = scope_of_lease(lease)
            overlap = self._scope.overlap_with(other) if other is not None else ""
            if not overlap:
                continue
            observed = self._observed.setdefault(
                key, ObservedLease(self._clock, LeaseTerms().term_seconds)
            )
            holder = observed.update(spec_of(lease))
            if not holder:
                continue
            if self._first.setdefault(key, observed.renewal) != observed.renewal:
                raise another_controller(
                    f"{holder} (Lease {key[0]}/{key[1]}), which acts on {overlap},",
                    "use different values of --namespace or --partition",
                )
            is_undecided = True
        return is_undecided

    def _leases(self) -> list[KubeObject]:
        if self._sees_all:
            try:
                return list(self._cluster.list(LEASES, label_selector=_SELECTOR).items)
            except Forbidden as error:
                self._sees_all = False
                _LOG.warning(
                    "Cannot check for controllers with another home than %s: %s",
                    self._home,
                    error.message,
                )
        try:
            leases = self._cluster.list(LEASES, namespace=self._home, label_selector=_SELECTOR)
        except TransientError:
            raise
        except ApiError as error:
            _LOG.warning("Cannot check for other controllers: %s", error.message)
            return []
        return list(leases.items)

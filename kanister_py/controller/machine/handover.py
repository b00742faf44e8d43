"""Handover of compositions between Deployments: only one process composes at a time.

ActionSets and compositions may be reconciled by one Deployment or by two, with Leases of different
names. The holder of a Lease annotates it with the kinds that it acts on. A Lease without the
annotation was written by an older release, which may act on everything.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Condition
from typing import Final

from kanister_py.controller.machine.lease import LeaseTerms, ObservedLease
from kanister_py.core.actionsets.partitions import ACTS_ON, COMPOSITIONS
from kanister_py.core.errors import KanisterError, TransientError
from kanister_py.core.kube.parts import annotations_of, name_of, spec_of
from kanister_py.core.kube.resources import LEASES
from kanister_py.ports.clock import Clock
from kanister_py.ports.cluster import Cluster, KubeObject

_LOG: Final = logging.getLogger(__name__)

_CHECK_SECONDS: Final = 1.5


def wait_for_composer(
    cluster: Cluster,
    clock: Clock,
    namespace: str,
    lease: str,
    changed: Condition,
    is_stopping: Callable[[], bool],
) -> None:
    """Wait until no other process composes under the given Lease."""
    seen: dict[str, ObservedLease] = {}
    logged = ""
    while not is_stopping():
        try:
            leases = cluster.list(LEASES, namespace=namespace).items
        except TransientError as error:
            why = f"cannot check whether another process does: {error.message}"
        except KanisterError as error:
            # This process may not list Leases, so its Role was written for a release with a single
            # Lease and a single Deployment.
            _LOG.warning("Cannot check whether another process composes: %s", error.message)
            return
        else:
            held = [obj for obj in leases if name_of(obj) == lease]
            composers = [holder for obj in held if (holder := _composer(obj, seen, clock))]
            if not composers:
                return
            why = f"{composers[0]} composes (lease {namespace}/{lease})"
        if why != logged:
            _LOG.info("Waiting to compose: %s", why)
            logged = why
        with changed:
            if not is_stopping():
                clock.wait(changed, _CHECK_SECONDS)


def _composer(lease: KubeObject, seen: dict[str, ObservedLease], clock: Clock) -> str:
    """Return the holder of a Lease that composes; empty if there is none, or it has expired."""
    notes = annotations_of(lease).get(ACTS_ON, COMPOSITIONS)
    if COMPOSITIONS not in notes.split(","):
        return ""
    observed = seen.setdefault(name_of(lease), ObservedLease(clock, LeaseTerms().term_seconds))
    return observed.update(spec_of(lease))

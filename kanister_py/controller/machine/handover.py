"""Handover of composing between Deployments: one process of a cluster composes at a time.

ActionSets and compositions may be led apart or together, under Leases of two names. The
holder of one notes on it what it acts on; one of before these notes may act on everything.
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

_LOOK_SECONDS: Final = 1.5


def wait_for_composer(
    cluster: Cluster,
    clock: Clock,
    namespace: str,
    lease: str,
    changed: Condition,
    is_stopping: Callable[[], bool],
) -> None:
    """Wait while another process composes under another Lease, and renews it."""
    seen: dict[str, ObservedLease] = {}
    logged = ""
    while not is_stopping():
        try:
            leases = cluster.list(LEASES, namespace=namespace).items
        except TransientError as error:
            why = f"nobody knows whether another process does: {error.message}"
        except KanisterError as error:
            # Rights of before there were two Leases: who has those has one Deployment.
            _LOG.warning("Nobody knows whether another process composes: %s", error.message)
            return
        else:
            held = [obj for obj in leases if name_of(obj) == lease]
            composers = [who for obj in held if (who := _composer(obj, seen, clock))]
            if not composers:
                return
            why = f"{composers[0]} composes (lease {namespace}/{lease})"
        if why != logged:
            _LOG.info("Composes nothing yet: %s", why)
            logged = why
        with changed:
            if not is_stopping():
                clock.wait(changed, _LOOK_SECONDS)


def _composer(lease: KubeObject, seen: dict[str, ObservedLease], clock: Clock) -> str:
    """Say who composes under a Lease; empty if nobody does, or it is not renewed any more."""
    notes = annotations_of(lease).get(ACTS_ON, COMPOSITIONS)
    if COMPOSITIONS not in notes.split(","):
        return ""
    sighting = seen.setdefault(name_of(lease), ObservedLease(clock, LeaseTerms().term_seconds))
    return sighting.note(spec_of(lease))

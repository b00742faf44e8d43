"""Handover of composing between Deployments: one process of a cluster composes at a time.

ActionSets and compositions may be led apart or together, under Leases of two names. Whoever
holds one notes on it what it acts on; a holder of before these notes may act on everything.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Condition
from typing import Final

from kanister_py.core.errors import KanisterError, NotFound, TransientError
from kanister_py.core.objects.parts import annotations_of, spec_of
from kanister_py.core.objects.resources import LEASES
from kanister_py.ports.clock import Clock
from kanister_py.ports.cluster import Cluster

_LOG: Final = logging.getLogger(__name__)

ACTS_ON: Final = "kanister-py.io/acts-on"
COMPOSITIONS: Final = "compositions"
_LOOK_SECONDS: Final = 1.5


def await_composer(
    cluster: Cluster,
    clock: Clock,
    namespace: str,
    lease: str,
    changed: Condition,
    is_stopping: Callable[[], bool],
) -> None:
    """Wait for as long as the holder of another Lease composes and keeps renewing it."""
    seen: tuple[str, str] | None = None
    seen_at = 0.0
    told = ""
    while not is_stopping():
        try:
            found = cluster.get(LEASES, lease, namespace=namespace)
        except NotFound:
            return
        except TransientError as error:
            why = f"nobody knows whether another process does: {error.message}"
        except KanisterError as error:
            # Rights of before there were two Leases: who has those has one Deployment.
            _LOG.warning("Nobody knows whether another process composes: %s", error.message)
            return
        else:
            spec = spec_of(found)
            holder = str(spec.get("holderIdentity") or "")
            notes = annotations_of(found).get(ACTS_ON, COMPOSITIONS)
            if not holder or COMPOSITIONS not in notes.split(","):
                return
            why = f"{holder} composes (lease {namespace}/{lease})"
            now = (holder, str(spec.get("renewTime") or ""))
            if now != seen:
                seen, seen_at = now, clock.monotonic()
            elif clock.monotonic() - seen_at >= float(spec.get("leaseDurationSeconds") or 0):
                return
        if why != told:
            _LOG.info("Composes nothing yet: %s", why)
            told = why
        with changed:
            if not is_stopping():
                clock.wait(changed, _LOOK_SECONDS)

"""Draining: before it stops, a controller waits for phases that no other one could resume."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Condition
from typing import Final

from kanister_py.controller.actionsets.reconcile import ActionSetReconciler
from kanister_py.ports.clock import Clock

_LOG: Final = logging.getLogger("kanister_py.controller.controller")
_CHECK_SECONDS: Final = 0.05


class Drain:
    """Wait of a stopping controller for phases that cannot be resumed, and its log messages."""

    def __init__(self, clock: Clock, why: str, most_seconds: float) -> None:
        self._clock = clock
        self._why = why
        self._most_seconds = most_seconds
        self._began = clock.monotonic()
        self._cut_off = 0

    @property
    def _seconds(self) -> float:
        return self._clock.monotonic() - self._began

    def carry_out(
        self,
        reconciler: ActionSetReconciler,
        changed: Condition,
        is_still_leader: Callable[[], bool],
    ) -> None:
        """Start nothing new, and wait for the phases that cannot be resumed, until the timeout."""
        self._log_start(reconciler.at_work.phases, reconciler.at_work.untouchable)
        are_all_draining = reconciler.drain()
        while self._seconds < self._most_seconds and is_still_leader():
            # Count after the call to `drain`, because a draining run starts no further phase.
            is_at_work = reconciler.at_work.untouchable or reconciler.has_unreported_ends
            if are_all_draining and not is_at_work:
                break
            with changed:
                self._clock.wait(changed, _CHECK_SECONDS)
            are_all_draining = reconciler.drain()
        self._cut_off = reconciler.at_work.untouchable

    def _log_start(self, phases: int, untouchable: int) -> None:
        why = f" on {self._why}" if self._why else ""
        if untouchable:
            left = phases - untouchable
            _LOG.info(
                "Stopping%s: starting nothing new; waiting up to %g s for %s that cannot be "
                "resumed, leaving %s to the next controller",
                why,
                self._most_seconds,
                _phases(untouchable),
                f"{_phases(left)} more" if left else "nothing",
            )
        elif phases:
            message = "Stopping%s: starting nothing new; leaving %s to the next controller"
            _LOG.info(message, why, _phases(phases))
        else:
            _LOG.info("Stopping%s: starting nothing new; no phase is running", why)

    def log_end(self) -> None:
        if self._cut_off:
            _LOG.warning(
                "Stopped after %.1f s, interrupting %s that cannot be resumed: interrupted phases "
                "fail with reason Interrupted, unless they are retried on it",
                self._seconds,
                _phases(self._cut_off),
            )
        else:
            _LOG.info("Stopped after %.1f s, no phase was interrupted", self._seconds)


def _phases(count: int) -> str:
    return "1 phase" if count == 1 else f"{count} phases"

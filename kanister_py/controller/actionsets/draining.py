"""Draining: phases that nobody could take up may end for some time when a controller stops."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Condition
from typing import Final

from kanister_py.controller.actionsets.reconcile import ActionSetReconciler
from kanister_py.ports.clock import Clock

_LOG: Final = logging.getLogger("kanister_py.controller.controller")
_LOOK_SECONDS: Final = 0.05


class Drain:
    """The last work of a controller that was asked to stop, and what its log says of that."""

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
        self, reconciler: ActionSetReconciler, changed: Condition, still_leads: Callable[[], bool]
    ) -> None:
        """Begin nothing new, and wait for what nobody could take up, but not for ever."""
        self._tell_begin(reconciler.at_work.phases, reconciler.at_work.untouchable)
        all_know = reconciler.drain()
        while self._seconds < self._most_seconds and still_leads():
            # Counted after that: what knows of it starts no phase any more.
            is_at_work = reconciler.at_work.untouchable or reconciler.has_unreported_ends
            if all_know and not is_at_work:
                break
            with changed:
                self._clock.wait(changed, _LOOK_SECONDS)
            all_know = reconciler.drain()
        self._cut_off = reconciler.at_work.untouchable

    def _tell_begin(self, phases: int, untouchable: int) -> None:
        why = f" on {self._why}" if self._why else ""
        if untouchable:
            left = phases - untouchable
            _LOG.info(
                "Stops%s: begins nothing new; %s that nobody could take up may go on for %g s at "
                "most, %s left to the next controller",
                why,
                _phases(untouchable),
                self._most_seconds,
                f"{_phases(left)} more {'is' if left == 1 else 'are'}" if left else "nothing is",
            )
        elif phases:
            message = "Stops%s: begins nothing new; %s at work left to the next controller"
            _LOG.info(message, why, _phases(phases))
        else:
            _LOG.info("Stops%s: begins nothing new; no phase is at work", why)

    def tell_end(self) -> None:
        if self._cut_off:
            _LOG.warning(
                "Has stopped after %.1f s, in the midst of %s that nobody can take up: what is cut "
                "off fails as Interrupted, unless its retry says otherwise",
                self._seconds,
                _phases(self._cut_off),
            )
        else:
            _LOG.info("Has stopped after %.1f s, nothing was cut off", self._seconds)


def _phases(count: int) -> str:
    return "1 phase" if count == 1 else f"{count} phases"

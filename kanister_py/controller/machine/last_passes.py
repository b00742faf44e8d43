"""Last passes: how the pipeline of each composite resource went the last time, for people."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from datetime import datetime
from threading import Lock
from typing import Any, Final, NamedTuple

from kanister_py.core.compositions.desired import Composed
from kanister_py.core.compositions.pipeline import StepOutcome
from kanister_py.core.kube.parts import name_of, namespace_of
from kanister_py.ports.clock import Clock

_MOST: Final = 2000
_MOST_RESULTS: Final = 50


class LastPass(NamedTuple):
    """One run of a pipeline: its steps, their results, and what was wrong."""

    time: datetime
    outcomes: tuple[StepOutcome, ...]
    results: Sequence[str] = ()
    error: str = ""

    def as_dict(self) -> dict[str, Any]:
        steps = [each.as_dict() for each in self.outcomes]
        return {"time": self.time, "steps": steps, "results": self.results, "error": self.error}


class LastPasses:
    """The last pass of each of the resources that were composed last, by this process."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = Lock()
        self._kept: OrderedDict[tuple[str, str, str, str], LastPass] = OrderedDict()

    def note(self, xr: Mapping[str, Any], composed: Composed) -> None:
        """Keep how a pipeline went, in place of what was kept of it before."""
        key = _key_of(xr)
        error = composed.error.message if composed.error is not None else ""
        results = [each.message for each in composed.events[:_MOST_RESULTS]]
        made = LastPass(self._clock.now(), composed.outcomes, results, error)
        with self._lock:
            self._kept[key] = made
            self._kept.move_to_end(key)
            while len(self._kept) > _MOST:
                self._kept.popitem(last=False)

    def get(self, xr: Mapping[str, Any]) -> LastPass | None:
        with self._lock:
            return self._kept.get(_key_of(xr))


def _key_of(xr: Mapping[str, Any]) -> tuple[str, str, str, str]:
    group = str(xr.get("apiVersion")).partition("/")[0]
    return group, str(xr.get("kind")), namespace_of(xr), name_of(xr)

"""What does a scrape of the controller find?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

_PHASE_SECONDS: Final = (0.05, 0.25, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0)
_PASS_SECONDS: Final = (0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10.0)

SUCCESS: Final = "success"
FAILURE: Final = "failure"


class ControllerMetrics:
    """Counts what the controller does. Nothing here has a label without end."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        # The first controller's, under its name: it counts actions.
        self.resolutions = Counter(
            "kanister_action_set_resolutions",
            "Total number of action set resolutions",
            ("resolution",),
            registry=self.registry,
        )
        for each in (SUCCESS, FAILURE):
            self.resolutions.labels(each)
        self.action_sets = Counter(
            "kanister_py_action_sets",
            "ActionSets that came to their end, by how",
            ("state", "reason"),
            registry=self.registry,
        )
        self.phases = Counter(
            "kanister_py_phases",
            "Attempts at phases that ended",
            ("function", "version", "outcome"),
            registry=self.registry,
        )
        self.phase_seconds = Histogram(
            "kanister_py_phase_duration_seconds",
            "Time from the start of an attempt at a phase to its end",
            ("function", "version"),
            buckets=_PHASE_SECONDS,
            registry=self.registry,
        )
        self.deprecated_uses = Counter(
            "kanister_py_deprecated_function_uses",
            "Phases that ask for a version of a function that is on its way out",
            ("function", "version", "removed_in"),
            registry=self.registry,
        )
        self.passes = Counter(
            "kanister_py_reconcile_passes",
            "Looks at an object, by how they ended",
            ("kind", "outcome"),
            registry=self.registry,
        )
        self.pass_seconds = Histogram(
            "kanister_py_reconcile_duration_seconds",
            "How long a look at an object took",
            ("kind",),
            buckets=_PASS_SECONDS,
            registry=self.registry,
        )
        self.api_errors = Counter(
            "kanister_py_api_errors",
            "Answers of the API server that were no answers",
            ("reason",),
            registry=self.registry,
        )
        self.dropped_events = Counter(
            "kanister_py_dropped_events",
            "Events that could not be posted",
            registry=self.registry,
        )

    def watch_gauge(self, name: str, told: str, read: Callable[[], float]) -> None:
        """Show a number that is read when somebody asks for it."""
        self.registry.register(_Gauge(name, told, read))


class _Gauge(Collector):
    def __init__(self, name: str, told: str, read: Callable[[], float]) -> None:
        self._name = name
        self._told = told
        self._read = read

    def describe(self) -> Iterator[GaugeMetricFamily]:
        yield GaugeMetricFamily(self._name, self._told)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        yield GaugeMetricFamily(self._name, self._told, value=self._read())

"""Metrics: every number that a scrape of the controller finds, by its name."""

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
        self._gauges: dict[str, _Gauge] = {}
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
            "Phases and composite resources with a version of a function that is on its way out",
            ("function", "version", "removed_in"),
            registry=self.registry,
        )
        self.rewrites_stopped = Counter(
            "kanister_py_rewrites_stopped",
            "Objects that two of our loops rewrote in turn, by the one that was stopped",
            ("kind", "loop"),
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

    def count_deprecated(self, function: str, version: str, removed_in: str) -> None:
        """Count a use of a version that is on its way out."""
        self.deprecated_uses.labels(function, version, removed_in).inc()

    def watch_queue(
        self, name: str, depth: Callable[[], float], oldest_seconds: Callable[[], float]
    ) -> None:
        """Show how many objects wait to be looked at, and for how long."""
        self.watch("kanister_py_queue_depth", depth, queue=name)
        self.watch("kanister_py_queue_oldest_seconds", oldest_seconds, queue=name)

    def watch(self, name: str, read: Callable[[], float], **labels: str) -> None:
        """Show one of the numbers below, read when somebody asks for it."""
        gauge = self._gauges.get(name)
        if gauge is None:
            gauge = self._gauges[name] = _Gauge(name, _GAUGES[name], tuple(labels))
            self.registry.register(gauge)
        gauge.reads[tuple(labels.values())] = read


_GAUGES: Final = {
    "kanister_py_is_leader": "Whether this replica acts (1) or stands by (0)",
    "kanister_py_shard_held": "Whether this replica holds a shard of the work (1) or not (0)",
    "kanister_py_paused": "Whether nothing new begins (1), as --paused says",
    "kanister_py_memory_used_bytes": "Memory that this process has",
    "kanister_py_memory_limit_bytes": "Memory that it may have; zero for no limit",
    "kanister_py_memory_short": "Whether new work is refused (1) until there is memory again",
    "kanister_py_queue_depth": "Objects that wait to be looked at",
    "kanister_py_queue_oldest_seconds": "How long the object has waited that waits for longest",
    "kanister_py_open_breakers": "Revisions of functions that are left alone as they do not answer",
    "kanister_py_phases_queued": "Phases that wait for a worker",
    "kanister_py_active_runs": "ActionSets that are under way",
    "kanister_py_oldest_run_seconds": "Age of the ActionSet that is under way for longest",
    "kanister_py_open_watches": "Watches that are open",
}


class _Gauge(Collector):
    """Numbers that are read when somebody asks for them, one for each set of labels."""

    def __init__(self, name: str, told: str, labels: tuple[str, ...]) -> None:
        self._name = name
        self._told = told
        self._labels = labels
        self.reads: dict[tuple[str, ...], Callable[[], float]] = {}

    def describe(self) -> Iterator[GaugeMetricFamily]:
        yield GaugeMetricFamily(self._name, self._told, labels=self._labels)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        family = GaugeMetricFamily(self._name, self._told, labels=self._labels)
        for labels, read in list(self.reads.items()):
            family.add_metric(labels, read())
        yield family

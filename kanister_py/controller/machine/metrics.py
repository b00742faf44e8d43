"""Prometheus metrics of the controller."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from threading import Lock
from typing import Any, Final, Generic, NamedTuple, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.metrics import MetricWrapperBase

from kanister_py.core.errors import KanisterError

_RUN_SECONDS: Final = (1.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 43200.0)
_PHASE_SECONDS: Final = (0.05, 0.25, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0)
_PASS_SECONDS: Final = (0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10.0)

SUCCESS: Final = "success"
FAILURE: Final = "failure"

COMPLETE: Final = "complete"
FAILED: Final = "failed"
CANCELLED: Final = "cancelled"
_ENDS: Final = (COMPLETE, FAILED)
SKIPPED: Final = "skipped"
STARTED: Final = "started"
REFUSED: Final = "refused"

OTHER: Final = "other"
MAX_LABEL_SETS: Final = 1_000
"""Maximum number of label sets with names that users choose. Others are counted as `other`."""


class ActionLabels(NamedTuple):
    """Labels of an action of an ActionSet."""

    namespace: str
    schedule: str
    blueprint: str
    action: str
    object: str = ""


class PhaseLabels(NamedTuple):
    """Labels of a phase."""

    namespace: str
    schedule: str
    blueprint: str
    action: str
    phase: str
    function: str
    version: str


class ScheduleMetrics(NamedTuple):
    """Values of a schedule's gauges. `not_ready` is the reason, empty if it is ready.

    `last_success` is a timestamp in seconds; until a run succeeds, the time of creation.
    """

    not_ready: str
    last_success: float
    objects: tuple[str, ...] = ()
    interval_seconds: float | None = None
    is_retention_failing: bool = False


_ACT: Final = ActionLabels._fields[:-1]
_Metric = TypeVar("_Metric", bound=MetricWrapperBase)


class ControllerMetrics:
    """Metrics of one controller. The number of label sets is bounded."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._gauges: dict[str, Gauge] = {}
        # Kanister's own metric, which counts actions.
        self.resolutions = self._counter("kanister_action_set_resolutions", "resolution")
        for counter in (SUCCESS, FAILURE):
            self.resolutions.labels(counter)
        self.action_sets = self._counter("kanister_py_action_sets", "state", "reason")
        self._runs = self._capped(self._counter("kanister_py_runs", *_ACT, "outcome"))
        self._run_seconds = self._capped(
            self._histogram("kanister_py_run_duration_seconds", _RUN_SECONDS, *_ACT)
        )
        self._phases = self._capped(
            self._counter("kanister_py_phases", *PhaseLabels._fields, "outcome")
        )
        self._times = self._capped(
            self._counter("kanister_py_schedule_times", "namespace", "schedule", "outcome")
        )
        self._notices = self._counter("kanister_py_notices", "outcome")
        for outcome in ("sent", "refused", "dropped"):
            self._notices.labels(outcome)
        of_function = ("function", "version")
        self.phase_failures = self._counter("kanister_py_phase_failures", *of_function, "reason")
        self._last = _LastEnds(self.registry)
        self._schedules = _Schedules(self.registry)
        self._counted_as_other = self._counter("kanister_py_counted_as_other")
        self.phase_seconds = self._histogram(
            "kanister_py_phase_duration_seconds", _PHASE_SECONDS, *of_function
        )
        self.deprecated_uses = self._counter(
            "kanister_py_deprecated_function_uses", *of_function, "removed_in"
        )
        self.passes = self._counter("kanister_py_reconcile_passes", "kind", "outcome")
        self.pass_seconds = self._histogram(
            "kanister_py_reconcile_duration_seconds", _PASS_SECONDS, "kind"
        )
        self.api_errors = self._counter("kanister_py_api_errors", "reason")
        self.dropped_events = self._counter("kanister_py_dropped_events")

    def _counter(self, name: str, *labels: str) -> Counter:
        return Counter(name, _COUNTED[name], labels, registry=self.registry)

    def _histogram(self, name: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram(name, _COUNTED[name], labels, buckets=buckets, registry=self.registry)

    def _capped(self, metric: _Metric) -> _Capped[_Metric]:
        return _Capped(metric, lambda: self._counted_as_other.inc())  # noqa: PLW0108 # made below

    # Runs

    def begin_run(self, act: ActionLabels) -> None:
        """Create the counters of an action with the value zero.

        Prometheus' `increase` would miss the first increment of a counter that appears with one.
        """
        self._runs.of(act[:-1], *_ENDS)
        self._last.note(act)

    def end_run(self, act: ActionLabels, outcome: str, seconds: float | None, trace: str) -> None:
        """Count an action that ended. `trace` is the ID of its trace, empty without one."""
        exemplar = _exemplar(trace)
        self._runs.of(act[:-1], *_ENDS, outcome).inc(1, exemplar)
        self._last.note(act)
        if seconds is not None:
            self._run_seconds.of(act[:-1]).observe(seconds, exemplar)

    def record_end(self, act: ActionLabels, outcome: str, time: datetime) -> bool:
        """Record when an action ended. Returns whether its previous run had failed.

        An end that is already recorded, or older, changes nothing and returns False.
        """
        return self._last.note(act, outcome, time.timestamp())

    def forget_schedule(self, namespace: str, schedule: str) -> None:
        """Remove the metrics of a deleted schedule, so that they trigger no alerts."""
        self._last.forget(namespace, schedule)
        self._schedules.show((namespace, schedule), None)

    def show_schedule(self, namespace: str, schedule: str, numbers: ScheduleMetrics) -> None:
        """Show whether a schedule is ready, and when it last succeeded."""
        self._schedules.show((namespace, schedule), numbers)

    def count_notice(self, outcome: str) -> None:
        """Count a notice that was sent, that its receiver refused, or that was given up."""
        self._notices.labels(outcome).inc()

    def begin_schedule(self, namespace: str, schedule: str) -> None:
        """Create the counters of a schedule with zero."""
        self._times.of((namespace, schedule), STARTED, SKIPPED, REFUSED)

    def count_time(self, namespace: str, schedule: str, outcome: str) -> None:
        """Count a time of a schedule that was started, skipped, or that the cluster refused."""
        self._times.of((namespace, schedule), outcome).inc()

    def begin_phase(self, phase: PhaseLabels) -> None:
        """Create the counters of a phase with zero."""
        self._phases.of(phase, *_ENDS)

    def end_phase(
        self, phase: PhaseLabels, outcome: str, reason: str, seconds: float | None, trace: str
    ) -> None:
        """Count an attempt of a phase that ended."""
        exemplar = _exemplar(trace)
        self._phases.of(phase, *_ENDS, outcome).inc(1, exemplar)
        if outcome == FAILED:
            self.phase_failures.labels(phase.function, phase.version, reason).inc()
        if seconds is not None:
            histogram = self.phase_seconds.labels(phase.function, phase.version)
            histogram.observe(seconds, exemplar)

    # Counters without labels of runs, and gauges that are read on request

    def count_deprecated(self, function: str, version: str, removed_in: str) -> None:
        """Count a use of a deprecated version."""
        self.deprecated_uses.labels(function, version, removed_in).inc()

    def count_api_error(self, error: KanisterError) -> None:
        """Count a failed list or watch of a watch cache."""
        self.api_errors.labels(error.reason).inc()

    def watch_queue(
        self, name: str, depth: Callable[[], float], oldest_seconds: Callable[[], float]
    ) -> None:
        """Show the length of a queue, and how long its oldest object has waited."""
        self.watch("kanister_py_queue_depth", depth, queue=name)
        self.watch("kanister_py_queue_oldest_seconds", oldest_seconds, queue=name)

    def watch(self, name: str, read: Callable[[], float], **labels: str) -> None:
        """Show a gauge whose value is read for each scrape."""
        gauge = self._gauges.get(name)
        if gauge is None:
            gauge = Gauge(name, _GAUGES[name], tuple(labels), registry=self.registry)
            self._gauges[name] = gauge
        (gauge.labels(**labels) if labels else gauge).set_function(read)


_COUNTED: Final = {
    "kanister_action_set_resolutions": "Total number of action set resolutions",
    "kanister_py_action_sets": "ActionSets that ended, by state and reason",
    "kanister_py_runs": "Actions of ActionSets that ended, by outcome",
    "kanister_py_run_duration_seconds": "Time from the start of an action of an ActionSet to its "
    "end",
    "kanister_py_phases": "Attempts at phases that ended, by outcome",
    "kanister_py_schedule_times": "Due times of schedules, by outcome",
    "kanister_py_notices": "Notices of failures and of the first success after a failure, by "
    "outcome",
    "kanister_py_phase_failures": "Attempts at phases that failed, by reason",
    "kanister_py_counted_as_other": "Runs and phases that are counted with the label `other`, "
    "because there are too many label values",
    "kanister_py_phase_duration_seconds": "Time from the start of an attempt at a phase to its end",
    "kanister_py_deprecated_function_uses": "Phases and composite resources with a deprecated "
    "version of a function",
    "kanister_py_reconcile_passes": "Reconcile passes, by outcome",
    "kanister_py_reconcile_duration_seconds": "Duration of a reconcile pass",
    "kanister_py_api_errors": "Failed requests of watches to the API server, by reason",
    "kanister_py_dropped_events": "Events that could not be posted",
}
_GAUGES: Final = {
    "kanister_py_is_leader": "Whether this replica is the leader (1) or a standby (0)",
    "kanister_py_paused": "Whether new runs are held back by --paused (1)",
    "kanister_py_queue_depth": "Objects that wait to be reconciled",
    "kanister_py_queue_oldest_seconds": "How long the oldest object has waited",
    "kanister_py_open_breakers": "Function revisions that are not called because they do not "
    "answer",
    "kanister_py_phases_queued": "Phases that wait for a worker",
    "kanister_py_active_runs": "ActionSets that are running",
    "kanister_py_oldest_run_seconds": "Age of the oldest running ActionSet",
    "kanister_py_open_watches": "Open watches",
}


class _Capped(Generic[_Metric]):
    """Metric with a limit on label sets that users choose. Others are counted as `other`."""

    def __init__(self, metric: _Metric, on_other: Callable[[], None]) -> None:
        self._metric = metric
        self._on_other = on_other
        self._lock = Lock()
        self._label_sets: set[tuple[str, ...]] = set()

    def of(self, named: tuple[str, ...], *outcomes: str) -> _Metric:
        """Return the child for the last outcome, and create the children for the others."""
        with self._lock:
            is_counted = named in self._label_sets
            if not is_counted and len(self._label_sets) < MAX_LABEL_SETS:
                self._label_sets.add(named)
                is_counted = True
        if not is_counted:
            self._on_other()
            named = (OTHER,) * len(named)
        for outcome in outcomes[:-1]:
            self._metric.labels(*named, outcome)
        return self._metric.labels(*named, *outcomes[-1:])


class _LastEnds:
    """Gauges of the times when actions last completed and failed; 0 for never.

    Actions beyond the limit of label sets are left out.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._lock = Lock()
        self._ends: dict[ActionLabels, dict[str, float]] = {}
        self._shown = {
            outcome: Gauge(name, documentation, ActionLabels._fields, registry=registry)
            for name, documentation, outcome in _LAST
        }

    def note(self, act: ActionLabels, outcome: str = "", seconds: float = 0.0) -> bool:
        with self._lock:
            ends = self._ends.get(act)
            if ends is None:
                if len(self._ends) >= MAX_LABEL_SETS:
                    return False
                ends = self._ends[act] = {COMPLETE: 0.0, FAILED: 0.0}
                for gauges in self._shown.values():
                    gauges.labels(*act)
            if outcome not in ends or seconds <= ends[outcome]:
                return False
            had_failed = ends[FAILED] > ends[COMPLETE]
            ends[outcome] = seconds
            self._shown[outcome].labels(*act).set(seconds)
            return had_failed

    def forget(self, namespace: str, schedule: str) -> None:
        with self._lock:
            for act in [key for key in self._ends if key[:2] == (namespace, schedule)]:
                del self._ends[act]
                for shown in self._shown.values():
                    shown.remove(*act)


class _Schedules:
    """Gauges of schedules. Schedules beyond the limit of label sets are left out."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._lock = Lock()
        self._numbers: dict[tuple[str, str], ScheduleMetrics] = {}
        self._shown: dict[tuple[str, str], list[tuple[Gauge, tuple[str, ...]]]] = {}
        self._not_ready, self._last_success, self._interval, self._retention = (
            Gauge(name, documentation, ("namespace", "schedule", *labels), registry=registry)
            for name, documentation, labels in _OF_SCHEDULES
        )

    def show(self, schedule: tuple[str, str], numbers: ScheduleMetrics | None) -> None:
        """Replace the gauges of a schedule. If `numbers` is None, remove them."""
        with self._lock:
            if self._numbers.get(schedule) == numbers:
                return
            for gauge, labels in self._shown.pop(schedule, ()):
                gauge.remove(*labels)
            self._numbers.pop(schedule, None)
            if numbers is None or len(self._numbers) >= MAX_LABEL_SETS:
                return
            self._numbers[schedule] = numbers
            shown = self._shown[schedule] = []
            for gauge, labels, value in self._values(schedule, numbers):
                gauge.labels(*labels).set(value)
                shown.append((gauge, labels))

    def _values(
        self, schedule: tuple[str, str], numbers: ScheduleMetrics
    ) -> Iterator[tuple[Gauge, tuple[str, ...], float]]:
        if numbers.not_ready:
            yield self._not_ready, (*schedule, numbers.not_ready), 1.0
        for about in numbers.objects:
            yield self._last_success, (*schedule, about), numbers.last_success
        if numbers.interval_seconds is not None:
            yield self._interval, schedule, numbers.interval_seconds
        yield self._retention, schedule, float(numbers.is_retention_failing)


_OF_SCHEDULES: Final[Sequence[tuple[str, str, tuple[str, ...]]]] = (
    (
        "kanister_py_schedule_not_ready",
        "Schedules that are not ready, with the reason (always 1)",
        ("reason",),
    ),
    (
        "kanister_py_schedule_last_success_timestamp_seconds",
        "When a run of a schedule last completed; until then, when the schedule was created",
        ("object",),
    ),
    (
        "kanister_py_schedule_interval_seconds",
        "The longest interval between two of the next times of a schedule",
        (),
    ),
    (
        "kanister_py_schedule_retention_failing",
        "Whether the deletion of an old backup of a schedule failed last (1) or not (0)",
        (),
    ),
)
_LAST: Final = (
    ("kanister_py_last_success_timestamp_seconds", "When the action last completed", COMPLETE),
    ("kanister_py_last_failure_timestamp_seconds", "When the action last failed", FAILED),
)


def _exemplar(trace: str) -> dict[str, Any] | None:
    return {"trace_id": trace} if trace else None

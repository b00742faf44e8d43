"""Reports of a run: its events, its metrics, and its log lines."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple

from kanister_py.controller.machine.events import NORMAL, WARNING, PostEvent, Subject
from kanister_py.controller.machine.logs import LineSource, PhaseLines, fields_of
from kanister_py.controller.machine.metrics import (
    CANCELLED,
    COMPLETE,
    FAILED,
    FAILURE,
    SKIPPED,
    SUCCESS,
    ActionLabels,
    ControllerMetrics,
    PhaseLabels,
)
from kanister_py.core.actionsets.course import Course
from kanister_py.core.actionsets.outcomes import (
    ArtifactsFailed,
    ArtifactsRendered,
    Begun,
    CancelAsked,
    Launched,
    LaunchFailed,
    Outcome,
    PhaseCompleted,
    PhaseFailed,
    PhaseSkipped,
    PhaseStarted,
)
from kanister_py.core.actionsets.status import CANCELLED as CANCELLED_REASON
from kanister_py.core.actionsets.status import (
    DEFER,
    FINAL,
    ActionStatus,
    PhaseStatus,
    Place,
    State,
    Status,
    Warned,
)
from kanister_py.core.actionsets.steps import current_phase
from kanister_py.core.blueprints.model import Phase
from kanister_py.core.registry.entries import FunctionEntry, Registry
from kanister_py.core.versions.semver import parse_version
from kanister_py.executor.run.run import ActionSetRun
from kanister_py.executor.watch_cache import ObjectKey

_LOG: Final = logging.getLogger("kanister_py.controller")


class RunReporting(NamedTuple):
    """Destinations of reports about runs."""

    post_event: PostEvent
    metrics: ControllerMetrics
    lines: PhaseLines
    registry: Registry[FunctionEntry]

    def report_refused(
        self, subject: Subject, status: Status, action_labels: Iterable[ActionLabels]
    ) -> None:
        """Report an ActionSet that could not start."""
        error = status.error
        assert error is not None
        _LOG.warning(
            "ActionSet %s/%s failed: %s",
            subject.namespace,
            subject.name,
            error.message,
            extra=fields_of(
                namespace=subject.namespace, actionSet=subject.name, reason=error.reason
            ),
        )
        self.post_event(
            subject,
            WARNING,
            f"ActionSetFailed Action: {error.action}".rstrip(": "),
            f"Could not get initial action: {error.message}",
        )
        self.metrics.action_sets.labels(str(status.state), error.reason).inc()
        for act in action_labels:
            self.metrics.end_run(act, FAILED, None, "")

    def removal_of(self, warned: Warned) -> str:
        """Return the release that removes a deprecated version; empty if it is unknown."""
        if not warned.version or warned.function not in self.registry:
            return ""
        version = parse_version(warned.version)
        for entry in self.registry.family(warned.function).candidates:
            if entry.version == version and entry.listing.removed_in is not None:
                return entry.listing.removed_in.bare
        return ""


@dataclass(slots=True, eq=False, repr=False)
class RunReporter:
    """Reporter of one run. Reports must not delay the run, which holds its lock during outcomes.

    The start of an action and of its first phase are one event, as are the end of the last
    phase and of the ActionSet.
    """

    _reporting: RunReporting
    _key: ObjectKey
    _subject: Subject
    _course: Course
    _blueprints: Sequence[Subject]
    """One for each action."""
    _action_labels: Sequence[ActionLabels]
    _run: Callable[[], ActionSetRun]
    _trace: str | None = None
    _places: dict[tuple[str, str], LineSource] = field(default_factory=dict)
    """Sources of log lines, by the names of the action and the phase."""
    _resolved: set[int] = field(default_factory=set)
    _launched: set[int] = field(default_factory=set)
    """Launched actions whose start has not been reported. It is reported with the first phase."""
    _ended: tuple[str, str] = ("", "")
    """Event of the last phase that ended, if it is reported together with the ActionSet's end."""

    # Lines of phases

    def on_log(self, action: str, phase: str, line: str) -> None:
        place = self._places.get((action, phase))
        if place is None:
            # Another process started the phase.
            status = self._run().status
            for running in status.totals.running:
                self._add_place(running, self._course.phase(running), status.phase_at(running))
            place = self._places.setdefault((action, phase), LineSource(action, phase))
        self._reporting.lines.write(self._key, self._subject.uid, place, line)

    def _add_place(self, place: Place, phase: Phase, status: PhaseStatus) -> None:
        action = self._course.actions[place.action].spec.name
        self._places[action, phase.name] = LineSource(
            action, phase.name, phase.func, status.func_version, status.attempt
        )

    # Outcomes

    def on_outcome(self, outcome: Outcome, status: Status) -> None:
        index: int | None = None
        match outcome:
            case Begun(_, _, warnings):
                self._begin(warnings, status)
            case Launched(_, index):
                self._launched.add(index)
            case LaunchFailed(_, index, error):
                message = f"Failed to launch Action {self._key.name}: {error.message}"
                self._fail(index, message)
            case ArtifactsRendered(_, index):
                pass
            case ArtifactsFailed(_, index, error):
                self._fail(index, f"Failed to render output artifacts: {error.message}")
            case CancelAsked(_, reason, message):
                self._post(NORMAL, "Cancelling", message or "Stopping the running phases")
                self._log(f"is being cancelled ({reason})", status)
            case PhaseStarted():
                self._report_phase(outcome, status)
            case PhaseCompleted() | PhaseSkipped() | PhaseFailed():
                index = outcome.place.action
                self._report_phase(outcome, status)
            case _:
                pass
        if index is not None and (
            status.actions[index].completion_time is not None or isinstance(outcome, LaunchFailed)
        ):
            self._resolve(index, outcome, status)
        if status.state in FINAL:
            self._end(status)

    def _begin(self, warnings: Iterable[Warned], status: Status) -> None:
        for act in self._action_labels:
            self._reporting.metrics.begin_run(act)
        self._log("began", status)
        for warned in warnings:
            self._warn(warned)

    def _report_phase(
        self, outcome: PhaseStarted | PhaseCompleted | PhaseSkipped | PhaseFailed, status: Status
    ) -> None:
        place = outcome.place
        phase, phase_status = self._course.phase(place), status.phase_at(place)
        name = phase.name
        what, title = ("deferPhase",) * 2 if place.phase == DEFER else ("phase", "Phase")
        numbers = PhaseLabels(
            *self._action_labels[place.action][:-1], name, phase.func, phase_status.func_version
        )
        if isinstance(outcome, PhaseStarted):
            self._reporting.metrics.begin_phase(numbers)
            self._add_place(place, phase, phase_status)
        match outcome:
            case PhaseStarted() if place.action in self._launched:
                self._report_launch(place.action, f": {what} {name}")
                self._log(f"starts {what} {name}", status, place)
                return
            case PhaseStarted():
                self._post(NORMAL, f"Started {title}", f"Executing {what} {name}")
                self._log(f"starts {what} {name}", status, place)
                return
            case PhaseCompleted():
                if phase_status.state is State.FAILED:
                    self._fail_phase(place, status)
                    return
                self._ended = (f"Ended {title}", f"{what} {name}")
                if not _is_last(status):
                    self._report_ended()
                self._log(f"completed {what} {name}", status, place)
                self._count(numbers, COMPLETE, phase_status, outcome.time)
            case PhaseSkipped():
                self._post(NORMAL, f"Skipped {title}", f"The condition of {what} {name} is false")
                self._log(f"skipped {what} {name}", status, place)
                self._count(numbers, SKIPPED, phase_status, outcome.time)
            case PhaseFailed(_, _, error):
                if phase_status.state is State.PENDING:
                    message = f"Attempt at {what} {name} failed: {error.message}"
                    self._post(WARNING, f"Retrying {title}", message)
                    self._log(f"will retry {what} {name}", status, place, logging.WARNING)
                else:
                    self._fail_phase(place, status)
                self._count(numbers, FAILED, phase_status, outcome.time, error.reason)

    def _report_launch(self, action: int, first_phase: str = "") -> None:
        self._launched.discard(action)
        name = self._course.actions[action].spec.name
        self._post(NORMAL, "Started Action", f"Executing action {name}{first_phase}")

    def _report_ended(self) -> None:
        (reason, phase), self._ended = self._ended, ("", "")
        if phase:
            self._post(NORMAL, reason, f"Completed {phase}")

    def _fail_phase(self, place: Place, status: Status) -> None:
        error = status.phase_at(place).error
        message = error.message if error is not None else ""
        name = self._course.phase(place).name
        what = "defer phase" if place.is_deferred else "phase"
        self._fail(place.action, f"Failed to execute {what}: {name}: {message}")
        if error is not None and error.reason == CANCELLED_REASON:
            self._log(f"was cancelled in {what} {name}", status, place)
            return
        self._log(f"failed in {what} {name}: {message}", status, place, logging.WARNING)

    def _fail(self, action: int, message: str) -> None:
        if action in self._launched:
            self._report_launch(action)
        self._report_ended()
        reason = f"ActionSetFailed Action: {self._course.actions[action].spec.name}"
        self._post(WARNING, reason, message)
        self._reporting.post_event(self._blueprints[action], WARNING, reason, message)

    def _warn(self, warned: Warned) -> None:
        self._post(WARNING, warned.reason, warned.message)
        _LOG.warning(
            "%s",
            warned.message,
            extra=fields_of(
                namespace=self._key.namespace,
                actionSet=self._key.name,
                reason=warned.reason,
                action=warned.action,
                phase=warned.phase,
                function=warned.function,
                version=warned.version,
            ),
        )
        if warned.reason == "FunctionVersionDeprecated":
            removed_in = self._reporting.removal_of(warned)
            self._reporting.metrics.count_deprecated(warned.function, warned.version, removed_in)

    # Metrics

    def _count(
        self, phase: PhaseLabels, outcome: str, status: PhaseStatus, end: datetime, reason: str = ""
    ) -> None:
        seconds = _seconds(status.start_time, end)
        self._reporting.metrics.end_phase(phase, outcome, reason, seconds, self._trace_id)

    @property
    def _trace_id(self) -> str:
        """The ID of the run's trace, which begins before the first report."""
        if self._trace is None:
            self._trace = self._run().trace_id
        return self._trace

    def _resolve(self, index: int, outcome: Outcome, status: Status) -> None:
        """Count an action once, when it has ended."""
        if index in self._resolved:
            return
        self._resolved.add(index)
        action = status.actions[index]
        is_good = (
            current_phase(action) is None
            and (action.deferred is None or action.deferred.state is State.COMPLETE)
            and not isinstance(outcome, ArtifactsFailed | LaunchFailed)
        )
        self._reporting.metrics.resolutions.labels(SUCCESS if is_good else FAILURE).inc()
        self._end_act(index, COMPLETE if is_good else FAILED, status)

    def _end_act(self, index: int, outcome: str, status: Status) -> None:
        action_status = status.actions[index]
        if outcome == FAILED and _is_cancelled(action_status, status):
            outcome = CANCELLED
        end = action_status.completion_time
        seconds = _seconds(action_status.start_time, end) if end is not None else None
        self._reporting.metrics.end_run(
            self._action_labels[index], outcome, seconds, self._trace_id
        )

    def _end(self, status: Status) -> None:
        for action in sorted(self._launched):
            self._report_launch(action)
        reason = status.error.reason if status.error is not None else ""
        self._reporting.metrics.action_sets.labels(str(status.state), reason).inc()
        for index in set(range(len(self._action_labels))) - self._resolved:
            # None of its phases has ended: it was cancelled, or could not be launched.
            self._resolved.add(index)
            self._end_act(index, FAILED, status)
        if status.state is State.COMPLETE:
            _, phase = self._ended
            with_phase = f": completed {phase}" if phase else ""
            message = f"Updated ActionSet '{self._key.name}' Status->complete{with_phase}"
            self._post(NORMAL, "Update Complete", message)
        else:
            self._report_ended()
        if status.error is None:
            self._log(f"is {status.state}", status)
        elif reason == CANCELLED_REASON:
            self._log(f"was cancelled: {status.error.message}", status, reason=reason)
        else:
            # The failure of an action that could not start was not logged with a phase.
            self._log(
                f"is {status.state}: {status.error.message}",
                status,
                level=logging.WARNING,
                reason=reason,
            )

    # Events and log lines

    def _post(self, kind: str, reason: str, message: str) -> None:
        self._reporting.post_event(self._subject, kind, reason, message)

    def _log(
        self,
        what: str,
        status: Status,
        place: Place | None = None,
        level: int = logging.INFO,
        reason: str = "",
    ) -> None:
        if not _LOG.isEnabledFor(level):
            return
        fields: dict[str, Any] = {
            "namespace": self._key.namespace,
            "actionSet": self._key.name,
            "reason": reason,
            "traceId": self._trace_id,
        }
        if place is not None:
            phase_status = status.phase_at(place)
            phase = self._course.phase(place)
            fields |= {
                "action": self._course.actions[place.action].spec.name,
                "phase": phase.name,
                "function": phase.func,
                "version": phase_status.func_version,
                "attempt": phase_status.attempt,
            }
        _LOG.log(level, "ActionSet %s %s", self._key, what, extra=fields_of(**fields))


def _is_cancelled(action: ActionStatus, status: Status) -> bool:
    errors = [status.error, *(phase.error for phase in action.phases)]
    return any(error is not None and error.reason == CANCELLED_REASON for error in errors)


def _seconds(start: datetime | None, end: datetime) -> float | None:
    return max(0.0, (end - start).total_seconds()) if start is not None else None


def _is_last(status: Status) -> bool:
    """Return whether all phases have ended, so that only the end of the ActionSet remains."""
    return status.totals.open_actions == 0 or all(
        action.completion_time is not None
        or (
            current_phase(action) is None
            and (action.deferred is None or action.deferred.state is State.COMPLETE)
        )
        for action in status.actions
    )

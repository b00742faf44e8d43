"""Summary of a run that has ended: its result, its outputs, and possible next steps."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from kanister_py.cli.frame import (
    Row,
    choose_rows,
    count_of,
    heading,
    lines_of_ended,
    rows_of,
)
from kanister_py.cli.missing_inputs import flags_for_missing
from kanister_py.cli.output import Line, Tint
from kanister_py.core.actionsets.status import AFTER_THAT, CANCEL_ASKED, RunError, State, Status
from kanister_py.core.errors import RunCancelled, RunStopped
from kanister_py.core.kube.durations import exact_seconds
from kanister_py.core.templates.render import ORIGINAL

_MAX_PHASES: Final = 100
_MAX_NAMES: Final = 8
_ANY_WIDTH: Final = 2000
_MISSING: Final = ("ObjectMissing", "ObjectNotFetched", "NotFound")


class EndedRun(NamedTuple):
    """Summary of a run that has ended. `is_stopped` is set if the user interrupted it.

    `state` is the folder that stores the run, empty for none; `is_kept` is unset if the end
    could not be written there. `locations` is the folder used instead of object stores.
    `resume_flags` are needed to resume the run, `retry_with` is the command that retries a run
    of a controller. `missing_object_hint` tells how to add a missing object to the cluster,
    `input_flags` names the flag that provides each root of templates.
    """

    name: str
    status: Status
    seconds: float
    is_stopped: bool = False
    is_kept: bool = True
    state: str = ""
    locations: str = ""
    resume_flags: Sequence[str] = ()
    retry_with: Sequence[str] = ()
    missing_object_hint: str = ""
    input_flags: Mapping[str, str] = MappingProxyType({})

    @property
    def is_cancelled(self) -> bool:
        """Whether the user cancelled the run; a run that timed out has failed instead."""
        condition = self.status.condition(CANCEL_ASKED)
        return (
            self.status.error is not None
            and condition is not None
            and condition.reason == RunCancelled.reason
        )


def summary_of(run: EndedRun, width: int | None = None) -> Iterator[Line]:
    """Yield a summary in a few lines, cut to `width` if it is set."""
    state, mark, colour = _state_of(run)
    yield [
        Tint(mark, colour),
        f" Run {run.name}: ",
        Tint(state, colour),
        f" after {exact_seconds(run.seconds)}",
    ]
    yield from _phases(run, width or _ANY_WIDTH)
    rows = rows_of(run.status)
    yield from _listed("outputs", _outputs(rows))
    yield from _listed("artifacts", [*run.status.output_artifacts])
    if run.state:
        place = f"{run.state}, as {run.name}"
        note = "" if run.is_kept else ", except its end, which could not be written"
        yield _entry("stored in", f"{place}{note}")
    if run.locations:
        yield _entry("objects in", f"{run.locations}, used instead of all object stores")
    if run.is_stopped:
        interrupted = [_full_name(row) for row in rows if _was_interrupted(row)]
        yield _entry("stopped", _few(interrupted) or "nothing")
    if run.status.error is not None:
        waiting = [_full_name(row) for row in rows if row.phase.state is State.PENDING]
        if waiting:
            yield _entry("not run", _few(waiting))
    if run.status.error is not None:
        yield from _failure(run.status.error, run)
    yield from _next(run)


def _state_of(run: EndedRun) -> tuple[str, str, str]:
    if run.is_stopped:
        return "stopped at once", "✗", "yellow"
    if run.is_cancelled:
        return "cancelled", "✗", "yellow"
    if run.status.state is State.COMPLETE:
        return "complete", "✓", "green"
    return str(run.status.state), "✗", "red"


def _phases(run: EndedRun, width: int) -> Iterator[Line]:
    rows = [_without_error(row, run.status.error) for row in rows_of(run.status)]
    chosen, hidden = choose_rows(rows, _MAX_PHASES)
    for action in run.status.actions:
        action_rows = [row for row in chosen if row.action is action]
        if hidden and not action_rows:
            continue
        yield heading(action)
        yield from lines_of_ended(action_rows, chosen, width)
    if hidden:
        yield Tint(f"    … {count_of(hidden)} not shown", "dim")


def _without_error(row: Row, failure: RunError | None) -> Row:
    """Remove the error of a phase if the error of the run repeats it."""
    error = row.phase.error
    if error is None or failure is None:
        return row
    is_repeated = error.message in failure.message or any(
        problem in error.message for problem in failure.problems
    )
    return row._replace(phase=row.phase._replace(error=None)) if is_repeated else row


def _was_interrupted(row: Row) -> bool:
    return row.phase.error is not None and row.phase.error.reason == RunStopped.reason


def _full_name(row: Row) -> str:
    return f"{row.action.name}/{row.phase.name}"


def _outputs(rows: Sequence[Row]) -> list[str]:
    return [
        f"{row.phase.name}: {_few([*row.phase.output.values])}"
        for row in rows
        if row.phase.output is not None and row.phase.output.values
    ]


def _few(names: Sequence[str]) -> str:
    more = len(names) - _MAX_NAMES
    text = ", ".join(names[:_MAX_NAMES])
    return f"{text} and {more} more" if more > 0 else text


def _listed(title: str, entries: Sequence[str]) -> Iterator[Line]:
    for index, entry in enumerate(entries[:_MAX_NAMES]):
        yield _entry(title if index == 0 else "", entry)
    if len(entries) > _MAX_NAMES:
        yield _entry("", f"and {len(entries) - _MAX_NAMES} more")


def _entry(title: str, text: str) -> Line:
    return ["  ", Tint(f"{title:<11}", "bold"), text]


def _failure(error: RunError, run: EndedRun) -> Iterator[Line]:
    cause, _, afterwards = error.message.partition(AFTER_THAT)
    code = f", exit code {error.exit_code}" if error.exit_code is not None else ""
    # The reason and the log are on separate lines.
    cause = cause.removesuffix(f"; last log lines: {' | '.join(error.log_tail)}")
    cause = cause.removesuffix(f" ({error.reason}{code})")
    if error.problems:
        yield [Tint("error:", "red"), f" {_refused(error, run.status)}"]
        for problem in error.problems:
            message, _, original = problem.partition(ORIGINAL)
            yield ["  ", Tint("✗", "red"), f" {message}"]
            if original:
                yield _entry("", f"Kanister: {original}")
    else:
        message, _, original = cause.partition(ORIGINAL)
        yield [Tint("error:", "red"), f" {message}"]
        if original:
            yield _entry("Kanister", original)
    if afterwards:
        yield _entry("after that", afterwards)
    place = "/".join(name for name in (error.action, error.phase) if name)
    if place:
        attempt = f", attempt {error.attempt}" if error.attempt else ""
        yield _entry("place", f"{place}{attempt}")
    if error.reason or code:
        yield _entry("reason", f"{error.reason}{code}")
    if error.reason in _MISSING and run.missing_object_hint:
        yield _entry("fix", run.missing_object_hint)
    yield from _listed("fix", flags_for_missing(error.problems, run.input_flags))
    yield from (
        _entry("last log" if index == 0 else "", f"│ {line}")
        for index, line in enumerate(error.log_tail)
    )


def _refused(error: RunError, status: Status) -> str:
    if error.attempt:
        return f"Phase {error.phase} of action {error.action} failed"
    if len(status.actions) == 1:
        return f"Action {error.action} would fail, so nothing was started"
    if status.totals.unlaunched == len(status.actions):
        return "The ActionSet would fail, so nothing was started"
    return f"Action {error.action} would fail, so it was not started"


def _was_refused(status: Status) -> bool:
    """Return whether a run was refused before any of its phases started."""
    is_alone = len(status.actions) == 1 or status.totals.unlaunched == len(status.actions)
    return is_alone and status.error is not None and not status.error.attempt


def _next(run: EndedRun) -> Iterator[Line]:
    if run.status.error is None:
        return
    if run.retry_with:
        yield _entry("retry", shlex.join(run.retry_with))
        return
    if run.status.error.problems and (not run.state or _was_refused(run.status)):
        # There is nothing to resume: no phase ran, and the stored run would be refused again.
        return
    if not run.state:
        hint = "runs with --state DIR can be continued: --resume, --retry-from PHASE"
        yield _entry("next", hint)
        return
    words = ["kanister-py", "run", "--state", run.state, "--resume", run.name, *run.resume_flags]
    if not run.is_kept:
        yield _entry("resume", shlex.join(words))
        return
    phase = _to_retry(run.status)
    if phase:
        yield _entry("retry", shlex.join([*words, "--retry-from", phase]))


def _to_retry(status: Status) -> str:
    """Return the first phase to retry; deferred phases run without being named."""
    error = status.error
    return next(
        (
            phase.name
            for action in status.actions
            if error is None or not error.action or action.name == error.action
            for phase in action.phases
            if phase.state is not State.COMPLETE
        ),
        "",
    )

"""Summary of a run: how it ended, what it left, and what can be done next."""

from __future__ import annotations

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
from kanister_py.cli.output import Line, Tint
from kanister_py.cli.remedies import ways_to_give
from kanister_py.core.actionsets.status import AFTER_THAT, CANCEL_ASKED, RunError, State, Status
from kanister_py.core.errors import RunCancelled, RunStopped
from kanister_py.core.kube.durations import exact_seconds
from kanister_py.core.templates.render import ORIGINAL

_MOST_PHASES: Final = 100
_MOST_NAMES: Final = 8
_ANY_WIDTH: Final = 2000
_MISSING: Final = ("ObjectMissing", "ObjectNotFetched", "NotFound")


class Ending(NamedTuple):
    """A run that nobody carries on any more. `is_stopped`: it was ended at once.

    `state` is the folder it is kept in, empty for none, `locations` the one that stood in
    for every store of a Profile; `is_kept` says whether this end
    is written down there; `more` are the words of the command line that it needs again
    to be taken up. `retry_with` is the command that does a run of a controller again, and
    `brings` says how an object that is missing comes into the cluster, `gives` by the root
    that templates read it from how a name is given.
    """

    name: str
    status: Status
    seconds: float
    is_stopped: bool = False
    is_kept: bool = True
    state: str = ""
    locations: str = ""
    more: Sequence[str] = ()
    retry_with: Sequence[str] = ()
    brings: str = ""
    gives: Mapping[str, str] = MappingProxyType({})

    @property
    def is_cancelled(self) -> bool:
        """Whether the user asked for the end; a run whose time was over is a failed one."""
        asked = self.status.condition(CANCEL_ASKED)
        return (
            self.status.error is not None
            and asked is not None
            and asked.reason == RunCancelled.reason
        )


def summary_of(ending: Ending, width: int | None = None) -> Iterator[Line]:
    """Sum up a run in a few lines; without a width none of them is cut."""
    state, mark, colour = _state_of(ending)
    yield [
        Tint(mark, colour),
        f" Run {ending.name}: ",
        Tint(state, colour),
        f" after {exact_seconds(ending.seconds)}",
    ]
    yield from _phases(ending, width or _ANY_WIDTH)
    rows = rows_of(ending.status)
    yield from _listed("outputs", _outputs(rows))
    yield from _listed("artifacts", [*ending.status.output_artifacts])
    if ending.state:
        where = f"{ending.state}, as {ending.name}"
        kept = where if ending.is_kept else f"{where}, but for this end: it could not be written"
        yield _entry("kept in", kept)
    if ending.locations:
        yield _entry("stored in", f"{ending.locations}, a folder in place of every store")
    if ending.is_stopped:
        left = [_named(each) for each in rows if _was_cut_off(each)]
        yield _entry("cut off", _few(left) or "nothing")
    if ending.status.error is not None:
        waiting = [_named(each) for each in rows if each.phase.state is State.PENDING]
        if waiting:
            yield _entry("not run", _few(waiting))
    if ending.status.error is not None:
        yield from _failure(ending.status.error, ending)
    yield from _next(ending)


def _state_of(ending: Ending) -> tuple[str, str, str]:
    if ending.is_stopped:
        return "stopped at once", "✗", "yellow"
    if ending.is_cancelled:
        return "cancelled", "✗", "yellow"
    if ending.status.state is State.COMPLETE:
        return "complete", "✓", "green"
    return str(ending.status.state), "✗", "red"


def _phases(ending: Ending, width: int) -> Iterator[Line]:
    rows = [_without_error(row, ending.status.error) for row in rows_of(ending.status)]
    chosen, hidden = choose_rows(rows, _MOST_PHASES)
    for action in ending.status.actions:
        own = [each for each in chosen if each.action is action]
        if hidden and not own:
            continue
        yield heading(action)
        yield from lines_of_ended(own, chosen, width)
    if hidden:
        yield Tint(f"    … {count_of(hidden)} not shown", "dim")


def _without_error(row: Row, failure: RunError | None) -> Row:
    """Leave out the error of a phase that the error of the run repeats below."""
    error = row.phase.error
    if error is None or failure is None:
        return row
    is_repeated = error.message in failure.message or any(
        problem in error.message for problem in failure.problems
    )
    return row._replace(phase=row.phase._replace(error=None)) if is_repeated else row


def _was_cut_off(row: Row) -> bool:
    return row.phase.error is not None and row.phase.error.reason == RunStopped.reason


def _named(row: Row) -> str:
    return f"{row.action.name}/{row.phase.name}"


def _outputs(rows: Sequence[Row]) -> list[str]:
    return [
        f"{each.phase.name}: {_few([*each.phase.output.values])}"
        for each in rows
        if each.phase.output is not None and each.phase.output.values
    ]


def _few(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMES
    text = ", ".join(names[:_MOST_NAMES])
    return f"{text} and {more} more" if more > 0 else text


def _listed(what: str, entries: Sequence[str]) -> Iterator[Line]:
    for index, each in enumerate(entries[:_MOST_NAMES]):
        yield _entry(what if index == 0 else "", each)
    if len(entries) > _MOST_NAMES:
        yield _entry("", f"and {len(entries) - _MOST_NAMES} more")


def _entry(what: str, text: str) -> Line:
    return ["  ", Tint(f"{what:<11}", "bold"), text]


def _failure(error: RunError, ending: Ending) -> Iterator[Line]:
    cause, _, afterwards = error.message.partition(AFTER_THAT)
    code = f", exit code {error.exit_code}" if error.exit_code is not None else ""
    # The reason and the log have lines of their own.
    cause = cause.removesuffix(f"; last log lines: {' | '.join(error.log_tail)}")
    cause = cause.removesuffix(f" ({error.reason}{code})")
    if error.problems:
        yield [Tint("error:", "red"), f" {_refused(error, ending.status)}"]
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
    where = "/".join(each for each in (error.action, error.phase) if each)
    if where:
        attempt = f", attempt {error.attempt}" if error.attempt else ""
        yield _entry("where", f"{where}{attempt}")
    if error.reason or code:
        yield _entry("reason", f"{error.reason}{code}")
    if error.reason in _MISSING and ending.brings:
        yield _entry("bring it", ending.brings)
    yield from _listed("give it", ways_to_give(error.problems, ending.gives))
    yield from (
        _entry("last log" if index == 0 else "", f"│ {line}")
        for index, line in enumerate(error.log_tail)
    )


def _refused(error: RunError, status: Status) -> str:
    if error.attempt:
        return f"Phase {error.phase} of action {error.action} failed"
    if len(status.actions) == 1:
        return f"Action {error.action} cannot go well, and nothing was touched"
    if status.totals.unlaunched == len(status.actions):
        return "The ActionSet cannot go well, and nothing was touched"
    return f"Action {error.action} cannot go well, and has touched nothing"


def _is_untouched(status: Status) -> bool:
    """Say whether a run was refused before any of its phases began."""
    is_alone = len(status.actions) == 1 or status.totals.unlaunched == len(status.actions)
    return is_alone and status.error is not None and not status.error.attempt


def _next(ending: Ending) -> Iterator[Line]:
    if ending.status.error is None:
        return
    if ending.retry_with:
        import shlex

        yield _entry("try again", shlex.join(ending.retry_with))
        return
    if ending.status.error.problems and (not ending.state or _is_untouched(ending.status)):
        # Nothing was done that another run could go on from; and what is kept is refused again.
        return
    if not ending.state:
        hint = "with --state DIR a run can go on: --resume, --retry-from PHASE"
        yield _entry("next", hint)
        return
    import shlex

    words = ["kanister-py", "run", "--state", ending.state, "--resume", ending.name, *ending.more]
    if not ending.is_kept:
        yield _entry("take it up", shlex.join(words))
        return
    phase = _to_retry(ending.status)
    if phase:
        yield _entry("try again", shlex.join([*words, "--retry-from", phase]))


def _to_retry(status: Status) -> str:
    """Name the phase that a new run would begin with; deferred ones run by themselves."""
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

"""Run an action of a blueprint, here and now, and follow it to its end.

kanister-py run blueprint.yaml backup --object Deployment/shop/db -f manifests/
kanister-py run blueprint.yaml hello --pods=processes --state ./state -o yaml
kanister-py run --state ./state --resume

Without a cluster it runs in one of its own, in memory. Ctrl-C cancels: phases at work
are told to stop, deferred phases run; a second Ctrl-C stops at once. Ends with 0 when
the action is complete, with 1 when it failed, with 130 when it was cancelled.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Lock
from types import FrameType
from typing import TYPE_CHECKING, Any, Self

from kanister_py.cli.inputs import add_inputs, inputs_of, objects_in, options_of
from kanister_py.cli.output import has_colours, paint, say
from kanister_py.core.objects.durations import parse_seconds

if TYPE_CHECKING:
    from kanister_py.core.actionsets.outcomes import Outcome
    from kanister_py.core.actionsets.status import Status
    from kanister_py.executor.run_handle import Run
    from kanister_py.wiring import RunSettings

SUMMARY = "Run an action of a blueprint and follow it to its end"
_FAILED, _CANCELLED, _USAGE = 1, 130, 64
_LOOK_SECONDS = 0.1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("blueprint", nargs="?", help="the file of the blueprint")
    parser.add_argument("action", nargs="?", help="which of its actions")
    add_inputs(parser)
    parser.add_argument(
        "--artifacts-from", metavar="RUN", help="take the artifacts of an earlier run"
    )
    how = parser.add_argument_group("how it runs")
    how.add_argument(
        "--pods",
        choices=("processes",),
        help="run pods as processes of this machine: executes their commands here",
    )
    how.add_argument("--state", type=Path, metavar="DIR", help="keep cluster and journal here")
    how.add_argument("--name", default="", help="what the run is called")
    how.add_argument(
        "--resume",
        nargs="?",
        const="",
        metavar="RUN",
        help="take up a run where its process left it; the last one, if none is named",
    )
    how.add_argument("--retry-from", metavar="PHASE", help="run again from a phase on")
    how.add_argument("--timeout", metavar="DURATION", help="cancel after so long, such as 30m")
    how.add_argument("-o", "--output", choices=("yaml", "json"), help="print the final status")


def run(args: argparse.Namespace) -> int:
    why = _why_unclear(args)
    if why:
        say(f"kanister-py run: {why}; see kanister-py run --help")
        return _USAGE
    view = View()
    timeout = parse_seconds(args.timeout) if args.timeout else None
    with _Interrupts() as interrupts:
        if args.pods:
            from kanister_py.adapters.pods_processes import WARNING

            say(f"{paint('warning:', 'yellow', sys.stderr)} {WARNING}")
        started = _start(args, view)
        is_aborted = _follow(started, interrupts, view, timeout)
    view.close()
    return _end(started, args, view, is_aborted=is_aborted)


def _why_unclear(args: argparse.Namespace) -> str:
    takes_up = args.resume is not None or args.retry_from is not None
    if takes_up and args.state is None:
        return "--resume and --retry-from need --state"
    if args.artifacts_from and args.state is None:
        return "--artifacts-from needs --state"
    if args.resume is not None and args.retry_from is not None:
        return ""
    if not takes_up and not (args.blueprint and args.action):
        return "A blueprint and an action are wanted"
    return ""


def _start(args: argparse.Namespace, view: View) -> Run:
    from kanister_py import wiring

    settings = wiring.RunSettings(
        objects=tuple(objects_in(args.files)),
        state=args.state,
        pods=args.pods or "",
        name=args.name,
        namespace=args.namespace,
        is_strict=args.strict_versions,
        onlooker=view,
    )
    if args.retry_from is not None:
        return wiring.retry_run(args.resume or "", args.retry_from, settings)
    if args.resume is not None:
        return wiring.resume_run(args.resume, settings)
    return _start_new(args, settings)


def _start_new(args: argparse.Namespace, settings: RunSettings) -> Run:
    from kanister_py import wiring

    more = inputs_of(args)
    if args.artifacts_from:
        more["artifacts"] = wiring.read_artifacts(args.artifacts_from, settings)
    return wiring.run_blueprint(
        args.blueprint,
        args.action,
        object=args.object,
        options=options_of(args),
        settings=settings,
        **more,
    )


class _Interrupts:
    """Counts Ctrl-C instead of breaking off wherever the process happens to be."""

    def __init__(self) -> None:
        self.count = 0
        self._before: Any = None

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGINT, self._note)
        self._before_term = signal.signal(signal.SIGTERM, self._note)
        return self

    def __exit__(self, *exc: object) -> None:
        signal.signal(signal.SIGINT, self._before)
        signal.signal(signal.SIGTERM, self._before_term)

    def _note(self, _signal: int, _frame: FrameType | None) -> None:
        self.count += 1


def _follow(started: Run, interrupts: _Interrupts, view: View, timeout: float | None) -> bool:
    """Wait for the end, and say whether somebody could not wait for it."""
    deadline = None if timeout is None else time.monotonic() + timeout
    was_cancelled = False
    while not started.is_over:
        if interrupts.count >= 2:
            started.abort()
            return True
        if interrupts.count and not was_cancelled:
            was_cancelled = True
            view.tell("Cancelling; deferred phases still run. Ctrl-C again stops at once")
            started.cancel()
        if deadline is not None and time.monotonic() >= deadline and not was_cancelled:
            was_cancelled = True
            view.tell("The time is over: cancelling")
            started.cancel("RunTimedOut")
        started.wait(_LOOK_SECONDS)
        view.refresh(started.progress)
    started.wait()
    return False


def _end(started: Run, args: argparse.Namespace, view: View, *, is_aborted: bool) -> int:
    status = started.progress
    if args.output:
        _print(started.status, args.output)
    for notice in started.notices:
        say(f"{paint('warning:', 'yellow', sys.stderr)} {notice.message}")
    for line in view.summary(started.name, status):
        say(line)
    if is_aborted:
        left = [
            f"{action.name}/{phase.name}"
            for action in status.actions
            for phase in action.phases
            if str(phase.state) == "running"
        ]
        say(f"Stopped at once; left under way: {', '.join(left) or 'nothing'}")
        if args.state is not None:
            say(f"Take it up with: kanister-py run --state {args.state} --resume {started.name}")
        return _CANCELLED
    if status.error is None:
        return 0
    say(f"{paint('error:', 'red', sys.stderr)} {status.error.message}")
    is_cancelled = any(
        each.type == "CancelAsked" and each.reason == "Cancelled" for each in status.conditions
    )
    return _CANCELLED if is_cancelled else _FAILED


def _print(status: Mapping[str, Any], form: str) -> None:
    if form == "json":
        import json

        sys.stdout.write(json.dumps(status, indent=2, ensure_ascii=False) + "\n")
        return
    from kanister_py.core.objects.documents import dump_yaml

    sys.stdout.write(dump_yaml(dict(status)))


_COLOURS = {"complete": "green", "failed": "red", "running": "blue"}
_MARKS = {"complete": "✓", "failed": "✗", "running": "…", "pending": "·"}


class View:
    """Shows a run while it runs: a line that is kept up to date on a terminal, else plain lines."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._is_live = sys.stderr.isatty() and has_colours(sys.stderr)
        self._began = time.monotonic()
        self._last_line = ""
        self._shown = False

    def on_outcome(self, outcome: Outcome, status: Status) -> None:
        line = _told(outcome, status)
        if line:
            self.tell(line)

    def on_log(self, action: str, phase: str, line: str) -> None:
        with self._lock:
            self._last_line = line
        if not self._is_live:
            self.tell(f"  {action}/{phase} | {line}")

    def tell(self, line: str) -> None:
        with self._lock:
            self._wipe()
            sys.stderr.write(f"{line}\n")

    def refresh(self, status: Status) -> None:
        """Bring the live line up to date."""
        if not self._is_live:
            return
        percent = f"{status.percent or 0:3d}%"
        seconds = time.monotonic() - self._began
        text = f"{percent} {status.running_phase or '-'} {seconds:.0f}s  {self._last_line}"
        with self._lock:
            self._wipe()
            sys.stderr.write(text[:100])
            sys.stderr.flush()
            self._shown = True

    def close(self) -> None:
        with self._lock:
            self._wipe()

    def _wipe(self) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            self._shown = False

    def summary(self, name: str, status: Status) -> Iterator[str]:
        """Say in a few lines how a run ended."""
        seconds = time.monotonic() - self._began
        state = paint(str(status.state), _COLOURS.get(str(status.state), "bold"), sys.stderr)
        yield f"Run {name}: {state} after {seconds:.1f}s"
        for action in status.actions:
            deferred = [action.deferred] if action.deferred is not None else []
            for phase in (*action.phases, *deferred):
                mark = _MARKS[str(phase.state)]
                note = " (skipped)" if phase.is_skipped else ""
                yield f"  {mark} {action.name}/{phase.name} {phase.func_version}{note}".rstrip()


def _told(outcome: Outcome, status: Status) -> str:
    """Say in a line what happened; nothing of what is no news to people."""
    from kanister_py.core.actionsets.outcomes import (
        PhaseCompleted,
        PhaseFailed,
        PhaseSkipped,
        PhaseStarted,
    )

    if not isinstance(outcome, PhaseStarted | PhaseCompleted | PhaseSkipped | PhaseFailed):
        return ""
    phase = status.phase_at(outcome.place)
    where = f"{status.actions[outcome.place.action].name}/{phase.name}"
    if isinstance(outcome, PhaseStarted):
        again = f" (attempt {outcome.attempt})" if outcome.attempt > 1 else ""
        return f"{paint('▶', 'blue', sys.stderr)} {where}{again}"
    if isinstance(outcome, PhaseFailed):
        more = ""
        if phase.retry_time is not None:
            more = f"; tried again at {phase.retry_time:%H:%M:%S}"
        return f"{paint('✗', 'red', sys.stderr)} {where}: {outcome.error.message}{more}"
    note = " skipped" if isinstance(outcome, PhaseSkipped) else ""
    return f"{paint('✓', 'green', sys.stderr)} {where}{note}"

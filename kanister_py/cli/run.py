"""Run an action of a blueprint, or an ActionSet, and show its progress until it ends.

kanister-py run blueprint.yaml backup --object Deployment/shop/db -f manifests/
kanister-py run blueprint.yaml hello --pods processes --state ./state -o yaml
kanister-py run actionset.yaml -f blueprint.yaml -f manifests/
kanister-py run --state ./state --resume
kanister-py run --context prod -n shop mysql-backup backup --object StatefulSet/shop/db

By default the run uses an embedded cluster in memory. With --context or --kubeconfig it uses a
real cluster, without a controller; the blueprint may then be the name of one on the cluster.

Without an ACTION, the file contains an ActionSet. Its blueprints are in the same file or in a
file of -f, or on the cluster. All its fields are used: several actions, executionMode, options,
artifacts, secrets, configMaps and so on.

Ctrl-C cancels the run: running phases are told to stop, deferred phases still run; a second
Ctrl-C stops at once. Exit codes: 0 complete, 1 failed, 130 cancelled.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kanister_py.cli import exit_codes
from kanister_py.cli.connection import (
    add_connection,
    blueprint_on,
    connected,
    connection_words,
    is_connected,
    located_blueprint,
)
from kanister_py.cli.inputs import (
    add_inputs,
    inputs_of,
    names_actionset,
    objects_in,
    places_of_refused,
    read_actionset,
)
from kanister_py.cli.missing_inputs import flags_by_root
from kanister_py.cli.output import is_terminal, say, say_error, say_warning, write_data
from kanister_py.cli.parser import (
    CommandLineError,
    add_tracing_argument,
    port,
    seconds_from,
    switch,
)
from kanister_py.cli.stop_signals import StopSignals
from kanister_py.cli.view import View, view_on
from kanister_py.core.errors import KanisterError

if TYPE_CHECKING:
    from kanister_py.cli.run_page import RunPage
    from kanister_py.executor.run.background import Run
    from kanister_py.executor.run.state import RunObserver
    from kanister_py.ports.clock import Clock
    from kanister_py.ports.cluster import Cluster
    from kanister_py.runs import RunSettings

_POLL_SECONDS = 0.1
# The live view handles Ctrl-Z itself.
_STOPS = ("SIGINT", "SIGTERM")
_FLAGS_OF_NEW_RUNS = (
    "--blueprint-name",
    "--object",
    "--option",
    "--secret",
    "--config-map",
    "--profile",
    "--preferred-version",
    "--artifacts-from",
)
_MISSING_OBJECT_HINT = (
    "load its manifest with -f FILE, or name another one in a new run with --object, --secret, "
    "--config-map or --profile"
)
_ARTIFACTS = {".ArtifactsIn": "--state DIR --artifacts-from RUN: artifacts of an earlier run"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "blueprint",
        nargs="?",
        help="blueprint as a file, - for stdin, or a name on the cluster; or file of an ActionSet",
    )
    parser.add_argument("action", nargs="?", help="name of the action; none for an ActionSet")
    parser.add_argument(
        "--blueprint-name",
        default="",
        metavar="NAME",
        help="name of the blueprint, if the file has several",
    )
    add_inputs(parser)
    add_connection(parser)
    parser.add_argument(
        "--artifacts-from", metavar="RUN", help="use the artifacts of an earlier run as inputs"
    )
    group = parser.add_argument_group("execution")
    add_tracing_argument(group)
    group.add_argument(
        "--pods",
        choices=("processes",),
        help="run pods as local processes: this executes their commands here with your rights",
    )
    group.add_argument(
        "--locations",
        type=Path,
        metavar="DIR",
        help="with --pods: kando uses this folder instead of all object stores",
    )
    group.add_argument(
        "--state", type=Path, metavar="DIR", help="store the run here, so that it can be resumed"
    )
    group.add_argument("--name", default="", help="name of the run")
    group.add_argument(
        "--resume",
        nargs="?",
        const="",
        metavar="RUN",
        help="resume a run whose process ended; default: the last one",
    )
    switch(
        group,
        "--check-access",
        help="check the rights that all phases need before the first one starts",
    )
    group.add_argument("--retry-from", metavar="PHASE", help="run again from this phase")
    group.add_argument(
        "--timeout",
        type=seconds_from("1ms"),
        metavar="DURATION",
        help="cancel the run after this time, such as 30m",
    )
    group.add_argument(
        "--page",
        nargs="?",
        type=port,
        const=0,
        metavar="PORT",
        help="also show the run on a local web page; on a terminal until Ctrl-C",
    )
    group.add_argument("-o", "--output", choices=("yaml", "json"), help="print the final status")
    switch(group, "--show-secrets", help="do not mask known secrets in the final status")
    switch(group, "--debug", help="print the whole traceback of an exception in a function")


def run(args: argparse.Namespace) -> int:
    problem = _problem_with(args)
    if problem:
        raise CommandLineError(problem)
    from kanister_py.wiring import pods_warning, system_clock

    if args.debug:
        from kanister_py.controller.machine.logs import set_up_logging

        set_up_logging("text", sys.stderr, "debug")
    clock = system_clock()
    view = view_on(sys.stderr, clock)
    start = clock.monotonic()
    with connected(args) as cluster, StopSignals() as signals, view:
        if args.pods:
            say_warning(pods_warning())
        if args.locations:
            say_warning(_locations_warning(args.locations))
        with _page(args, view, clock) as page:
            with places_of_refused(args.files):
                started = _start(args, page or view, cluster)
            if page is not None:
                page.run = started
            is_stopped = _follow(started, signals, view, args.timeout)
            fault = _wait_briefly(started)
            view.refresh(started.name, started.progress, started.notices)
            view.clear()
            if page is not None and is_terminal(sys.stderr):
                _keep_page(signals)
    seconds = clock.monotonic() - start
    code = _end(started, args, seconds, view.width, is_stopped=is_stopped)
    if fault is not None:
        # The error of the run contains a fault, unless the fault came after the end.
        if fault.message not in started.error:
            say_error(fault)
        return exit_codes.FAILED
    return code


def _problem_with(args: argparse.Namespace) -> str:
    """Return the problem with a combination of flags, or an empty text."""
    resumes = _resumes(args)
    if is_connected(args) and (args.pods or args.files):
        return "--pods and -f are for the embedded cluster, not for a real one"
    if args.locations and not args.pods and not resumes:
        return "--locations needs --pods"
    if resumes and args.state is None:
        return "--resume and --retry-from need --state"
    if resumes and (flags := _flags_of_new_runs(args)):
        return (
            f"{flags} cannot be changed: a resumed or retried run uses the inputs that it started "
            "with; to start a new run, leave out --resume and --retry-from"
        )
    if args.artifacts_from and args.state is None:
        return "--artifacts-from needs --state"
    if not resumes and not (args.blueprint and args.action) and not names_actionset(args):
        return "Name a blueprint and an action, or the file of an ActionSet"
    return ""


def _resumes(args: argparse.Namespace) -> bool:
    """Return whether an existing run is resumed or retried."""
    return args.resume is not None or args.retry_from is not None


def _flags_of_new_runs(args: argparse.Namespace) -> str:
    """Return the arguments on the command line that only a new run can have."""
    flags = {flag: flag.strip("-").replace("-", "_") for flag in _FLAGS_OF_NEW_RUNS}
    positionals = {"BLUEPRINT": args.blueprint, "ACTION": args.action}
    positionals |= {flag: getattr(args, name) for flag, name in flags.items()}
    if args.retry_from is None:
        positionals["--name"] = args.name
    return ", ".join(flag for flag, value in positionals.items() if value)


@contextmanager
def _page(args: argparse.Namespace, view: View, clock: Clock) -> Iterator[RunPage | None]:
    """Serve the page of the run if a flag asks for it."""
    if args.page is None:
        yield None
        return
    from kanister_py.cli.run_page import RunPage, run_page_served

    page = RunPage(view, clock, args.namespace)
    with run_page_served(page, clock, args.page) as url:
        say(f"The run is shown at {url}")
        yield page


def _keep_page(signals: StopSignals) -> None:
    """Serve the page until the next Ctrl-C."""
    while signals.wait(0):
        pass  # Earlier signals do not count.
    say("The run has ended; the page is served until Ctrl-C")
    while signals.wait() not in _STOPS:
        pass


def _start(args: argparse.Namespace, observer: RunObserver, cluster: Cluster | None) -> Run:
    from kanister_py import runs, wiring

    settings = runs.RunSettings(
        objects=tuple(objects_in(args.files)),
        cluster=cluster,
        state=args.state,
        pods=args.pods or "",
        locations=args.locations,
        name=args.name,
        namespace=args.namespace,
        is_strict=args.strict_versions,
        observer=observer,
        checks_access=args.check_access,
    )
    if not _resumes(args):
        return _start_new(args, settings)
    name = args.resume or ""
    if not is_connected(args):
        # Deferred phases that clean up need the same pods and locations as the first process.
        settings = runs.read_hosting(name, settings)
        if settings.locations and not settings.pods:
            raise CommandLineError("--locations needs --pods")
        if settings.pods and not args.pods:
            say_warning(f"Pods run in the same way as before, with --pods {settings.pods}")
            say_warning(wiring.pods_warning())
        if settings.locations and not args.locations:
            say_warning(_locations_warning(settings.locations))
        args.pods, args.locations = settings.pods, settings.locations
    if args.retry_from is not None:
        return runs.retry_run(name, args.retry_from, settings)
    return runs.resume_run(name, settings)


def _start_new(args: argparse.Namespace, settings: RunSettings) -> Run:
    from kanister_py import runs

    if not args.action:
        actionset = read_actionset(args, settings.cluster)
        return runs.run_actionset(actionset.actionset, actionset.blueprints, settings)
    inputs = inputs_of(args)
    if args.artifacts_from:
        inputs["artifacts"] = runs.read_artifacts(args.artifacts_from, settings)
    return runs.run_blueprint(
        blueprint_on(settings.cluster, args.blueprint, args.namespace)
        or located_blueprint(None, args),
        args.action,
        object=args.object,
        options=dict(args.option),
        settings=settings,
        **inputs,
    )


def _locations_warning(folder: Path) -> str:
    return f"kando uses the folder {folder} instead of all object stores"


def _input_flags(args: argparse.Namespace) -> dict[str, str]:
    """Return the flag that provides each root of templates, such as `.Secrets`."""
    pods = {".Pods": "--pods processes: without it, no pods run here"}
    return {
        **({**flags_by_root(args), **_ARTIFACTS} if args.action else {}),
        **({} if args.pods or is_connected(args) else pods),
    }


def _follow(started: Run, signals: StopSignals, view: View, timeout: float | None) -> bool:
    """Wait for the end. Returns True if a second Ctrl-C stopped the run."""
    deadline = None if timeout is None else time.monotonic() + timeout
    interrupts, was_cancelled = 0, False
    while not started.is_over:
        interrupts += signals.wait(0) in _STOPS
        if interrupts >= 2:
            started.stop()
            return True
        if interrupts and not was_cancelled:
            was_cancelled = True
            view.add_line("Cancelling; deferred phases still run. Ctrl-C again stops at once")
            started.cancel()
        if deadline is not None and time.monotonic() >= deadline and not was_cancelled:
            was_cancelled = True
            view.add_line("Timeout reached: cancelling")
            started.cancel("RunTimedOut")
        _wait_briefly(started)
        view.refresh(started.name, started.progress, started.notices)
    return False


def _wait_briefly(started: Run) -> KanisterError | None:
    """Wait a moment for the run. Returns the error if a fault ended the run."""
    try:
        started.wait(_POLL_SECONDS)
    except KanisterError as error:
        return error
    return None


def _end(
    started: Run, args: argparse.Namespace, seconds: float, width: int | None, *, is_stopped: bool
) -> int:
    from kanister_py.cli.summary import EndedRun, summary_of

    locations = str(args.locations or "")
    if args.output:
        status = started.status if args.show_secrets else started.masked_status
        write_data({**status, "locations": locations} if locations else status, args.output)
    ended = EndedRun(
        started.name,
        started.progress,
        seconds,
        is_stopped=is_stopped,
        is_kept=started.is_kept,
        state=str(args.state or ""),
        locations=locations,
        resume_flags=[
            *connection_words(args),
            *(
                f"--{key}={value}"
                for key, value in (
                    ("pods", args.pods),
                    ("locations", args.locations),
                )
                if value
            ),
        ],
        missing_object_hint="" if is_connected(args) else _MISSING_OBJECT_HINT,
        input_flags=_input_flags(args),
    )
    for line in summary_of(ended, width):
        say(line)
    if is_stopped or ended.is_cancelled:
        return exit_codes.CANCELLED
    return exit_codes.FINE if started.progress.error is None else exit_codes.FAILED

"""Run an action of a blueprint, or an ActionSet, here and now, and follow it to its end.

kanister-py run blueprint.yaml backup --object Deployment/shop/db -f manifests/
kanister-py run blueprint.yaml hello --pods=processes --state ./state -o yaml
kanister-py run actionset.yaml -f blueprint.yaml -f manifests/
kanister-py run --state ./state --resume
kanister-py run --context prod -n shop mysql-backup backup --object StatefulSet/shop/db

Without a cluster it runs in one of its own, in memory; with --context or --kubeconfig on a
real one, where no controller is needed, and the blueprint may be one of the cluster's.
Without an action, the file holds an ActionSet; the blueprints it names stand beside it in
the file or come with -f. It runs as it is written: several actions, executionMode, options,
artifacts, secrets, configMaps and all else that an ActionSet says.
Ctrl-C cancels: phases at work are told to stop, deferred phases run; a second Ctrl-C stops
at once. Ends with 0 when the action is complete, with 1 when it failed, with 130 when it
was cancelled.
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
    read_actionset,
)
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

if TYPE_CHECKING:
    from kanister_py.cli.run_page import RunPage
    from kanister_py.core.errors import KanisterError
    from kanister_py.executor.run.background import Run
    from kanister_py.executor.run.state import Onlooker
    from kanister_py.ports.clock import Clock
    from kanister_py.ports.cluster import Cluster
    from kanister_py.runs import RunSettings

_LOOK_SECONDS = 0.1
# Ctrl-Z is another signal, and the live view's.
_STOPS = ("SIGINT", "SIGTERM")
_OF_THE_BEGINNING = (
    "--blueprint-name",
    "--object",
    "--option",
    "--secret",
    "--config-map",
    "--profile",
    "--preferred-version",
    "--artifacts-from",
)
_BRINGS = (
    "-f FILE gives its manifest; in a new run --secret, --config-map and --profile name another one"
)
_ARTIFACTS = {".ArtifactsIn": "--state DIR --artifacts-from RUN: what an earlier run left"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "blueprint",
        nargs="?",
        help="the file of the blueprint, or its name on the cluster; or the file of an ActionSet; "
        "- for stdin",
    )
    parser.add_argument("action", nargs="?", help="which of its actions; none for an ActionSet")
    parser.add_argument("--blueprint-name", default="", help="which one, if the file has several")
    add_inputs(parser)
    add_connection(parser)
    parser.add_argument(
        "--artifacts-from", metavar="RUN", help="take the artifacts of an earlier run"
    )
    how = parser.add_argument_group("how it runs")
    add_tracing_argument(how)
    how.add_argument(
        "--pods",
        choices=("processes",),
        help="run pods as processes of this machine: executes their commands here, with your "
        "rights",
    )
    how.add_argument(
        "--locations",
        type=Path,
        metavar="DIR",
        help="with --pods: for kando, this folder stands in for every store, and is kept",
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
    switch(
        how,
        "--check-access",
        help="ask the cluster for the rights of all phases before the first one acts",
    )
    how.add_argument("--retry-from", metavar="PHASE", help="run again from a phase on")
    how.add_argument(
        "--timeout",
        type=seconds_from("1ms"),
        metavar="DURATION",
        help="cancel after so long, such as 30m",
    )
    how.add_argument(
        "--page",
        nargs="?",
        type=port,
        const=0,
        metavar="PORT",
        help="show the run in a browser of this machine, too; on a terminal until Ctrl-C",
    )
    how.add_argument("-o", "--output", choices=("yaml", "json"), help="print the final status")
    switch(how, "--show-secrets", help="print known secrets in it as they are")


def run(args: argparse.Namespace) -> int:
    why = _why_unclear(args)
    if why:
        raise CommandLineError(why)
    from kanister_py.wiring import pods_warning, system_clock

    clock = system_clock()
    view = view_on(sys.stderr, clock)
    began = clock.monotonic()
    with connected(args) as cluster, StopSignals() as signals, view:
        if args.pods:
            say_warning(pods_warning())
        if args.locations:
            say_warning(_stand_in(args.locations))
        with _page(args, view, clock) as page:
            started = _start(args, page or view, cluster)
            if page is not None:
                page.run = started
            is_stopped = _follow(started, signals, view, args.timeout)
            why_broken = _why_broken(started)
            view.refresh(started.name, started.progress, started.notices)
            view.clear()
            if page is not None and is_terminal(sys.stderr):
                _stay(signals)
    seconds = clock.monotonic() - began
    code = _end(started, args, seconds, view.width, is_stopped=is_stopped)
    if why_broken is not None:
        # What broke a run stands in its error already, unless it came after the end.
        if why_broken.message not in started.error:
            say_error(why_broken)
        return exit_codes.FAILED
    return code


def _why_unclear(args: argparse.Namespace) -> str:
    takes_up = _takes_up(args)
    if is_connected(args) and (args.pods or args.files):
        return "--pods and -f are for a cluster in memory, not for a real one"
    if args.locations and not args.pods and not takes_up:
        return "--locations is for pods that run here: it needs --pods"
    if takes_up and args.state is None:
        return "--resume and --retry-from need --state"
    if takes_up and (given := _given_anew(args)):
        return (
            f"{given} cannot be said anew: a run that is taken up or done again has what it began "
            "with; without --resume and --retry-from a new run begins"
        )
    if args.artifacts_from and args.state is None:
        return "--artifacts-from needs --state"
    if not takes_up and not (args.blueprint and args.action) and not names_actionset(args):
        return "A blueprint and an action are wanted, or the file of an ActionSet"
    return ""


def _takes_up(args: argparse.Namespace) -> bool:
    """Say whether a run that is there is taken up or done again."""
    return args.resume is not None or args.retry_from is not None


def _given_anew(args: argparse.Namespace) -> str:
    """Name what belongs to the beginning of a run, and is on the command line."""
    flags = {flag: flag.strip("-").replace("-", "_") for flag in _OF_THE_BEGINNING}
    given = {"BLUEPRINT": args.blueprint, "ACTION": args.action}
    given |= {flag: getattr(args, name) for flag, name in flags.items()}
    if args.retry_from is None:
        given["--name"] = args.name
    return ", ".join(flag for flag, value in given.items() if value)


@contextmanager
def _page(args: argparse.Namespace, view: View, clock: Clock) -> Iterator[RunPage | None]:
    """Serve the page of the run, if one is wanted."""
    if args.page is None:
        yield None
        return
    from kanister_py.cli.run_page import RunPage, run_page_served

    page = RunPage(view, clock, args.namespace)
    with run_page_served(page, clock, args.page) as url:
        say(f"The run is shown at {url}")
        yield page


def _stay(signals: StopSignals) -> None:
    """Keep the page until the next Ctrl-C."""
    while signals.wait(0):
        pass  # what came before
    say("The run is over; the page stays until Ctrl-C")
    while signals.wait() not in _STOPS:
        pass


def _start(args: argparse.Namespace, onlooker: Onlooker, cluster: Cluster | None) -> Run:
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
        onlooker=onlooker,
        checks_access=args.check_access,
    )
    if not _takes_up(args):
        return _start_new(args, settings)
    name = args.resume or ""
    if not is_connected(args):
        # What its first process ran, the deferred phases of a run need to tidy up, too.
        settings = runs.read_hosting(name, settings)
        if settings.locations and not settings.pods:
            raise CommandLineError("--locations is for pods that run here: it needs --pods")
        if settings.pods and not args.pods:
            say_warning(f"Its pods run as when it began, --pods={settings.pods}")
            say_warning(wiring.pods_warning())
        if settings.locations and not args.locations:
            say_warning(_stand_in(settings.locations))
        args.pods, args.locations = settings.pods, settings.locations
    if args.retry_from is not None:
        return runs.retry_run(name, args.retry_from, settings)
    return runs.resume_run(name, settings)


def _start_new(args: argparse.Namespace, settings: RunSettings) -> Run:
    from kanister_py import runs

    if not args.action:
        given = read_actionset(args, settings.cluster)
        return runs.run_actionset(given.actionset, given.blueprints, settings)
    more = inputs_of(args)
    if args.artifacts_from:
        more["artifacts"] = runs.read_artifacts(args.artifacts_from, settings)
    return runs.run_blueprint(
        blueprint_on(settings.cluster, args.blueprint, args.namespace)
        or located_blueprint(None, args),
        args.action,
        object=args.object,
        options=dict(args.option),
        settings=settings,
        **more,
    )


def _stand_in(folder: Path) -> str:
    return f"For kando, the folder {folder} stands in for every store: it sends nothing to one"


def _gives(args: argparse.Namespace) -> dict[str, str]:
    """Say by which flags what templates lack is given."""
    from kanister_py.cli.remedies import inputs_that_give

    pods = {".Pods": "--pods processes: without it, nothing runs pods here"}
    return {
        **({**inputs_that_give(args), **_ARTIFACTS} if args.action else {}),
        **({} if args.pods or is_connected(args) else pods),
    }


def _follow(started: Run, signals: StopSignals, view: View, timeout: float | None) -> bool:
    """Wait for the end, and say whether a second Ctrl-C came before it."""
    deadline = None if timeout is None else time.monotonic() + timeout
    interrupts, was_cancelled = 0, False
    while not started.is_over:
        interrupts += signals.wait(0) in _STOPS
        if interrupts >= 2:
            started.stop()
            return True
        if interrupts and not was_cancelled:
            was_cancelled = True
            view.tell("Cancelling; deferred phases still run. Ctrl-C again stops at once")
            started.cancel()
        if deadline is not None and time.monotonic() >= deadline and not was_cancelled:
            was_cancelled = True
            view.tell("The time is over: cancelling")
            started.cancel("RunTimedOut")
        _why_broken(started)
        view.refresh(started.name, started.progress, started.notices)
    return False


def _why_broken(started: Run) -> KanisterError | None:
    """Wait a moment, and say what kept the run from an end of its own, if it has ended so."""
    from kanister_py.core.errors import KanisterError

    try:
        started.wait(_LOOK_SECONDS)
    except KanisterError as error:
        return error
    return None


def _end(
    started: Run, args: argparse.Namespace, seconds: float, width: int | None, *, is_stopped: bool
) -> int:
    from kanister_py.cli.summary import Ending, summary_of

    where = str(args.locations or "")
    if args.output:
        status = started.status if args.show_secrets else started.masked_status
        write_data({**status, "locations": where} if where else status, args.output)
    ending = Ending(
        started.name,
        started.progress,
        seconds,
        is_stopped=is_stopped,
        is_kept=started.is_kept,
        state=str(args.state or ""),
        locations=where,
        more=[
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
        brings="" if is_connected(args) else _BRINGS,
        gives=_gives(args),
    )
    for line in summary_of(ending, width):
        say(line)
    if is_stopped or ending.is_cancelled:
        return exit_codes.CANCELLED
    return exit_codes.FINE if started.progress.error is None else exit_codes.FAILED

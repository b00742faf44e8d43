"""Show all runs of a cluster: running and pending ones, and the results of ended ones.

kanister-py top
kanister-py top -A --state failed --since 24h
kanister-py top -A -o json

On a terminal the table is updated until Ctrl-C. With --once, or if stdout is not a terminal, it
is printed once. The controller's page /runs shows the same in a browser.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from kanister_py.cli.connection import add_connection, open_connection
from kanister_py.cli.live import Screen
from kanister_py.cli.output import (
    LIST_FORMATS,
    Cell,
    Line,
    Tint,
    is_terminal,
    table_of_objects,
    write_data,
)
from kanister_py.cli.parser import add_output, seconds_from, switch
from kanister_py.cli.stop_signals import StopSignals
from kanister_py.controller.machine.logs import PhaseLines
from kanister_py.controller.overview import ClusterOverview
from kanister_py.core.actionsets.overview import STATES, RunQuery, RunRow, matching_rows
from kanister_py.core.kube.durations import whole_seconds
from kanister_py.wiring import system_clock

if TYPE_CHECKING:
    from kanister_py.ports.clock import Clock
    from kanister_py.ports.cluster import Cluster

_COLOURS: Final = {
    "complete": "green",
    "failed": "red",
    "running": "blue",
    "suspended": "yellow",
}
_ACTIVE: Final = ("running", "pending", "suspended")
_POLL_SECONDS: Final = 1.0
_SPARE_LINES: Final = 6


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-n", "--namespace", default="", help="default: the namespace of the context"
    )
    switch(parser, "-A", "--all-namespaces", help="show the runs of all namespaces")
    parser.add_argument("--state", choices=STATES, default="", help="only runs in this state")
    parser.add_argument(
        "--blueprint", default="", metavar="NAME", help="only runs of this Blueprint"
    )
    parser.add_argument("--schedule", default="", metavar="NAME", help="only runs of this Schedule")
    parser.add_argument(
        "--since",
        type=seconds_from("1s"),
        default=0.0,
        metavar="DURATION",
        help="only runs that have not ended or started within this time; default: all",
    )
    switch(parser, "--once", help="print the table once")
    add_output(parser, LIST_FORMATS)
    add_connection(parser)


def run(args: argparse.Namespace) -> int:
    with open_connection(args) as cluster:
        return show(args, cluster, system_clock())


def show(args: argparse.Namespace, cluster: Cluster, clock: Clock) -> int:
    """Print the selected runs of a cluster, once or until Ctrl-C."""
    namespace = "" if args.all_namespaces else args.namespace or cluster.default_namespace
    query = RunQuery(
        blueprint=args.blueprint,
        state=args.state,
        schedule=args.schedule,
        age_seconds=args.since,
    )
    overview = ClusterOverview(cluster, clock, PhaseLines(clock), home="", namespaces=(namespace,))
    try:
        overview.wait_until_synced()
        if not args.once and args.output == "table" and is_terminal(sys.stdout):
            _follow(overview, query, clock, with_namespaces=not namespace)
        else:
            rows, now = chosen(overview, query, clock), clock.now()
            data = [row.as_dict() for row in rows]
            write_data(
                data,
                args.output,
                lambda: lines_of(
                    rows, now, with_namespaces=not namespace, is_wide=args.output == "wide"
                ),
                [row.name for row in rows],
            )
    finally:
        overview.close()
    return 0


def chosen(overview: ClusterOverview, query: RunQuery, clock: Clock) -> Sequence[RunRow]:
    """Return the selected runs: first those that have not ended, then the newest."""
    rows = matching_rows(overview.runs().rows, query, clock.now())
    return sorted(rows, key=lambda row: row.state not in _ACTIVE)


def lines_of(
    rows: Sequence[RunRow],
    now: datetime,
    *,
    with_namespaces: bool,
    trouble: str = "",
    is_wide: bool = False,
) -> list[Line]:
    """Return a table of runs below their counts; `trouble` is the reason for missing runs."""
    before: list[Line] = [[Tint(trouble, "red")]] if trouble else []
    counts = Counter(row.state for row in rows)
    head: list[Cell] = []
    for state in STATES:
        if counts[state]:
            head += [Tint(f"{counts[state]} {state}", _COLOURS.get(state, "dim")), "  "]
    if not head:
        return before or ["No runs"]
    names = ["STATE", "RUN", "ACTION", "BLUEPRINT", "NOW", "TOOK", "AGE"]
    cells = [_row(row, now) for row in rows]
    if is_wide:
        names += ["SCHEDULE", "WARNINGS"]
        wide = [(row.schedule, str(row.warnings or "")) for row in rows]
        cells = [[*row, *more] for row, more in zip(cells, wide, strict=True)]
    namespaces = [row.namespace for row in rows] if with_namespaces else None
    return [*before, head, *table_of_objects(names, cells, namespaces, at=1)]


def _row(row: RunRow, now: datetime) -> list[Cell]:
    seconds = row.seconds(now)
    percent = f" {row.percent}%" if row.percent else ""
    return [
        Tint(row.state, _COLOURS.get(row.state, "dim")),
        row.name,
        ", ".join(row.actions),
        ", ".join(row.blueprints),
        row.error or f"{row.phase}{percent}",
        whole_seconds(seconds) if seconds is not None else "",
        whole_seconds((now - row.created).total_seconds()),
    ]


def _follow(
    overview: ClusterOverview, query: RunQuery, clock: Clock, *, with_namespaces: bool
) -> None:
    """Redraw the table until a stop signal arrives."""
    screen, is_over = Screen(sys.stdout), False
    with StopSignals() as signals:
        while not is_over:
            rows = chosen(overview, query, clock)[: max(1, screen.size[1] - _SPARE_LINES)]
            trouble = overview.runs().trouble
            lines = lines_of(rows, clock.now(), with_namespaces=with_namespaces, trouble=trouble)
            screen.draw(lines, ())
            is_over = bool(signals.wait(_POLL_SECONDS))
    screen.clear(())

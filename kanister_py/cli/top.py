"""Watch all runs of a cluster: what is under way, what waits, how the last ones ended.

kanister-py top
kanister-py top -A --state failed --since 24h
kanister-py top -A -o json

On a terminal it goes on until Ctrl-C; elsewhere, or with --once, it prints what is so now. The
controller's page shows the same in a browser, at /runs.
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
_LOOK_SECONDS: Final = 1.0
_SPARE_LINES: Final = 6


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-n", "--namespace", default="", help="default: that of the context")
    switch(parser, "-A", "--all-namespaces")
    parser.add_argument("--state", choices=STATES, default="", help="only those")
    parser.add_argument("--blueprint", default="", metavar="NAME", help="only runs of this one")
    parser.add_argument("--schedule", default="", metavar="NAME", help="only runs of this one")
    parser.add_argument(
        "--since",
        type=seconds_from("1s"),
        default=0.0,
        metavar="DURATION",
        help="only runs begun since then, and such as are not over; default: all",
    )
    switch(parser, "--once", help="print what is so now, and end")
    add_output(parser, LIST_FORMATS)
    add_connection(parser)


def run(args: argparse.Namespace) -> int:
    with open_connection(args) as cluster:
        return show(args, cluster, system_clock())


def show(args: argparse.Namespace, cluster: Cluster, clock: Clock) -> int:
    """Print the runs of a cluster that are asked for, once or until Ctrl-C."""
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
    """Give the runs that are asked for: what is under way first, then the newest."""
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
    """Set runs in a table under a line that counts them, and what keeps them from being seen."""
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
    where = [row.namespace for row in rows] if with_namespaces else None
    return [*before, head, *table_of_objects(names, cells, where, at=1)]


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
    """Draw the runs again and again, until a signal comes."""
    screen, is_over = Screen(sys.stdout), False
    with StopSignals() as signals:
        while not is_over:
            rows = chosen(overview, query, clock)[: max(1, screen.size[1] - _SPARE_LINES)]
            trouble = overview.runs().trouble
            lines = lines_of(rows, clock.now(), with_namespaces=with_namespaces, trouble=trouble)
            screen.draw(lines, ())
            is_over = bool(signals.wait(_LOOK_SECONDS))
    screen.clear(())

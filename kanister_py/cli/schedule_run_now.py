"""Make a Schedule run now, beside its times.

kanister-py schedule run-now nightly --wait

Makes the ActionSet of its template. Its times come as ever; where a run is under way and the
Schedule forbids another, nothing is made, unless --force.
"""

from __future__ import annotations

import argparse
from secrets import choice
from typing import TYPE_CHECKING

from kanister_py.cli.creation import create
from kanister_py.cli.parser import switch
from kanister_py.executor.schedule_requests import write_run_now

if TYPE_CHECKING:
    from kanister_py.ports.cluster import Cluster


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME")
    switch(parser, "--force", help="also while a run is under way")
    switch(parser, "--wait", help="follow it to its end")
    switch(parser, "--dry-run", help="print it, and create nothing")
    parser.add_argument("-o", "--output", choices=("json", "yaml", "name"), default="")


def run(args: argparse.Namespace, cluster: Cluster) -> int:
    made = write_run_now(cluster, args.namespace, args.name, choice, force=args.force)
    return create(args, cluster, made)

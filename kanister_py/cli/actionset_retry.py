"""Do again what an ActionSet failed to do.

Makes a new ActionSet that says the same. What the first one completed is taken over with
its outputs; the rest runs, from the first phase that is not complete, or from the one that
--from-phase names. The first one stays as it is, and is not collected before the new one.
"""

from __future__ import annotations

import argparse
from secrets import choice
from typing import TYPE_CHECKING

from kanister_py.cli.creation import create
from kanister_py.cli.parser import switch
from kanister_py.core.kube.resources import ACTION_SETS
from kanister_py.executor.actionset_requests import write_retry

if TYPE_CHECKING:
    from kanister_py.ports.cluster import Cluster


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("retried", metavar="NAME")
    parser.add_argument("--from-phase", default="", metavar="PHASE", help="begin with this one")
    parser.add_argument("--name", default="", help="what the new one is called")
    switch(parser, "--dry-run", help="print it, and create nothing")
    switch(parser, "--wait", help="follow it to its end")


def run(args: argparse.Namespace, cluster: Cluster) -> int:
    found = cluster.get(ACTION_SETS, args.retried, namespace=args.namespace)
    return create(args, cluster, write_retry(found, args.name, args.from_phase, choice))

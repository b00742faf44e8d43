"""Stop a controller's runs and release its objects, before it is uninstalled.

kanister-py cleanup --home kanister --namespace shop --namespace billing
kanister-py cleanup --home kanister --all-namespaces --deployment kanister-py

Runs in progress are cancelled, and the controller ends them: pods are stopped, deferPhases run.
Then the Deployments are scaled to zero, the finalizer kanister-py.io/cleanup is removed from all
ActionSets, and the Leases are deleted. Objects, definitions and backups stay. The chart does this
before `helm uninstall`; without its hooks, run it by hand. It is safe to repeat.

Exit codes:
  0    nothing depends on the controller any more
  1    the cluster refused a request, or some runs did not end in time; these are printed, and
       another controller resumes them
"""

from __future__ import annotations

import argparse

from kanister_py.cli.connection import add_connection, open_connection
from kanister_py.cli.output import say
from kanister_py.cli.parser import namespace, partition, repeated, seconds_from, switch
from kanister_py.controller.cleanup import Cleanup
from kanister_py.core.actionsets.partitions import Scope
from kanister_py.wiring import system_clock


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--home", type=namespace, required=True, metavar="NAMESPACE", help="namespace of its Lease"
    )
    repeated(
        parser,
        "-n",
        "--namespace",
        dest="namespaces",
        type=namespace,
        metavar="NAMESPACE",
        help="namespace that it watches; may be repeated; default: its home",
    )
    switch(parser, "--all-namespaces", help="it watches all namespaces")
    parser.add_argument(
        "--partition", type=partition, default="", metavar="VALUE", help="its --partition, if any"
    )
    repeated(
        parser,
        "--deployment",
        dest="deployments",
        metavar="NAME",
        help="Deployment in its home to scale to zero; may be repeated",
    )
    parser.add_argument(
        "--timeout",
        type=seconds_from("0s"),
        default="60s",
        metavar="DURATION",
        help="time limit for the end of runs, then for the controller; default: %(default)s",
    )
    add_connection(parser)
    parser.set_defaults(namespace="")


def run(args: argparse.Namespace) -> int:
    namespaces = () if args.all_namespaces else tuple(args.namespaces) or (args.home,)
    with open_connection(args) as cluster:
        report = Cleanup(
            cluster,
            system_clock(),
            Scope(args.partition, namespaces),
            args.home,
            deployments=args.deployments,
            timeout_seconds=args.timeout,
        ).run()
    for kind, texts in (
        ("actionset", [f"{name} cancelled" for name in report.cancelled]),
        ("deployment", [f"{name} scaled to zero" for name in report.scaled]),
        ("actionset", [f"{name} released" for name in report.released]),
        ("lease", [f"{name} deleted" for name in report.leases]),
    ):
        for text in texts:
            say(f"{kind} {text}")
    for name in report.unfinished:
        say(f"error: ActionSet {name} did not end in time; another controller resumes it")
    return 1 if report.unfinished else 0

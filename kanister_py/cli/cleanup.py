"""Stop a controller's runs and release its objects, before it is uninstalled.

kanister-py cleanup --home kanister --namespace shop --namespace billing
kanister-py cleanup --home kanister --all-namespaces --deployment kanister-py

Runs that are under way are cancelled, and the controller ends them: pods are stopped, deferPhases
run. Then the Deployments are scaled to zero, the finalizer kanister-py.io/cleanup is removed from
all ActionSets, and the Leases are deleted. Objects, definitions and backups stay. The chart does
this before `helm uninstall`; without its hooks, run it by hand. It is safe to repeat.

Exit codes:
  0    nothing waits for the controller any more
  1    the cluster refused a request, or some runs did not end in time: they are named, and another
       controller resumes them
"""

from __future__ import annotations

import argparse

from kanister_py.cli.connection import add_connection, open_connection
from kanister_py.cli.output import say
from kanister_py.cli.parser import namespace, partition, repeated, seconds_from, switch


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--home", type=namespace, required=True, metavar="NAMESPACE", help="where its Lease is"
    )
    repeated(
        parser,
        "-n",
        "--namespace",
        dest="namespaces",
        type=namespace,
        metavar="NAMESPACE",
        help="a namespace that it watches; may be given several times; default: its home",
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
        help="scale this Deployment in its home to zero; may be given several times",
    )
    parser.add_argument(
        "--timeout",
        type=seconds_from("0s"),
        default="60s",
        metavar="DURATION",
        help="how long runs may take to end, and then the controller; default: %(default)s",
    )
    add_connection(parser)
    parser.set_defaults(namespace="")


def run(args: argparse.Namespace) -> int:
    from kanister_py.controller.cleanup import Cleanup
    from kanister_py.core.actionsets.partitions import Scope
    from kanister_py.wiring import system_clock

    namespaces = () if args.all_namespaces else tuple(args.namespaces) or (args.home,)
    with open_connection(args) as cluster:
        done = Cleanup(
            cluster,
            system_clock(),
            Scope(args.partition, namespaces),
            args.home,
            deployments=args.deployments,
            timeout_seconds=args.timeout,
        ).run()
    for what, names in (
        ("actionset", [f"{name} cancelled" for name in done.cancelled]),
        ("deployment", [f"{name} scaled to zero" for name in done.scaled]),
        ("actionset", [f"{name} released" for name in done.released]),
        ("lease", [f"{name} deleted" for name in done.leases]),
    ):
        for text in names:
            say(f"{what} {text}")
    for name in done.unfinished:
        say(f"error: ActionSet {name} did not end in time; another controller resumes it")
    return 1 if done.unfinished else 0

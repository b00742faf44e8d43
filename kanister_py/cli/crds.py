"""Print, install or upgrade the definitions of the resources that we work on.

kanister-py crds print --only blueprints
kanister-py crds install --context staging
kanister-py crds upgrade --dry-run

`blueprints` are those of Blueprints, ActionSets, Profiles and Schedules, `compositions`
those of compositions and their functions. `install` makes what is missing and leaves what is there;
`upgrade` puts ours in place of older ones, and of those that Kanister or Crossplane has
installed: existing objects stay. Both are safe to repeat. Nothing is replaced while
Kanister's operator or Crossplane still runs: it would put its own back.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from kanister_py.cli.connection import add_connection, open_connection
from kanister_py.cli.output import Tint, put, say, write_list
from kanister_py.cli.parser import add_verbs, switch

if TYPE_CHECKING:
    from kanister_py.executor.install_definitions import Change, Guard
    from kanister_py.ports.cluster import Cluster, KubeObject

_ONLY: Final = ("blueprints", "compositions")
_MOST_DIFFERENCES: Final = 40


def add_arguments(parser: argparse.ArgumentParser) -> None:
    verbs = add_verbs(parser)
    print_ = verbs.add_parser("print", help="print them", description="Print the definitions.")
    print_.add_argument("-o", "--output", choices=("yaml", "json"), default="yaml")
    install = verbs.add_parser(
        "install",
        help="make those that are missing",
        description="Make the definitions that a cluster lacks, and wait until they are served.",
    )
    upgrade = verbs.add_parser(
        "upgrade",
        help="put ours in place of others",
        description="Make the definitions that a cluster lacks, and put ours in place of others.",
    )
    for verb_parser in (print_, install, upgrade):
        verb_parser.add_argument("--only", choices=_ONLY, help="default: all of them")
    for verb_parser in (install, upgrade):
        add_connection(verb_parser)
        verb_parser.set_defaults(namespace="")
        switch(verb_parser, "--dry-run", help="say what would change, and change nothing")


def run(args: argparse.Namespace) -> int:
    from kanister_py.executor.install_definitions import read_definitions
    from kanister_py.wiring import system_clock

    manifests = read_definitions(args.only or "")
    if args.verb == "print":
        write_list(manifests, args.output)
        return 0
    from kanister_py.executor.install_definitions import Step, install_definitions

    left = []
    with open_connection(args) as cluster:
        for change in install_definitions(
            cluster,
            system_clock(),
            manifests,
            guard_on(cluster),
            replaces=args.verb == "upgrade",
            dry_run=args.dry_run,
        ):
            _tell(change, is_to_come=args.dry_run)
            if change.step is Step.LEFT:
                left.append(change.name)
    if left:
        say("note: What is there differs from ours; kanister-py crds upgrade replaces it")
    return 0


def guard_on(cluster: Cluster) -> Guard:
    """Make the check that refuses what a controller that still runs would put back."""
    from kanister_py.controller.machine.neighbours import (
        CROSSPLANE,
        KANISTER,
        another_controller,
        find_neighbour,
    )

    outcomes: dict[str, str] = {}

    def guard(definition: KubeObject) -> None:
        group = definition["spec"]["group"]
        if group == "kanister-py.io":
            return
        neighbour = KANISTER if group == "cr.kanister.io" else CROSSPLANE
        if neighbour.name not in outcomes:
            outcomes[neighbour.name] = find_neighbour(cluster, neighbour)
        if outcomes[neighbour.name]:
            raise another_controller(
                outcomes[neighbour.name],
                "scale it to 0 or uninstall it first, it would put its own "
                f"{definition['metadata']['name']} back",
            )

    return guard


def _tell(change: Change, *, is_to_come: bool) -> None:
    from kanister_py.executor.install_definitions import Step

    acts = change.step in (Step.CREATED, Step.UPGRADED)
    would = "would be " if is_to_come and acts else ""
    put(f"{change.name} {would}{change.step}")
    if change.step is Step.UNCHANGED or not (is_to_come or change.step is Step.LEFT):
        return
    colours = {"+": "green", "-": "red", "~": "yellow"}
    for difference in change.differences[:_MOST_DIFFERENCES]:
        text = str(difference)
        put(["  ", Tint(text, colours[text[0]])])
    if len(change.differences) > _MOST_DIFFERENCES:
        put(f"  … {len(change.differences) - _MOST_DIFFERENCES} more")

"""Print, install or upgrade the CustomResourceDefinitions of kanister-py.

kanister-py crds print --only blueprints
kanister-py crds install --context staging
kanister-py crds upgrade --dry-run

`--only blueprints` are the definitions of Blueprints, ActionSets, Profiles and Schedules,
`--only compositions` those of compositions and functions. `install` creates missing definitions
and does not change existing ones. `upgrade` also replaces older definitions, and those of
Kanister and Crossplane; objects are kept. Both are safe to repeat. No definition is replaced
while Kanister's controller or Crossplane runs, because it would restore its own definition.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from kanister_py.cli.connection import add_connection, open_connection
from kanister_py.cli.output import Tint, put, say, write_list
from kanister_py.cli.parser import add_output, add_verbs, switch
from kanister_py.controller.machine.neighbours import (
    CROSSPLANE,
    KANISTER,
    another_controller,
    find_neighbour,
)
from kanister_py.executor.install_definitions import (
    Change,
    Guard,
    Step,
    install_definitions,
    read_definitions,
)
from kanister_py.wiring import system_clock

if TYPE_CHECKING:
    from kanister_py.ports.cluster import Cluster, KubeObject

_ONLY: Final = ("blueprints", "compositions")
_MAX_DIFFERENCES: Final = 40


def add_arguments(parser: argparse.ArgumentParser) -> None:
    verbs = add_verbs(parser)
    print_ = verbs.add_parser(
        "print",
        help="print the definitions",
        description="Print the definitions as manifests."
        "\n\nkanister-py crds print | kubectl apply --server-side -f -\n",
    )
    add_output(print_, ("yaml", "json"))
    install = verbs.add_parser(
        "install",
        help="create missing definitions",
        description="Create missing definitions on a cluster, and wait until they are established."
        "\n\nkanister-py crds install --only blueprints\n",
    )
    upgrade = verbs.add_parser(
        "upgrade",
        help="create missing definitions and replace others",
        description="Create missing definitions, and replace older or foreign ones."
        "\n\nkanister-py crds upgrade --dry-run\n",
    )
    for verb_parser in (print_, install, upgrade):
        verb_parser.add_argument("--only", choices=_ONLY, help="default: all definitions")
    for verb_parser in (install, upgrade):
        add_connection(verb_parser)
        verb_parser.set_defaults(namespace="")
        switch(verb_parser, "--dry-run", help="print the changes, and change nothing")


def run(args: argparse.Namespace) -> int:
    manifests = read_definitions(args.only or "")
    if args.verb == "print":
        write_list(manifests, args.output)
        return 0
    differing = []
    with open_connection(args) as cluster:
        for change in install_definitions(
            cluster,
            system_clock(),
            manifests,
            guard_on(cluster),
            replaces=args.verb == "upgrade",
            dry_run=args.dry_run,
        ):
            _print_change(change, is_planned=args.dry_run)
            if change.step is Step.LEFT:
                differing.append(change.name)
    if differing:
        say("note: Existing definitions differ; kanister-py crds upgrade replaces them")
    return 0


def guard_on(cluster: Cluster) -> Guard:
    """Return a check that refuses definitions which a running controller would restore."""
    running: dict[str, str] = {}

    def guard(definition: KubeObject) -> None:
        group = definition["spec"]["group"]
        if group == "kanister-py.io":
            return
        neighbour = KANISTER if group == "cr.kanister.io" else CROSSPLANE
        if neighbour.name not in running:
            running[neighbour.name] = find_neighbour(cluster, neighbour)
        if running[neighbour.name]:
            raise another_controller(
                running[neighbour.name],
                "scale it to 0 or uninstall it first, because it would restore its own "
                f"{definition['metadata']['name']}",
            )

    return guard


def _print_change(change: Change, *, is_planned: bool) -> None:
    is_change = change.step in (Step.CREATED, Step.UPGRADED)
    would = "would be " if is_planned and is_change else ""
    put(f"{change.name} {would}{change.step}")
    if change.step is Step.UNCHANGED or not (is_planned or change.step is Step.LEFT):
        return
    colours = {"+": "green", "-": "red", "~": "yellow"}
    for difference in change.differences[:_MAX_DIFFERENCES]:
        text = str(difference)
        put(["  ", Tint(text, colours[text[0]])])
    if len(change.differences) > _MAX_DIFFERENCES:
        put(f"  … {len(change.differences) - _MAX_DIFFERENCES} more")

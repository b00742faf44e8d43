"""ActionSets in files, with the Blueprints that they name."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kanister_py.cli.files import STDIN, documents_by_file
from kanister_py.cli.parser import CommandLineError

if TYPE_CHECKING:
    from kanister_py.core.blueprints.model import LocatedBlueprint
    from kanister_py.ports.cluster import Cluster

_SAID_BY_IT: Final = (
    "object",
    "option",
    "secret",
    "config_map",
    "profile",
    "preferred_version",
    "artifacts_from",
)


class Written(NamedTuple):
    """An ActionSet as its file has it, and the Blueprints it names."""

    actionset: Mapping[str, Any]
    blueprints: list[LocatedBlueprint | Mapping[str, Any]]


def may_be_written(args: argparse.Namespace) -> bool:
    """Say whether the command line names a file, and no action of a Blueprint."""
    named = args.blueprint
    return bool(named) and not args.action and (named == STDIN or Path(named).exists())


def read_written(args: argparse.Namespace, cluster: Cluster | None) -> Written:
    """Read the ActionSet, with its Blueprints from beside it, from `-f` or from the cluster."""
    from kanister_py.core.actionsets.model import parse_actionset
    from kanister_py.core.blueprints.model import blueprints_in, objects_in
    from kanister_py.core.objects.resources import BLUEPRINTS

    given = documents_by_file([args.blueprint, *args.files])
    (file, first), *_ = given.items()
    found = [each for each in objects_in(first) if each.kind == "ActionSet"]
    if len(found) != 1:
        many = f"{len(found)} ActionSets" if found else "no ActionSet"
        raise CommandLineError(
            f"There is {many} in {file}; "
            "give a file with one, or a blueprint and one of its actions"
        )
    for name in _SAID_BY_IT:
        if getattr(args, name):
            flag = name.replace("_", "-")
            raise CommandLineError(f"--{flag} is for the ActionSet itself to say")
    read = parse_actionset(found[0].document, found[0].path)
    there: dict[str, LocatedBlueprint | Mapping[str, Any]] = {
        each.blueprint.name: each
        for documents in given.values()
        for each in blueprints_in(documents)
    }
    if cluster is not None:
        where = read.metadata.namespace or args.namespace
        for action in read.spec.actions:
            if action.blueprint and action.blueprint not in there:
                there[action.blueprint] = cluster.get(BLUEPRINTS, action.blueprint, namespace=where)
    return Written(found[0].value, list(there.values()))

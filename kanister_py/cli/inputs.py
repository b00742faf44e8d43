"""Inputs of an action: what the command line gives it, or an ActionSet in a file."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kanister_py.cli.files import STDIN, documents_by_file
from kanister_py.cli.parser import (
    CommandLineError,
    named_reference,
    object_reference,
    pair,
    place,
    repeated,
    switch,
)
from kanister_py.core.errors import InvalidDocument

if TYPE_CHECKING:
    from kanister_py.core.blueprints.model import LocatedBlueprint
    from kanister_py.ports.cluster import Cluster

_FLAGS_IN_ACTIONSET: Final = (
    "blueprint_name",
    "object",
    "option",
    "secret",
    "config_map",
    "profile",
    "preferred_version",
    "artifacts_from",
)


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """Take the flags for what an action works with, and for objects that are there."""
    what = parser.add_argument_group("what it works with")
    what.add_argument(
        "--object",
        type=object_reference,
        metavar="KIND/NAMESPACE/NAME",
        help="what to act on; default: the namespace",
    )
    what.add_argument(
        "-n", "--namespace", default="", help="default: the one of the context, else default"
    )
    repeated(
        what,
        "-f",
        "--file",
        dest="files",
        metavar="PATH",
        help="manifests that are in the cluster from the start",
    )
    named = "REF=NAMESPACE/NAME"
    for flag, read, form, text in (
        ("--option", pair, "KEY=VALUE", "an option of the action"),
        ("--secret", named_reference, named, "a Secret, under the name the blueprint gives it"),
        ("--config-map", named_reference, named, "a ConfigMap, likewise"),
    ):
        repeated(what, flag, type=read, metavar=form, help=text)
    what.add_argument("--profile", type=place, metavar="NAMESPACE/NAME", help="the Profile to use")
    what.add_argument("--preferred-version", default="", help="for phases that name no version")
    switch(what, "--strict-versions", help="refuse versions that are not known")


def inputs_of(args: argparse.Namespace) -> dict[str, Any]:
    """Give the inputs in the words of an ActionSet's action."""
    from kanister_py.core.actionsets.references import parse_named_reference, parse_place

    more: dict[str, Any] = {}
    for key, pairs in (("secrets", args.secret), ("config_maps", args.config_map)):
        if pairs:
            read = [parse_named_reference(each, args.namespace) for each in pairs]
            more[key] = {name: reference.as_dict() for name, reference in read}
    if args.profile:
        more["profile"] = parse_place(args.profile, args.namespace).as_dict()
    if args.preferred_version:
        more["preferred_version"] = args.preferred_version
    return more


def objects_in(paths: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    """Read every object of the manifests that stand in the cluster from the start."""
    for documents in documents_by_file(paths).values():
        for document in documents:
            value = document.value
            if not isinstance(value, dict):
                raise InvalidDocument([document.problem((), "Must be an object of Kubernetes")])
            problems = [
                document.problem((key,), f"An object of Kubernetes needs {key}")
                for key in ("apiVersion", "kind")
                if not value.get(key)
            ]
            if problems:
                raise InvalidDocument(problems)
            yield value


# ActionSets in files


class GivenActionSet(NamedTuple):
    """An ActionSet as its file has it, and the Blueprints it names."""

    actionset: Mapping[str, Any]
    blueprints: list[LocatedBlueprint | Mapping[str, Any]]


def names_actionset(args: argparse.Namespace) -> bool:
    """Say whether the command line names a file, and no action of a Blueprint."""
    named = args.blueprint
    return bool(named) and not args.action and (named == STDIN or Path(named).exists())


def read_actionset(args: argparse.Namespace, cluster: Cluster | None) -> GivenActionSet:
    """Read the ActionSet, with its Blueprints from beside it, from `-f` or from the cluster."""
    from kanister_py.core.actionsets.model import parse_actionset
    from kanister_py.core.blueprints.model import blueprints_in, objects_in
    from kanister_py.core.kube.resources import BLUEPRINTS

    given = documents_by_file([args.blueprint, *args.files])
    (file, first), *_ = given.items()
    found = [each for each in objects_in(first) if each.kind == "ActionSet"]
    if len(found) != 1:
        many = f"{len(found)} ActionSets" if found else "no ActionSet"
        raise CommandLineError(
            f"There is {many} in {file}; "
            "give a file with one, or a blueprint and one of its actions"
        )
    for name in _FLAGS_IN_ACTIONSET:
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
    return GivenActionSet(found[0].value, list(there.values()))

"""Inputs of an action: what a user gives it to work with."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kanister_py.cli.files import documents_by_file
from kanister_py.cli.parser import named_reference, object_reference, pair, place
from kanister_py.core.errors import InvalidDocument


def add_inputs(parser: argparse.ArgumentParser) -> None:
    """Take what an ActionSet would say of an action, and the objects that are there."""
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
    what.add_argument(
        "-f",
        "--file",
        dest="files",
        action="append",
        default=[],
        metavar="PATH",
        help="manifests that are in the cluster from the start",
    )
    named = "REF=NAMESPACE/NAME"
    for flag, read, form, text in (
        ("--option", pair, "KEY=VALUE", "an option of the action"),
        ("--secret", named_reference, named, "a Secret, under the name the blueprint gives it"),
        ("--config-map", named_reference, named, "a ConfigMap, likewise"),
    ):
        what.add_argument(flag, type=read, action="append", default=[], metavar=form, help=text)
    what.add_argument("--profile", type=place, metavar="NAMESPACE/NAME", help="the Profile to use")
    what.add_argument("--preferred-version", default="", help="for phases that name no version")
    what.add_argument(
        "--strict-versions", action="store_true", help="refuse versions that are not known"
    )


def inputs_of(args: argparse.Namespace) -> dict[str, Any]:
    """Say what was given, in the words of an ActionSet's action."""
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
            if not isinstance(document.value, dict):
                raise InvalidDocument([document.problem((), "Must be an object of Kubernetes")])
            yield document.value

"""Inputs of an action, from flags or from an ActionSet in a file."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kanister_py.cli.files import STDIN, documents_by_file
from kanister_py.cli.parser import (
    CommandLineError,
    pair,
    repeated,
    switch,
)
from kanister_py.cli.references import named_reference, object_reference, place
from kanister_py.core.errors import ApiError, InvalidDocument
from kanister_py.core.kube.resources import BLUEPRINTS

if TYPE_CHECKING:
    from kanister_py.core.blueprints.model import LocatedBlueprint
    from kanister_py.core.yaml.documents import Path
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
    """Add the flags for inputs of an action and for objects of the embedded cluster."""
    group = parser.add_argument_group("inputs")
    group.add_argument(
        "--object",
        type=object_reference,
        metavar="KIND/NAMESPACE/NAME",
        help="object to act on; default: the namespace",
    )
    group.add_argument(
        "-n", "--namespace", default="", help="default: the namespace of the context, or default"
    )
    repeated(
        group,
        "-f",
        "--file",
        dest="files",
        metavar="PATH",
        help="manifests to load into the cluster at the start",
    )
    reference = "REF=NAMESPACE/NAME"
    for flag, read, form, text in (
        ("--option", pair, "KEY=VALUE", "an option of the action"),
        ("--secret", named_reference, reference, "a Secret and its name in the blueprint"),
        ("--config-map", named_reference, reference, "a ConfigMap and its name in the blueprint"),
    ):
        repeated(group, flag, type=read, metavar=form, help=text)
    group.add_argument("--profile", type=place, metavar="NAMESPACE/NAME", help="the Profile to use")
    group.add_argument(
        "--preferred-version",
        default="",
        metavar="VERSION",
        help="version for phases that do not set one",
    )
    switch(group, "--strict-versions", help="refuse unknown versions instead of using v0.0.0")


def inputs_of(args: argparse.Namespace) -> dict[str, Any]:
    """Return the inputs as fields of an ActionSet's action."""
    # Slow to import: see references.py.
    from kanister_py.core.actionsets.references import parse_named_reference, parse_place

    inputs: dict[str, Any] = {}
    for key, pairs in (("secrets", args.secret), ("config_maps", args.config_map)):
        if pairs:
            references = [parse_named_reference(text, args.namespace) for text in pairs]
            inputs[key] = {name: reference.as_dict() for name, reference in references}
    if args.profile:
        inputs["profile"] = parse_place(args.profile, args.namespace).as_dict()
    if args.preferred_version:
        inputs["preferred_version"] = args.preferred_version
    return inputs


def objects_in(paths: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    """Read the objects of manifests for the embedded cluster."""
    for documents in documents_by_file(paths).values():
        for document in documents:
            value = document.value
            if not isinstance(value, dict):
                raise InvalidDocument([document.problem((), "Must be a Kubernetes object")])
            problems = [
                document.problem((key,), f"A Kubernetes object must have {key}")
                for key in ("apiVersion", "kind")
                if not value.get(key)
            ]
            if problems:
                raise InvalidDocument(problems)
            yield value


@contextmanager
def places_of_refused(paths: Sequence[str]) -> Iterator[None]:
    """Add the file and line of a manifest to the error with which the embedded cluster refuses it.

    Manifests from standard input cannot be read again, so their errors stay unchanged.
    """
    try:
        yield
    except ApiError as error:
        if error.manifest is None or STDIN in paths:
            raise
        for documents in documents_by_file(paths).values():
            for document in documents:
                path = _path_in(document.value, error.manifest)
                if path is not None:
                    raise InvalidDocument([document.problem(path, error.message)]) from error
        raise


def _path_in(value: Any, manifest: Mapping[str, Any]) -> Path | None:
    """Return the path of a manifest in a document, which may be a List, or None."""
    if value == manifest:
        return ()
    items = value.get("items") if isinstance(value, dict) else None
    if not isinstance(items, list) or manifest not in items:
        return None
    return ("items", items.index(manifest))


# ActionSets in files


class ActionSetInput(NamedTuple):
    """An ActionSet from a file, and the Blueprints that it names."""

    actionset: Mapping[str, Any]
    blueprints: list[LocatedBlueprint | Mapping[str, Any]]


def names_actionset(args: argparse.Namespace) -> bool:
    """Return whether the command line names a file without an action, so an ActionSet."""
    path = args.blueprint
    return bool(path) and not args.action and (path == STDIN or FilePath(path).exists())


def read_actionset(args: argparse.Namespace, cluster: Cluster | None) -> ActionSetInput:
    """Read the ActionSet, and its Blueprints from its file, from `-f` or from the cluster."""
    # Slow to import: see references.py.
    from kanister_py.core.actionsets.model import parse_actionset
    from kanister_py.core.blueprints.model import blueprints_in
    from kanister_py.core.blueprints.model import objects_in as located_objects_in

    files = documents_by_file([args.blueprint, *args.files])
    (file, documents), *_ = files.items()
    actionsets = [obj for obj in located_objects_in(documents) if obj.kind == "ActionSet"]
    if len(actionsets) != 1:
        count = f"{len(actionsets)} ActionSets" if actionsets else "no ActionSet"
        raise CommandLineError(
            f"There is {count} in {file}; "
            "name a file with one ActionSet, or a blueprint and one of its actions"
        )
    for name in _FLAGS_IN_ACTIONSET:
        if getattr(args, name):
            flag = name.replace("_", "-")
            raise CommandLineError(
                f"--{flag} cannot be used with an ActionSet, which sets it itself"
            )
    actionset = parse_actionset(actionsets[0].document, actionsets[0].path)
    blueprints: dict[str, LocatedBlueprint | Mapping[str, Any]] = {
        blueprint.blueprint.name: blueprint
        for documents in files.values()
        for blueprint in blueprints_in(documents)
    }
    if cluster is not None:
        namespace = actionset.metadata.namespace or args.namespace
        for action in actionset.spec.actions:
            if action.blueprint and action.blueprint not in blueprints:
                blueprints[action.blueprint] = cluster.get(
                    BLUEPRINTS, action.blueprint, namespace=namespace
                )
    return ActionSetInput(actionsets[0].value, list(blueprints.values()))

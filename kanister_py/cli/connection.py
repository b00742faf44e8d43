"""Connection flags: which cluster a command acts on, and whether it is a real one."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kanister_py.cli.parser import CommandLineError, switch

if TYPE_CHECKING:
    from kanister_py.core.blueprints.model import LocatedBlueprint
    from kanister_py.ports.cluster import Cluster

_WITHOUT = "default"


def add_connection(parser: argparse.ArgumentParser) -> None:
    """Take the flags that name a real cluster."""
    where = parser.add_argument_group("which cluster")
    where.add_argument("--kubeconfig", default="", metavar="FILE", help="act on a real cluster")
    where.add_argument("--context", default="", metavar="NAME", help="the one of this context")
    switch(where, "--in-cluster", help="the one around this pod, by its service account")


def is_connected(args: argparse.Namespace) -> bool:
    """Say whether the user asked for a real cluster."""
    return bool(args.kubeconfig or args.context or args.in_cluster)


def connection_words(args: argparse.Namespace) -> list[str]:
    """Give the words with which another command acts on the same cluster and namespace."""
    named = {"kubeconfig": args.kubeconfig, "context": args.context, "namespace": args.namespace}
    if not is_connected(args) and args.namespace == _WITHOUT:
        del named["namespace"]
    words = [f"--{key}={value}" for key, value in named.items() if value]
    return [*words, "--in-cluster"] if args.in_cluster else words


@contextmanager
def connected(args: argparse.Namespace) -> Iterator[Cluster | None]:
    """Open the cluster that the user asked for, if it is a real one.

    Settles the namespace on the way: what the user names, else that of the context.
    """
    if not is_connected(args):
        args.namespace = args.namespace or _WITHOUT
        yield None
        return
    with open_connection(args) as cluster:
        yield cluster


@contextmanager
def open_connection(args: argparse.Namespace) -> Iterator[Cluster]:
    """Open the real cluster that is named, else that of the surroundings."""
    if args.in_cluster and (args.kubeconfig or args.context):
        raise CommandLineError("--in-cluster goes with neither --kubeconfig nor --context")
    from kanister_py.wiring import open_cluster

    with open_cluster(
        kubeconfig=args.kubeconfig,
        context=args.context,
        namespace=args.namespace,
        in_cluster=args.in_cluster,
    ) as cluster:
        args.namespace = cluster.default_namespace
        yield cluster


def blueprint_on(cluster: Cluster | None, named: str, namespace: str) -> Mapping[str, Any] | None:
    """Read a Blueprint from the cluster, if `[namespace/]name` is what the user gave.

    A file of that name comes first.
    """
    if cluster is None or named == "-" or Path(named).exists():
        return None
    from kanister_py.core.actionsets.references import parse_place
    from kanister_py.core.kube.resources import BLUEPRINTS

    place = parse_place(named, namespace)
    return cluster.get(BLUEPRINTS, place.name, namespace=place.namespace)


def located_blueprint(cluster: Cluster | None, args: argparse.Namespace) -> LocatedBlueprint:
    """Read the Blueprint that the user means, from its file or from the cluster."""
    import json

    from kanister_py.cli.files import find_inputs, read_input
    from kanister_py.core.blueprints.model import only_blueprint
    from kanister_py.core.errors import InvalidDocument
    from kanister_py.core.yaml.documents import parse_documents

    found = blueprint_on(cluster, args.blueprint, args.namespace)
    if found is not None:
        source = f"Blueprint {args.blueprint}"
        return only_blueprint(parse_documents(json.dumps(found), source), source)
    inputs, problems = find_inputs([args.blueprint])
    if problems:
        raise InvalidDocument(problems)
    documents = parse_documents(read_input(inputs[0]), inputs[0].name)
    return only_blueprint(documents, inputs[0].name, args.blueprint_name)

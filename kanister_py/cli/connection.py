"""Flags that choose a cluster, and connections to it."""

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

_DEFAULT_NAMESPACE = "default"


def add_connection(parser: argparse.ArgumentParser) -> None:
    """Add the flags that choose a real cluster."""
    group = parser.add_argument_group("cluster")
    group.add_argument("--kubeconfig", default="", metavar="FILE", help="use this kubeconfig")
    group.add_argument(
        "--context", default="", metavar="NAME", help="use this context of the kubeconfig"
    )
    switch(group, "--in-cluster", help="use the service account of the pod that this runs in")


def is_connected(args: argparse.Namespace) -> bool:
    """Return whether a flag chooses a real cluster."""
    return bool(args.kubeconfig or args.context or args.in_cluster)


def connection_words(args: argparse.Namespace) -> list[str]:
    """Return the flags with which another command acts on the same cluster and namespace."""
    flags = {"kubeconfig": args.kubeconfig, "context": args.context, "namespace": args.namespace}
    if not is_connected(args) and args.namespace == _DEFAULT_NAMESPACE:
        del flags["namespace"]
    words = [f"--{key}={text}" for key, text in flags.items() if text]
    return [*words, "--in-cluster"] if args.in_cluster else words


@contextmanager
def connected(args: argparse.Namespace) -> Iterator[Cluster | None]:
    """Open the real cluster that flags choose; yield None without such a flag.

    Sets `args.namespace` to the namespace of the context if no flag sets it.
    """
    if not is_connected(args):
        args.namespace = args.namespace or _DEFAULT_NAMESPACE
        yield None
        return
    with open_connection(args) as cluster:
        yield cluster


@contextmanager
def open_connection(args: argparse.Namespace) -> Iterator[Cluster]:
    """Open the real cluster that flags choose, else that of the kubeconfig or the pod."""
    if args.in_cluster and (args.kubeconfig or args.context):
        raise CommandLineError("--in-cluster cannot be combined with --kubeconfig or --context")
    from kanister_py.wiring import open_cluster

    with open_cluster(
        kubeconfig=args.kubeconfig,
        context=args.context,
        namespace=args.namespace,
        in_cluster=args.in_cluster,
    ) as cluster:
        args.namespace = cluster.default_namespace
        yield cluster


def blueprint_on(cluster: Cluster | None, text: str, namespace: str) -> Mapping[str, Any] | None:
    """Read the Blueprint `[namespace/]name` from the cluster.

    Returns None if there is no cluster, or if `text` is the path of a file.
    """
    if cluster is None or text == "-" or Path(text).exists():
        return None
    from kanister_py.core.actionsets.references import parse_place
    from kanister_py.core.kube.resources import BLUEPRINTS

    place = parse_place(text, namespace)
    return cluster.get(BLUEPRINTS, place.name, namespace=place.namespace)


def located_blueprint(cluster: Cluster | None, args: argparse.Namespace) -> LocatedBlueprint:
    """Read the Blueprint of the command line from its file or from the cluster."""
    import json

    from kanister_py.cli.files import find_inputs, read_input
    from kanister_py.core.blueprints.model import only_blueprint
    from kanister_py.core.errors import InvalidDocument
    from kanister_py.core.yaml.documents import parse_documents

    obj = blueprint_on(cluster, args.blueprint, args.namespace)
    if obj is not None:
        source = f"Blueprint {args.blueprint}"
        return only_blueprint(parse_documents(json.dumps(obj), source), source)
    inputs, problems = find_inputs([args.blueprint])
    if problems:
        raise InvalidDocument(problems)
    documents = parse_documents(read_input(inputs[0]), inputs[0].name)
    return only_blueprint(documents, inputs[0].name, args.blueprint_name)

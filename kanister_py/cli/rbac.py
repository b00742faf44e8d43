"""Print the smallest Roles with which a Blueprint can run.

kanister-py rbac blueprint.yaml --namespace shop
kanister-py rbac blueprint.yaml --action backup --object StatefulSet/shop/db
kanister-py rbac mysql-backup --check --context staging -n shop

Prints a Role for the namespace of the run and for each other namespace that the Blueprint names,
and a ClusterRole for cluster-scoped objects. A name that is a template is unknown before the
run, so the Role allows all objects of the kind in the namespace. The object of an ActionSet must
always be readable; --object names it.

With --check, the cluster is asked which of these permissions you have. The printed Roles then
have the missing ones, and the exit code is 1 if there are any.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from kanister_py.cli import exit_codes
from kanister_py.cli.connection import (
    add_connection,
    connected,
    is_connected,
    located_blueprint,
)
from kanister_py.cli.output import say, say_notices, say_warning, write_list
from kanister_py.cli.parser import CommandLineError, add_output, repeated, switch
from kanister_py.cli.references import object_reference
from kanister_py.core.actionsets.references import parse_object_reference
from kanister_py.core.blueprints.rbac import Target, needs_of_blueprint, roles_of
from kanister_py.core.errors import FunctionNotRegistered, InvalidDocument
from kanister_py.core.kube.resources import BUILTIN_KINDS, WELL_KNOWN_CUSTOM_KINDS
from kanister_py.core.registry.choose import choose_version
from kanister_py.core.yaml.documents import nearest
from kanister_py.executor.check_access import missing_accesses
from kanister_py.executor.loading import load_function
from kanister_py.wiring import read_functions

if TYPE_CHECKING:
    from kanister_py.core.blueprints.rbac import Needs
    from kanister_py.ports.cluster import Cluster


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "blueprint", metavar="BLUEPRINT", help="a file, - for stdin, or a name on the cluster"
    )
    repeated(
        parser,
        "--action",
        metavar="ACTION",
        help="only for this action; may be repeated",
    )
    parser.add_argument(
        "--blueprint-name",
        default="",
        metavar="NAME",
        help="name of the blueprint, if the file has several",
    )
    parser.add_argument(
        "--object",
        type=object_reference,
        metavar="KIND/NAMESPACE/NAME",
        help="object that the ActionSet will act on",
    )
    parser.add_argument("-n", "--namespace", default="", help="namespace of the run")
    parser.add_argument("--name", default="", help="name of the Roles")
    switch(
        parser, "--check", help="check your permissions on a real cluster, and print missing ones"
    )
    add_connection(parser)
    add_output(parser, ("yaml", "json"))


def run(args: argparse.Namespace) -> int:
    """Print the Roles for all accesses that the functions declare."""
    if args.check and not is_connected(args):
        raise CommandLineError(
            "--check needs a real cluster: add --context, --kubeconfig or --in-cluster"
        )
    flag_namespace = args.namespace
    with connected(args) as cluster:
        name, needs = _needs(args, cluster)
        if args.check and cluster is not None:
            needs = _missing(cluster, needs, args.namespace)
    for function in needs.silent_functions:
        say_warning(f"{function} does not declare its accesses, so its permissions are missing")
    for action in needs.objectless_actions:
        say_warning(
            f"{action} reads its object, whose kind is unknown, so the permission is missing; "
            "name the object with --object"
        )
    namespace = flag_namespace if cluster is None else args.namespace
    write_list(roles_of(needs, args.name or f"run-{name or 'blueprint'}", namespace), args.output)
    if not args.check:
        return 0
    if not needs.accesses:
        limit = ", as far as functions declare it" if needs.silent_functions else ""
        say(f"Nothing is missing in namespace {args.namespace}{limit}")
        return 0
    for access in needs.accesses:
        place = access.namespace or ("" if access.is_cluster_wide else namespace)
        say(f"missing: {access._replace(namespace=place)}")
    return exit_codes.FAILED


def _needs(args: argparse.Namespace, cluster: Cluster | None) -> tuple[str, Needs]:
    located = located_blueprint(cluster, args)
    blueprint = located.blueprint
    unknown = [action for action in args.action if action not in blueprint.actions]
    if unknown:
        near = nearest(unknown[0], [*blueprint.actions]) or tuple(blueprint.actions)
        problem = f"There is no action {unknown[0]}, only {', '.join(near)}"
        raise InvalidDocument([located.manifest.problem(("actions",), problem)])
    ask = partial(_accesses_of, read_functions().registry)
    return blueprint.name, needs_of_blueprint(blueprint, ask, args.action, _target(args, cluster))


def _target(args: argparse.Namespace, cluster: Cluster | None) -> Target | None:
    """Return the object of --object; a connected cluster tells whether its kind is namespaced."""
    if not args.object:
        return None

    target = Target(parse_object_reference(args.object, args.namespace).as_dict())
    if cluster is not None:
        return target._replace(is_namespaced=cluster.describe(target.resource).is_namespaced)
    kinds = {kind.gvr: kind for kind in (*BUILTIN_KINDS, *WELL_KNOWN_CUSTOM_KINDS)}
    kind = kinds.get(target.resource)
    return target._replace(is_namespaced=kind is None or kind.is_namespaced)


def _missing(cluster: Cluster, needs: Needs, namespace: str) -> Needs:
    return needs._replace(accesses=tuple(missing_accesses(cluster, needs.accesses, namespace)))


def _accesses_of(
    registry: Any, function: str, version: str, args: Mapping[str, Any]
) -> Iterable[Any] | None:
    """Return the accesses that a call of a function declares, None if it declares none."""
    try:
        choice = choose_version(registry, function, version)
    except FunctionNotRegistered:
        return None
    say_notices(choice.notices)
    loaded: Any = load_function(choice.chosen)
    return loaded.access(args) if hasattr(loaded, "access") else None

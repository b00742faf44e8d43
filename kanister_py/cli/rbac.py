"""Print the smallest roles with which a Blueprint can run.

A Role for the namespace of the run, one for each other namespace that the Blueprint
names, and a ClusterRole for what has no namespace. Names and namespaces that are
templates are not known before the run: they count as any object of its namespace.

An ActionSet acts on an object, and that must be read, whatever the Blueprint says. --object
says which one it will be.

With --check, a real cluster is asked which of these rights you have: the roles printed
are what is missing, and the end is 1 unless nothing is.
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
from kanister_py.cli.parser import CommandLineError, repeated, switch
from kanister_py.cli.references import object_reference

if TYPE_CHECKING:
    from kanister_py.core.blueprints.rbac import Needs, Target
    from kanister_py.ports.cluster import Cluster


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "blueprint", metavar="BLUEPRINT", help="a file, - for stdin, or a name on the cluster"
    )
    repeated(
        parser,
        "--action",
        metavar="ACTION",
        help="only for this action; may be given several times",
    )
    parser.add_argument("--blueprint-name", default="", help="which one, if the file has several")
    parser.add_argument(
        "--object",
        type=object_reference,
        metavar="KIND/NAMESPACE/NAME",
        help="what the ActionSet will act on",
    )
    parser.add_argument("-n", "--namespace", default="", help="the namespace of the run")
    parser.add_argument("--name", default="", help="what the roles are called")
    switch(parser, "--check", help="ask a real cluster, and print what is missing")
    add_connection(parser)
    parser.add_argument("-o", "--output", choices=("yaml", "json"), default="yaml")


def run(args: argparse.Namespace) -> int:
    """Ask every function what it does, and write the roles for it."""
    from kanister_py.core.blueprints.rbac import roles_of

    if args.check and not is_connected(args):
        raise CommandLineError(
            "--check asks a real cluster: say which with --context, --kubeconfig or --in-cluster"
        )
    named = args.namespace
    with connected(args) as cluster:
        called, needs = _needs(args, cluster)
        if args.check and cluster is not None:
            needs = _missing(cluster, needs, args.namespace)
    for function in needs.silent_functions:
        say_warning(f"{function} does not say what it does to a cluster: its rights are missing")
    for action in needs.objectless_actions:
        say_warning(
            f"{action} reads its object, and nothing says what that is: the right to is missing; "
            "--object says it"
        )
    where = named if cluster is None else args.namespace
    write_list(roles_of(needs, args.name or f"run-{called or 'blueprint'}", where), args.output)
    if not args.check:
        return 0
    if not needs.accesses:
        limit = ", as far as it is known" if needs.silent_functions else ""
        say(f"Nothing is missing in namespace {args.namespace}{limit}")
        return 0
    for access in needs.accesses:
        place = access.namespace or ("" if access.is_cluster_wide else where)
        say(f"missing: {access._replace(namespace=place)}")
    return exit_codes.FAILED


def _needs(args: argparse.Namespace, cluster: Cluster | None) -> tuple[str, Needs]:
    from kanister_py.core.blueprints.rbac import needs_of_blueprint
    from kanister_py.core.errors import InvalidDocument
    from kanister_py.core.yaml.documents import nearest
    from kanister_py.wiring import read_functions

    located = located_blueprint(cluster, args)
    blueprint = located.blueprint
    unknown = [action for action in args.action if action not in blueprint.actions]
    if unknown:
        near = nearest(unknown[0], [*blueprint.actions]) or tuple(blueprint.actions)
        why = f"No action is called {unknown[0]}: there is {', '.join(near)}"
        raise InvalidDocument([located.found.problem(("actions",), why)])
    ask = partial(_accesses_of, read_functions().registry)
    return blueprint.name, needs_of_blueprint(blueprint, ask, args.action, _target(args, cluster))


def _target(args: argparse.Namespace, cluster: Cluster | None) -> Target | None:
    """Read which object is meant; whether its kind has namespaces, the cluster knows best."""
    if not args.object:
        return None
    from kanister_py.core.actionsets.references import parse_object_reference
    from kanister_py.core.blueprints.rbac import Target
    from kanister_py.core.kube.resources import BUILTIN_KINDS, WELL_KNOWN_CUSTOM_KINDS

    target = Target(parse_object_reference(args.object, args.namespace).as_dict())
    if cluster is not None:
        return target._replace(is_namespaced=cluster.describe(target.resource).is_namespaced)
    kinds = {kind.gvr: kind for kind in (*BUILTIN_KINDS, *WELL_KNOWN_CUSTOM_KINDS)}
    found = kinds.get(target.resource)
    return target._replace(is_namespaced=found is None or found.is_namespaced)


def _missing(cluster: Cluster, needs: Needs, namespace: str) -> Needs:
    from kanister_py.executor.check_access import missing_accesses

    return needs._replace(accesses=tuple(missing_accesses(cluster, needs.accesses, namespace)))


def _accesses_of(
    registry: Any, function: str, version: str, args: Mapping[str, Any]
) -> Iterable[Any] | None:
    """Ask the class behind a function what a call of it does."""
    from kanister_py.core.errors import FunctionNotRegistered
    from kanister_py.core.registry.choose import choose_version
    from kanister_py.executor.loading import load_function

    try:
        choice = choose_version(registry, function, version)
    except FunctionNotRegistered:
        return None
    say_notices(choice.notices)
    loaded: Any = load_function(choice.chosen)
    return loaded.access(args) if hasattr(loaded, "access") else None

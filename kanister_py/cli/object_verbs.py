"""Verbs for the objects of a cluster; `list`, `get` and `delete` work alike for all kinds."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kanister_py.cli.connection import add_connection
from kanister_py.cli.output import LIST_FORMATS, Line, list_of, put, say, write_data
from kanister_py.cli.parser import Parser, add_output, add_verbs, switch
from kanister_py.core.errors import NotFound
from kanister_py.core.kube.resources import GroupVersionResource
from kanister_py.executor.check_namespace import NamespaceUnknown, check_namespace
from kanister_py.wiring import system_clock

if TYPE_CHECKING:
    from kanister_py.ports.cluster import Cluster, KubeObject


class Verb(NamedTuple):
    """A verb of a command that acts on the objects of a cluster."""

    name: str
    summary: str
    description: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace, Cluster], int]


class TableOfObjects(Protocol):
    """Function that writes objects as the lines of a table."""

    def __call__(
        self,
        objects: Sequence[KubeObject],
        now: datetime,
        *,
        has_namespaces: bool,
        is_wide: bool = False,
    ) -> list[Line]: ...


class ObjectKind(NamedTuple):
    """A kind of objects, and how its objects are printed.

    `cleaned` returns an object as other programs get it; `after_delete` explains what a
    deletion leaves in place, and `example` is a name for help texts.
    """

    resource: GroupVersionResource
    title: str
    command: str
    example: str
    table: TableOfObjects
    cleaned: Callable[[KubeObject], KubeObject]
    after_delete: str


def add_object_verbs(parser: argparse.ArgumentParser, verbs: Sequence[Verb]) -> None:
    """Add verbs that act on a cluster; `args.run_verb` is the function of the chosen verb."""
    group = add_verbs(parser)
    for verb in verbs:
        verb_parser: Parser = group.add_parser(
            verb.name, help=verb.summary, description=verb.description
        )
        verb.add_arguments(verb_parser)
        verb_parser.add_argument(
            "-n", "--namespace", default="", help="default: the namespace of the context"
        )
        add_connection(verb_parser)
        verb_parser.set_defaults(run_verb=verb.run)


def list_verb(kind: ObjectKind, details: str) -> Verb:
    """Return the verb that lists the objects of a kind."""
    command = f"kanister-py {kind.command} list"
    description = f"""\
List {kind.title}s: {details}.

{command} -n shop
{command} -A -l app=db
{command} -o wide
{command} -o name
"""

    def run(args: argparse.Namespace, cluster: Cluster) -> int:
        return _list(args, cluster, kind)

    return Verb("list", f"list {kind.title}s", description, _add_list_arguments, run)


def get_verb(kind: ObjectKind) -> Verb:
    """Return the verb that prints objects by name; without a name it lists them."""
    command = f"kanister-py {kind.command} get"
    description = f"""\
Print {kind.title}s by name, as a table or as YAML or JSON. Without a name, list them.

{command} {kind.example}
{command} {kind.example} -o yaml
{command} {kind.example} -o wide
"""

    def run(args: argparse.Namespace, cluster: Cluster) -> int:
        if not args.names:
            return _list(args, cluster, kind)
        objects = [
            cluster.get(kind.resource, name, namespace=args.namespace) for name in args.names
        ]
        _write(args, objects, kind, is_single=len(objects) == 1)
        return 0

    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("names", metavar="NAME", nargs="*", help="default: all")
        _add_list_arguments(parser)

    return Verb("get", f"print {kind.title}s by name", description, add_arguments, run)


def delete_verb(kind: ObjectKind) -> Verb:
    """Return the verb that deletes objects by name."""
    command = f"kanister-py {kind.command} delete"
    description = f"""\
Delete {kind.title}s. {kind.after_delete}

{command} {kind.example}
{command} {kind.example} --ignore-not-found
"""

    def run(args: argparse.Namespace, cluster: Cluster) -> int:
        return _delete(args, cluster, kind)

    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("names", metavar="NAME", nargs="+", help=f"names of {kind.title}s")
        switch(parser, "--ignore-not-found", help="succeed if there is no such object")

    return Verb("delete", f"delete {kind.title}s by name", description, add_arguments, run)


def without_managed_fields(obj: KubeObject) -> KubeObject:
    """Return an object without the API server's notes about who set which field."""
    metadata = {key: entry for key, entry in obj["metadata"].items() if key != "managedFields"}
    return {**obj, "metadata": metadata}


def _add_list_arguments(parser: argparse.ArgumentParser) -> None:
    switch(parser, "-A", "--all-namespaces", help="list the objects of all namespaces")
    parser.add_argument(
        "-l", "--selector", default="", help="only objects with these labels, such as app=db"
    )
    add_output(parser, LIST_FORMATS)


def _list(args: argparse.Namespace, cluster: Cluster, kind: ObjectKind) -> int:
    namespace = "" if args.all_namespaces else args.namespace
    objects = cluster.list(kind.resource, namespace=namespace, label_selector=args.selector).items
    if not objects and args.output in ("table", "wide", "name"):
        _say_empty(cluster, kind, namespace, args.selector)
    _write(args, objects, kind)
    return 0


def _say_empty(cluster: Cluster, kind: ObjectKind, namespace: str, selector: str) -> None:
    """Report on stderr that a list is empty: no output at all could also be a failure."""
    place = f"in namespace {namespace}" if namespace else "in any namespace"
    say(f"No {kind.title}s {place}" + (f" with labels {selector}" if selector else ""))
    if namespace:
        try:
            check_namespace(cluster, namespace)
        except NamespaceUnknown as error:
            say(error.message)


def _write(
    args: argparse.Namespace,
    objects: Sequence[KubeObject],
    kind: ObjectKind,
    *,
    is_single: bool = False,
) -> None:
    cleaned = [kind.cleaned(obj) for obj in objects]
    data: Any = cleaned[0] if is_single else list_of(cleaned)
    now = system_clock().now()
    has_namespaces, is_wide = args.all_namespaces, args.output == "wide"
    write_data(
        data,
        args.output,
        lambda: kind.table(objects, now, has_namespaces=has_namespaces, is_wide=is_wide),
    )


def _delete(args: argparse.Namespace, cluster: Cluster, kind: ObjectKind) -> int:
    for name in args.names:
        try:
            cluster.delete(kind.resource, name, namespace=args.namespace)
        except NotFound:
            if not args.ignore_not_found:
                raise
            continue
        put(f"{kind.command} {name} {_outcome_of_delete(args, cluster, kind, name)}")
    return 0


def _outcome_of_delete(
    args: argparse.Namespace, cluster: Cluster, kind: ObjectKind, name: str
) -> str:
    """Return whether a deleted object is gone or waits for a finalizer."""
    try:
        cluster.get(kind.resource, name, namespace=args.namespace)
    except NotFound:
        return "deleted"
    return "is being deleted: the controller ends its work first"

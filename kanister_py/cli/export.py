"""Export Blueprints, Profiles, Schedules and records of backups for another cluster.

kanister-py export -n shop --file shop.json
kanister-py export -A --with-secrets --file everything.json

With the export, `kanister-py import` prepares another cluster for restores if this one is lost.
Records of backups are completed ActionSets whose artifacts exist; the data of backups stay in
their object stores. Secrets are left out and named on stderr, unless --with-secrets is set; only
the owner may read the file. Do not apply the file with kubectl: its ActionSets would run.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kanister_py.cli.connection import add_connection, open_connection
from kanister_py.cli.output import say, say_warning, write_text
from kanister_py.cli.parser import switch
from kanister_py.core.errors import NotFound
from kanister_py.core.kube.resources import ACTION_SETS, BLUEPRINTS, PROFILES, SECRETS
from kanister_py.core.schedules.exports import (
    Exported,
    export_of,
    record_of,
    referenced_secrets,
    without_cluster_fields,
)
from kanister_py.core.schedules.model import KIND, SCHEDULES
from kanister_py.executor.count_uses import list_all
from kanister_py.files import write_atomically
from kanister_py.functions.builtin import installed_release
from kanister_py.wiring import system_clock

if TYPE_CHECKING:
    from kanister_py.core.kube.resources import GroupVersionResource
    from kanister_py.ports.cluster import Cluster, KubeObject


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-n", "--namespace", default="", help="default: the namespace of the context"
    )
    switch(parser, "-A", "--all-namespaces", help="export all namespaces")
    add_connection(parser)
    switch(parser, "--with-secrets", help="include the Secrets that restores need")
    parser.add_argument("--file", default="", metavar="FILE", help="default: stdout")


def run(args: argparse.Namespace) -> int:
    with open_connection(args) as cluster:
        return run_on(args, cluster)


def run_on(args: argparse.Namespace, cluster: Cluster) -> int:
    exported = _exported(cluster, "" if args.all_namespaces else args.namespace)
    needed = referenced_secrets(exported)
    if args.with_secrets:
        exported = exported._replace(secrets=list(_secrets(cluster, needed)))
    data = export_of(exported, system_clock().now(), installed_release().bare)
    _write(data, args.file)
    counts = [
        f"{len(part)} {name}"
        for name, part in exported._asdict().items()
        if name != "secrets" or args.with_secrets
    ]
    say(f"Exported {', '.join(counts)}")
    if needed and not args.with_secrets:
        names = ", ".join(f"{namespace}/{name}" for namespace, name in needed)
        say(f"note: A restore needs these Secrets, which are not in the export: {names}")
    return 0


def _exported(cluster: Cluster, namespace: str) -> Exported:
    def objects_of(resource: GroupVersionResource, kind: str) -> Iterable[KubeObject]:
        for obj in list_all(cluster, resource, [namespace]):
            yield {"apiVersion": resource.api_version, "kind": kind, **obj}

    records = map(record_of, objects_of(ACTION_SETS, "ActionSet"))
    return Exported(
        profiles=list(map(without_cluster_fields, objects_of(PROFILES, "Profile"))),
        blueprints=list(map(without_cluster_fields, objects_of(BLUEPRINTS, "Blueprint"))),
        schedules=list(map(without_cluster_fields, objects_of(SCHEDULES, KIND))),
        backups=[record for record in records if record is not None],
    )


def _secrets(cluster: Cluster, needed: Iterable[tuple[str, str]]) -> Iterable[KubeObject]:
    for namespace, name in needed:
        try:
            secret = cluster.get(SECRETS, name, namespace=namespace)
        except NotFound:
            say_warning(f"Secret {namespace}/{name} does not exist, and a restore may need it")
            continue
        yield without_cluster_fields({"apiVersion": "v1", "kind": "Secret", **secret})


def _write(data: Any, file: str) -> None:
    text = f"{json.dumps(data, indent=1)}\n"
    if not file:
        write_text(text)
        return
    # Written atomically, and readable by the owner only.
    write_atomically(Path(file), text.encode())

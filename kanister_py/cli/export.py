"""Export what a lost cluster's applications are restored with on another one.

kanister-py export -n shop --file shop.json
kanister-py export -A --with-secrets --file everything.json

Holds Blueprints, Profiles, Schedules, and the records of backups: the ActionSets that are
complete and whose artifacts exist. What the backups hold lies in their stores. Secrets are
left out, and named on stderr, unless --with-secrets; the file is readable by its owner alone.
`kanister-py import` takes it in. It is no list of objects for kubectl: the ActionSets in it
would run.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kanister_py.cli.connection import add_connection, open_connection
from kanister_py.cli.output import say, say_warning, write_text
from kanister_py.cli.parser import switch
from kanister_py.files import write_whole

if TYPE_CHECKING:
    from kanister_py.core.kube.resources import GroupVersionResource
    from kanister_py.core.schedules.exports import Exported
    from kanister_py.ports.cluster import Cluster, KubeObject


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-n", "--namespace", default="", help="default: that of the context")
    switch(parser, "-A", "--all-namespaces")
    add_connection(parser)
    switch(parser, "--with-secrets", help="also the Secrets that restores need")
    parser.add_argument("--file", default="", metavar="FILE", help="default: stdout")


def run(args: argparse.Namespace) -> int:
    with open_connection(args) as cluster:
        return run_on(args, cluster)


def run_on(args: argparse.Namespace, cluster: Cluster) -> int:
    from kanister_py.core.schedules.exports import export_of, referenced_secrets
    from kanister_py.functions.builtin import installed_release
    from kanister_py.wiring import system_clock

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
        names = ", ".join(f"{where}/{name}" for where, name in needed)
        say(f"note: A restore needs these Secrets, which are not in it: {names}")
    return 0


def _exported(cluster: Cluster, namespace: str) -> Exported:
    from kanister_py.core.kube.resources import ACTION_SETS, BLUEPRINTS, PROFILES
    from kanister_py.core.schedules.exports import Exported, record_of, without_cluster_fields
    from kanister_py.core.schedules.model import KIND, SCHEDULES

    def every(resource: GroupVersionResource, kind: str) -> Iterable[KubeObject]:
        from kanister_py.executor.find_uses import every as found_in

        for obj in found_in(cluster, resource, [namespace]):
            yield {"apiVersion": resource.api_version, "kind": kind, **obj}

    records = map(record_of, every(ACTION_SETS, "ActionSet"))
    return Exported(
        profiles=list(map(without_cluster_fields, every(PROFILES, "Profile"))),
        blueprints=list(map(without_cluster_fields, every(BLUEPRINTS, "Blueprint"))),
        schedules=list(map(without_cluster_fields, every(SCHEDULES, KIND))),
        backups=[record for record in records if record is not None],
    )


def _secrets(cluster: Cluster, needed: Iterable[tuple[str, str]]) -> Iterable[KubeObject]:
    from kanister_py.core.errors import NotFound
    from kanister_py.core.kube.resources import SECRETS
    from kanister_py.core.schedules.exports import without_cluster_fields

    for namespace, name in needed:
        try:
            secret = cluster.get(SECRETS, name, namespace=namespace)
        except NotFound:
            say_warning(f"Secret {namespace}/{name} is not there, though a restore may need it")
            continue
        yield without_cluster_fields({"apiVersion": "v1", "kind": "Secret", **secret})


def _write(data: Any, file: str) -> None:
    import json

    text = f"{json.dumps(data, indent=1)}\n"
    if not file:
        write_text(text)
        return
    # Whole or not at all, and for nobody else to read.
    write_whole(Path(file), text.encode())

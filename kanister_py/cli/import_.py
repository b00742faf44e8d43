"""Take in what `kanister-py export` wrote, on a cluster that has lost it or never had it.

kanister-py import everything.json --dry-run
kanister-py import everything.json
kanister-py restore nightly -n shop --wait
kanister-py schedule resume nightly -n shop

Makes what is missing, namespaces included, and leaves what is there. Schedules are suspended
until somebody resumes them, unless --active: before the applications are restored there is
nothing to back up, and retention would let good backups go for empty ones. Records of
backups run nothing: `kanister-py restore` finds them.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from kanister_py.cli.connection import add_connection, open_connection
from kanister_py.cli.output import put, say
from kanister_py.cli.parser import switch

if TYPE_CHECKING:
    from kanister_py.core.schedules.exports import Exported
    from kanister_py.ports.cluster import Cluster


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="what was exported; - for stdin")
    add_connection(parser)
    parser.set_defaults(namespace="")
    switch(parser, "--active", help="let Schedules run as they did")
    switch(parser, "--dry-run", help="say what would be made")


def run(args: argparse.Namespace) -> int:
    exported = _read(args.file)
    with open_connection(args) as cluster:
        return run_on(args, cluster, exported)


def _read(file: str) -> Exported:
    import json
    import sys

    from kanister_py.cli.files import refusal
    from kanister_py.core.schedules.exports import parse_export
    from kanister_py.core.yaml.documents import Document, why_no_json

    text = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    try:
        data = json.loads(text)
    except ValueError as error:
        why = f"Not what `kanister-py export` writes, which is JSON: {why_no_json(error)}"
        raise refusal(file, why) from None
    return parse_export(Document.of(data, file))


def run_on(args: argparse.Namespace, cluster: Cluster, exported: Exported) -> int:
    from kanister_py.core.schedules.exports import referenced_secrets
    from kanister_py.executor.take_in_export import take_in

    created_count = existing_count = 0
    would = "would be " if args.dry_run else ""
    for outcome in take_in(cluster, exported, suspends=not args.active, dry_run=args.dry_run):
        name = "/".join(filter(None, (outcome.namespace, outcome.name)))
        put(f"{outcome.kind} {name} {f'{would}created' if outcome.is_new else 'is there already'}")
        created_count, existing_count = (
            created_count + outcome.is_new,
            existing_count + (not outcome.is_new),
        )
    say(f"{created_count} {would}created, {existing_count} there already")
    exported_secrets = {
        (secret["metadata"]["namespace"], secret["metadata"]["name"]) for secret in exported.secrets
    }
    missing = [name for name in referenced_secrets(exported) if name not in exported_secrets]
    if missing:
        names = ", ".join(f"{where}/{name}" for where, name in missing)
        say(f"note: A restore needs these Secrets, which were not in it: {names}")
    if exported.schedules and not args.active:
        say("note: Schedules are suspended; `kanister-py schedule resume` once all is restored")
    return 0

"""Import an export of `kanister-py export` into a cluster.

kanister-py import everything.json --dry-run
kanister-py import everything.json
kanister-py restore nightly -n shop --wait
kanister-py schedule resume nightly -n shop

Creates missing objects and namespaces, and does not change existing ones. Schedules are created
suspended, unless --active is set: until the applications are restored, backups would be empty,
and retention would delete good backups. Imported records of backups do not run;
`kanister-py restore` finds them.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kanister_py.cli.connection import add_connection, open_connection
from kanister_py.cli.files import refusal
from kanister_py.cli.output import put, say
from kanister_py.cli.parser import switch
from kanister_py.core.schedules.exports import parse_export, referenced_secrets
from kanister_py.core.yaml.documents import Document, why_no_json
from kanister_py.executor.import_export import import_objects

if TYPE_CHECKING:
    from kanister_py.core.schedules.exports import Exported
    from kanister_py.ports.cluster import Cluster


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="file of `kanister-py export`; - for stdin")
    add_connection(parser)
    parser.set_defaults(namespace="")
    switch(parser, "--active", help="create Schedules active, as they were exported")
    switch(parser, "--dry-run", help="print what would be created, and create nothing")


def run(args: argparse.Namespace) -> int:
    exported = _read(args.file)
    with open_connection(args) as cluster:
        return run_on(args, cluster, exported)


def _read(file: str) -> Exported:

    text = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    try:
        data = json.loads(text)
    except ValueError as error:
        problem = f"Not an export of `kanister-py export`, which is JSON: {why_no_json(error)}"
        raise refusal(file, problem) from None
    return parse_export(Document.of(data, file))


def run_on(args: argparse.Namespace, cluster: Cluster, exported: Exported) -> int:
    created_count = existing_count = 0
    would = "would be " if args.dry_run else ""
    for outcome in import_objects(
        cluster, exported, suspends=not args.active, dry_run=args.dry_run
    ):
        name = "/".join(filter(None, (outcome.namespace, outcome.name)))
        put(f"{outcome.kind} {name} {f'{would}created' if outcome.is_new else 'exists already'}")
        created_count += outcome.is_new
        existing_count += not outcome.is_new
    say(f"{created_count} {would}created, {existing_count} exist already")
    exported_secrets = {
        (secret["metadata"]["namespace"], secret["metadata"]["name"]) for secret in exported.secrets
    }
    missing = [name for name in referenced_secrets(exported) if name not in exported_secrets]
    if missing:
        names = ", ".join(f"{namespace}/{name}" for namespace, name in missing)
        say(f"note: A restore needs these Secrets, which are not in the export: {names}")
    if exported.schedules and not args.active:
        say("note: Schedules are suspended; after the restores, run `kanister-py schedule resume`")
    return 0

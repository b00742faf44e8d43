"""List the objects in the store of a Profile.

kanister-py location list -f profile.yaml
kanister-py location list -f profile.yaml --unfinished
kanister-py location list kanister/backups --path team/a --context staging
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kanister_py.cli.output import LIST_FORMATS, table, write_data
from kanister_py.cli.parser import add_output, add_verbs, switch
from kanister_py.cli.profile import add_profile, read_profile
from kanister_py.wiring import object_stores

if TYPE_CHECKING:
    from kanister_py.ports.object_store import ObjectStore


def add_arguments(parser: argparse.ArgumentParser) -> None:
    verbs = add_verbs(parser)
    ls = verbs.add_parser(
        "list",
        aliases=["ls"],
        help="list objects",
        description="""\
List the objects of a Profile's store, or unfinished uploads to it.

kanister-py location list -f profile.yaml --path team/a
kanister-py location list kanister/backups --unfinished
""",
    )
    add_profile(ls)
    ls.add_argument(
        "--path", default="", help="prefix of the objects' paths, below the Profile's prefix"
    )
    switch(
        ls,
        "--unfinished",
        help="list multipart uploads that were never completed; S3 stores them at a cost",
    )
    add_output(ls, LIST_FORMATS)


def run(args: argparse.Namespace) -> int:
    location = read_profile(args)
    store = object_stores().open(location)
    store.check()
    if args.unfinished:
        return _list_unfinished(store, location.key_of(args.path), args.output)
    objects = list(store.list(location.key_of(args.path)))
    rows = [(obj.key, obj.size, f"{obj.modified:%Y-%m-%dT%H:%M:%SZ}") for obj in objects]
    data = [{"key": key, "size": size, "modified": moment} for key, size, moment in rows]
    lines = [[str(size), moment, key] for key, size, moment in rows]
    head = ("SIZE", "MODIFIED", "KEY")
    names = [key for key, _, _ in rows]
    write_data({"objects": data}, args.output, lambda: table(head, lines), names)
    return 0


def _list_unfinished(store: ObjectStore, prefix: str, output: str) -> int:
    uploads = [
        (upload.key, f"{upload.started:%Y-%m-%dT%H:%M:%SZ}") for upload in store.unfinished(prefix)
    ]
    data = [{"key": key, "started": started} for key, started in uploads]
    lines = [[started, key] for key, started in uploads]
    names = [key for key, _ in uploads]
    write_data({"uploads": data}, output, lambda: table(("STARTED", "KEY"), lines), names)
    return 0

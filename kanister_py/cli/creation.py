"""Creation of an object: printed only or made, and an ActionSet followed to its end."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from kanister_py.cli.output import write_data

if TYPE_CHECKING:
    from kanister_py.ports.cluster import Cluster, KubeObject


def create(
    args: argparse.Namespace,
    cluster: Cluster,
    wanted: KubeObject,
    check: Callable[[KubeObject], None] = lambda _: None,
) -> int:
    """Do with an object what --dry-run, --output and --wait say; `check` sees it once created."""
    created = wanted if args.dry_run else cluster.create(wanted)
    # What the cluster notes for itself says nothing about what was asked for.
    created["metadata"].pop("managedFields", None)
    if not args.dry_run:
        check(created)
    form = getattr(args, "output", "") or ("yaml" if args.dry_run else "line")
    name = created["metadata"]["name"]
    write_data(created, form, lambda: [f"{wanted['kind'].lower()} {name} created"])
    if args.dry_run or not getattr(args, "wait", False):
        return 0
    from kanister_py.cli.actionset_watch import follow

    return follow(cluster, args.namespace, name)

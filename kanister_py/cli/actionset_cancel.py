"""Stop an ActionSet: phases at work are told to stop, deferred phases still run.

It ends as failed, with the reason Cancelled. One that has ended is left as it is.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kanister_py.cli.output import put
from kanister_py.core.errors import UsageError
from kanister_py.core.objects.parts import spec_of
from kanister_py.core.objects.resources import ACTION_SETS

if TYPE_CHECKING:
    from kanister_py.ports.cluster import Cluster


class CancelNotKept(UsageError):
    """The cluster's definition of ActionSets drops the wish to cancel one."""

    reason = "CancelNotKept"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"This cluster's definition of ActionSets knows no spec.cancel; "
            f"delete {name} instead, or install ours with kanister-py crds upgrade"
        )
        self.name = name


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("--wait", action="store_true", help="follow it to its end")


def run(args: argparse.Namespace, cluster: Cluster) -> int:
    from kanister_py.cli.actionset_retry import ActionSetState
    from kanister_py.core.actionsets.status import Status
    from kanister_py.core.actionsets.stored_status import read_status

    found = cluster.get(ACTION_SETS, args.name, namespace=args.namespace)
    status = read_status(found) or Status()
    if status.is_final:
        raise ActionSetState(args.name, str(status.state), "there is nothing left to cancel")
    patched = cluster.patch(
        ACTION_SETS, args.name, {"spec": {"cancel": True}}, namespace=args.namespace
    )
    if spec_of(patched).get("cancel") is not True:
        raise CancelNotKept(args.name)
    put(f"actionset {args.name} is being cancelled")
    if args.wait:
        from kanister_py.cli.actionset_watch import follow

        return follow(cluster, args.namespace, args.name)
    return 0

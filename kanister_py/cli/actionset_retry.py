"""Do again what an ActionSet failed to do.

Makes a new ActionSet that says the same. What the first one completed is taken over with
its outputs; the rest runs, from the first phase that is not complete, or from the one that
--from-phase names. The first one stays as it is, and is not collected before the new one.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from kanister_py.cli.output import put, write_data
from kanister_py.core.errors import UsageError
from kanister_py.core.objects.resources import ACTION_SETS

if TYPE_CHECKING:
    from kanister_py.ports.cluster import Cluster, KubeObject


class ActionSetState(UsageError):
    """Something is asked of an ActionSet that does not fit how far it is."""

    reason = "ActionSetState"

    def __init__(self, name: str, state: str, why: str) -> None:
        super().__init__(f"ActionSet {name} is {state}: {why}")
        self.name = name
        self.state = state


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("retried", metavar="NAME")
    parser.add_argument("--from-phase", default="", metavar="PHASE", help="begin with this one")
    parser.add_argument("--name", default="", help="what the new one is called")
    parser.add_argument("--dry-run", action="store_true", help="print it, and create nothing")
    parser.add_argument("--wait", action="store_true", help="follow it to its end")


def run(args: argparse.Namespace, cluster: Cluster) -> int:
    from secrets import choice

    from kanister_py.core.actionsets.creation import retry_of

    found = cluster.get(ACTION_SETS, args.retried, namespace=args.namespace)
    _refuse(found, args.from_phase)
    made = retry_of(found, args.name, args.from_phase, choice)
    if args.dry_run:
        write_data(made, "yaml")
        return 0
    created = cluster.create(made)
    put(f"actionset {created['metadata']['name']} created")
    if args.wait:
        from kanister_py.cli.actionset_watch import follow

        return follow(cluster, args.namespace, created["metadata"]["name"])
    return 0


def _refuse(found: KubeObject, from_phase: str) -> None:
    """Refuse what nobody can do again, before anything is made."""
    from kanister_py.core.actionsets.status import State, Status
    from kanister_py.core.actionsets.stored_status import read_status
    from kanister_py.core.errors import NothingToRetry

    status = read_status(found) or Status()
    name = found["metadata"]["name"]
    if not status.is_final:
        raise ActionSetState(name, str(status.state), "wait for its end, or cancel it first")
    if status.state is State.COMPLETE and not from_phase:
        raise ActionSetState(
            name, str(status.state), "there is nothing to do again, unless --from-phase says what"
        )
    names = [phase.name for action in status.actions for phase in action.phases]
    if from_phase and from_phase not in names:
        raise NothingToRetry(name, from_phase)

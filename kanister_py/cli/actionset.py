"""Create, list, follow, retry and cancel ActionSets on a cluster.

kanister-py actionset create -a backup -b mysql --statefulset shop/db
kanister-py actionset create -a restore --from backup-x7k2p --wait
kanister-py actionset get -n shop
kanister-py actionset watch backup-x7k2p
kanister-py actionset logs backup-x7k2p --follow
kanister-py actionset retry backup-x7k2p
kanister-py actionset cancel backup-x7k2p

Acts on the cluster of the kubeconfig, unless --context, --kubeconfig or --in-cluster say
another; ActionSets are in the namespace of the context, unless -n says another. A
controller runs them; without one, `kanister-py run` does.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import Final

from kanister_py.cli.connection import add_verbs_on_cluster, open_connection

VERBS: Final = {
    "create": "create one, from flags or from one that is complete",
    "get": "list them, or print some",
    "watch": "follow one to its end",
    "logs": "print what the phases of one have printed",
    "retry": "do again what one failed to do",
    "cancel": "stop one; deferred phases still run",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_verbs_on_cluster(parser, VERBS, "kanister_py.cli.actionset_{}".format)


def run(args: argparse.Namespace) -> int:
    with open_connection(args) as cluster:
        code: int = import_module(f"kanister_py.cli.actionset_{args.verb}").run(args, cluster)
        return code

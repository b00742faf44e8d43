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
from types import ModuleType
from typing import Final

from kanister_py.cli.connection import add_connection, open_connection
from kanister_py.cli.parser import Parser

# A module for each: what one does not need is not imported for it.
VERBS: Final = {
    "create": "create one, from flags or from one that is complete",
    "get": "list them, or print some",
    "watch": "follow one to its end",
    "logs": "print what the phases of one have printed",
    "retry": "do again what one failed to do",
    "cancel": "stop one; deferred phases still run",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(
        dest="verb", required=True, metavar="VERB", prog=parser.prog, parser_class=Parser
    )
    for verb, summary in VERBS.items():
        module = _module_of(verb)
        own = verbs.add_parser(verb, help=summary, description=module.__doc__ or "")
        module.add_arguments(own)
        own.add_argument("-n", "--namespace", default="", help="default: that of the context")
        add_connection(own)


def run(args: argparse.Namespace) -> int:
    with open_connection(args) as cluster:
        code: int = _module_of(args.verb).run(args, cluster)
        return code


def _module_of(verb: str) -> ModuleType:
    return import_module(f"kanister_py.cli.actionset_{verb}")

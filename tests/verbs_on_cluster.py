"""Verbs of commands such as `kanister-py actionset`, called on a cluster in memory."""

from __future__ import annotations

import argparse

from kanister_py.cli import actionset, schedule
from kanister_py.cli.parser import Parser
from kanister_py.embedded.cluster.cluster import MemoryCluster

_COMMANDS = {"actionset": actionset, "schedule": schedule}


def parse_verb(*words: str, namespace: str = "shop") -> argparse.Namespace:
    """Parse a command line such as `actionset get one`."""
    parser = Parser(prog=f"kanister-py {words[0]}", environment={})
    _COMMANDS[words[0]].add_arguments(parser)
    args: argparse.Namespace = parser.parse_args(list(words[1:]))
    args.namespace = namespace
    return args


def call_verb(cluster: MemoryCluster, *words: str, namespace: str = "shop") -> int:
    """Run a command line such as `actionset get one`, and return its exit code."""
    args = parse_verb(*words, namespace=namespace)
    code: int = args.run_verb(args, cluster)
    return code

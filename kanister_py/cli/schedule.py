"""Make ActionSets again and again: create, list and steer the Schedules of a cluster.

kanister-py schedule create nightly --cron "0 2 * * *" --time-zone Europe/Berlin \\
    -a backup -b mysql --statefulset shop/db --profile shop/s3
kanister-py schedule list -A
kanister-py schedule describe nightly
kanister-py schedule next --cron "30 2 * * 1-5" --time-zone America/New_York
kanister-py schedule run-now nightly --wait
kanister-py schedule suspend nightly
kanister-py schedule keep nightly daily=7 weekly=4 --dry-run

The controller runs them. Each time runs exactly once; of times that were missed the last
one alone is made up for, unless --starting-deadline has passed. Everything that a Schedule
may say is in docs/schedules.md, and in `kubectl explain schedule.spec`.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import Final

from kanister_py.cli.connection import add_verbs_on_cluster, open_connection

VERBS: Final = {
    "create": "create one, from flags",
    "list": "list them: when they ran last, how, and when they run next",
    "describe": "say all there is to say of one, with its runs",
    "suspend": "let one start nothing until it is resumed",
    "resume": "let one run again; what fell into the pause is not made up for",
    "run-now": "make one run beside its times",
    "keep": "say which backups of one stay, or see what would stay, and why",
    "next": "say when one runs next, or when a cron line would",
}
_MODULES: Final = {"resume": "suspend", "run-now": "run_now"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_verbs_on_cluster(parser, VERBS, _module_of)


def _module_of(verb: str) -> str:
    return f"kanister_py.cli.schedule_{_MODULES.get(verb, verb)}"


def run(args: argparse.Namespace) -> int:
    module = import_module(_module_of(args.verb))
    if args.verb == "next" and not args.name:
        # A cron line means the same everywhere.
        return int(module.run(args, None))
    with open_connection(args) as cluster:
        return int(module.run(args, cluster))

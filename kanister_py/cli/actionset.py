"""Create, list, watch, retry and cancel ActionSets on a cluster.

kanister-py actionset create -a backup -b mysql --statefulset shop/db
kanister-py actionset create -a restore --from backup-x7k2p --wait
kanister-py actionset list -n shop
kanister-py actionset describe backup-x7k2p
kanister-py actionset logs backup-x7k2p --follow
kanister-py actionset retry backup-x7k2p
kanister-py actionset cancel backup-x7k2p

An ActionSet asks the controller to run actions of a Blueprint. Without a controller on the
cluster, `kanister-py run` runs an action. The cluster is that of the kubeconfig, unless
--context, --kubeconfig or --in-cluster names another one.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from secrets import choice
from typing import TYPE_CHECKING, Final

from kanister_py.cli.action_flags import (
    add_action_flags,
    add_input_flags,
    add_list_flag,
    add_object_flags,
    check_options,
    check_references,
    order_of,
)
from kanister_py.cli.actionset_output import (
    actionset_table,
    cleaned_actionset,
    describe_actionset,
    print_lines,
)
from kanister_py.cli.connection import open_connection
from kanister_py.cli.creation import add_creation_flags, create
from kanister_py.cli.follow_actionset import follow
from kanister_py.cli.object_verbs import (
    ObjectKind,
    Verb,
    add_object_verbs,
    delete_verb,
    get_verb,
    list_verb,
)
from kanister_py.cli.output import put, write_data
from kanister_py.cli.parser import add_output, pairs, seconds, switch
from kanister_py.controller.actionsets.pod_logs import PodLogLines
from kanister_py.core.actionsets.creation import new_actionset
from kanister_py.core.errors import KanisterError
from kanister_py.core.kube.resources import ACTION_SETS
from kanister_py.executor.actionset_requests import cancel_actionset, write_retry
from kanister_py.executor.read_blueprints import read_blueprints
from kanister_py.wiring import lines_of_controller, system_clock

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kanister_py.core.blueprints.model import Blueprint
    from kanister_py.ports.cluster import Cluster, KubeObject
    from kanister_py.ports.phase_lines import LineSource


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_object_verbs(parser, VERBS)


def run(args: argparse.Namespace) -> int:
    with open_connection(args) as cluster:
        code: int = args.run_verb(args, cluster)
        return code


# create

_CREATE: Final = """\
Create an ActionSet with one action for each object that is named or selected.

kanister-py actionset create -a backup -b mysql --deployment shop/db --profile shop/s3
kanister-py actionset create -a backup -b mysql -l app=db -k statefulset
kanister-py actionset create -a restore --from backup-x7k2p --options point=noon
kanister-py actionset create -a backup -b mysql -t shop/db --dry-run -o json

The Blueprint, the objects and the inputs must exist, unless --skip-validation is set.
--from copies actions, objects and artifacts from a completed ActionSet; other flags override
the copy, and maps such as options are merged.
"""


def _add_create_arguments(parser: argparse.ArgumentParser) -> None:
    add_action_flags(parser)
    parser.add_argument(
        "--name",
        default="",
        help="default: generated from the names of the action and of the --from ActionSet",
    )
    parser.add_argument(
        "--from",
        dest="parent",
        default="",
        metavar="ACTIONSET",
        help="copy actions, objects and artifacts of this completed ActionSet",
    )
    # Short flags of kanctl that have another meaning in the rest of this program.
    parser.add_argument("-A", dest="name", help=argparse.SUPPRESS)
    parser.add_argument("-f", dest="parent", help=argparse.SUPPRESS)
    add_object_flags(parser.add_argument_group("objects"))
    add_input_flags(parser.add_argument_group("inputs"))
    group = parser.add_argument_group("creation")
    add_list_flag(group, "--labels", pairs, "KEY=VALUE,…", help="labels of the ActionSet")
    add_creation_flags(group, takes_inputs=True, can_wait=True)


def _create(args: argparse.Namespace, cluster: Cluster) -> int:
    parent = None
    if args.parent:
        parent = cluster.get(ACTION_SETS, args.parent, namespace=args.namespace)
    actionset = new_actionset(order_of(args, cluster), parent, choice)
    if not args.skip_validation:
        check_references(actionset, cluster)
        check_options(args, cluster, actionset)
    return create(args, cluster, actionset)


# describe

_DESCRIBE: Final = """\
Show an ActionSet with its actions, phases, artifacts, warnings and error, and with the options
that its actions declare.

kanister-py actionset describe backup-x7k2p
kanister-py actionset describe backup-x7k2p -n shop -o yaml
"""


def _add_describe_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="name of the ActionSet")
    add_output(parser, ("text", "json", "yaml"))


def _describe(args: argparse.Namespace, cluster: Cluster) -> int:
    actionset = cluster.get(ACTION_SETS, args.name, namespace=args.namespace)
    now = system_clock().now()
    data = cleaned_actionset(actionset)
    write_data(
        data,
        args.output,
        lambda: describe_actionset(actionset, now, _readable_blueprints(cluster, actionset)),
    )
    return 0


def _readable_blueprints(cluster: Cluster, actionset: KubeObject) -> Mapping[str, Blueprint]:
    """Read the Blueprints of an ActionSet; none if they cannot be read."""
    try:
        return read_blueprints(cluster, actionset)
    except KanisterError:
        return {}


# logs

_LOGS: Final = """\
Print the log lines that the phases of an ActionSet wrote.

kanister-py actionset logs backup-x7k2p
kanister-py actionset logs backup-x7k2p --follow --phase dump
kanister-py actionset logs backup-x7k2p --server http://127.0.0.1:8640

The lines are part of the controller's log, which is read from its pods. They are looked for
in the namespace of the controller's Lease, or in --controller-namespace. For a controller
outside the cluster, or if you may not read its log, name its HTTP endpoint with --server.
"""


def _add_logs_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="name of the ActionSet")
    parser.add_argument("--action", default="", help="only lines of this action's phases")
    parser.add_argument("--phase", default="", help="only lines of this phase")
    switch(parser, "--follow", help="print new lines until the ActionSet has ended")
    add_output(parser, ("text", "json"))
    parser.add_argument(
        "--server", default="", metavar="URL", help="URL of the controller's endpoint"
    )
    parser.add_argument(
        "--server-ca",
        default="",
        metavar="FILE",
        help="authorities (PEM) of the endpoint's certificate; default: those of the system",
    )
    parser.add_argument(
        "--token-file", default="", metavar="FILE", help="file with the token to send to --server"
    )
    parser.add_argument(
        "--controller-namespace",
        default="",
        metavar="NAMESPACE",
        help="namespace of the controller's pods",
    )


def _logs(args: argparse.Namespace, cluster: Cluster) -> int:
    return print_lines(args, cluster, _log_source(args, cluster), system_clock())


def _log_source(args: argparse.Namespace, cluster: Cluster) -> LineSource:
    if not args.server:
        return PodLogLines(cluster, args.controller_namespace)

    token = Path(args.token_file).read_text(encoding="utf-8") if args.token_file else ""
    return lines_of_controller(args.server, token.strip(), args.server_ca)


# watch

_WATCH: Final = """\
Show the progress of an ActionSet until it has ended.

kanister-py actionset watch backup-x7k2p
kanister-py actionset watch backup-x7k2p --timeout 30m -o json

Exits with 0 if the ActionSet is complete, with 1 if it failed or was deleted, with 130 if it
was cancelled. Ctrl-C only stops watching; `kanister-py actionset cancel` stops the ActionSet.
"""


def _add_watch_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="name of the ActionSet")
    parser.add_argument(
        "--timeout",
        type=seconds,
        metavar="DURATION",
        help="stop watching after this time, and exit with 1",
    )
    parser.add_argument("-o", "--output", choices=("yaml", "json"), help="print the final status")


def _watch(args: argparse.Namespace, cluster: Cluster) -> int:
    return follow(cluster, args.namespace, args.name, args.timeout, args.output)


# retry

_RETRY: Final = """\
Create a new ActionSet that repeats the failed part of another one.

kanister-py actionset retry backup-x7k2p --wait
kanister-py actionset retry backup-x7k2p --from-phase upload

The new ActionSet takes over completed phases with their outputs, and starts with the first
phase that is not complete, or with --from-phase. The old ActionSet does not change, and is
not garbage-collected before the new one.
"""


def _add_retry_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("retried", metavar="NAME", help="name of the ActionSet to retry")
    parser.add_argument("--from-phase", default="", metavar="PHASE", help="start with this phase")
    parser.add_argument("--name", default="", help="name of the new ActionSet")
    add_creation_flags(parser, can_wait=True)


def _retry(args: argparse.Namespace, cluster: Cluster) -> int:
    actionset = cluster.get(ACTION_SETS, args.retried, namespace=args.namespace)
    return create(args, cluster, write_retry(actionset, args.name, args.from_phase, choice))


# cancel

_CANCEL: Final = """\
Cancel an ActionSet. Running phases are told to stop; deferred phases still run.

kanister-py actionset cancel backup-x7k2p
kanister-py actionset cancel backup-x7k2p --wait

The ActionSet ends as failed with the reason Cancelled. One that has ended is not changed.
"""


def _add_cancel_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="name of the ActionSet")
    switch(parser, "--wait", help="show the progress until the ActionSet has ended")


def _cancel(args: argparse.Namespace, cluster: Cluster) -> int:
    cancel_actionset(cluster, args.namespace, args.name)
    put(f"actionset {args.name} is being cancelled")
    return follow(cluster, args.namespace, args.name) if args.wait else 0


_KIND: Final = ObjectKind(
    ACTION_SETS,
    "ActionSet",
    "actionset",
    "backup-x7k2p",
    actionset_table,
    cleaned_actionset,
    "A running one is cancelled first. Backups in object stores are not deleted.",
)
VERBS: Final = (
    Verb("create", "create an ActionSet from flags", _CREATE, _add_create_arguments, _create),
    list_verb(_KIND, "state, progress, running phase, warnings and age"),
    get_verb(_KIND),
    Verb(
        "describe",
        "show one with its phases, artifacts and error",
        _DESCRIBE,
        _add_describe_arguments,
        _describe,
    ),
    delete_verb(_KIND),
    Verb("watch", "show the progress of one until it ends", _WATCH, _add_watch_arguments, _watch),
    Verb("logs", "print the log lines of its phases", _LOGS, _add_logs_arguments, _logs),
    Verb("retry", "repeat the failed part of one", _RETRY, _add_retry_arguments, _retry),
    Verb("cancel", "stop one; deferred phases still run", _CANCEL, _add_cancel_arguments, _cancel),
)

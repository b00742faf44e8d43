"""Show the effects of an action of a blueprint without running it.

kanister-py plan blueprint.yaml backup --object Deployment/shop/db -f manifests/
kanister-py plan --context prod -n shop mysql-backup backup --object StatefulSet/shop/db -o json

Prints the phases in order, the version of each and the reason for it, its arguments and the
objects that it accesses, after the options that the action declares. Templates that depend on
the output of an earlier phase are printed unrendered, with that phase. With --context or
--kubeconfig, objects of a real cluster are read; nothing is written. Known secrets are masked.

Exits with 1 if the action would certainly fail. Missing inputs are not errors: they are listed
with the flag that provides them, and templates that use them are not checked. On a real cluster,
a missing object is an error.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kanister_py.cli.connection import add_connection, connected, is_connected, located_blueprint
from kanister_py.cli.inputs import add_inputs, inputs_of, objects_in, places_of_refused
from kanister_py.cli.missing_inputs import flags_by_root, flags_for_missing
from kanister_py.cli.output import Line, Tint, say, say_notices, write_data
from kanister_py.cli.parser import CommandLineError
from kanister_py.cli.releases import add_target_release, releases_at
from kanister_py.core.yaml.documents import dump_yaml

if TYPE_CHECKING:
    from kanister_py.core.blueprints.plan import PlannedPhase
    from kanister_py.executor.plan_action import Plan
    from kanister_py.ports.cluster import Cluster


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "blueprint", metavar="BLUEPRINT", help="a file, - for stdin, or a name on the cluster"
    )
    parser.add_argument("action", metavar="ACTION", help="name of the action")
    parser.add_argument(
        "--blueprint-name",
        default="",
        metavar="NAME",
        help="name of the blueprint, if the file has several",
    )
    add_inputs(parser)
    add_connection(parser)
    add_target_release(parser)
    parser.add_argument(
        "-o",
        "--output",
        choices=("text", "json", "yaml"),
        default="text",
        help="text for people, or data (default: text)",
    )


def run(args: argparse.Namespace) -> int:
    """Plan one action and print the plan."""
    if is_connected(args) and args.files:
        raise CommandLineError("-f is for the embedded cluster, not for a real one")
    with connected(args) as cluster:
        plan = _plan(args, cluster)
    for line in (*plan.unread, *plan.unchecked):
        say(f"note: {line}: not read, so its content is unknown")
    for warning in plan.warnings:
        say(f"warning: {warning}")
    say_notices(notice for phase in plan.phases for notice in phase.notices)
    missing = _missing_inputs(args, plan)
    data = plan.as_dict()
    write_data(
        {**data, "notGiven": missing} if missing else data,
        args.output,
        lambda: _lines(plan, missing),
    )
    return 1 if plan.has_errors else 0


def _plan(args: argparse.Namespace, cluster: Cluster | None) -> Plan:
    from kanister_py.runs import RunSettings, plan_blueprint
    from kanister_py.wiring import read_functions

    settings = RunSettings(
        objects=tuple(objects_in(args.files)),
        cluster=cluster,
        namespace=args.namespace,
        is_strict=args.strict_versions,
    )
    with places_of_refused(args.files):
        return plan_blueprint(
            located_blueprint(cluster, args),
            args.action,
            object=args.object,
            options=dict(args.option),
            at=releases_at(args.target_release, read_functions().registry),
            settings=settings,
            **inputs_of(args),
        )


def _missing_inputs(args: argparse.Namespace, plan: Plan) -> list[str]:
    """Return the flags that provide the inputs that the plan lacks."""
    flags = flags_for_missing(plan.lacking, flags_by_root(args), may_be_misspelt=True)
    return [*flags, "-f FILE: the manifests of missing objects"] if plan.unread else flags


def _lines(plan: Plan, missing: Sequence[str]) -> Iterator[Line]:
    yield Tint(f"{plan.blueprint or 'Blueprint'}: {plan.action}", "bold")
    if plan.options:
        yield "options:"
        yield from (f"  {name}: {option.summary}" for name, option in plan.options.items())
    for number, phase in enumerate(plan.phases, 1):
        yield ""
        yield from _phase_lines(number, phase)
    if plan.unknown:
        yield ""
        yield "not known yet:"
        yield from (f"  {name}" for name in plan.unknown)
    if missing:
        yield ""
        yield "missing inputs, not checked:"
        yield from (f"  {flag}" for flag in missing)
    if plan.errors:
        yield ""
        for error in plan.errors:
            yield [Tint("error:", "red"), f" {error}"]


def _phase_lines(number: int, phase: PlannedPhase) -> Iterator[Line]:
    name = f"{phase.name} " if phase.name else ""
    version = f" {phase.version}" if phase.version else ""
    yield f"{number}. {name}({phase.function}{version}){', always' if phase.is_deferred else ''}"
    for error in phase.errors:
        yield ["   ", Tint("error:", "red"), f" {error}"]
    if phase.why and not phase.errors:
        yield f"   {phase.why}"
    if phase.skipped:
        yield f"   skipped: {phase.skipped}"
    elif phase.condition:
        yield f"   if: {phase.condition}"
    if phase.args:
        yield "   args:"
        yield from (f"     {line}" for line in dump_yaml(dict(phase.args)).splitlines())
    if phase.unknown:
        yield "   not known yet:"
        yield from (f"     {path}" for path in phase.unknown)
    if phase.accesses:
        yield "   accesses:"
        yield from (f"     {access}" for access in phase.accesses)

"""Say what an action of a blueprint would do, without doing any of it.

Shows the phases in their order, the version that each gets and why, its arguments
as far as they can be known, and the objects it would touch. What depends on the
output of an earlier phase stays the template it is, with the phase it waits for.
With --context or --kubeconfig, the objects of a real cluster are looked at, no more.
Known secrets are masked. Ends with 1 where the action is sure to fail with what was
given. What was not given is no error: it is listed, with the flag that gives it, and
what depends on it is not checked. On a real cluster an object that is missing is one.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kanister_py.cli.connection import add_connection, connected, is_connected, located_blueprint
from kanister_py.cli.inputs import add_inputs, inputs_of, objects_in
from kanister_py.cli.output import Line, Tint, say, say_notices, write_data
from kanister_py.cli.parser import CommandLineError
from kanister_py.cli.releases import add_target_release, releases_at

if TYPE_CHECKING:
    from kanister_py.core.blueprints.plan import PlannedPhase
    from kanister_py.executor.plan_action import Plan
    from kanister_py.ports.cluster import Cluster


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "blueprint", metavar="BLUEPRINT", help="a file, - for stdin, or a name on the cluster"
    )
    parser.add_argument("action", metavar="ACTION", help="which of its actions")
    parser.add_argument("--blueprint-name", default="", help="which one, if the file has several")
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
        raise CommandLineError("-f is for a cluster in memory, not a real one")
    with connected(args) as cluster:
        plan = _plan(args, cluster)
    for line in (*plan.unread, *plan.unchecked):
        say(f"note: {line}: what it would say is not known")
    say_notices(notice for phase in plan.phases for notice in phase.notices)
    ways = _ways_to_give(args, plan)
    data = plan.as_dict()
    write_data(
        {**data, "notGiven": ways} if ways else data, args.output, lambda: _lines(plan, ways)
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
    return plan_blueprint(
        located_blueprint(cluster, args),
        args.action,
        object=args.object,
        options=dict(args.option),
        at=releases_at(args.target_release, read_functions().registry),
        settings=settings,
        **inputs_of(args),
    )


def _ways_to_give(args: argparse.Namespace, plan: Plan) -> list[str]:
    """Say how everything is given that the plan was not, each once."""
    from kanister_py.cli.remedies import inputs_that_give, ways_to_give

    ways = ways_to_give(plan.lacking, inputs_that_give(args), may_be_near=True)
    return [*ways, "-f FILE: the manifests of objects that are not there"] if plan.unread else ways


def _lines(plan: Plan, ways: Sequence[str]) -> Iterator[Line]:
    yield Tint(f"{plan.blueprint or 'Blueprint'}: {plan.action}", "bold")
    for number, phase in enumerate(plan.phases, 1):
        yield ""
        yield from _phase_lines(number, phase)
    if plan.unknown:
        yield ""
        yield "not known yet:"
        yield from (f"  {each}" for each in plan.unknown)
    if ways:
        yield ""
        yield "not given, and not checked:"
        yield from (f"  {each}" for each in ways)
    if plan.errors:
        yield ""
        for each in plan.errors:
            yield [Tint("error:", "red"), f" {each}"]


def _phase_lines(number: int, phase: PlannedPhase) -> Iterator[Line]:
    from kanister_py.core.yaml.documents import dump_yaml

    called = f"{phase.name} " if phase.name else ""
    version = f" {phase.version}" if phase.version else ""
    yield f"{number}. {called}({phase.function}{version}){', always' if phase.is_deferred else ''}"
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
        yield from (f"     {each}" for each in phase.unknown)
    if phase.accesses:
        yield "   touches:"
        yield from (f"     {each}" for each in phase.accesses)

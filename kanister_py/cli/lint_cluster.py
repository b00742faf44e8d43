"""Lint of a cluster: its Blueprints, ActionSets that are under way, and when what last ran."""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kanister_py.core.actionsets.stored_status import read_status_data
from kanister_py.core.actionsets.uses import Tally, runs_of, uses_of
from kanister_py.core.blueprints.lint.check import Report, lint_sources
from kanister_py.core.blueprints.lint.context import Context
from kanister_py.core.blueprints.lint.findings import Finding
from kanister_py.core.blueprints.lint.reading import Source
from kanister_py.core.errors import Forbidden, NotFound
from kanister_py.core.kube.resources import ACTION_SETS, BLUEPRINTS
from kanister_py.core.revisions.kinds import COMPOSITIONS, FUNCTION_REVISIONS, FUNCTIONS
from kanister_py.core.schedules.model import KIND, SCHEDULES
from kanister_py.executor.find_namespace import check_namespace
from kanister_py.executor.find_uses import every

if TYPE_CHECKING:
    from kanister_py.core.actionsets.uses import Use
    from kanister_py.ports.cluster import Cluster, KubeObject


def lint_cluster(args: argparse.Namespace, context: Context) -> Report:
    """Judge Blueprints and ActionSets under way, with the time at which each phase last ran."""
    from kanister_py.cli.connection import open_connection

    with open_connection(args) as cluster:
        return report_on(cluster, "" if args.all_namespaces else args.namespace, context, args)


def report_on(
    cluster: Cluster, namespace: str, context: Context, args: argparse.Namespace
) -> Report:
    """Judge each namespace by itself: an ActionSet means the Blueprints beside it."""
    tally, uses = Tally(), list["Use"]()
    by_namespace: dict[str, list[Source]] = defaultdict(list)
    created: dict[str, str] = {}
    counts = {"Blueprint": 0, "ActionSet": 0, "Schedule": 0}

    def take(obj: KubeObject) -> None:
        source = _source_of(obj)
        counts[obj["kind"]] += 1
        created[source.file] = str(obj["metadata"].get("creationTimestamp") or "")
        by_namespace[obj["metadata"]["namespace"]].append(source)

    for blueprint in every(cluster, BLUEPRINTS, [namespace]):
        found = list(uses_of(blueprint, context.registry))
        uses += found
        tally.add_blueprint(found)
        take({**blueprint, "kind": "Blueprint", "apiVersion": BLUEPRINTS.api_version})
    for actionset in every(cluster, ACTION_SETS, [namespace]):
        status = read_status_data(actionset)
        tally.add_actionset(runs_of({**actionset, "status": status}))
        if (status or {}).get("state") not in ("complete", "failed"):
            take({**actionset, "kind": "ActionSet", "apiVersion": ACTION_SETS.api_version})
    for schedule in _schedules(cluster, namespace):
        take(schedule)
    if namespace and not any(counts.values()):
        # A cluster lists nothing in a namespace that is not there, and calls that no error.
        check_namespace(cluster, namespace)
    # These belong to no namespace, and mean each other.
    pipelines = list(_pipelines_of(cluster))
    created |= {source.file: since for source, since in pipelines}
    by_namespace[""] = [source for source, _ in pipelines]
    findings: list[Finding] = []
    compositions = 0
    for where in sorted(by_namespace):
        report = lint_sources(by_namespace[where], context, args.ignore)
        compositions += report.compositions
        findings += _placed(report.findings, created, uses, tally)
    blueprints, action_sets = counts["Blueprint"], counts["ActionSet"]
    schedules = counts["Schedule"]
    return Report(tuple(findings), blueprints, action_sets, (), compositions, schedules)


def _schedules(cluster: Cluster, namespace: str) -> Iterator[KubeObject]:
    """Read the Schedules of a cluster that has such a kind, and lets us see it."""
    try:
        for obj in every(cluster, SCHEDULES, [namespace]):
            yield {**obj, "kind": KIND, "apiVersion": SCHEDULES.api_version}
    except (NotFound, Forbidden):
        return


def _pipelines_of(cluster: Cluster) -> Iterator[tuple[Source, str]]:
    """Read the Compositions, Functions and revisions of a cluster that has such kinds."""
    from kanister_py.cli.output import say

    kinds = (COMPOSITIONS, "Composition"), (FUNCTIONS, "Function")
    for resource, kind in (*kinds, (FUNCTION_REVISIONS, "FunctionRevision")):
        try:
            for obj in every(cluster, resource, [""]):
                whole = {**obj, "kind": kind, "apiVersion": resource.api_version}
                yield _source_of(whole), str(obj["metadata"].get("creationTimestamp") or "")
        except NotFound:
            continue  # a cluster without them
        except Forbidden as error:
            say(f"note: {kind} objects are not looked at: {error.message}")


def _source_of(obj: KubeObject) -> Source:
    metadata = obj["metadata"]
    shown = {key: each for key, each in obj.items() if key != "status"}
    shown["metadata"] = {key: each for key, each in metadata.items() if key != "managedFields"}
    namespace = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
    return Source(f"{obj['kind']} {namespace}{metadata['name']}", json.dumps(shown))


def _placed(
    findings: tuple[Finding, ...], created: dict[str, str], uses: list[Use], tally: Tally
) -> Iterator[Finding]:
    """Add to findings since when their object is there, and when their phase last ran."""
    last = {
        (f"Blueprint {each.namespace}/{each.blueprint}", each.action, each.phase): tally.last_run(
            each
        )
        for each in uses
    }
    for finding in findings:
        # There is no file: nobody could look up its lines.
        yield finding._replace(
            line=0,
            column=0,
            since=created.get(finding.file, ""),
            last_run=last.get((finding.file, finding.action, finding.phase), ""),
        )

"""Lint of a cluster: Blueprints, ActionSets in progress, Schedules and Compositions."""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kanister_py.cli.connection import open_connection
from kanister_py.cli.output import say
from kanister_py.core.actionsets.stored_status import read_status_data
from kanister_py.core.actionsets.uses import Tally, Use, runs_of, uses_of
from kanister_py.core.blueprints.lint.check import Report, lint_sources
from kanister_py.core.blueprints.lint.context import Context
from kanister_py.core.blueprints.lint.findings import Finding
from kanister_py.core.blueprints.lint.reading import Source
from kanister_py.core.errors import Forbidden, NotFound
from kanister_py.core.kube.resources import ACTION_SETS, BLUEPRINTS
from kanister_py.core.revisions.kinds import COMPOSITIONS, FUNCTION_REVISIONS, FUNCTIONS
from kanister_py.core.schedules.model import KIND, SCHEDULES
from kanister_py.executor.check_namespace import check_namespace
from kanister_py.executor.count_uses import list_all

if TYPE_CHECKING:
    from kanister_py.ports.cluster import Cluster, KubeObject


def lint_cluster(args: argparse.Namespace, context: Context) -> Report:
    """Check the objects of the cluster that flags choose."""
    with open_connection(args) as cluster:
        return report_on(cluster, "" if args.all_namespaces else args.namespace, context, args)


def report_on(
    cluster: Cluster, namespace: str, context: Context, args: argparse.Namespace
) -> Report:
    """Check each namespace separately, because an ActionSet names Blueprints of its namespace."""
    tally, uses = Tally(), list[Use]()
    by_namespace: dict[str, list[Source]] = defaultdict(list)
    created: dict[str, str] = {}
    counts = {"Blueprint": 0, "ActionSet": 0, "Schedule": 0}

    def add_source(obj: KubeObject) -> None:
        source = _source_of(obj)
        counts[obj["kind"]] += 1
        created[source.file] = str(obj["metadata"].get("creationTimestamp") or "")
        by_namespace[obj["metadata"]["namespace"]].append(source)

    for blueprint in list_all(cluster, BLUEPRINTS, [namespace]):
        blueprint_uses = list(uses_of(blueprint, context.registry))
        uses += blueprint_uses
        tally.add_blueprint(blueprint_uses)
        add_source({**blueprint, "kind": "Blueprint", "apiVersion": BLUEPRINTS.api_version})
    for actionset in list_all(cluster, ACTION_SETS, [namespace]):
        status = read_status_data(actionset)
        tally.add_actionset(runs_of({**actionset, "status": status}))
        if (status or {}).get("state") not in ("complete", "failed"):
            add_source({**actionset, "kind": "ActionSet", "apiVersion": ACTION_SETS.api_version})
    for schedule in _schedules(cluster, namespace):
        add_source(schedule)
    if namespace and not any(counts.values()):
        # Listing a namespace that does not exist returns an empty list and no error.
        check_namespace(cluster, namespace)
    # Cluster-scoped objects refer to each other, so they are checked together.
    pipelines = list(_pipelines_of(cluster))
    created |= {source.file: since for source, since in pipelines}
    by_namespace[""] = [source for source, _ in pipelines]
    findings: list[Finding] = []
    compositions = 0
    for group in sorted(by_namespace):
        report = lint_sources(by_namespace[group], context, args.ignore)
        compositions += report.compositions
        findings += _with_times(report.findings, created, uses, tally)
    blueprints, action_sets = counts["Blueprint"], counts["ActionSet"]
    schedules = counts["Schedule"]
    return Report(tuple(findings), blueprints, action_sets, (), compositions, schedules)


def _schedules(cluster: Cluster, namespace: str) -> Iterator[KubeObject]:
    """Read the Schedules; none if the kind is not installed or may not be listed."""
    try:
        for obj in list_all(cluster, SCHEDULES, [namespace]):
            yield {**obj, "kind": KIND, "apiVersion": SCHEDULES.api_version}
    except (NotFound, Forbidden):
        return


def _pipelines_of(cluster: Cluster) -> Iterator[tuple[Source, str]]:
    """Read Compositions, Functions and FunctionRevisions with their creation times."""
    kinds = (COMPOSITIONS, "Composition"), (FUNCTIONS, "Function")
    for resource, kind in (*kinds, (FUNCTION_REVISIONS, "FunctionRevision")):
        try:
            for obj in list_all(cluster, resource, [""]):
                typed = {**obj, "kind": kind, "apiVersion": resource.api_version}
                yield _source_of(typed), str(obj["metadata"].get("creationTimestamp") or "")
        except NotFound:
            continue  # the kind is not installed
        except Forbidden as error:
            say(f"note: {kind} objects are not checked: {error.message}")


def _source_of(obj: KubeObject) -> Source:
    metadata = obj["metadata"]
    cleaned = {key: field for key, field in obj.items() if key != "status"}
    cleaned["metadata"] = {key: field for key, field in metadata.items() if key != "managedFields"}
    namespace = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
    return Source(f"{obj['kind']} {namespace}{metadata['name']}", json.dumps(cleaned))


def _with_times(
    findings: tuple[Finding, ...], created: dict[str, str], uses: list[Use], tally: Tally
) -> Iterator[Finding]:
    """Add the creation time of the object and the last run of the phase to findings."""
    last_runs = {
        (f"Blueprint {use.namespace}/{use.blueprint}", use.action, use.phase): tally.last_run(use)
        for use in uses
    }
    for finding in findings:
        # The source is not a file, so lines have no meaning for the user.
        yield finding._replace(
            line=0,
            column=0,
            since=created.get(finding.file, ""),
            last_run=last_runs.get((finding.file, finding.action, finding.phase), ""),
        )

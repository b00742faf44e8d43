"""What is there to say about what a cluster uses?"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kanister_py.core.blueprints.lint.check import Report, lint_sources
from kanister_py.core.blueprints.lint.context import Context
from kanister_py.core.blueprints.lint.findings import Finding
from kanister_py.core.blueprints.lint.reading import Source

if TYPE_CHECKING:
    from kanister_py.core.actionsets.uses import Tally, Use
    from kanister_py.ports.cluster import Cluster, KubeObject


def lint_cluster(args: argparse.Namespace, context: Context) -> Report:
    """Look at Blueprints, at ActionSets that are under way, and at when what last ran."""
    from kanister_py.cli.connection import open_connection

    with open_connection(args) as cluster:
        return report_on(cluster, "" if args.all_namespaces else args.namespace, context, args)


def report_on(
    cluster: Cluster, namespace: str, context: Context, args: argparse.Namespace
) -> Report:
    """Judge each namespace by itself: an ActionSet means the Blueprints beside it."""
    from kanister_py.core.actionsets.uses import Tally, runs_of, uses_of
    from kanister_py.core.objects.resources import ACTION_SETS, BLUEPRINTS
    from kanister_py.executor.find_namespace import check_namespace
    from kanister_py.executor.find_uses import every

    tally, uses = Tally(), list["Use"]()
    by_namespace: dict[str, list[Source]] = defaultdict(list)
    created: dict[str, str] = {}
    counts = {"Blueprint": 0, "ActionSet": 0}

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
        status = _status_of(actionset)
        tally.add_actionset(runs_of({**actionset, "status": status}))
        if (status or {}).get("state") not in ("complete", "failed"):
            take({**actionset, "kind": "ActionSet", "apiVersion": ACTION_SETS.api_version})
    if namespace and not any(counts.values()):
        # A cluster lists nothing in a namespace that is not there, and calls that no error.
        check_namespace(cluster, namespace)
    findings: list[Finding] = []
    for where in sorted(by_namespace):
        report = lint_sources(by_namespace[where], context, args.ignore)
        findings += _placed(report.findings, created, uses, tally)
    return Report(tuple(findings), counts["Blueprint"], counts["ActionSet"], ())


def _status_of(actionset: KubeObject) -> dict[str, Any] | None:
    from kanister_py.controller.actionsets.status import read_status_data

    return read_status_data(actionset)


def _source_of(obj: KubeObject) -> Source:
    metadata = obj["metadata"]
    said = {key: each for key, each in obj.items() if key != "status"}
    said["metadata"] = {key: each for key, each in metadata.items() if key != "managedFields"}
    return Source(f"{obj['kind']} {metadata['namespace']}/{metadata['name']}", json.dumps(said))


def _placed(
    findings: tuple[Finding, ...], created: dict[str, str], uses: list[Use], tally: Tally
) -> Iterator[Finding]:
    """Say where on the cluster something was found, since when it is there, and when it ran."""
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

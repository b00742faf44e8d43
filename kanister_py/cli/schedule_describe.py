"""Say all there is to say of a Schedule: what it runs, when, how it stands, and its runs.

kanister-py schedule describe nightly
kanister-py schedule describe nightly -o yaml
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

from kanister_py.cli.output import Line, Tint, write_data
from kanister_py.core.actionsets.creation import SCHEDULE_LABEL
from kanister_py.core.kube.parts import spec_of, status_of
from kanister_py.core.kube.resources import ACTION_SETS
from kanister_py.core.schedules.model import SCHEDULES
from kanister_py.core.schedules.status import trouble_of

if TYPE_CHECKING:
    from kanister_py.ports.cluster import Cluster, KubeObject


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("-o", "--output", choices=("table", "json", "yaml"), default="table")


def run(args: argparse.Namespace, cluster: Cluster) -> int:
    from kanister_py.cli.schedule_list import shown_of
    from kanister_py.wiring import system_clock

    found = cluster.get(SCHEDULES, args.name, namespace=args.namespace)
    selector = f"{SCHEDULE_LABEL}={args.name}"
    runs = cluster.list(ACTION_SETS, namespace=args.namespace, label_selector=selector).items
    now = system_clock().now()
    write_data(shown_of(found), args.output, lambda: _lines(found, runs, now))
    return 0


def _lines(obj: KubeObject, runs: list[KubeObject], now: datetime) -> Iterator[Line]:
    from kanister_py.cli.actionset_get import lines_of
    from kanister_py.cli.schedule_list import ago, in_zone, next_of

    spec, status = spec_of(obj), status_of(obj)
    zone = str(spec.get("timeZone") or "")

    def line(what: str, value: Any) -> Line:
        return [Tint(f"{what + ':':<14}", "bold"), value if isinstance(value, Tint) else str(value)]

    yield line("Name", f"{obj['metadata']['namespace']}/{obj['metadata']['name']}")
    yield line("Schedule", f"{spec.get('schedule')} {zone or 'UTC'}")
    for action in spec_of(spec.get("template") or {}).get("actions") or ():
        about = action.get("object") or {}
        place = "/".join(filter(None, (about.get("namespace"), about.get("name"))))
        kind = about.get("kind") or about.get("resource") or "object"
        yield line("Runs", f"{action.get('name')} of {action.get('blueprint')} on {kind} {place}")
    policy = spec.get("concurrencyPolicy") or "Forbid"
    yield line("Overlap", {"Forbid": "left out", "Queue": "waits"}.get(policy, "replaced"))
    for key, what in (("jitter", "Jitter"), ("startingDeadline", "Deadline")):
        if spec.get(key):
            yield line(what, spec[key])
    for each in spec.get("windows") or ():
        yield line("Not in", f"{each.get('duration')} from {each.get('schedule')}")
    yield line("Next", next_of(obj, now) or "-")
    for text in (status.get("nextTimes") or [])[1:]:
        yield line("", in_zone(text, zone, now))
    yield line("Last success", ago(status.get("lastSuccessfulTime"), now) or "never")
    if status.get("lastFailureTime"):
        fields = ("lastFailed", "lastFailureReason", "lastFailureMessage")
        why = ": ".join(str(status[field]) for field in fields if status.get(field))
        yield line("Last failure", f"{ago(status['lastFailureTime'], now)} {why}".rstrip())
    if trouble := trouble_of(obj):
        yield line("Not ready", Tint(str(trouble.get("message") or trouble.get("reason")), "red"))
    if runs:
        runs.sort(key=lambda each: each["metadata"].get("creationTimestamp") or "", reverse=True)
        yield ""
        yield from lines_of(runs, now, has_namespaces=False)

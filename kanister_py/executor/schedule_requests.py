"""Requests for a Schedule on a cluster: run now, suspend, resume."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kanister_py.core.actionsets.creation import SCHEDULE_LABEL
from kanister_py.core.errors import UsageError
from kanister_py.core.kube.names import generate_name
from kanister_py.core.kube.parts import name_of
from kanister_py.core.kube.resources import ACTION_SETS
from kanister_py.core.schedules.model import SCHEDULES, ConcurrencyPolicy, parse_schedule
from kanister_py.core.schedules.runs import read_run, run_of
from kanister_py.ports.cluster import Cluster, KubeObject


def write_run_now(
    cluster: Cluster, namespace: str, name: str, choose: Callable[[str], str], *, force: bool
) -> dict[str, Any]:
    """Build the manifest of an ActionSet that runs a Schedule now, regardless of its times.

    Unless `force` is set, raises UsageError if the Schedule forbids concurrent runs and one is
    active.
    """
    schedule = cluster.get(SCHEDULES, name, namespace=namespace)
    if parse_schedule(schedule).policy is ConcurrencyPolicy.FORBID and not force:
        selector = f"{SCHEDULE_LABEL}={name}"
        for actionset in cluster.list(ACTION_SETS, namespace=namespace, label_selector=selector):
            if read_run(actionset).is_active:
                raise UsageError(
                    f"Schedule {name} forbids a second run while {name_of(actionset)} is running; "
                    "wait for its end, cancel it, or use --force",
                    reason="RunUnderWay",
                )
    return run_of(schedule, generate_name(f"{name[:50]}-now-", choose))


def suspend_schedule(
    cluster: Cluster, namespace: str, name: str, *, is_suspended: bool
) -> KubeObject:
    """Suspend or resume a Schedule."""
    patch = {"spec": {"suspend": is_suspended}}
    return cluster.patch(SCHEDULES, name, patch, namespace=namespace)

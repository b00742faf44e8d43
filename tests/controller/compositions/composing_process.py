"""Program that runs a controller with composite resources which call one function.

Its arguments are the address of the function and the number of composite resources. It responds
to each line on stdin with a line of JSON: how many are synced, and the messages of their
conditions. The line `again` causes a reconcile of all of them first.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from contextlib import ExitStack, suppress
from typing import Any

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.controller.controller import Controller, ControllerSettings
from kanister_py.controller.functions.settings import CompositionSettings
from kanister_py.core.errors import KanisterError
from kanister_py.core.kube.parts import conditions_of
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.executor.function_source import FunctionSource
from kanister_py.executor.loading import load_function
from kanister_py.wiring import FunctionAccess, composition_part, read_functions
from tests.controller.compositions.harness import (
    BUCKETS,
    bucket,
    cluster_with_kinds,
    composition,
    definition,
)

PATIENCE_SECONDS = 180.0


def revision(endpoint: str) -> dict[str, Any]:
    return {
        "apiVersion": "pkg.crossplane.io/v1",
        "kind": "FunctionRevision",
        "metadata": {
            "name": "function-f-1",
            "labels": {"pkg.crossplane.io/package": "function-f"},
            "annotations": {"kanister-py.io/runtime": "External"},
        },
        "spec": {
            "image": f"registry.example/f@sha256:{'0' * 64}",
            "revision": 1,
            "desiredState": "Active",
        },
        "status": {
            "endpoint": endpoint,
            "conditions": [
                {
                    "type": "RuntimeHealthy",
                    "status": "True",
                    "reason": "HealthyRuntime",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }
            ],
        },
    }


def fill(cluster: MemoryCluster, endpoint: str, count: int) -> None:
    calling = composition()
    calling["spec"]["pipeline"] = [{"step": "call", "functionRef": {"name": "function-f"}}]
    function_revision = revision(endpoint)
    for obj in (definition(), function_revision, calling):
        cluster.apply(obj, field_manager="people", force=True)
    cluster.apply(function_revision, field_manager="people", force=True, subresource="status")
    until = time.monotonic() + PATIENCE_SECONDS
    for number in range(count):
        xr = bucket(f"b-{number}", ())
        while time.monotonic() < until:
            with suppress(KanisterError):
                cluster.apply(xr, field_manager="people", force=True)
                break
            # The kind is not served yet.
            time.sleep(0.05)


def main(endpoint: str, count: int) -> None:
    logging.disable(logging.CRITICAL)
    clock = SystemClock()
    functions = read_functions()
    cluster = cluster_with_kinds()
    with ExitStack() as stack:
        part = composition_part(
            functions,
            CompositionSettings("kanister-py"),
            FunctionAccess(is_insecure=True),
            stack,
        )
        controller = Controller(
            cluster,
            FunctionSource(functions.registry, load_function),
            clock=clock,
            settings=ControllerSettings(),
            parts=[part],
        )
        controller.start()
        fill(cluster, endpoint, count)
        for turn, word in enumerate(sys.stdin):
            for number in range(count if word.strip() == "again" else 0):
                patch = {"metadata": {"labels": {"turn": str(turn)}}}
                cluster.patch(BUCKETS, f"b-{number}", patch, namespace="default")
            synced = [
                condition
                for obj in cluster.list(BUCKETS)
                for condition in conditions_of(obj)
                if condition["type"] == "Synced"
            ]
            report = {
                "synced": sum(condition["status"] == "True" for condition in synced),
                "messages": sorted({condition.get("message", "") for condition in synced}),
            }
            sys.stdout.write(f"{json.dumps(report)}\n")
            sys.stdout.flush()
        controller.kill()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

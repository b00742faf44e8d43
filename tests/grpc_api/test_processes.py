"""Processes behind one port: how many are started, and the metrics of dead processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from kanister_py.grpc_api.processes import JoinedMetrics, ServingProcesses

_COUNTS = """
import sys
from kanister_py.grpc_api.metrics import ServerMetrics
from prometheus_client import Gauge

metrics = ServerMetrics()
for _ in range(int(sys.argv[1])):
    metrics.observe("v1", "OK", 0.25)
Gauge("mine", "A gauge of the process").set(1)
"""
_LABELS = {
    "grpc_type": "unary",
    "grpc_service": "apiextensions.fn.proto.v1.FunctionRunnerService",
    "grpc_method": "RunFunction",
}


def test_a_stop_before_the_first_process_serves_starts_no_others() -> None:
    started: list[int] = []

    def command(link: int) -> list[str]:
        started.append(link)
        return ["--version"]

    processes = ServingProcesses(command, 3, grace_seconds=60.0)
    heard: list[str] = []
    code = processes.run(
        lambda *_: "SIGTERM", lambda: heard.append("serves"), lambda: heard.append("stops")
    )
    assert (code, heard, len(started)) == (0, ["stops"], 1)


def run_process(environment: dict[str, str], calls: int) -> int:
    """Start a process that counts calls and exits; return its process ID."""
    command = [sys.executable, "-c", _COUNTS, str(calls)]
    with subprocess.Popen(command, env={**os.environ, **environment}) as process:
        assert process.wait() == 0
        return process.pid


@pytest.fixture
def processes() -> ServingProcesses:
    return ServingProcesses(lambda _: [], 2, grace_seconds=60.0)


def test_counters_of_dead_processes_are_added_up_in_one_file(processes: ServingProcesses) -> None:
    with JoinedMetrics(processes) as metrics:
        registry = CollectorRegistry()
        registry.register(metrics)
        (folder,) = map(Path, processes.environment.values())
        for calls in (3, 4, 5):
            processes.on_death(run_process(processes.environment, calls))
        assert sorted(path.name for path in folder.iterdir()) == [
            "counter_died.db",
            "histogram_died.db",
        ]
        (folder / "counter_1.db").touch()  # killed at its start
        processes.on_death(1)
        run_process(processes.environment, 1)
        assert (
            registry.get_sample_value("grpc_server_handled_total", {**_LABELS, "grpc_code": "OK"})
            == 13
        )
        assert registry.get_sample_value("grpc_server_handling_seconds_sum", _LABELS) == 13 / 4
        assert registry.get_sample_value("grpc_server_handling_seconds_count", _LABELS) == 13
        buckets = {**_LABELS, "le": "0.25"}
        assert registry.get_sample_value("grpc_server_handling_seconds_bucket", buckets) == 13


def test_process_metrics_are_labelled_by_process_id(
    processes: ServingProcesses,
) -> None:
    with JoinedMetrics(processes) as metrics:
        registry = CollectorRegistry()
        registry.register(metrics)
        this = {"pid": str(os.getpid())}
        for name in ("cpu_seconds_total", "resident_memory_bytes", "open_fds"):
            assert registry.get_sample_value(f"process_{name}", this)

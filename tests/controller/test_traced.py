"""Metrics and log lines of a traced controller name the trace of their run."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from io import StringIO
from threading import Event

import pytest

from kanister_py.controller.machine.logs import set_up_logging
from kanister_py.http_api.metrics import Metrics
from kanister_py.ports.tracing import set_tracer
from tests.controller.conftest import PATIENCE_SECONDS, Environment, actionset, blueprint, phase

pytest.importorskip("opentelemetry.sdk", reason="the extra otel is not installed")

from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from kanister_py.adapters.tracing_otel import OtelTracing

OPEN_METRICS = "application/openmetrics-text; version=1.0.0"


@pytest.fixture
def traced() -> Iterator[None]:
    tracing = OtelTracing(InMemorySpanExporter(), "0.0.0", {})
    set_tracer(tracing)
    yield
    set_tracer(None)
    tracing.close()


@pytest.fixture
def log() -> Iterator[StringIO]:
    """Return the JSON log of this process during a test."""
    root, ours = logging.getLogger(), logging.getLogger("kanister_py")
    handlers, level, our_level = root.handlers[:], root.level, ours.level
    root.handlers[:] = []
    written = StringIO()
    set_up_logging("json", written)
    yield written
    for handler in root.handlers:
        handler.close()
    root.handlers[:] = handlers
    root.setLevel(level)
    ours.setLevel(our_level)


@pytest.mark.usefixtures("traced")
def test_log_lines_and_metrics_name_the_trace_of_their_run(env: Environment, log: StringIO) -> None:
    env.create(blueprint(phase("Echo", args={"say": "hello"})))
    controller = env.controller()
    env.create(actionset())
    env.until_state("complete")
    metrics = Metrics(controller.metrics.registry)
    until = time.monotonic() + PATIENCE_SECONDS
    while "one is complete" not in log.getvalue() and time.monotonic() < until:
        Event().wait(0.005)
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    of_run = [line for line in lines if line.get("actionSet") == "one"]
    (trace,) = {line["traceId"] for line in of_run}
    assert len(trace) == 32
    assert "echo hello" in {line["message"] for line in of_run}
    _, shown = metrics.exposition(OPEN_METRICS)
    samples = [line for line in shown.decode().splitlines() if f'trace_id="{trace}"' in line]
    names = {line.partition("{")[0] for line in samples}
    assert names == {
        "kanister_py_runs_total",
        "kanister_py_run_duration_seconds_bucket",
        "kanister_py_phases_total",
        "kanister_py_phase_duration_seconds_bucket",
    }
    _, plain = metrics.exposition("text/plain")
    assert b"trace_id" not in plain

"""Spans received by a collector: runs, phases, steps, rounds and calls.

The collector implements the OTLP service over gRPC with the generated protobuf stubs.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

from kanister_py.adapters.runner_grpc import ClientSecurity, GrpcRunner
from kanister_py.core.registry.entries import FunctionRevision
from kanister_py.executor.runner_wrappers import traced
from kanister_py.ports.function_runner import FunctionCall
from kanister_py.ports.tracing import begin_span, set_tracer, span, traceparent
from kanister_py.proto.messages import METHODS, V1
from tests.conftest import CommandLine
from tests.contracts.function_runner import request_with

pytest.importorskip("opentelemetry.sdk", reason="the extra otel is not installed")

from opentelemetry.proto.collector.trace.v1 import (
    trace_service_pb2,
    trace_service_pb2_grpc,
)
from opentelemetry.sdk.trace.export.in_memory_span_exporter import (
    InMemorySpanExporter,
)

from kanister_py.adapters.tracing_otel import OtelTracing

OUTER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    """Collector that keeps the spans it receives."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.services: set[str] = set()
        self._server = grpc.server(ThreadPoolExecutor(2))
        add: Any = trace_service_pb2_grpc.add_TraceServiceServicer_to_server
        add(self, self._server)
        self.port = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()

    def Export(self, request: Any, _context: Any) -> Any:  # noqa: N802 - the protocol's name
        for resource in request.resource_spans:
            named = {
                attribute.key: attribute.value.string_value
                for attribute in resource.resource.attributes
            }
            self.services.add(named["service.name"])
            for scope in resource.scope_spans:
                self.spans.extend(scope.spans)
        return trace_service_pb2.ExportTraceServiceResponse()

    def close(self) -> None:
        self._server.stop(None)

    @property
    def environment(self) -> dict[str, str]:
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{self.port}"}

    def tree(self) -> list[str]:
        """Return every span indented below its parent, ordered by start."""
        span_ids = {item.span_id for item in self.spans}
        rows: list[str] = []

        def add(parent: bytes | None, depth: int) -> None:
            for item in sorted(self.spans, key=lambda item: int(item.start_time_unix_nano)):
                above = item.parent_span_id if item.parent_span_id in span_ids else None
                if above == parent:
                    rows.append("  " * depth + item.name)
                    add(item.span_id, depth + 1)

        add(None, 0)
        return rows

    def named(self, name: str) -> Any:
        (matching,) = [item for item in self.spans if item.name == name]
        return matching


@pytest.fixture
def collector() -> Iterator[Collector]:
    new_collector = Collector()
    yield new_collector
    new_collector.close()


BLUEPRINT = """\
apiVersion: cr.kanister.io/v1alpha1
kind: Blueprint
metadata: {name: traced}
actions:
  show:
    phases:
    - func: KubeTask
      name: show
      args:
        namespace: default
        image: i
        command: [sh, -c, 'kando output parent "$TRACEPARENT"']
"""


def test_run_is_one_trace_that_pods_continue(
    collector: Collector, kanister: CommandLine, tmp_path: Path
) -> None:
    path = tmp_path / "traced.yaml"
    path.write_text(BLUEPRINT)
    environment = {**collector.environment, "TRACEPARENT": OUTER}
    done = kanister(
        "run", str(path), "show", "--tracing", "--pods", "processes", "-o", "json", env=environment
    )
    assert done.code == 0, done.err
    run, phase = collector.tree()
    assert (run.partition(" ")[0], phase) == ("run", "  phase show")
    span = collector.named("phase show")
    assert span.trace_id.hex() == OUTER.split("-")[1]
    assert f"00-{span.trace_id.hex()}-{span.span_id.hex()}-01" in done.out
    named = {attribute.key: attribute.value.string_value for attribute in span.attributes}
    assert named["kanister_py.function"] == "KubeTask"
    assert named["kanister_py.version"].startswith("v")
    assert collector.services == {"kanister-py"}


XR = """\
apiVersion: example.org/v1
kind: XApp
metadata: {name: mine}
"""
COMPOSITION = """\
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: apps}
spec:
  compositeTypeRef: {apiVersion: example.org/v1, kind: XApp}
  mode: Pipeline
  pipeline:
  - step: template
    functionRef: {name: function-go-templating}
    input:
      apiVersion: gotemplating.fn.crossplane.io/v1beta1
      kind: GoTemplate
      source: Inline
      inline: {template: "---TEMPLATE"}
  - {step: ready, functionRef: {name: function-auto-ready}}
"""


def render(
    kanister: CommandLine, folder: Path, template: str, *words: str, **env: str
) -> tuple[int, str]:
    xr, composition = folder / "xr.yaml", folder / "composition.yaml"
    xr.write_text(XR)
    composition.write_text(COMPOSITION.replace("TEMPLATE", template))
    done = kanister("render", str(xr), str(composition), *words, env=env)
    return done.code, done.err


@pytest.mark.parametrize(
    ("words", "env"),
    [
        pytest.param(["--tracing"], {}, id="by the flag"),
        pytest.param([], {"OTEL_TRACES_EXPORTER": "otlp"}, id="by the standard variable"),
    ],
)
def test_spans_of_steps_rounds_and_calls_are_nested(
    collector: Collector,
    kanister: CommandLine,
    tmp_path: Path,
    words: list[str],
    env: dict[str, str],
) -> None:
    assert render(kanister, tmp_path, "", *words, **collector.environment, **env) == (0, "")
    assert collector.tree() == [
        "compose XApp",
        "  step template",
        "    round 1",
        "      call function-go-templating",
        "  step ready",
        "    round 1",
        "      call function-auto-ready",
    ]


def test_failure_is_recorded_in_its_span(
    collector: Collector, kanister: CommandLine, tmp_path: Path
) -> None:
    wrong = '{{ fail \\"no\\" }}'
    code, _ = render(kanister, tmp_path, wrong, "--tracing", **collector.environment)
    assert code == 1
    for name in ("compose XApp", "step template"):
        status = collector.named(name).status
        assert status.code == 2
        assert "no" in status.message
    assert "step ready" not in [item.name for item in collector.spans]


def test_tracing_is_off_by_default(
    collector: Collector, kanister: CommandLine, tmp_path: Path
) -> None:
    assert render(kanister, tmp_path, "", **collector.environment)[0] == 0
    switched_off = {**collector.environment, "OTEL_SDK_DISABLED": "true"}
    assert render(kanister, tmp_path, "", "--tracing", **switched_off)[0] == 0
    assert collector.spans == []
    words = ("-X", "importtime", "-m", "kanister_py", "render", "xr.yaml", "composition.yaml")
    done = subprocess.run(
        [sys.executable, *words], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "kanister_py.ports.tracing" in done.stderr
    assert "opentelemetry" not in done.stderr


def test_missing_collector_is_not_an_error(kanister: CommandLine, tmp_path: Path) -> None:
    away = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_EXPORTER_OTLP_TIMEOUT": "1"}
    assert render(kanister, tmp_path, "", "--tracing", **away)[0] == 0


def test_unknown_protocol_is_named(kanister: CommandLine, tmp_path: Path) -> None:
    code, err = render(kanister, tmp_path, "", "--tracing", OTEL_EXPORTER_OTLP_PROTOCOL="pigeon")
    assert code == 1
    assert "OTEL_EXPORTER_OTLP_PROTOCOL is 'pigeon'; supported: grpc, http/protobuf" in err


@pytest.fixture
def exported() -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    tracing = OtelTracing(exporter, "0.2.0", {})
    set_tracer(tracing)
    yield exporter
    set_tracer(None)
    tracing.close()


def test_traceparent_is_sent_with_a_call(exported: InMemorySpanExporter) -> None:
    heard: list[dict[str, str]] = []

    def answer(_request: bytes, context: Any) -> bytes:
        heard.append(dict(context.invocation_metadata()))
        return b""

    class Functions(grpc.GenericRpcHandler):  # type: ignore[misc] # the library is not typed
        def service(self, details: Any) -> Any:
            is_supported = details.method == METHODS[V1]
            return grpc.unary_unary_rpc_method_handler(answer) if is_supported else None

    server = grpc.server(ThreadPoolExecutor(1), handlers=[Functions()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    runner = GrpcRunner(ClientSecurity(is_insecure=True))
    revision = FunctionRevision("f", "f-1", 1, endpoint=f"dns:///127.0.0.1:{port}")
    traced(runner.run)(FunctionCall("one", revision, request_with()))
    runner.close()
    server.stop(None)
    assert heard[0]["traceparent"].startswith("00-")


def test_span_may_end_in_another_thread(
    exported: InMemorySpanExporter,
) -> None:
    run = begin_span("run")
    with ThreadPoolExecutor(1) as threads:

        def phase() -> str:
            with span("phase", parent=run.traceparent, number=1):
                return traceparent()

        inner = threads.submit(phase).result()
    run.end()
    assert inner.split("-")[1] == run.traceparent.split("-")[1]
    assert inner != run.traceparent
    assert traceparent() == ""

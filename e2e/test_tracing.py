"""Spans in a real OpenTelemetry collector, over both supported protocols."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import CommandLine
from tests.ports import free_port

COMPOSITION = Path(__file__).parent / "traced_composition.yaml"
PATIENCE_SECONDS = 180.0
# Lines about a span in the collector's log.
SPAN = re.compile(r"Parent ID +: (\w*)\n +ID +: (\w+)\n +Name +: (.+)\n")


class Collector:
    """A collector that logs each span that it receives."""

    def __init__(self, program: str, folder: Path) -> None:
        self.ports = {"grpc": free_port(), "http/protobuf": free_port()}
        self._log = folder / "collector.log"
        settings = folder / "collector.yaml"
        grpc, http = self.ports.values()
        settings.write_text(
            "receivers: {otlp: {protocols: {\n"
            f'  grpc: {{endpoint: "127.0.0.1:{grpc}"}},\n'
            f'  http: {{endpoint: "127.0.0.1:{http}"}}}}}}}}\n'
            "exporters: {debug: {verbosity: detailed}}\n"
            "service:\n"
            "  telemetry: {metrics: {level: none}}\n"
            "  pipelines: {traces: {receivers: [otlp], exporters: [debug]}}\n"
        )
        with self._log.open("wb") as log:
            self._process = subprocess.Popen([program, "--config", str(settings)], stderr=log)
        self.until("Everything is ready")

    def until(self, text: str) -> str:
        end = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < end:
            log = self._log.read_text()
            if text in log:
                return log
            time.sleep(0.1)
        raise AssertionError(f"no {text!r} in {self._log.read_text()[-2000:]}")

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(30)


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collector]:
    new_collector = Collector(
        os.environ["KANISTER_PY_OTELCOL"], tmp_path_factory.mktemp("collector")
    )
    yield new_collector
    new_collector.close()


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
def test_collector_receives_spans_of_steps_rounds_and_calls(
    collector: Collector, kanister: CommandLine, protocol: str
) -> None:
    name = f"mine-{protocol[:4]}"
    environment = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.ports[protocol]}",
        "OTEL_EXPORTER_OTLP_PROTOCOL": protocol,
    }
    xr = {"apiVersion": "example.org/v1", "kind": "XApp", "metadata": {"name": name}}
    done = kanister(
        "render", "-", str(COMPOSITION), "--tracing", stdin=json.dumps(xr), env=environment
    )
    assert done.code == 0, done.err
    log = collector.until(f"kanister_py.xr: Str({name})")
    spans = {span: (parent, what) for parent, span, what in SPAN.findall(log)}
    (call,) = [span for span, (_, what) in spans.items() if what.startswith("call ")][-1:]
    path = []
    while call:
        call, what = spans[call]
        path.append(what)
    assert path == ["call function-auto-ready", "round 1", "step ready", "compose XApp"]

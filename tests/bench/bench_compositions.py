"""Cost of the pipeline engine, and the time of `render`."""

from __future__ import annotations

import io
import os
import resource
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from tests.bench.measure import Row, median_seconds

TITLE = "Compositions"

_STEPS = 5
_FEW, _MANY = 50, 500

XR = """\
apiVersion: example.org/v1
kind: XApp
metadata: {name: shop, namespace: team-a}
spec: {size: 3, region: eu}
"""
COMPOSITION = """\
apiVersion: apiextensions.crossplane.io/v1
kind: Composition
metadata: {name: apps}
spec:
  compositeTypeRef: {apiVersion: example.org/v1, kind: XApp}
  mode: Pipeline
  pipeline:
  - step: patch
    functionRef: {name: function-patch-and-transform}
    input:
      apiVersion: pt.fn.crossplane.io/v1beta1
      kind: Resources
      resources:
      - name: bucket
        base: {apiVersion: v1, kind: ConfigMap, data: {}}
        patches:
        - {type: FromCompositeFieldPath, fromFieldPath: spec.region, toFieldPath: data.region}
  - step: template
    functionRef: {name: function-go-templating}
    input:
      apiVersion: gotemplating.fn.crossplane.io/v1beta1
      kind: GoTemplate
      source: Inline
      inline:
        template: |
          {{ range $i := until (int .observed.composite.resource.spec.size) }}
          ---
          apiVersion: v1
          kind: ConfigMap
          metadata:
            annotations: {gotemplating.fn.crossplane.io/composition-resource-name: node-{{ $i }}}
          data: {number: "{{ $i }}"}
          {{ end }}
  - step: ready
    functionRef: {name: function-auto-ready}
"""


def _stage(count: int) -> tuple[Any, Any]:
    """Return a pipeline run with trivial functions over resources of 2 KB, and its first result."""
    from kanister_py.adapters.clock_system import SystemClock
    from kanister_py.core.compositions.messages import FunctionResponse
    from kanister_py.core.compositions.model import Composition, Step
    from kanister_py.core.compositions.pipeline import Observed
    from kanister_py.core.registry.entries import FunctionRevision, RegistryBuilder
    from kanister_py.executor.manifest_source import ManifestSource
    from kanister_py.executor.run_pipeline import Engine, compose

    data = {f"key-{number:02}": "x" * 80 for number in range(20)}
    resources = {
        f"resource-{number:03}": {
            "resource": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}, "data": data}
        }
        for number in range(count)
    }

    class Empty:
        def run(self, call: Any) -> FunctionResponse:
            request = call.request.as_data()
            desired = request["desired"] or {"resources": resources}
            return FunctionResponse.from_data({"desired": desired, "context": request["context"]})

        def close(self) -> None:
            pass

    builder: RegistryBuilder[FunctionRevision] = RegistryBuilder()
    builder.add([FunctionRevision("f", "f-1", 1, is_healthy=True, endpoint="test:")])
    engine = Engine(Empty(), builder.build(), ManifestSource(), SystemClock())
    metadata = {"name": "shop", "namespace": "team-a", "uid": "u"}
    xr = {"apiVersion": "example.org/v1", "kind": "XApp", "metadata": metadata}
    steps = tuple(Step(f"step-{number}", "f") for number in range(_STEPS))
    composition = Composition("apps", "example.org/v1", "XApp", steps)
    first = compose(composition, Observed(xr), engine)
    observed = Observed(xr, {composed.name: composed.object for composed in first.resources})
    return lambda: compose(composition, observed, engine), first


def _cpu_seconds(call: Any, times: int) -> float:
    """Measure processor time, which other programs do not affect."""
    call()
    start = time.process_time()
    for _ in range(times):
        call()
    return (time.process_time() - start) / times


def rows() -> list[Row]:
    run_few, _ = _stage(_FEW)
    few = _cpu_seconds(run_few, 40)
    run_many, _ = _stage(_MANY)
    many = _cpu_seconds(run_many, 5)
    growth = many / few / (_MANY / _FEW)
    # The maximum memory of the process, including everything loaded before.
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    cold, floor = _cold()
    warm = _warm() * 1000
    return [
        Row(
            f"{_STEPS} steps, {_FEW} resources of 2 KB, empty functions",
            f"{1 / few:.0f} runs/s",
            ">= 60",
            1 / few >= 60,
        ),
        Row(
            f"{_MANY} resources, cost of one / with {_FEW}",
            f"{growth:.2f}",
            "<= 1.30",
            growth <= 1.3,
        ),
        Row(f"memory at {_MANY} resources", f"{megabytes:.0f} MB", "< 150", megabytes < 150),
        Row("render, 3 steps, cold", f"{cold / floor:.1f}x", "<= 22x", cold / floor <= 22),
        Row("render, 3 steps, warm", f"{warm:.1f} ms", "< 30", warm < 30),
    ]


def _folder() -> tempfile.TemporaryDirectory[str]:
    build = Path(__file__).parents[2] / "build"
    build.mkdir(exist_ok=True)
    folder = tempfile.TemporaryDirectory(dir=build)
    Path(folder.name, "xr.yaml").write_text(XR, encoding="utf-8")
    Path(folder.name, "composition.yaml").write_text(COMPOSITION, encoding="utf-8")
    return folder


def _cold() -> tuple[float, float]:
    """Return the time of `render` in a new process, and that of an empty Python process."""
    script = Path(sys.executable).parent / "kanister-py"
    environment = {
        key: setting for key, setting in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"
    }

    def once(*command: str) -> None:
        subprocess.run(command, capture_output=True, check=True, env=environment)

    with _folder() as folder:
        command = [str(script), "render", f"{folder}/xr.yaml", f"{folder}/composition.yaml"]
        once(*command)
        cold = median_seconds(lambda: once(*command), 15)
        floor = median_seconds(lambda: once(sys.executable, "-I", "-c", "pass"), 15)
    return cold, floor


def _warm() -> float:
    """Return the time of `--watch` after a change: read, render and print."""
    import argparse

    from kanister_py.cli import render as command
    from kanister_py.cli.render_run import Renderer

    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    with _folder() as folder, Renderer() as renderer:
        words = [f"{folder}/xr.yaml", f"{folder}/composition.yaml"]
        args: Namespace = parser.parse_args(words)
        nowhere = io.StringIO()
        with redirect_stdout(nowhere), redirect_stderr(nowhere):
            return _cpu_seconds(lambda: command._render_once(args, "yaml", renderer), 20)

"""Cost of phases, and of waiting runs."""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from threading import Thread
from typing import Any

from kanister_py import Func, PhaseContext
from kanister_py.adapters.clock_system import SystemClock
from kanister_py.adapters.effects_system import system_effects
from kanister_py.core.actionsets.course import course_of
from kanister_py.core.actionsets.model import ActionSpec, parse_actionset
from kanister_py.core.blueprints.analysis import ActionAnalysis
from kanister_py.core.blueprints.model import TargetReference, only_blueprint
from kanister_py.core.blueprints.plan import PlanBasis, choose_phase_version, renderer_of
from kanister_py.core.kube.resources import CONFIG_MAPS
from kanister_py.core.templates.params import Params
from kanister_py.core.yaml.documents import parse_document, parse_documents
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.executor.fetch_facts import fetch_facts
from kanister_py.executor.function_source import FunctionSource
from kanister_py.executor.loading import load_function
from kanister_py.executor.phase_context import Surroundings
from kanister_py.executor.preflight import run_preflight
from kanister_py.executor.run.background import WaitingHost
from kanister_py.executor.run.run import ActionSetRun
from kanister_py.executor.watching import SharedWatches
from kanister_py.executor.workers import Workers
from kanister_py.runs import RunSettings, run_blueprint
from kanister_py.wiring import read_functions, registry_of
from tests.bench.measure import Row

TITLE = "Runs: a thousand phases with a journal, and a thousand waiting runs"
_MANY = 1000


class Nothing(Func):
    """Does nothing."""

    name = "Nothing"

    def exec(self, ctx: PhaseContext, params: Any, args: Any) -> Mapping[str, Any]:
        return {"done": "1"}


class Waits(Func):
    """Waits until a ConfigMap has data."""

    name = "Waits"

    def exec(self, ctx: PhaseContext, params: Any, args: Any) -> None:
        ctx.wait(lambda: ctx.cluster.get(CONFIG_MAPS, "gate", namespace="default").get("data"))


def _blueprint(func: str, phases: int) -> dict[str, Any]:
    return {
        "apiVersion": "cr.kanister.io/v1alpha1",
        "kind": "Blueprint",
        "metadata": {"name": "many"},
        "actions": {"go": {"phases": [{"func": func, "name": f"p{at}"} for at in range(phases)]}},
    }


def _seconds_a_phase(phases: int) -> float:
    """Return the time of one phase in a run of several, the best of three runs."""
    best = float("inf")
    for _ in range(3):
        folder = Path(tempfile.mkdtemp(dir="build" if Path("build").is_dir() else None))
        settings = RunSettings(state=folder, registry=registry_of(Nothing), name="bench")
        start = time.perf_counter()
        done = run_blueprint(_blueprint("Nothing", phases), "go", settings=settings).wait()
        best = min(best, (time.perf_counter() - start) / phases)
        shutil.rmtree(folder)
        assert done.is_complete, done.error
    return best


def rows() -> list[Row]:
    few, many = _seconds_a_phase(100), _seconds_a_phase(_MANY)
    memory, share = _waiting()
    check = _check_milliseconds()
    return [
        Row("check before an action acts, warm", f"{check:.1f} ms", "<= 30 ms", check <= 30),
        Row("phases a second, of 1,000", f"{1 / many:.0f}", ">= 500", 1 / many >= 500),
        Row("a phase of 1,000 to one of 100", f"{many / few:.2f}", "<= 1.5", many <= 1.5 * few),
        Row("1,000 waiting: memory", f"{memory:.0f} MB", "< 120 MB", memory < 120),
        Row("1,000 waiting: of a core", f"{share:.2%}", "< 2 %", share < 0.02),
    ]


def _check_milliseconds() -> float:
    """Return the time of the checks before the first phase of http-hook, the best of five."""
    folder = Path("blueprints/http-hook")
    text = (folder / "blueprint.yaml").read_bytes()
    parsed = only_blueprint(parse_documents(text, "blueprint.yaml"), "blueprint.yaml").blueprint
    clock = SystemClock()
    cluster = MemoryCluster(clock=clock)
    cluster.load(
        [document.value for document in parse_documents((folder / "objects.yaml").read_bytes())]
    )
    spec = ActionSpec(
        name="export",
        object=TargetReference(kind="Deployment", name="orders", namespace="shop"),
        options={"url": "http://127.0.0.1:8080"},
    )
    registry = read_functions().registry
    phases = parsed.actions["export"].every_phase()
    choices = [choose_phase_version(registry, phase) for _, phase in phases]
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        facts = fetch_facts(cluster, spec, clock.now()).facts
        renderer = renderer_of(parsed, "export", system_effects(clock))
        analysis = ActionAnalysis(parsed, "export", renderer.engine)
        basis = PlanBasis(analysis, renderer, Params(facts), load_function, has_all_inputs=True)
        seen = run_preflight(basis, choices, cluster)
        best = min(best, time.perf_counter() - start)
        assert not seen.obstacles, seen.obstacles
    return best * 1000


def _waiting() -> tuple[float, float]:
    """Return the memory and the share of a core of a process with a thousand waiting runs."""
    out = subprocess.run(
        [sys.executable, "-c", "from tests.bench.bench_runs import wait; wait()"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    return float(out[0]), float(out[1])


def wait() -> None:
    """Wait in a thousand runs; print megabytes and the share of a core."""
    cluster = MemoryCluster(clock=SystemClock())
    gate = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "gate"}}
    cluster.load([gate])
    runs = _thousand_actions(cluster)
    while len(runs.status.totals.running) < _MANY:
        time.sleep(0.05)
    time.sleep(1)
    used, start = time.process_time(), time.perf_counter()
    time.sleep(5)
    share = (time.process_time() - used) / (time.perf_counter() - start)
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(megabytes, share)
    runs.abort()


def _thousand_actions(cluster: MemoryCluster) -> ActionSetRun:
    clock = SystemClock()
    parsed = only_blueprint(parse_documents(json.dumps(_blueprint("Waits", 1))), "many")
    target = {"kind": "Namespace", "name": "default", "namespace": "default"}
    action = {"name": "go", "blueprint": "many", "object": target}
    actionset = parse_actionset(parse_document(json.dumps({"spec": {"actions": [action] * _MANY}})))
    run = ActionSetRun(
        course_of(actionset, {"many": parsed.blueprint}),
        FunctionSource(registry_of(Waits), load_function),
        Surroundings(cluster, clock, Workers(), SharedWatches(cluster, clock)),
    )
    Thread(target=WaitingHost(clock).carry_out, args=(run,), daemon=True).start()
    return run

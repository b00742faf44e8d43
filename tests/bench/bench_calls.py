"""Calls walked: how many of our own functions one run, one ActionSet and one XR go through.

Counted is every entry into a Python function of `kanister_py`, in all threads that work on it.
Not counted is what stands behind the `Cluster` port, what libraries do, what named tuples do
(ours stand in for the standard library's), what an import walks through, and what goes by
time: the renewing of the Lease, and what is done every now and then.
Unlike a time, such a count is the same on every machine and under any load.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Any, Self

import yaml

from tests.bench.measure import Row

TITLE = "Calls walked, of our own functions"

_OURS = "/kanister_py/"
_TUPLES = "/kanister_py/values.py"
_CLUSTERS = ("/kanister_py/embedded/",)
_TIMES = 5
_QUIET_SECONDS = 0.6


class Calls:
    """Counts what threads walk through that start while this is open."""

    def __init__(self) -> None:
        self._cells: list[list[int]] = []

    def __enter__(self) -> Self:
        threading.setprofile(self._begin)
        return self

    def __exit__(self, *exc: object) -> None:
        threading.setprofile(None)

    @property
    def total(self) -> int:
        return sum(cell[0] for cell in self._cells)

    def wait_until_quiet(self) -> None:
        """Wait until nothing has been walked through for a moment."""
        before = -1
        while before != self.total:
            before = self.total
            time.sleep(_QUIET_SECONDS)

    def _begin(self, frame: FrameType, event: str, arg: Any) -> None:
        """Give a thread that starts a counter of its own."""
        goes_by_time = threading.current_thread().name.startswith(("lease", "the "))
        counter = None if goes_by_time else self._counter()
        sys.setprofile(counter)
        if counter is not None:
            counter(frame, event, arg)

    def _counter(self) -> Callable[[FrameType, str, Any], None]:
        cell = [0]
        self._cells.append(cell)
        hidden = 0

        def count(frame: FrameType, event: str, _arg: Any) -> None:
            nonlocal hidden
            if event == "call":
                file = frame.f_code.co_filename
                if hidden or frame.f_code.co_name == "<module>" or _is_cluster(file):
                    hidden += 1
                elif _OURS in file and not file.endswith(_TUPLES):
                    cell[0] += 1
            elif event == "return" and hidden:
                hidden -= 1

        return count


def _is_cluster(file: str) -> bool:
    return any(each in file for each in _CLUSTERS)


def rows() -> list[Row]:
    return [
        _row("one-phase run", one_phase_run, 3_500),
        _row("one ActionSet in the controller", one_actionset, 700),
        _row("XR to applied", one_composite, 1_400),
    ]


def _row(name: str, measure: Callable[[], None], most: int) -> Row:
    """Measure in a process of its own, which has read and imported nothing before."""
    script = f"from tests.bench.bench_calls import {measure.__name__}; {measure.__name__}()"
    found = int(subprocess.check_output([sys.executable, "-c", script], text=True))
    return Row(name, f"{found:,}", f"<= {most:,}", found <= most)


def one_phase_run() -> None:
    """Run one phase of KubeOps, the record of versions and the Blueprint read for it."""
    from kanister_py.runs import run_blueprint

    wanted = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "made"}}
    phase = {
        "func": "KubeOps",
        "name": "make",
        "args": {"operation": "create", "namespace": "default", "spec": yaml.safe_dump(wanted)},
    }
    blueprint = {
        "apiVersion": "cr.kanister.io/v1alpha1",
        "kind": "Blueprint",
        "metadata": {"name": "one"},
        "actions": {"go": {"phases": [phase]}},
    }

    def run() -> None:
        done = run_blueprint(blueprint, "go").wait()
        assert done.is_complete, done.error

    with Calls() as calls, ThreadPoolExecutor(1) as thread:
        thread.submit(run).result()
    print(calls.total)


def one_actionset() -> None:
    """Take an ActionSet of one phase, which does nothing much, from its creation to its end."""
    from kanister_py.adapters.clock_system import SystemClock
    from kanister_py.embedded.cluster.cluster import MemoryCluster
    from tests.controller.conftest import World, actionset, blueprint, definitions, phase

    clock = SystemClock()
    world = World(MemoryCluster(clock=clock), clock)
    world.create(*definitions(), blueprint(phase("Echo")))

    def act(name: str) -> None:
        world.create(actionset(name))
        world.until_state("complete", name)

    _print_median(act, world.controller, world.close)


def one_composite() -> None:
    """Take a composite resource of one ConfigMap, by patch-and-transform, until all is at rest."""
    from tests.controller.compositions.test_kinds import (
        REVISIONS,
        World,
        bucket,
        composition,
        definition,
    )

    world = World(REVISIONS)

    def start() -> None:
        world.start()
        world.define(definition())
        made = composition()
        made["spec"]["pipeline"] = [_PATCH_AND_TRANSFORM]
        world.say(made)

    def act(name: str) -> None:
        world.cluster.create(bucket(name, ()))
        world.until(lambda: world.is_ready(name))

    _print_median(act, start, world.close)


_PATCH_AND_TRANSFORM = {
    "step": "patch",
    "functionRef": {"name": "function-patch-and-transform"},
    "input": {
        "apiVersion": "pt.fn.crossplane.io/v1beta1",
        "kind": "Resources",
        "resources": [
            {
                "name": "map",
                "base": {"apiVersion": "v1", "kind": "ConfigMap"},
                "patches": [
                    {
                        "type": "FromCompositeFieldPath",
                        "fromFieldPath": "spec.region",
                        "toFieldPath": "data.region",
                    }
                ],
                "readinessChecks": [{"type": "None"}],
            }
        ],
    },
}


def _print_median(
    act: Callable[[str], None], start: Callable[[], object], close: Callable[[], None]
) -> None:
    """Count for one after the other, each until nothing is under way any more."""
    found = []
    with Calls() as calls:
        start()
        for number in range(_TIMES + 1):
            before = calls.total
            act(f"number-{number}")
            calls.wait_until_quiet()
            found.append(calls.total - before)
    close()
    # The first one finds nothing read yet.
    print(int(statistics.median(found[1:])))

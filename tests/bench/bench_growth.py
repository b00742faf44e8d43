"""Growth of time and memory with the amount of work.

The figure is the exponent: twice the work must take twice the time, not four times. With the
embedded cluster the processor time of this process is measured, and with a real API server the
time and memory of a controller process.
"""

from __future__ import annotations

import gc
import logging
import os
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

from kanister_py.core.kube.parts import name_of, status_of
from kanister_py.core.kube.resources import ACTION_SETS, GroupVersionResource
from kanister_py.core.revisions.kinds import COMPOSITION_REVISIONS
from kanister_py.ports.cluster import Cluster, KubeObject
from tests.bench.bench_controller import (
    FINISHED,
    SPACE,
    Stage,
    actionset,
    staged_rows,
)
from tests.bench.measure import Row, growth_row, rows_of

TITLE = "Growth with the amount of work"

_BURSTS = (100, 200, 400, 800, 1600)
_RESOURCES = (500, 1000, 2000, 5000)
_REVISIONS = (125, 250, 500, 1000, 2000)
_GONE = 3600
_IDLE_SECONDS = 5.0
_PATIENCE_SECONDS = 600.0


def rows() -> list[Row]:
    logging.disable(logging.CRITICAL)
    return [
        *rows_of({measure.__name__: measure for measure in (_bursts, _composites, _revisions)}),
        *staged_rows(_real_bursts, _memory_after_deletions, _after_many_that_ended),
    ]


@contextmanager
def _spent() -> Iterator[Callable[[], float]]:
    """Measure the processor time of this process.

    Garbage collection is off, because it would traverse the history of the embedded cluster. Its
    cost for a controller is part of the rows of a real API server.
    """
    gc.collect()
    gc.disable()
    began, ended = time.process_time(), list[float]()
    yield lambda: ended[0]
    ended.append(time.process_time() - began)
    gc.enable()


def _until_all(
    cluster: Cluster,
    resource: GroupVersionResource,
    is_done: Callable[[KubeObject], bool],
    names: Iterable[str],
    begin: Callable[[], object],
) -> None:
    """Call `begin`, and watch until a condition holds for all named objects.

    Listing them repeatedly would add a cost that grows with the work.
    """
    open_, version = set(names), cluster.list(resource, limit=1).resource_version
    with cluster.watch(
        resource, resource_version=version, timeout_seconds=_PATIENCE_SECONDS
    ) as watch:
        begin()
        for event in watch:
            if is_done(event.object):
                open_.discard(name_of(event.object))
            if not open_:
                return
    raise AssertionError(f"{len(open_)} did not reach the expected state")


def _until(is_done: Callable[[], bool]) -> None:
    end = time.monotonic() + _PATIENCE_SECONDS
    while not is_done():
        assert time.monotonic() < end, "timed out"
        time.sleep(0.02)


# On the embedded cluster


def _bursts() -> Iterator[Row]:
    from kanister_py.adapters.clock_system import SystemClock
    from kanister_py.embedded.cluster.cluster import MemoryCluster
    from tests.controller.conftest import Environment, blueprint, definitions, phase
    from tests.controller.conftest import actionset as echo_actionset

    def burst(many: int) -> float:
        clock = SystemClock()
        environment = Environment(MemoryCluster(clock=clock), clock)
        environment.create(*definitions(), blueprint(phase("Echo")))
        controller = environment.controller()
        environment.create(echo_actionset("warm"))
        environment.until_state("complete", "warm")
        names = [f"one-{number}" for number in range(many)]
        with _spent() as spent:
            _until_all(
                environment.cluster,
                ACTION_SETS,
                _is_complete,
                names,
                lambda: environment.create(*map(echo_actionset, names)),
            )
            _until(lambda: controller.is_settled)
        environment.close()
        return spent()

    yield growth_row("bursts of ActionSets", [(many, burst(many)) for many in _BURSTS], "ms each")


def _is_complete(obj: KubeObject) -> bool:
    return status_of(obj).get("state") == "complete"


def _composites() -> list[Row]:
    from tests.controller.compositions.harness import (
        REVISIONS,
        Harness,
        bucket,
        composition,
        definition,
    )

    def measure(many: int) -> tuple[float, float, float]:
        harness = Harness(REVISIONS)
        harness.start()
        harness.define(definition())
        harness.apply(composition("red"))
        names = [f"bucket-{number}" for number in range(many)]

        def create() -> None:
            for name in names:
                harness.cluster.create(bucket(name, ("a",)))

        with _spent() as created:
            _until_coloured(harness, "red", names, create)
        _until(lambda: harness.compositions.is_settled)
        with _spent() as idle:
            time.sleep(_IDLE_SECONDS)
        with _spent() as changed:
            _until_coloured(harness, "green", names, lambda: harness.apply(composition("green")))
        harness.close()
        return created(), changed(), idle()

    measured = [(float(many), *measure(many)) for many in _RESOURCES]
    share = measured[-1][3] / _IDLE_SECONDS
    created = [(many, seconds) for many, seconds, _, _ in measured]
    change = [(many, seconds) for many, _, seconds, _ in measured]
    idle = [(many, seconds) for many, _, _, seconds in measured]
    return [
        growth_row("new composite resources", created, "ms each"),
        growth_row("composite resources whose Composition changes", change, "ms each"),
        growth_row(f"idle composite resources for {_IDLE_SECONDS:.0f} s", idle, "ms"),
        Row(f"{_RESOURCES[-1]:,} idle ones, share of a core", f"{share:.1%}", "< 1%", share < 0.01),
    ]


def _until_coloured(
    harness: Any, colour: str, names: Iterable[str], begin: Callable[[], object]
) -> None:
    from tests.controller.compositions.harness import BUCKETS

    def is_done(obj: KubeObject) -> bool:
        return status_of(obj).get("address") == colour

    _until_all(harness.cluster, BUCKETS, is_done, names, begin)


def _revisions() -> Iterator[Row]:
    """Change a Composition that has many revisions and one user."""
    from tests.controller.compositions.harness import (
        REVISIONS,
        Harness,
        bucket,
        composition,
        definition,
    )

    def measure(many: int) -> float:
        harness = Harness(REVISIONS)
        harness.start()
        harness.define(definition())
        harness.apply(composition("red"))
        _until(lambda: bool(harness.cluster.list(COMPOSITION_REVISIONS).items))
        (first,) = harness.cluster.list(COMPOSITION_REVISIONS)
        for number in range(many):
            harness.cluster.create(_old_revision(first, number))
        harness.apply(bucket("one"))
        harness.until(lambda: harness.is_ready("one"))
        with _spent() as spent:
            for colour in ("green", "blue", "white", "black"):
                change = partial(harness.apply, composition(colour))
                _until_coloured(harness, colour, ("one",), change)
        harness.close()
        return spent() / 4

    # A change takes milliseconds, of which other load can be a third.
    points = [(many, min(measure(many) for _ in range(3))) for many in _REVISIONS]
    yield growth_row("revisions of one Composition", points, "ms for a change")


def _old_revision(first: Any, number: int) -> dict[str, Any]:
    """Return an old revision of the same Composition."""
    metadata = first["metadata"]
    kept = {key: metadata[key] for key in ("labels", "ownerReferences")}
    labels = {**kept["labels"], "number": str(number)}
    return {
        **first,
        "metadata": {**kept, "labels": labels, "name": f"old-{number}"},
        "spec": {**first["spec"], "revision": -number - 1},
    }


# On a real API server


def _real_bursts(stage: Stage) -> Iterator[Row]:
    """Measure every burst between two bursts of 200, which other load affects in the same way."""

    def burst(name: str, many: int) -> tuple[float, float]:
        done = stage.run([f"{name}-{number}" for number in range(many)], "one")
        return done.per_second, done.p95_seconds

    points, rates, waits, p95s = [], [], [], dict[int, float]()
    with stage.controller() as process:
        burst("warm", 50)
        before = burst("around", 200)
        for many in _BURSTS:
            spent = process.processor_seconds
            rate, p95s[many] = burst(f"burst-{many}", many)
            points.append((float(many), process.processor_seconds - spent))
            after = burst(f"around-{many}", 200)
            rates.append(rate * 2 / (before[0] + after[0]))
            waits.append(p95s[many] / many * 400 / (before[1] + after[1]))
            before = after
    yield growth_row("bursts on a real API server, our processor time", points, "ms each")
    text, held = ", ".join(f"{rate:.2f}" for rate in rates), min(rates)
    name = f"their rates relative to bursts of 200 before and after: {text}"
    yield Row(name, f"{held:.2f}", ">= 0.9", held >= 0.9)
    text, longest = ", ".join(f"{wait:.2f}" for wait in waits), max(waits)
    name = f"their p95 per ActionSet relative to bursts of 200 before and after: {text}"
    yield Row(name, f"{longest:.2f}", "<= 1.1", longest <= 1.1)
    text = ", ".join(f"{seconds:.1f} s of {many:,}" for many, seconds in p95s.items())
    yield Row(f"their p95: {text}", f"{p95s[800]:.1f} s of 800", "< 8 s", p95s[800] < 8)


def _memory_after_deletions(stage: Stage) -> Iterator[Row]:
    with stage.controller() as process:
        _create_and_delete(stage, "warm", 400)
        before = process.megabytes
        for turn in range(_GONE // 600):
            _create_and_delete(stage, f"gone-{turn}", 600)
        after = process.megabytes
    sizes = f"{before:.0f} and {after:.0f} MB"
    name = f"memory before and after {_GONE:,} created and deleted ones: {sizes}"
    yield Row(name, f"{after / before:.2f}", "<= 1.25", after <= before * 1.25)


def _create_and_delete(stage: Stage, name: str, many: int) -> None:
    names = [f"{name}-{number}" for number in range(many)]
    stage.run(names, "one")

    def delete(name: str) -> None:
        stage.cluster.delete(ACTION_SETS, name, namespace=SPACE)

    with ThreadPoolExecutor(16) as threads:
        list(threads.map(delete, names))
    time.sleep(2)


def _after_many_that_ended(stage: Stage) -> Iterator[Row]:
    many = 8000

    def make(number: int) -> None:
        created = stage.cluster.create(actionset(f"old-{number}", "one"))
        stage.cluster.replace_status({**created, "status": FINISHED})

    with ThreadPoolExecutor(16) as threads:
        list(threads.map(make, range(many)))
    stage.cluster.create(actionset("new", "one"))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with stage.controller("--port", "0", "--health-port", str(port)):
        stage.until(lambda: _is_ready(port))
        began = time.perf_counter()
        stage.until(
            lambda: bool(stage.cluster.get(ACTION_SETS, "new", namespace=SPACE).get("status"))
        )
        seconds = time.perf_counter() - began
    name = f"{many:,} ended ones: start of the first new one after readiness"
    yield Row(name, f"{seconds:.2f} s", "<= 0.3 s", seconds <= 0.3)
    yield Row("load of the machine at the end", f"{os.getloadavg()[0]:.1f}", "for reading")


def _is_ready(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:  # our own server
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False

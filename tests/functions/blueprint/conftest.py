"""Calls of functions as in a run, on an embedded cluster whose pods are processes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.core.actionsets.masking import Masker
from kanister_py.core.actionsets.status import Place
from kanister_py.core.errors import KanisterError, RunCancelled
from kanister_py.core.kube.resources import PODS
from kanister_py.core.templates.facts import ActionFacts
from kanister_py.core.templates.params import Params
from kanister_py.core.yaml.weak import decode_args
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.embedded.pods.node import ProcessNode
from kanister_py.embedded.pods.runner import ProcessPodRunner
from kanister_py.executor.phase_context import RunIdentity, RunningPhase, StopSignal, Surroundings
from kanister_py.executor.watching import SharedWatches
from kanister_py.executor.workers import Workers
from kanister_py.ports.clock import Clock
from kanister_py.ports.cluster import Cluster, KubeObject
from kanister_py.ports.function import Func
from kanister_py.wiring import object_stores

DEADLINE_SECONDS = 180


@dataclass
class Called:
    """A call in progress in a separate thread."""

    thread: threading.Thread
    stop: StopSignal
    ended: list[Any] = field(default_factory=list)
    failed: list[BaseException] = field(default_factory=list)

    def cancel(self) -> None:
        self.stop.set(RunCancelled())

    def result(self) -> Any:
        self.thread.join(DEADLINE_SECONDS)
        assert not self.thread.is_alive(), "the function does not come back"
        if self.failed:
            raise self.failed[0]
        return self.ended[0]


class Harness:
    """Cluster, and everything that a run passes to the functions it calls."""

    def __init__(self, cluster: Cluster, clock: Clock | None = None) -> None:
        self.cluster = cluster
        self.log: list[str] = []
        self._logged = threading.Condition()
        clock = clock or SystemClock()
        self._surroundings = Surroundings(
            cluster, clock, Workers(), SharedWatches(cluster, clock), stores=object_stores()
        )

    def context(
        self,
        stop: StopSignal | None = None,
        *,
        uid: str = "uid-1",
        phase: int = 0,
        attempt: int = 1,
    ) -> RunningPhase:
        masker = Masker(())
        return RunningPhase(
            RunIdentity(uid, Place(0, phase), "backup", "dump", attempt),
            self._surroundings,
            stop or StopSignal(),
            masker=masker,
            learn=lambda _: masker,
            on_progress=lambda *_: None,
            on_log=self._note,
        )

    def start(
        self,
        function: type[Func],
        args: Mapping[str, Any],
        *,
        facts: ActionFacts | None = None,
        uid: str = "uid-1",
        phase: int = 0,
        attempt: int = 1,
        is_resumed: bool = False,
        is_written_down: bool = True,
    ) -> Called:
        """Call a function; the same `uid`, `phase` and `attempt` mean the same attempt.

        Without `is_written_down` the process dies when the call has come back; with
        `is_resumed`, another has begun this attempt and died.
        """
        stop = StopSignal()
        ctx = self.context(stop, uid=uid, phase=phase, attempt=attempt)
        ctx.begin(ctx.renderer, is_resumed=is_resumed)
        params = Params(facts or ActionFacts(time="2026-01-01T00:00:00Z"))
        decoded = decode_args(function.Args, args, function.name)

        def run() -> None:
            try:
                called.ended.append(function().exec(ctx, params, decoded))
            except BaseException as error:  # noqa: BLE001 # `result` raises it
                called.failed.append(error)
            for clean in ctx.take_cleanups() if is_written_down else ():
                clean()

        called = Called(threading.Thread(target=run, daemon=True), stop)
        called.thread.start()
        return called

    def call(self, function: type[Func], args: Mapping[str, Any], **options: Any) -> Any:
        return self.start(function, args, **options).result()

    def pod_to_go_into(self, name: str, *containers: str) -> None:
        """Start an idle pod for commands."""
        idle = {"image": "busybox", "command": ["sleep", "600"]}
        self.cluster.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "namespace": "default"},
                "spec": {"containers": [{"name": container, **idle} for container in containers]},
            }
        )
        self.seen_pod(lambda pod: pod["metadata"]["name"] == name and is_running(pod))

    def _note(self, line: str) -> None:
        with self._logged:
            self.log.append(line)
            self._logged.notify_all()

    def wait_for_line(self, line: str, times: int = 1) -> None:
        """Wait until a line has been logged a number of times."""
        with self._logged:
            assert self._logged.wait_for(lambda: self.log.count(line) >= times, DEADLINE_SECONDS)

    def pods(self) -> list[KubeObject]:
        return self.cluster.list(PODS).items

    def seen_pod(self, until: Callable[[KubeObject], bool] = lambda _: True) -> KubeObject:
        """Wait for a pod that fulfils a condition, and return it."""
        with self.cluster.watch(PODS, timeout_seconds=DEADLINE_SECONDS) as watch:
            for event in watch:
                if event.object.get("kind") == "Pod" and until(event.object):
                    return event.object
        pytest.fail("no such pod was seen")


def is_running(pod: KubeObject) -> bool:
    return bool((pod.get("status") or {}).get("phase") == "Running")


def has_ended(pod: KubeObject) -> bool:
    return (pod.get("status") or {}).get("phase") in {"Succeeded", "Failed"}


def failure(called: Callable[[], Any]) -> KanisterError:
    """Wait for the error of a call."""
    with pytest.raises(KanisterError) as caught:
        called()
    return caught.value


@contextmanager
def harness_in(folder: Path) -> Iterator[Harness]:
    """Create a test bed whose volumes are in a folder."""
    runner = ProcessPodRunner(SystemClock(), state=folder)
    if runner.why_no_mounts:
        runner.close()
        pytest.skip(f"this machine gives no namespaces: {runner.why_no_mounts}")
    node = ProcessNode(runner, SystemClock())
    cluster = MemoryCluster(clock=SystemClock())
    cluster.attach_pods(node)
    node.start(cluster)
    yield Harness(cluster)
    node.close()


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    with harness_in(tmp_path) as harness:
        yield harness


@pytest.fixture
def harness_without_pods() -> Harness:
    """A test bed that records pods without running them."""
    return Harness(MemoryCluster(clock=SystemClock()))

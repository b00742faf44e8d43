"""Calls of functions on an embedded cluster with a fake clock."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from kanister_py.core.actionsets.masking import Masker
from kanister_py.core.actionsets.status import Place
from kanister_py.core.templates.engines import Engine
from kanister_py.core.templates.facts import ActionFacts
from kanister_py.core.templates.params import Params
from kanister_py.core.templates.render import Renderer
from kanister_py.core.yaml.weak import decode_args
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.executor.phase_context import RunIdentity, RunningPhase, StopSignal, Surroundings
from kanister_py.executor.watching import SharedWatches
from kanister_py.executor.workers import Workers
from kanister_py.ports.cluster import KubeObject
from kanister_py.ports.function import Func
from tests.fake_clock import FakeClock
from tests.functions.blueprint.conftest import Called

TIME = "2026-01-01T00:00:00Z"


class Api:
    """Cluster without pods, a fake clock, and calls of functions as in a run."""

    def __init__(
        self,
        *,
        engine: Engine = Engine.GO,
        clock: FakeClock | None = None,
        kind: type[MemoryCluster] = MemoryCluster,
    ) -> None:
        self.clock = clock or FakeClock()
        self.cluster = kind(clock=self.clock)
        self.log: list[str] = []
        self._waiting = 0
        self._renderer = Renderer(engine)
        self._surroundings = Surroundings(
            self.cluster, self.clock, Workers(), SharedWatches(self.cluster, self.clock)
        )

    def start(
        self,
        function: type[Func],
        args: Mapping[str, Any],
        *,
        facts: ActionFacts | None = None,
        uid: str = "uid-1",
        attempt: int = 1,
        is_resumed: bool = False,
        secrets: tuple[str, ...] = (),
    ) -> Called:
        """Call a function in a thread. The same `uid` and `attempt` mean the same attempt."""
        stop = StopSignal()
        masker = Masker(secrets)
        ctx = RunningPhase(
            RunIdentity(uid, Place(0, 0), "backup", "dump", attempt),
            self._surroundings,
            stop,
            masker=masker,
            learn=lambda _: masker,
            on_progress=lambda *_: None,
            on_log=self.log.append,
        )
        ctx.begin(self._renderer, is_resumed=is_resumed)
        params = Params(facts or ActionFacts(time=TIME))

        def run() -> None:
            try:
                remaining_args = args
                if not function.renders_own_args:
                    remaining_args = self._renderer.args(args, params)
                decoded = decode_args(function.Args, remaining_args, function.name)
                called.ended.append(function().exec(ctx, params, decoded))
            except BaseException as error:  # noqa: BLE001 # `result` raises it
                called.failed.append(error)

        called = Called(threading.Thread(target=run, daemon=True), stop)
        called.thread.start()
        return called

    def call(self, function: type[Func], args: Mapping[str, Any], **options: Any) -> Any:
        return self.start(function, args, **options).result()

    @contextmanager
    def waiting(
        self, function: type[Func], args: Mapping[str, Any], **options: Any
    ) -> Iterator[Called]:
        """Call a function; the block begins when it waits, and ends when it has returned."""
        self._waiting += 1
        called = self.start(function, args, **options)
        if not self.clock.wait_for_sleepers(self._waiting):
            called.cancel()
            called.result()
        yield called
        self._waiting -= 1
        called.cancel()
        called.thread.join(180)
        assert not called.thread.is_alive(), "the function does not come back"

    def add(self, api_version: str, kind: str, name: str, **rest: Any) -> KubeObject:
        """Create an object, in the namespace `default` if it is namespaced."""
        metadata = {"name": name, **rest.pop("metadata", {})}
        return self.cluster.load(
            [{"apiVersion": api_version, "kind": kind, "metadata": metadata, **rest}]
        )[0]

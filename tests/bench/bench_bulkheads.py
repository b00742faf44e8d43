"""Cost of a hanging function and of one with large responses for everything else.

A controller on a cluster in memory composes resources of ten kinds with ten functions, and runs
ActionSets at the same time. Rounds in which all functions are healthy alternate with rounds in
which one hangs and one responds with 20 MB, so that other load on the machine affects both.
"""

from __future__ import annotations

import logging
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from typing import Any

from tests.bench.measure import Row

TITLE = "Effect of hanging functions and large responses"

_FUNCTIONS, _HEALTHY = 10, 8
_COUNT, _RUNS, _ROUNDS = 40, 300, 5
_PATIENCE_SECONDS = 300.0

# A line on stdin switches the last two functions between healthy and failing.
_SERVED = """
import sys, time, grpc
from concurrent.futures import ThreadPoolExecutor
from kanister_py.core.compositions.messages import FunctionResponse, Part
from kanister_py.executor.wire_messages import read_request, write_response
from kanister_py.proto.messages import METHODS, V1

count, healthy = int(sys.argv[1]), int(sys.argv[2])
is_failing = False
large_response = b"\\x22\\x80\\x80\\x80\\x0a" + bytes(20 << 20)
service, _, method = METHODS[V1].strip("/").partition("/")

def serve(number):
    def answer(request, context):
        if is_failing and number == healthy:
            while is_failing and context.is_active():
                time.sleep(0.1)
        if is_failing and number > healthy:
            return large_response
        return write_response(FunctionResponse(Part({}), tag=read_request(request).tag))
    server = grpc.server(ThreadPoolExecutor(32), options=[("grpc.max_send_message_length", -1)])
    handler = grpc.unary_unary_rpc_method_handler(answer)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(service, {method: handler}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    return server, port

servers = [serve(number) for number in range(count)]
print(*(port for _, port in servers), flush=True)
for line in sys.stdin:
    is_failing = line.strip() == "failing"
    print("ok", flush=True)
"""


def rows() -> list[Row]:
    # Every failing resource logs a warning.
    logging.disable(logging.WARNING)
    with ExitStack() as stack:
        stack.callback(logging.disable, logging.NOTSET)
        bench = _Bench(stack)
        bench.prepare()
        return list(bench.rows())


class _Bench:
    """A controller in this process, and the functions in another."""

    def __init__(self, stack: ExitStack) -> None:
        from tests.controller.compositions.harness import cluster_with_kinds

        self._stack = stack
        self._cluster: Any = cluster_with_kinds()
        self._functions = subprocess.Popen(
            [sys.executable, "-c", _SERVED, str(_FUNCTIONS), str(_HEALTHY)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        stack.callback(self._functions.kill)
        self._round = 0

    def prepare(self) -> None:
        from kanister_py.adapters.clock_system import SystemClock
        from kanister_py.controller.controller import Controller, ControllerSettings
        from kanister_py.controller.functions.settings import CompositionSettings
        from kanister_py.executor.function_source import FunctionSource
        from kanister_py.executor.loading import load_function
        from kanister_py.wiring import FunctionAccess, composition_part, read_functions
        from tests.controller.compositions.composing_process import revision
        from tests.controller.compositions.harness import composition, definition
        from tests.controller.conftest import blueprint, phase, registry

        assert self._functions.stdout is not None
        ports = self._functions.stdout.readline().split()
        functions = read_functions()
        access = FunctionAccess(is_insecure=True)
        settings = CompositionSettings("kanister-py")
        part = composition_part(functions, settings, access, self._stack)
        controller = Controller(
            self._cluster,
            FunctionSource(registry(), load_function),
            clock=SystemClock(),
            settings=ControllerSettings(),
            parts=[part],
        )
        controller.start()
        self._stack.callback(controller.kill)
        for number, port in enumerate(ports):
            kind, plural, function = f"XK{number}", f"xk{number}s", f"function-{number}"
            defined = definition(names={"kind": kind, "plural": plural})
            defined["metadata"]["name"] = f"{plural}.example.org"
            composed = composition(name=f"c-{number}")
            composed["spec"]["compositeTypeRef"]["kind"] = kind
            composed["spec"]["pipeline"] = [{"step": "s", "functionRef": {"name": function}}]
            function_revision = revision(f"127.0.0.1:{port}")
            function_revision["metadata"]["name"] = f"{function}-1"
            function_revision["metadata"]["labels"] = {"pkg.crossplane.io/package": function}
            for obj in (defined, function_revision, composed):
                self._apply(obj)
            self._apply(function_revision, subresource="status")
        self._apply(blueprint(phase("Echo", args={"say": "x"})))
        self._settle(2, 2)

    def _apply(self, obj: dict[str, Any], **more: Any) -> None:
        from kanister_py.core.errors import KanisterError

        until = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < until:
            with suppress(KanisterError):
                self._cluster.apply(obj, field_manager="people", force=True, **more)
                return
            # The kind is not served yet.
            time.sleep(0.05)
        raise RuntimeError(f"{obj['kind']} could not be created")

    def rows(self) -> Iterator[Row]:
        healthy_rounds: list[tuple[float, float]] = []
        failing_rounds: list[tuple[float, float]] = []
        for _ in range(_ROUNDS):
            self._switch("healthy")
            healthy_rounds.append(self._settle(_COUNT, _RUNS))
            self._switch("failing")
            failing_rounds.append(self._settle(_COUNT, _RUNS))
        for index, (kind, least) in enumerate((("composite resources", 0.8), ("ActionSets", 0.95))):
            usual = statistics.median(rates[index] for rates in healthy_rounds)
            failing = statistics.median(rates[index] for rates in failing_rounds)
            name = f"{kind} with failing functions, usually {usual:.0f} a second"
            ratio = failing / usual
            yield Row(name, f"{ratio:.2f}x", f">= {least}x", ratio >= least)

    def _switch(self, word: str) -> None:
        assert self._functions.stdin is not None
        assert self._functions.stdout is not None
        self._functions.stdin.write(f"{word}\n")
        self._functions.stdin.flush()
        self._functions.stdout.readline()

    def _settle(self, count: int, runs: int) -> tuple[float, float]:
        """Create `count` resources of all ten kinds, then ActionSets; return both rates.

        The rate of composite resources covers the healthy kinds only.
        """
        from tests.controller.conftest import actionset

        self._round += 1
        names = [f"r{self._round}-{number}" for number in range(count)]
        began = time.monotonic()
        for name in names:
            for kind in range(_FUNCTIONS):
                self._apply(
                    {
                        "apiVersion": "example.org/v1alpha1",
                        "kind": f"XK{kind}",
                        "metadata": {"name": name, "namespace": "default"},
                        "spec": {"region": "eu", "names": []},
                    }
                )
        self._until(lambda: all(self._are_ready(kind, names) for kind in range(_HEALTHY)))
        composed = count * _HEALTHY / (time.monotonic() - began)
        began = time.monotonic()
        for number in range(runs):
            self._cluster.create(actionset(f"r{self._round}-{number}"))
        self._until(lambda: self._have_ended(runs))
        return composed, runs / (time.monotonic() - began)

    def _until(self, is_done: Callable[[], bool]) -> None:
        until = time.monotonic() + _PATIENCE_SECONDS
        while not is_done():
            if time.monotonic() > until:
                raise RuntimeError("timed out")
            threading.Event().wait(0.02)

    def _are_ready(self, kind: int, names: list[str]) -> bool:
        from kanister_py.core.kube.resources import GroupVersionResource

        resource = GroupVersionResource("example.org", "v1alpha1", f"xk{kind}s")
        by_name = {obj["metadata"]["name"]: obj for obj in self._cluster.list(resource).items}
        return all(_is_ready(by_name[name]) for name in names)

    def _have_ended(self, runs: int) -> bool:
        from kanister_py.core.kube.resources import ACTION_SETS

        prefix = f"r{self._round}-"
        ended: int = sum(
            (obj.get("status") or {}).get("state") == "complete"
            for obj in self._cluster.list(ACTION_SETS).items
            if obj["metadata"]["name"].startswith(prefix)
        )
        return ended >= runs


def _is_ready(obj: dict[str, Any]) -> bool:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions
    )


__all__ = ["TITLE", "rows"]

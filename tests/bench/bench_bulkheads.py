"""What do a function that hangs and one that answers too much cost their neighbours?

A whole controller over a cluster in memory composes resources of ten kinds, each with a
function of its own, and runs ActionSets beside them: once with all functions well, once with
one that hangs and one that answers 20 MB. By turns, since whatever else the machine does
disturbs both.
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

TITLE = "Neighbours of functions that hang or answer too much"

_FUNCTIONS, _WELL = 10, 8
_EACH, _RUNS, _ROUNDS = 40, 300, 5
_PATIENCE_SECONDS = 300.0

# The first functions are always well; the last two are not while a line on stdin says so.
_SERVED = """
import sys, time, grpc
from concurrent.futures import ThreadPoolExecutor
from kanister_py.core.compositions.messages import FunctionResponse, Part
from kanister_py.executor.wire_messages import read_request, write_response
from kanister_py.proto.messages import METHODS, V1

count, well = int(sys.argv[1]), int(sys.argv[2])
is_ill = False
too_much = b"\\x22\\x80\\x80\\x80\\x0a" + bytes(20 << 20)
service, _, method = METHODS[V1].strip("/").partition("/")

def serve(number):
    def answer(request, context):
        if is_ill and number == well:
            while is_ill and context.is_active():
                time.sleep(0.1)
        if is_ill and number > well:
            return too_much
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
    is_ill = line.strip() == "ill"
    print("so", flush=True)
"""


def rows() -> list[Row]:
    # What is not in order is said of each of them.
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
            [sys.executable, "-c", _SERVED, str(_FUNCTIONS), str(_WELL)],
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
            found = revision(f"127.0.0.1:{port}")
            found["metadata"]["name"] = f"{function}-1"
            found["metadata"]["labels"] = {"pkg.crossplane.io/package": function}
            for each in (defined, found, composed):
                self._apply(each)
            self._apply(found, subresource="status")
        self._apply(blueprint(phase("Echo", args={"say": "x"})))
        self._settle(2, 2)

    def _apply(self, obj: dict[str, Any], **more: Any) -> None:
        from kanister_py.core.errors import KanisterError

        until = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < until:
            with suppress(KanisterError):
                self._cluster.apply(obj, field_manager="people", force=True, **more)
                return
            # Its definition is not served yet.
            time.sleep(0.05)
        raise RuntimeError(f"{obj['kind']} cannot be made")

    def rows(self) -> Iterator[Row]:
        well: list[tuple[float, float]] = []
        ill: list[tuple[float, float]] = []
        for _ in range(_ROUNDS):
            self._say("well")
            well.append(self._settle(_EACH, _RUNS))
            self._say("ill")
            ill.append(self._settle(_EACH, _RUNS))
        for index, (what, most) in enumerate((("composite resources", 0.8), ("ActionSets", 0.95))):
            usual = statistics.median(each[index] for each in well)
            then = statistics.median(each[index] for each in ill)
            name = f"{what} of neighbours, beside the usual {usual:.0f} a second"
            yield Row(name, f"{then / usual:.2f}x", f">= {most}x", then / usual >= most)

    def _say(self, word: str) -> None:
        assert self._functions.stdin is not None
        assert self._functions.stdout is not None
        self._functions.stdin.write(f"{word}\n")
        self._functions.stdin.flush()
        self._functions.stdout.readline()

    def _settle(self, each: int, runs: int) -> tuple[float, float]:
        """Make resources of all ten kinds, and then ActionSets; give the rates of those that count.

        All of them are there while either is measured.
        """
        from tests.controller.conftest import actionset

        self._round += 1
        names = [f"r{self._round}-{number}" for number in range(each)]
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
        self._until(lambda: all(self._are_ready(kind, names) for kind in range(_WELL)))
        composed = each * _WELL / (time.monotonic() - began)
        began = time.monotonic()
        for number in range(runs):
            self._cluster.create(actionset(f"r{self._round}-{number}"))
        self._until(lambda: self._have_ended(runs))
        return composed, runs / (time.monotonic() - began)

    def _until(self, is_so: Callable[[], bool]) -> None:
        until = time.monotonic() + _PATIENCE_SECONDS
        while not is_so():
            if time.monotonic() > until:
                raise RuntimeError("they never settle")
            threading.Event().wait(0.02)

    def _are_ready(self, kind: int, names: list[str]) -> bool:
        from kanister_py.core.kube.resources import GroupVersionResource

        resource = GroupVersionResource("example.org", "v1alpha1", f"xk{kind}s")
        found = {each["metadata"]["name"]: each for each in self._cluster.list(resource).items}
        return all(_is_ready(found[name]) for name in names)

    def _have_ended(self, runs: int) -> bool:
        from kanister_py.core.kube.resources import ACTION_SETS

        prefix = f"r{self._round}-"
        ended: int = sum(
            (each.get("status") or {}).get("state") == "complete"
            for each in self._cluster.list(ACTION_SETS).items
            if each["metadata"]["name"].startswith(prefix)
        )
        return ended >= runs


def _is_ready(obj: dict[str, Any]) -> bool:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


__all__ = ["TITLE", "rows"]

"""Functions that accept calls and never answer, called over gRPC by a whole controller part."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from threading import Event, Lock
from typing import Any

import grpc
import pytest

from kanister_py.adapters.runner_grpc import CONNECT_SECONDS, ClientSecurity, GrpcRunner
from kanister_py.controller.functions.settings import CompositionSettings
from kanister_py.core.kube.parts import condition_of
from kanister_py.proto.messages import METHODS, V1
from kanister_py.wiring import function_runner, read_functions
from tests.controller.compositions.composing_process import revision
from tests.controller.compositions.harness import Harness, bucket, composition, definition

WORKERS = 32
LIMIT_OF_NEW_FUNCTION = WORKERS // 8
HEALTHY = [f"healthy-{number}" for number in range(12)]
HANGING = [f"hanging-{number}" for number in range(WORKERS)]


class HangingFunction:
    """A gRPC server that accepts every call, and answers none of them until it is released."""

    def __init__(self, stack: ExitStack) -> None:
        self._lock = Lock()
        self.release = Event()
        self.calls = 0
        self.most_calls = 0
        pool = ThreadPoolExecutor(WORKERS)
        server: Any = grpc.server(pool)
        service, _, method = METHODS[V1].strip("/").partition("/")
        handler = grpc.unary_unary_rpc_method_handler(self._hang)
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(service, {method: handler}),)
        )
        self.endpoint = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        server.start()
        stack.callback(lambda: server.stop(0).wait())

    def _hang(self, _request: bytes, context: Any) -> bytes:
        with self._lock:
            self.calls += 1
            self.most_calls = max(self.most_calls, self.calls)
        try:
            self.release.wait()
            context.abort(grpc.StatusCode.INTERNAL, "released")
            raise AssertionError
        finally:
            with self._lock:
                self.calls -= 1


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def function(stack: ExitStack) -> HangingFunction:
    return HangingFunction(stack)


@pytest.fixture(params=[True, False], ids=["with revisions", "without revisions"])
def harness(request: pytest.FixtureRequest, stack: ExitStack, function: HangingFunction) -> Harness:
    settings = CompositionSettings("kanister-py", uses_revisions=request.param, workers=WORKERS)
    over_grpc = GrpcRunner(ClientSecurity(is_insecure=True), connect_seconds=CONNECT_SECONDS)
    stack.callback(over_grpc.close)
    harness = Harness(
        settings,
        calling=lambda _runner: function_runner(read_functions().registry, over_grpc=over_grpc),
    )
    stack.callback(harness.close)
    # Closing waits for calls in progress, and the queue must not start new ones.
    stack.callback(function.release.set)
    stack.callback(harness.compositions.close)
    harness.start()
    harness.define(definition())
    harness.apply(composition())
    return harness


def install(harness: Harness, endpoint: str) -> None:
    """Install a function that runs at `endpoint`."""
    obj = revision(endpoint)
    harness.apply(obj)
    harness.cluster.apply(obj, field_manager="people", force=True, subresource="status")


def calling_function(name: str, **labels: str) -> dict[str, Any]:
    obj = composition(name=name, **labels)
    obj["spec"]["pipeline"] = [{"step": "call", "functionRef": {"name": "function-f"}}]
    return obj


def assert_healthy_ones_are_composed(harness: Harness, function: HangingFunction) -> None:
    """Compose resources of the same kind while the function's calls hang."""
    harness.until(lambda: function.calls >= LIMIT_OF_NEW_FUNCTION, "calls that hang")
    for name in HEALTHY:
        harness.apply(bucket(name, ("a",), compositionRef={"name": "bucket"}))
    harness.until(lambda: all(harness.is_ready(name) for name in HEALTHY))
    assert function.most_calls == LIMIT_OF_NEW_FUNCTION
    assert function.calls == LIMIT_OF_NEW_FUNCTION


def test_new_resources_that_name_a_hanging_function_leave_workers_for_their_kind(
    harness: Harness, function: HangingFunction
) -> None:
    install(harness, function.endpoint)
    harness.apply(calling_function("hanging"))
    # Resources whose Composition is not cached yet share an eighth of their own.
    harness.until_idle()
    for name in HANGING:
        harness.apply(bucket(name, (), compositionRef={"name": "hanging"}))
    assert_healthy_ones_are_composed(harness, function)


def test_new_resources_that_select_a_hanging_function_leave_workers_for_their_kind(
    harness: Harness, function: HangingFunction
) -> None:
    install(harness, function.endpoint)
    harness.apply(calling_function("hanging", tier="new"))
    harness.until_idle()
    for name in HANGING:
        selector = {"matchLabels": {"tier": "new"}}
        harness.apply(bucket(name, (), compositionSelector=selector))
    assert_healthy_ones_are_composed(harness, function)


def test_a_composition_that_starts_to_call_a_hanging_function_leaves_workers_for_its_kind(
    harness: Harness, function: HangingFunction
) -> None:
    harness.apply(composition(name="changing"))
    for name in HANGING:
        harness.apply(bucket(name, (), compositionRef={"name": "changing"}))
    harness.until(lambda: all(harness.is_ready(name) for name in HANGING))
    install(harness, function.endpoint)
    harness.apply(calling_function("changing"))
    assert_healthy_ones_are_composed(harness, function)


def test_a_port_that_accepts_and_never_speaks_is_reported_after_the_limit_for_connecting(
    harness: Harness, stack: ExitStack
) -> None:
    # The kernel accepts connections to a listening socket, and nothing reads from them.
    silent = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=64))
    install(harness, f"127.0.0.1:{silent.getsockname()[1]}")
    harness.apply(calling_function("hanging"))
    harness.apply(bucket("silent", (), compositionRef={"name": "hanging"}))
    began = harness.clock.monotonic()
    harness.until(lambda: harness.condition("Synced", "silent").get("status") == "Unknown")
    assert harness.clock.monotonic() - began < 3 * CONNECT_SECONDS
    assert condition_of(harness.bucket("silent"), "Synced")["reason"] == "FunctionUnavailable"
    open_breakers = harness.metrics.registry.get_sample_value("kanister_py_open_breakers")
    assert open_breakers == 1.0

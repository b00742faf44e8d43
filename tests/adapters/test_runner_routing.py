"""Routing of calls to the runner of their endpoint."""

from __future__ import annotations

import pytest

from kanister_py.adapters.runner_routing import RoutingRunner
from kanister_py.core.compositions.endpoints import (
    EXEC,
    GRPC,
    PYTHON,
    builtin_endpoint,
    command_of,
    exec_endpoint,
    python_endpoint,
    scheme_of,
    target_of,
)
from kanister_py.core.compositions.messages import FunctionRequest, FunctionResponse, Part
from kanister_py.core.registry.entries import FunctionRevision
from kanister_py.ports.function_runner import FunctionCall, FunctionNotServed


class Named:
    """Responds with its own name."""

    def __init__(self, name: str, closed: list[str]) -> None:
        self._name, self._closed = name, closed

    def run(self, call: FunctionCall) -> FunctionResponse:
        return FunctionResponse(tag=self._name)

    def close(self) -> None:
        self._closed.append(self._name)


def call_to(endpoint: str) -> FunctionCall:
    revision = FunctionRevision("f", "f-1", 1, endpoint=endpoint)
    return FunctionCall("s", revision, FunctionRequest(Part({})))


def test_runner_of_a_scheme_is_created_once_and_closed() -> None:
    opened: list[str] = []
    closed: list[str] = []

    def maker(name: str) -> Named:
        opened.append(name)
        return Named(name, closed)

    runner = RoutingRunner({name: lambda scheme=name: maker(scheme) for name in (GRPC, EXEC)})  # type: ignore[misc]  # a lambda's default
    tags = [runner.run(call_to(endpoint)).tag for endpoint in ("dns:///f:9443", "exec:f", "f:9443")]
    assert tags == [GRPC, EXEC, GRPC]
    assert opened == [GRPC, EXEC]
    runner.close()
    assert sorted(closed) == [EXEC, GRPC]


def test_scheme_that_is_not_allowed_is_rejected() -> None:
    with pytest.raises(FunctionNotServed, match=r"Step s: function f, revision f-1: .* python"):
        RoutingRunner({}).run(call_to("python:a:B"))


@pytest.mark.parametrize(
    ("endpoint", "scheme", "target"),
    [
        (builtin_endpoint("function-a", "v0.1.0"), "builtin", "function-a@v0.1.0"),
        (python_endpoint("a.b:C"), PYTHON, "a.b:C"),
        (exec_endpoint(["./f", "two words"]), EXEC, "./f 'two words'"),
        ("dns:///f.ns:9443", GRPC, "dns:///f.ns:9443"),
        ("localhost:9443", GRPC, "localhost:9443"),
        ("unix:/run/f.sock", GRPC, "unix:/run/f.sock"),
    ],
)
def test_endpoint_is_split_into_scheme_and_target(endpoint: str, scheme: str, target: str) -> None:
    assert (scheme_of(endpoint), target_of(endpoint)) == (scheme, target)


def test_command_of_an_endpoint_is_parsed_back() -> None:
    words = ["./f", "two words", "it's", "", "$HOME"]
    assert command_of(exec_endpoint(words)) == words

"""Functions in this process: the contract, and faults of third-party classes."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

import pytest

from kanister_py.adapters.runner_memory import MemoryRunner
from kanister_py.core.compositions.authoring import Response
from kanister_py.core.compositions.messages import FunctionResponse
from kanister_py.core.errors import TransientError, UsageError
from kanister_py.core.registry.entries import FunctionRevision
from kanister_py.executor.python_functions import PythonFunction
from kanister_py.executor.wire_messages import read_request
from kanister_py.ports.composition_function import CompositionFunction
from kanister_py.ports.function_runner import (
    FunctionCall,
    FunctionCallFailed,
    FunctionFault,
    FunctionRequestInvalid,
    FunctionUnavailable,
)
from tests.contracts.function_runner import (
    FUNCTIONS,
    PATIENCE_SECONDS,
    Broken,
    FunctionRunnerContract,
    Running,
    Start,
    request_with,
)
from tests.wire_fields import field_bytes


@pytest.fixture
def start() -> Iterator[Start]:
    runner = MemoryRunner(lambda revision: PythonFunction(FUNCTIONS[revision.function]))
    yield lambda name: Running(runner, FunctionRevision(name, f"{name}-1", 1))
    runner.close()


class TestMemoryRunner(FunctionRunnerContract):
    pass


def answering(answer: Any, *, is_ours: bool = False) -> Running:
    class Answering(CompositionFunction):
        name = "function-answering"

        def run(self, request: Mapping[str, Any]) -> Any:
            if isinstance(answer, BaseException):
                raise answer
            return answer(request) if callable(answer) else answer

    runner = MemoryRunner(lambda revision: PythonFunction(Answering, is_ours))
    return Running(runner, FunctionRevision("function-answering", "answering-1", 1))


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        pytest.param(None, "returned NoneType", id="nothing"),
        pytest.param(
            {"result": []}, "result: unknown field; known fields: meta", id="a misspelt field"
        ),
        pytest.param({"desired": []}, "desired: must be an object", id="a list for an object"),
        pytest.param(
            {"results": [{"severity": "LOUD", "message": "x"}]},
            r"results\[0\].severity: must be one of",
            id="a severity that nobody knows",
        ),
        pytest.param({"meta": {"ttl": "1h"}}, "meta.ttl: must be a duration", id="Go's duration"),
        pytest.param(
            {"desired": {"resources": {"a": {"connectionDetails": {"k": "%"}}}}},
            "desired.resources.a.connectionDetails.k: must be bytes in base64",
            id="details in plain text",
        ),
    ],
)
def test_invalid_response_names_the_path(answer: Any, message: str) -> None:
    with pytest.raises(FunctionCallFailed, match=message) as caught:
        answering(answer)(request_with())
    assert caught.value.revision == "answering-1"


def test_both_spellings_of_a_field_are_read() -> None:
    resources = {"a": {"resource": {}, "connection_details": {"k": "dg=="}, "ready": 1}}
    answer = answering({"desired": {"resources": resources}})(request_with())
    assert answer.desired.data["resources"]["a"] == {
        "resource": {},
        "connectionDetails": {"k": "dg=="},
        "ready": "READY_TRUE",
    }


def test_function_cannot_change_its_response_later() -> None:
    kept: dict[str, Any] = {"context": {"n": [1]}}
    answer = answering(kept)(request_with())
    kept["context"]["n"].append(2)
    assert answer.context.data == {"n": [1]}


def test_invalid_change_of_the_desired_state_is_rejected() -> None:
    def spoil(request: Any) -> Response:
        response = Response(request)
        response.desired["resource"] = {}
        return response

    with pytest.raises(FunctionCallFailed, match=r"desired\.resource: unknown field"):
        answering(spoil)(request_with())


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        pytest.param(UsageError("Bad input"), FunctionCallFailed, id="the input is wrong"),
        pytest.param(TransientError("Not now"), FunctionUnavailable, id="the world is wrong"),
        pytest.param(ValueError("oops"), FunctionCallFailed, id="a foreign defect"),
    ],
)
def test_exception_of_a_function_keeps_its_group(raised: Exception, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        answering(raised)(request_with())


class Exiting(CompositionFunction):
    name = "function-exiting"

    def run(self, request: Mapping[str, Any]) -> Any:
        sys.exit(3)


class ExitingLater(CompositionFunction):
    name = "function-exiting-later"

    async def run(self, request: Mapping[str, Any]) -> Any:
        await asyncio.create_task(self.exit())

    async def exit(self) -> None:
        sys.exit(3)


def outcome_of(running: Running, seconds: float = 0.0) -> FunctionResponse | BaseException:
    """Call a function from a daemon thread, because it may hang."""
    ended: SimpleQueue[FunctionResponse | BaseException] = SimpleQueue()

    def call() -> None:
        try:
            ended.put(running(request_with(), seconds))
        except BaseException as error:  # noqa: BLE001 # returned as the result of the call
            ended.put(error)

    threading.Thread(target=call, daemon=True).start()
    return ended.get(timeout=PATIENCE_SECONDS)


@pytest.mark.parametrize("seconds", [0.0, PATIENCE_SECONDS], ids=["no limit", "a limit"])
@pytest.mark.parametrize("exiting", [Exiting, ExitingLater], ids=["at once", "in a coroutine"])
def test_exiting_function_does_not_stop_others(
    exiting: type[CompositionFunction], seconds: float
) -> None:
    functions = {"exiting": exiting, "later": FUNCTIONS["function-later"]}
    runner = MemoryRunner(lambda revision: PythonFunction(functions[revision.function]))
    ends, goes_on = (Running(runner, FunctionRevision(name, name, 1)) for name in functions)
    failed = outcome_of(ends, seconds)
    assert isinstance(failed, FunctionCallFailed)
    assert "SystemExit: 3 (at " in failed.message
    # The thread that runs all coroutines still exists.
    assert isinstance(outcome_of(goes_on), FunctionResponse)
    runner.close()


def test_exception_of_a_builtin_function_is_a_fault() -> None:
    runner = MemoryRunner(lambda revision: PythonFunction(Broken, is_ours=True))
    with pytest.raises(FunctionFault, match="LookupError"):
        Running(runner, FunctionRevision("function-broken", "b", 1))(request_with())


def test_undecodable_request_is_invalid() -> None:
    data = b"\x0a\x03\x0a\x01t" + field_bytes(3, field_bytes(1, field_bytes(1, b"\xff")))
    runner = MemoryRunner(lambda revision: PythonFunction(FUNCTIONS[revision.function]))
    revision = FunctionRevision("function-teller", "t", 1)
    with pytest.raises(FunctionRequestInvalid, match="the request cannot be read"):
        runner.run(FunctionCall("", revision, read_request(data)))


@pytest.mark.parametrize(
    ("raised", "kind"),
    [(ValueError("oops"), FunctionCallFailed), (TransientError("Not now"), FunctionUnavailable)],
)
def test_coroutine_on_the_callers_loop_fails_like_others(
    raised: Exception, kind: type[Exception]
) -> None:
    class Failing(CompositionFunction):
        name = "function-failing"

        async def run(self, request: Mapping[str, Any]) -> Any:
            await asyncio.sleep(0)
            raise raised

    runner = MemoryRunner(lambda revision: PythonFunction(Failing))
    revision = FunctionRevision("function-failing", "f", 1)
    with pytest.raises(kind):
        asyncio.run(runner.run_on_loop(revision, request_with()))


def test_cancelled_coroutine_raises_for_its_caller() -> None:
    arrived = threading.Event()

    class Endless(CompositionFunction):
        name = "function-endless"

        async def run(self, request: Mapping[str, Any]) -> Any:
            arrived.set()
            await asyncio.Event().wait()

    runner = MemoryRunner(lambda revision: PythonFunction(Endless))
    running = Running(runner, FunctionRevision("function-endless", "e", 1))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lambda: running(request_with()))
        assert arrived.wait(PATIENCE_SECONDS)
        runner.close()
        with pytest.raises(FunctionCallFailed, match="CancelledError"):
            waiting.result(PATIENCE_SECONDS)

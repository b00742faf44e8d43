"""Contract of function runners."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest

from kanister_py.core.compositions.authoring import Request, Response
from kanister_py.core.compositions.messages import FunctionRequest, FunctionResponse, Part
from kanister_py.core.registry.entries import FunctionRevision
from kanister_py.ports.composition_function import CompositionFunction
from kanister_py.ports.function_runner import (
    FunctionCall,
    FunctionCallFailed,
    FunctionRunner,
    FunctionTimedOut,
)

PATIENCE_SECONDS = 180.0


class Echo(CompositionFunction):
    name = "function-echo"

    def run(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        return Response(request)


class Teller(CompositionFunction):
    """Returns its request in the context, and sets all fields of a response."""

    name = "function-teller"

    def run(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        return {
            "meta": {"tag": request["meta"]["tag"], "ttl": "1.500s"},
            "desired": {
                "composite": {"resource": {"status": {"n": 3, "half": 0.5, "none": None}}},
                "resources": {
                    "a": {
                        "resource": {"kind": "A", "spec": {"list": [1, "two", {"three": True}]}},
                        "connectionDetails": {"password": "c2VjcmV0"},
                        "ready": "READY_TRUE",
                    }
                },
            },
            "context": {"told": json.loads(json.dumps(dict(request)))},
            "results": [
                {"severity": "SEVERITY_WARNING", "message": "hm", "reason": "Why"},
                {"severity": "SEVERITY_FATAL", "message": "no", "target": "TARGET_COMPOSITE"},
            ],
            "conditions": [
                {"type": "Fine", "status": "STATUS_CONDITION_FALSE", "reason": "Because"}
            ],
            "requirements": {
                "resources": {
                    "all": {"apiVersion": "v1", "kind": "ConfigMap"},
                    "one": {"apiVersion": "v1", "kind": "Secret", "matchName": "s"},
                    "some": {
                        "apiVersion": "v1",
                        "kind": "Pod",
                        "matchLabels": {"labels": {"app": "x"}},
                        "namespace": "n",
                    },
                },
                "schemas": {"s": {"apiVersion": "v1", "kind": "Pod"}},
            },
            "output": {"done": True},
        }


class Later(CompositionFunction):
    name = "function-later"

    async def run(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        import asyncio

        await asyncio.sleep(0)
        return Response(request)


class Broken(CompositionFunction):
    name = "function-broken"

    def run(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        raise LookupError("no such thing")


class Hanging(CompositionFunction):
    """Responds only when the test releases it, after the call has timed out."""

    name = "function-hanging"
    let_go = threading.Event()

    def run(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        self.let_go.wait(PATIENCE_SECONDS)
        return {}


@contextmanager
def hanging() -> Iterator[None]:
    """Make the function above hang until the block ends."""
    Hanging.let_go.clear()
    try:
        yield
    finally:
        Hanging.let_go.set()


class Counting(CompositionFunction):
    """Would count its calls if instances were reused."""

    name = "function-counting"
    calls = 0

    def run(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        self.calls += 1
        return {"context": {"calls": self.calls}}


class Meddling(CompositionFunction):
    """Changes its request, which is not allowed, and returns it."""

    name = "function-meddling"

    def run(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        request["observed"]["composite"]["resource"]["spec"] = "changed"
        request["desired"].clear()
        return {"desired": {}}


FUNCTIONS = {
    function.name: function
    for function in (Echo, Teller, Later, Broken, Hanging, Counting, Meddling)
}


def answer_stdin(name: str) -> None:
    """Act as the program for one of these functions: a request on stdin, a response on stdout."""
    import asyncio

    answer: Any = FUNCTIONS[name]().run(Request(json.load(sys.stdin)))
    if not isinstance(answer, Mapping):
        answer = asyncio.run(answer)
    json.dump(dict(answer), sys.stdout)


class Running(NamedTuple):
    """A runner, and the revision for one of the functions above."""

    runner: FunctionRunner
    revision: FunctionRevision

    def __call__(self, request: FunctionRequest, timeout_seconds: float = 0) -> FunctionResponse:
        return self.runner.run(FunctionCall("a-step", self.revision, request, timeout_seconds))


Start = Callable[[str], Running]

XR = {"apiVersion": "example.org/v1", "kind": "XR", "metadata": {"name": "x"}, "spec": {"size": 2}}


def request_with(**more: Any) -> FunctionRequest:
    request: dict[str, Any] = {
        "observed": Part({"composite": {"resource": XR}}),
        "desired": Part({"resources": {"b": {"resource": {"kind": "B", "n": 1}}}}),
        "context": Part({"key": ["v", 1.5, {}]}),
        "tag": "a-tag",
    }
    return FunctionRequest(**{**request, **more})


class FunctionRunnerContract:
    """Behaviour of every FunctionRunner.

    Subclasses provide a fixture `start` that starts one of `FUNCTIONS` by name.
    """

    def test_unchanged_state_is_returned_unchanged(self, start: Start) -> None:
        request = request_with()
        answer = start("function-echo")(request)
        assert answer.desired.data == request.desired.data
        assert answer.context.data == request.context.data
        assert (answer.tag, answer.ttl_seconds) == ("a-tag", 60.0)
        assert (answer.results, answer.conditions, answer.requirements) == ((), (), None)

    def test_all_fields_of_a_request_arrive(self, start: Start) -> None:
        request = request_with(
            capabilities=("CAPABILITY_CAPABILITIES", "CAPABILITY_CONDITIONS"),
            input={"apiVersion": "v1", "kind": "In", "big": 2**53, "text": "ä€😀", "empty": {}},
            credentials={"c": {"credentialData": {"data": {"key": "AAH/"}}}},
            required_resources={"none": {}, "one": {"items": [{"resource": {"kind": "S"}}]}},
            extra_resources={"old": {"items": [{"resource": {"kind": "O"}}]}},
            required_schemas={"s": {"openapiV3": {"type": "object"}}, "unknown": {}},
        )
        seen = start("function-teller")(request).context.data["told"]
        assert seen == request.as_data()

    def test_fields_that_are_not_set_are_absent(self, start: Start) -> None:
        seen = start("function-teller")(request_with()).context.data["told"]
        assert sorted(seen) == ["context", "desired", "meta", "observed"]

    def test_all_fields_of_a_response_are_returned(self, start: Start) -> None:
        answer = start("function-teller")(request_with())
        want = Teller().run(request_with().as_data())
        assert answer.desired.data == want["desired"]
        assert list(answer.results) == want["results"]
        assert list(answer.conditions) == want["conditions"]
        assert answer.requirements == want["requirements"]
        assert answer.output == want["output"]
        assert (answer.tag, answer.ttl_seconds) == ("a-tag", 1.5)
        assert answer.is_fatal

    def test_whole_numbers_remain_integers(self, start: Start) -> None:
        answer = start("function-teller")(request_with())
        status = answer.desired.data["composite"]["resource"]["status"]
        assert [type(status[key]) for key in ("n", "half")] == [int, float]

    def test_a_function_may_be_a_coroutine(self, start: Start) -> None:
        request = request_with()
        assert start("function-later")(request).desired.data == request.desired.data

    def test_exception_of_a_function_names_step_and_revision(self, start: Start) -> None:
        running = start("function-broken")
        with pytest.raises(FunctionCallFailed, match="LookupError: no such thing") as caught:
            running(request_with())
        assert (caught.value.step, caught.value.function) == ("a-step", "function-broken")
        assert caught.value.revision == running.revision.name
        assert "\n" not in caught.value.message

    def test_hanging_function_times_out(self, start: Start) -> None:
        running = start("function-hanging")
        began = time.monotonic()
        with hanging(), pytest.raises(FunctionTimedOut) as caught:
            running(request_with(), timeout_seconds=0.3)
        assert time.monotonic() - began < PATIENCE_SECONDS
        assert caught.value.step == "a-step"

    def test_calls_share_no_state(self, start: Start) -> None:
        running = start("function-counting")
        counts = [running(request_with()).context.data["calls"] for _ in range(3)]
        assert counts == [1, 1, 1]

    def test_function_cannot_change_the_request_of_its_caller(self, start: Start) -> None:
        request = request_with()
        before = json.dumps(request.as_data())
        start("function-meddling")(request)
        assert json.dumps(request.as_data()) == before

    def test_concurrent_calls_from_many_threads(self, start: Start) -> None:
        running = start("function-echo")

        def call(number: int) -> Any:
            return running(request_with(tag=f"t{number}")).tag

        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(call, range(16))) == [f"t{number}" for number in range(16)]

    def test_response_is_passed_to_the_next_function_unchanged(self, start: Start) -> None:
        running = start("function-echo")
        first = running(request_with())
        second = running(request_with(desired=first.desired, context=first.context))
        assert second.desired.data == request_with().desired.data

    def test_seven_megabytes_are_transferred(self, start: Start) -> None:
        large = {"resources": {f"r{n}": {"resource": {"data": "x" * 100_000}} for n in range(70)}}
        answer = start("function-echo")(request_with(desired=Part(large)))
        assert len(answer.desired.data["resources"]) == 70

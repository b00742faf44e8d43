"""Python functions: a call of a composition function that is a class in this process."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Awaitable, Mapping
from inspect import isawaitable, iscoroutinefunction
from pathlib import Path
from typing import Any, Final, NamedTuple

from kanister_py.core.compositions.authoring import InvalidResponse, Request, Response
from kanister_py.core.compositions.endpoints import PYTHON, scheme_of, target_of
from kanister_py.core.compositions.messages import FunctionRequest, FunctionResponse
from kanister_py.core.kube.copies import copy_json
from kanister_py.core.registry.entries import FunctionEntry, Registry
from kanister_py.core.versions.semver import parse_version
from kanister_py.executor.loading import PluginBroken, import_target, load_function
from kanister_py.executor.wire_messages import RESPONSE
from kanister_py.ports.composition_function import CompositionFunction
from kanister_py.proto.encoding import NotEncodable, check_message

_GOODBYE_SECONDS: Final = 5.0


class PythonFunction(NamedTuple):
    """A class that runs as a composition function.

    Ours promise to change nothing of what they are given, so they get no copy of it,
    and their answers are not checked.
    """

    code: type[CompositionFunction]
    is_ours: bool = False

    @property
    def is_async(self) -> bool:
        if self.is_ours:
            return False
        return iscoroutinefunction(self.code.run)

    def begin(self, request: FunctionRequest) -> FunctionResponse | Awaitable[Any]:
        """Call a new instance: the answer, or what is to be awaited for `finish`."""
        answer = self.code().run(Request(request, is_own=not self.is_ours, is_lazy=self.is_ours))
        if self.is_ours or isinstance(answer, Response | dict):
            return self.finish(answer)
        return answer if isawaitable(answer) else self.finish(answer)

    def finish(self, answer: Any) -> FunctionResponse:
        """Take what an instance answered as a response."""
        if isinstance(answer, Response):
            message = answer.as_message()
            if not self.is_ours:
                _checked({"desired": message.desired.data} if answer.is_changed else {})
            return message
        if not isinstance(answer, Mapping):
            raise InvalidResponse(
                f"{self.code.__qualname__}.run answered {type(answer).__name__}; "
                "a response is a dict, or a Response"
            )
        if self.is_ours:
            return FunctionResponse.of_data(answer)
        # A copy: the function may keep what it answered, and change it in a later call.
        return FunctionResponse.of_data(copy_json(_checked(answer)))


def load_python_function(endpoint: str, entries: Registry[FunctionEntry]) -> PythonFunction:
    """Load the class behind an endpoint in this process."""
    target = target_of(endpoint)
    if scheme_of(endpoint) == PYTHON:
        return PythonFunction(_class_at(target))
    name, _, version = target.partition("@")
    entry = entries.family(name).by_identity[parse_version(version)]
    return PythonFunction(load_function(entry), entry.source.is_ours)


def _class_at(target: str) -> type[CompositionFunction]:
    # An author's function lies beside the manifests more often than in a package.
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: type[CompositionFunction] = import_target(target)
    except (Exception, SystemExit) as error:  # whatever the import of foreign code may raise
        raise PluginBroken(target, f"{type(error).__name__}: {error}") from error
    return found


def _checked(answer: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return check_message(RESPONSE, answer)
    except NotEncodable as error:
        raise InvalidResponse(f"The response is invalid: {error}") from None


class LoopThread:
    """Loop for coroutines of threads that have none; it starts when the first one comes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, awaitable: Awaitable[Any], timeout_seconds: float = 0.0) -> Any:
        """Wait for a coroutine; one that takes too long is cancelled, and TimeoutError raised."""

        async def wait() -> Any:
            return await asyncio.wait_for(awaitable, timeout_seconds or None)

        with self._lock:
            # The loop cannot be ended before it has heard of this.
            ended = asyncio.run_coroutine_threadsafe(wait(), self._running())
        return ended.result()

    def _running(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=_run, args=(self._loop,), name="composition functions", daemon=True
            )
            self._thread.start()
        return self._loop

    def close(self) -> None:
        """End the loop; who still waits for a coroutine hears that it was cancelled."""
        with self._lock:
            if self._loop is not None and self._thread is not None:
                self._loop.call_soon_threadsafe(_cancel_all, self._loop)
                self._thread.join()
                self._loop.close()
                self._loop = self._thread = None


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """Run a loop until it is stopped.

    An exit of a coroutine leaves the loop as well as going to who waits for the coroutine.
    """
    while True:
        try:
            loop.run_forever()
        except (SystemExit, KeyboardInterrupt):
            continue
        return


def _cancel_all(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel what is under way in a loop, and stop it once that has ended."""
    under_way = asyncio.all_tasks(loop)
    for each in under_way:
        each.cancel()
    ended = asyncio.gather(*under_way, return_exceptions=True)
    ended.add_done_callback(lambda _: loop.stop())
    # A task may ignore it.
    loop.call_later(_GOODBYE_SECONDS, loop.stop)

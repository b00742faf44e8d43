"""Composition functions implemented in Python, called in this process."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from kanister_py.core.compositions.messages import FunctionRequest, FunctionResponse
from kanister_py.core.errors import KanisterError, TransientError
from kanister_py.core.registry.entries import FunctionRevision
from kanister_py.executor.author_frames import error_text
from kanister_py.executor.python_functions import PythonFunction
from kanister_py.ports.deadlines import call_deadline
from kanister_py.ports.function_runner import (
    FunctionCall,
    FunctionCallError,
    FunctionCallFailed,
    FunctionFault,
    FunctionRequestInvalid,
    FunctionTimedOut,
    FunctionUnavailable,
)
from kanister_py.proto.errors import NotDecodable

if TYPE_CHECKING:
    from kanister_py.adapters.coroutine_loop import LoopThread


_LOG: Final = logging.getLogger(__name__)


class MemoryRunner:
    """Runner in this process. Every call gets a new instance, and third-party functions a copy.

    `find` returns the class of a revision. A third-party function with a timeout runs in a thread
    that is abandoned after the timeout, because Python cannot stop it.
    """

    def __init__(self, find: Callable[[FunctionRevision], PythonFunction]) -> None:
        self._find = find
        self._loop: LoopThread | None = None
        self._loop_lock = threading.Lock()

    def run(self, call: FunctionCall) -> FunctionResponse:
        function = self._find(call.revision)
        with _errors_of(function, call):
            if function.is_ours or not call.timeout_seconds:
                with call_deadline(call.timeout_seconds):
                    return self._answer(function, call)
            return self._answer_in_time(function, call)

    async def run_on_loop(
        self, revision: FunctionRevision, request: FunctionRequest
    ) -> FunctionResponse:
        """Run a function whose `run` is a coroutine on the event loop of the caller."""
        function = self._find(revision)
        with _errors_of(function, FunctionCall("", revision, request)):
            return await function.answer(request)

    def _answer(self, function: PythonFunction, call: FunctionCall) -> FunctionResponse:
        begun = function.begin(call.request)
        if isinstance(begun, FunctionResponse):
            return begun
        return function.finish(self._loop_thread().run(begun, call.timeout_seconds))

    def _loop_thread(self) -> LoopThread:
        # Few functions are coroutines, and importing asyncio is slow.
        from kanister_py.adapters.coroutine_loop import LoopThread

        with self._loop_lock:
            if self._loop is None:
                self._loop = LoopThread()
            return self._loop

    def _answer_in_time(self, function: PythonFunction, call: FunctionCall) -> FunctionResponse:
        if function.is_async:
            return self._answer(function, call)
        return _on_thread(lambda: self._answer(function, call), call.timeout_seconds)

    def close(self) -> None:
        with self._loop_lock:
            if self._loop is not None:
                self._loop.close()


@contextmanager
def _errors_of(function: PythonFunction, call: FunctionCall) -> Iterator[None]:
    """Raise errors of a function as errors of its call."""
    where = (call.step, call.revision.function, call.revision.name)
    try:
        yield
    except FunctionCallError:
        raise
    except TimeoutError:
        why = f"it did not respond within {call.timeout_seconds:g} s"
        raise FunctionTimedOut(*where, why) from None
    except TransientError as error:
        raise FunctionUnavailable(*where, error.message) from error
    except KanisterError as error:
        raise FunctionCallFailed(*where, error.message) from error
    except NotDecodable as error:
        raise FunctionRequestInvalid(*where, f"the request cannot be read: {error}") from error
    except (Exception, SystemExit) as error:  # a function may raise anything
        _LOG.debug("Function %s raised", call.revision.function, exc_info=True)
        kind = FunctionFault if function.is_ours else FunctionCallFailed
        raise kind(*where, error_text(error, function.code)) from error


def _on_thread(work: Callable[[], FunctionResponse], seconds: float) -> FunctionResponse:
    ended: list[FunctionResponse | BaseException] = []

    def run() -> None:
        try:
            ended.append(work())
        except BaseException as error:  # noqa: BLE001 - raised again in the waiting thread
            ended.append(error)

    thread = threading.Thread(target=run, name="composition function", daemon=True)
    thread.start()
    thread.join(seconds)
    if not ended:
        raise TimeoutError
    if isinstance(ended[0], BaseException):
        raise ended[0]
    return ended[0]

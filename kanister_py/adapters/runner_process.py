"""Composition functions that are programs: a request on stdin, a response on stdout.

Both are protobuf's JSON. The program ends with zero and says nothing else on stdout;
what it says on stderr is shown if it fails.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import time
from typing import NamedTuple

from kanister_py.core.compositions.endpoints import command_of
from kanister_py.core.compositions.messages import FunctionResponse
from kanister_py.core.yaml.documents import why_no_json
from kanister_py.executor.wire_messages import RESPONSE
from kanister_py.ports.function_runner import (
    ANSWER_LIMIT_BYTES,
    FunctionAnswerInvalid,
    FunctionAnswerTooLarge,
    FunctionCall,
    FunctionCallFailed,
    FunctionNotServed,
    FunctionRequestInvalid,
    FunctionTimedOut,
    most_values,
    too_large,
    too_many_values,
)
from kanister_py.ports.tracing import VARIABLE, traceparent
from kanister_py.proto.encoding import NotEncodable, check_message

_TIMEOUT_SECONDS = 60.0
_STDERR_BYTES = 16 * 1024
_SHOWN_LINES = 10
_PIECE = 256 * 1024


class Ended(NamedTuple):
    """End of a program. `why_killed` says what ended it, if we did."""

    code: int
    out: bytes
    err: bytes
    why_killed: str = ""


class ProcessRunner:
    """Runner of programs: one for each call, in a group of its own that ends with the call."""

    def __init__(self, *, limit_bytes: int = 0) -> None:
        self._limit_bytes = limit_bytes or ANSWER_LIMIT_BYTES

    def run(self, call: FunctionCall) -> FunctionResponse:
        where = (call.step, call.revision.function, call.revision.name)
        seconds = call.timeout_seconds or _TIMEOUT_SECONDS
        try:
            text = json.dumps(call.request.as_data(), ensure_ascii=False, allow_nan=False)
            request_bytes = text.encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise FunctionRequestInvalid(*where, f"it cannot be told: {error}") from None
        program = "its program"
        try:
            command = command_of(call.revision.endpoint)
            if not command:
                raise ValueError("it names no program")
            program = f"its program {command[0]}"
            limit_bytes = call.revision.answer_limit_bytes or self._limit_bytes
            ended = self._carry_out(command, request_bytes, limit_bytes, seconds)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise FunctionNotServed(*where, f"{program} cannot be started: {why}") from None
        if ended.why_killed == "time":
            why = f"{program} did not answer within {seconds:g} s{_stderr_of(ended.err)}"
            raise FunctionTimedOut(*where, why)
        if ended.why_killed == "size":
            raise FunctionAnswerTooLarge(*where, too_large(None, limit_bytes))
        if ended.code:
            raise FunctionCallFailed(
                *where, f"{program} {_ending(ended.code)}{_stderr_of(ended.err)}"
            )
        if _marks(ended.out) > most_values(limit_bytes):
            raise FunctionAnswerTooLarge(*where, too_many_values(limit_bytes))
        return self._read(where, program, ended)

    def _read(self, where: tuple[str, str, str], program: str, ended: Ended) -> FunctionResponse:
        try:
            answer = json.loads(ended.out, parse_constant=_refuse)
        except (ValueError, RecursionError) as error:
            words = " ".join(why_no_json(error).split())
            content = f"no JSON ({words})" if ended.out.strip() else "nothing"
            why = f"{program} wrote {content} on stdout{_stderr_of(ended.err)}"
            raise FunctionAnswerInvalid(*where, why) from None
        try:
            return FunctionResponse.from_data(check_message(RESPONSE, answer))
        except NotEncodable as error:
            raise FunctionAnswerInvalid(*where, f"the response of {program}: {error}") from None

    def _carry_out(
        self, command: list[str], given: bytes, limit_bytes: int, seconds: float
    ) -> Ended:
        named = traceparent()
        with subprocess.Popen(  # noqa: S603 - running it is what was asked for
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env={**os.environ, VARIABLE: named} if named else None,
            start_new_session=True,
        ) as process:
            try:
                return _converse(process, given, limit_bytes, seconds)
            finally:
                # Whatever it has started ends with it, also when it ended in good order.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Nothing stays open between calls."""


def _converse(
    process: subprocess.Popen[bytes], given: bytes, limit_bytes: int, seconds: float
) -> Ended:
    assert process.stdin and process.stdout and process.stderr  # noqa: PT018 - one fact of pipes
    until = time.monotonic() + seconds
    unwritten = memoryview(given)
    out, err = bytearray(), bytearray()
    with selectors.DefaultSelector() as selector:
        # Both ends of a pipe may be full at once: writing must not keep us from reading.
        for stream in (process.stdin, process.stdout, process.stderr):
            os.set_blocking(stream.fileno(), False)
        selector.register(process.stdin, selectors.EVENT_WRITE)
        selector.register(process.stdout, selectors.EVENT_READ, out)
        selector.register(process.stderr, selectors.EVENT_READ, err)
        heard = {process.stdout, process.stderr}
        while heard:
            left = until - time.monotonic()
            ready = selector.select(max(left, 0))
            if left <= 0:
                return Ended(0, b"", bytes(err), "time")
            for key, _ in ready:
                if key.fileobj is process.stdin:
                    unwritten = unwritten[_written(key.fd, unwritten) :]
                    if not unwritten:
                        selector.unregister(process.stdin)
                        process.stdin.close()
                    continue
                piece = os.read(key.fd, _PIECE)
                if not piece:
                    selector.unregister(key.fileobj)
                    heard -= {key.fileobj}
                key.data.extend(piece)
                del err[:-_STDERR_BYTES]
            if len(out) > limit_bytes:
                return Ended(0, b"", bytes(err), "size")
    process.stdin.close()
    try:
        code = process.wait(max(until - time.monotonic(), 0))
    except subprocess.TimeoutExpired:
        return Ended(0, b"", bytes(err), "time")
    return Ended(code, bytes(out), bytes(err))


def _written(pipe: int, unwritten: memoryview) -> int:
    try:
        return os.write(pipe, unwritten)
    except BlockingIOError:
        return 0
    except BrokenPipeError:
        # A program need not read what it does not want to know.
        return len(unwritten)


def _marks(text: bytes) -> int:
    """Say how many values there can be in a text of JSON, in no time."""
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is no JSON")


def _ending(code: int) -> str:
    if code > 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


def _stderr_of(err: bytes) -> str:
    lines = [line for line in err.decode(errors="replace").splitlines() if line.strip()]
    return f"; stderr: {' | '.join(lines[-_SHOWN_LINES:])}" if lines else ""

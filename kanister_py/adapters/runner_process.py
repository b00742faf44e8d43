"""Composition functions implemented as programs: a request on stdin, a response on stdout.

Both are in protobuf's JSON format. The program must exit with code 0 and print nothing else to
stdout. Its stderr is shown if it fails.
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
    max_values,
    too_large,
    too_many_values,
)
from kanister_py.ports.tracing import VARIABLE, traceparent
from kanister_py.proto.encoding import NotEncodable, check_message

_TIMEOUT_SECONDS = 60.0
_STDERR_BYTES = 16 * 1024
_SHOWN_LINES = 10
_PIECE = 256 * 1024


class ProgramResult(NamedTuple):
    """Result of a program. `why_killed` is the reason if this process killed it."""

    code: int
    out: bytes
    err: bytes
    why_killed: str = ""


class ProcessRunner:
    """Runner of programs. Every call has a process group that is killed afterwards."""

    def __init__(self, *, limit_bytes: int = 0) -> None:
        self._limit_bytes = limit_bytes or ANSWER_LIMIT_BYTES

    def run(self, call: FunctionCall) -> FunctionResponse:
        where = (call.step, call.revision.function, call.revision.name)
        seconds = call.timeout_seconds or _TIMEOUT_SECONDS
        try:
            text = json.dumps(call.request.as_data(), ensure_ascii=False, allow_nan=False)
            request_bytes = text.encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise FunctionRequestInvalid(
                *where, f"the request cannot be encoded: {error}"
            ) from None
        program = "its program"
        try:
            command = command_of(call.revision.endpoint)
            if not command:
                raise ValueError("the endpoint names no program")
            program = f"its program {command[0]}"
            limit_bytes = call.revision.answer_limit_bytes or self._limit_bytes
            result = self._run_program(command, request_bytes, limit_bytes, seconds)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise FunctionNotServed(*where, f"{program} cannot be started: {why}") from None
        if result.why_killed == "time":
            why = f"{program} did not respond within {seconds:g} s{_stderr_of(result.err)}"
            raise FunctionTimedOut(*where, why)
        if result.why_killed == "size":
            raise FunctionAnswerTooLarge(*where, too_large(None, limit_bytes))
        if result.code:
            raise FunctionCallFailed(
                *where, f"{program} {_ending(result.code)}{_stderr_of(result.err)}"
            )
        if _count_values(result.out) > max_values(limit_bytes):
            raise FunctionAnswerTooLarge(*where, too_many_values(limit_bytes))
        return self._read(where, program, result)

    def _read(
        self, where: tuple[str, str, str], program: str, result: ProgramResult
    ) -> FunctionResponse:
        try:
            answer = json.loads(result.out, parse_constant=_refuse)
        except (ValueError, RecursionError) as error:
            words = " ".join(why_no_json(error).split())
            content = f"invalid JSON ({words})" if result.out.strip() else "nothing"
            why = f"{program} wrote {content} on stdout{_stderr_of(result.err)}"
            raise FunctionAnswerInvalid(*where, why) from None
        try:
            return FunctionResponse.from_data(check_message(RESPONSE, answer))
        except NotEncodable as error:
            raise FunctionAnswerInvalid(*where, f"the response of {program}: {error}") from None

    def _run_program(
        self, command: list[str], request_bytes: bytes, limit_bytes: int, seconds: float
    ) -> ProgramResult:
        named = traceparent()
        with subprocess.Popen(  # noqa: S603 - the endpoint names the program
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env={**os.environ, VARIABLE: named} if named else None,
            start_new_session=True,
        ) as process:
            try:
                return _communicate(process, request_bytes, limit_bytes, seconds)
            finally:
                # Kill all processes of the group, also after a normal exit.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Do nothing: no resources are kept between calls."""


def _communicate(
    process: subprocess.Popen[bytes], request_bytes: bytes, limit_bytes: int, seconds: float
) -> ProgramResult:
    assert process.stdin and process.stdout and process.stderr  # noqa: PT018 - all pipes are set
    until = time.monotonic() + seconds
    unwritten = memoryview(request_bytes)
    out, err = bytearray(), bytearray()
    with selectors.DefaultSelector() as selector:
        # Reading and writing alternate, because both pipes may be full at the same time.
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
                return ProgramResult(0, b"", bytes(err), "time")
            for key, _ in ready:
                if key.fileobj is process.stdin:
                    unwritten = unwritten[_write_some(key.fd, unwritten) :]
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
                return ProgramResult(0, b"", bytes(err), "size")
    process.stdin.close()
    try:
        code = process.wait(max(until - time.monotonic(), 0))
    except subprocess.TimeoutExpired:
        return ProgramResult(0, b"", bytes(err), "time")
    return ProgramResult(code, bytes(out), bytes(err))


def _write_some(pipe: int, unwritten: memoryview) -> int:
    try:
        return os.write(pipe, unwritten)
    except BlockingIOError:
        return 0
    except BrokenPipeError:
        # A program need not read all of its input.
        return len(unwritten)


def _count_values(text: bytes) -> int:
    """Return an upper bound for the number of values in a JSON text, without parsing it."""
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is not valid JSON")


def _ending(code: int) -> str:
    if code > 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


def _stderr_of(err: bytes) -> str:
    lines = [line for line in err.decode(errors="replace").splitlines() if line.strip()]
    return f"; stderr: {' | '.join(lines[-_SHOWN_LINES:])}" if lines else ""

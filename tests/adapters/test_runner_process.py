"""Functions as programs: the contract, and faults of programs."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from kanister_py.adapters.runner_process import ProcessRunner
from kanister_py.core.compositions.endpoints import exec_endpoint
from kanister_py.core.registry.entries import FunctionRevision
from kanister_py.ports.function_runner import (
    FunctionAnswerInvalid,
    FunctionAnswerTooLarge,
    FunctionCallFailed,
    FunctionNotServed,
    FunctionTimedOut,
)
from tests.contracts.function_runner import (
    PATIENCE_SECONDS,
    FunctionRunnerContract,
    Running,
    Start,
    request_with,
)

REPOSITORY = Path(__file__).parent.parent.parent


def running(*command: str, limit_bytes: int = 64 * 1024 * 1024) -> Running:
    runner = ProcessRunner(limit_bytes=limit_bytes)
    revision = FunctionRevision("function-p", "p-1", 1, endpoint=exec_endpoint(command))
    return Running(runner, revision)


def shell(script: str, **more: int) -> Running:
    return running("/bin/sh", "-c", script, **more)


@pytest.fixture
def start() -> Start:
    def program(name: str) -> Running:
        code = (
            f"import sys; sys.path.insert(0, {str(REPOSITORY)!r}); "
            "from tests.contracts.function_runner import answer_stdin; "
            f"answer_stdin({name!r})"
        )
        endpoint = exec_endpoint((sys.executable, "-c", code))
        return Running(ProcessRunner(), FunctionRevision(name, f"{name}-1", 1, endpoint=endpoint))

    return program


class TestProcessRunner(FunctionRunnerContract):
    pass


def test_exit_code_is_reported_with_stderr() -> None:
    with pytest.raises(FunctionCallFailed) as caught:
        shell("cat >/dev/null; echo first >&2; echo 'second line' >&2; exit 3")(request_with())
    assert caught.value.message == (
        "Step a-step: function function-p, revision p-1: "
        "its program /bin/sh ended with exit code 3; stderr: first | second line"
    )


def test_a_program_that_is_killed_names_the_signal() -> None:
    with pytest.raises(FunctionCallFailed, match="was killed by SIGKILL"):
        shell("kill -9 $$")(request_with())


@pytest.mark.parametrize(
    ("script", "message"),
    [
        pytest.param("cat >/dev/null", "wrote nothing on stdout", id="nothing"),
        pytest.param("echo hello", "it is not valid at line 1, column 1", id="a greeting"),
        pytest.param("echo '{\"desired\": '", "wrote invalid JSON", id="half of it"),
        pytest.param("echo '{}{}'", "wrote invalid JSON", id="two answers"),
        pytest.param('echo \'{"context": {"n": NaN}}\'', "NaN is not valid JSON", id="no number"),
        pytest.param("echo '[]'", "must be an object, found list", id="a list"),
        pytest.param(
            'echo \'{"desired": {"resources": 5}}\'', "must be a map, found 5", id="a number"
        ),
        pytest.param("echo '{\"foo\": 1}'", "foo: unknown field", id="a field of its own"),
    ],
)
def test_invalid_output_is_reported(script: str, message: str) -> None:
    with pytest.raises(FunctionAnswerInvalid, match=message) as caught:
        shell(script)(request_with())
    assert (caught.value.step, caught.value.revision) == ("a-step", "p-1")


def test_program_may_ignore_its_input() -> None:
    request = request_with(input={"data": "x" * 1_000_000})
    assert shell('echo \'{"context": {"n": 1}}\'')(request).context.data == {"n": 1}


def test_too_large_output_kills_the_program() -> None:
    with pytest.raises(FunctionAnswerTooLarge, match="goes on, and 100000 bytes are allowed"):
        shell("exec cat /dev/zero", limit_bytes=100_000)(request_with(), timeout_seconds=600)


def test_number_of_values_is_limited() -> None:
    script = (
        "printf '{\"context\": {\"a\": [{}'; yes ',{}' | head -n 600000 | tr -d '\\n'; echo ']}}'"
    )
    with pytest.raises(FunctionAnswerTooLarge, match="more than the 1048576 values"):
        shell(script, limit_bytes=8 << 20)(request_with())


def test_child_processes_end_with_the_call(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    # The call ends when the program has written too much, even if it takes long to start.
    script = f"sleep 600 & echo $! > {pid_file}; exec cat /dev/zero"
    with pytest.raises(FunctionAnswerTooLarge):
        shell(script, limit_bytes=1000)(request_with(), timeout_seconds=600)
    child = int(pid_file.read_text())
    until = time.monotonic() + PATIENCE_SECONDS
    while _is_alive(child) and time.monotonic() < until:
        time.sleep(0.01)
    assert not _is_alive(child)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (ProcessLookupError, FileNotFoundError):
        return False


def test_child_with_open_pipes_does_not_extend_the_timeout() -> None:
    began = time.monotonic()
    with pytest.raises(FunctionTimedOut):
        shell("sleep 600 & exit 0")(request_with(), timeout_seconds=0.5)
    assert time.monotonic() - began < PATIENCE_SECONDS


def test_timeout_is_reported_with_stderr() -> None:
    # A slow machine gets more time until the program has written its output.
    for seconds in (0.5, 4.0, PATIENCE_SECONDS):
        with pytest.raises(FunctionTimedOut) as caught:
            shell("echo 'waiting for the moon' >&2; exec sleep 600")(request_with(), seconds)
        if "stderr" in caught.value.message:
            break
    assert caught.value.message.endswith("stderr: waiting for the moon")


@pytest.mark.parametrize(
    "command", [("/does/not/exist",), ("/dev/null",)], ids=["not there", "no program"]
)
def test_a_program_that_cannot_be_started_is_named(command: tuple[str, ...]) -> None:
    with pytest.raises(FunctionNotServed, match=f"its program {command[0]} cannot be started"):
        running(*command)(request_with())


def test_a_request_is_protobufs_json() -> None:
    script = "import sys, json; print(json.dumps({'context': {'told': sys.stdin.read()}}))"
    answer = running(sys.executable, "-I", "-c", script)(request_with())
    assert json.loads(answer.context.data["told"]) == request_with().as_data()


def test_no_process_remains_after_an_interrupt() -> None:
    # A program that ignores signals is killed all the same.
    with pytest.raises(FunctionTimedOut):
        shell(f"trap '' {signal.SIGTERM.value}; sleep 600")(request_with(), timeout_seconds=0.5)

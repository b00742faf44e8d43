"""Functions that are programs: the contract, and how a program may fail."""

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


def test_an_exit_code_is_told_with_what_the_program_said() -> None:
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
        pytest.param("echo hello", "it is none at line 1, column 1", id="a greeting"),
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
def test_an_answer_that_is_none_says_what_it_was(script: str, message: str) -> None:
    with pytest.raises(FunctionAnswerInvalid, match=message) as caught:
        shell(script)(request_with())
    assert (caught.value.step, caught.value.revision) == ("a-step", "p-1")


def test_a_program_need_not_read_what_it_is_told() -> None:
    request = request_with(input={"data": "x" * 1_000_000})
    assert shell('echo \'{"context": {"n": 1}}\'')(request).context.data == {"n": 1}


def test_an_answer_beyond_the_limit_ends_the_program() -> None:
    with pytest.raises(FunctionAnswerTooLarge, match="goes on, and 100000 bytes are allowed"):
        shell("exec cat /dev/zero", limit_bytes=100_000)(request_with(), timeout_seconds=600)


def test_an_answer_of_tiny_values_is_judged_by_how_many_there_are() -> None:
    script = (
        "printf '{\"context\": {\"a\": [{}'; yes ',{}' | head -n 600000 | tr -d '\\n'; echo ']}}'"
    )
    with pytest.raises(FunctionAnswerTooLarge, match="more than the 1048576 values"):
        shell(script, limit_bytes=8 << 20)(request_with())


def test_whatever_a_program_has_started_ends_with_the_call(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    # The call ends once the program has said too much, however long it takes to its first word.
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


def test_a_child_that_holds_the_pipes_open_keeps_nobody_beyond_the_time() -> None:
    began = time.monotonic()
    with pytest.raises(FunctionTimedOut):
        shell("sleep 600 & exit 0")(request_with(), timeout_seconds=0.5)
    assert time.monotonic() - began < PATIENCE_SECONDS


def test_a_timeout_tells_what_the_program_had_said() -> None:
    # A slow machine gets more time, until the program has had its say.
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


def test_no_process_is_left_when_a_signal_is_what_ends_the_call() -> None:
    # A program that does not care for signals is ended all the same.
    with pytest.raises(FunctionTimedOut):
        shell(f"trap '' {signal.SIGTERM.value}; sleep 600")(request_with(), timeout_seconds=0.5)

"""Commands in existing containers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, Self

import pytest

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.core.errors import (
    CommandFailed,
    KanisterError,
    NotFound,
    RunCancelled,
    StreamLost,
    UsageError,
    WaitTimedOut,
)
from kanister_py.core.kube.resources import PODS
from kanister_py.core.yaml.weak import InvalidArgs
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.functions.blueprint.kube_exec.v0_0_0 import KubeExec
from kanister_py.functions.blueprint.kube_exec.v0_1_0 import KubeExecV010
from kanister_py.functions.blueprint.kube_exec_all.v0_0_0 import KubeExecAll
from kanister_py.ports.cluster import Channel, Cluster, ExecChunk
from kanister_py.ports.function import Func, OnRestart
from tests.functions.blueprint.conftest import Harness, failure, is_running

BOTH = pytest.mark.parametrize("function", [KubeExec, KubeExecV010])


@pytest.fixture
def db(harness: Harness) -> Harness:
    """A test bed with a pod `db` of one container."""
    harness.pod_to_go_into("db", "server")
    return harness


def inside(text: str, **rest: Any) -> dict[str, Any]:
    return {"namespace": "default", "pod": "db", "command": ["sh", "-c", text], **rest}


@BOTH
def test_outputs_are_read_only_from_stdout(db: Harness, function: type[Func]) -> None:
    text = "echo hello; kando output a 1; kando output b 2 >&2; printf tail >&2"
    assert db.call(function, inside(text)) == {"a": "1"}
    assert "hello" in db.log
    assert "tail" in db.log
    assert any('"b"' in line for line in db.log)


@BOTH
def test_failed_command_error_has_exit_code_and_last_lines(
    db: Harness, function: type[Func]
) -> None:
    text = "seq 1 12; echo no such table >&2; exit 7"
    error = failure(lambda: db.call(function, inside(text)))
    assert isinstance(error, CommandFailed)
    assert error.exit_code == 7
    message, stdout, stderr = error.message.partition("stdout:")[0], *error.message.split("stderr:")
    assert message.strip() == (
        "Failed to exec command in pod: command terminated with exit code 7."
    )
    assert stdout.endswith("stdout: " + "\n".join(str(number) for number in range(3, 13)) + "\n")
    assert stderr.strip() == "no such table"


@BOTH
def test_a_cancel_ends_the_command(db: Harness, function: type[Func]) -> None:
    called = db.start(function, inside("echo begun; sleep 600"))
    db.wait_for_line("begun")
    called.cancel()
    assert isinstance(failure(called.result), RunCancelled)


def test_timeout_ends_the_command(db: Harness) -> None:
    error = failure(lambda: db.call(KubeExecV010, inside("sleep 600", timeout="1s")))
    assert isinstance(error, WaitTimedOut)
    assert error.timeout_seconds == 1
    with pytest.raises(InvalidArgs):
        db.call(KubeExec, inside("true", timeout="1s"))


@BOTH
def test_missing_pod_is_named(db: Harness, function: type[Func]) -> None:
    error = failure(lambda: db.call(function, inside("true", pod="nobody")))
    assert isinstance(error, NotFound)
    assert "nobody" in error.message


def test_malformed_output_line_fails_the_phase(db: Harness) -> None:
    error = failure(lambda: db.call(KubeExec, inside("echo '###Phase-output###: {'")))
    assert error.reason == "OutputUnreadable"


def test_command_is_not_repeated_after_a_restart() -> None:
    assert KubeExec.on_restart is OnRestart.FAIL
    assert KubeExecV010.on_restart is OnRestart.FAIL
    assert KubeExecAll.on_restart is OnRestart.FAIL


class ScriptedSession:
    """A command whose output arrives in the chunks that a test defines."""

    def __init__(self, *pieces: ExecChunk | Exception, exit_code: int | None = 0) -> None:
        self._pieces = pieces
        self.exit_code = exit_code

    def __iter__(self) -> Iterator[ExecChunk]:
        for piece in self._pieces:
            if isinstance(piece, Exception):
                raise piece
            yield piece

    def close(self) -> None:
        """Do nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class ScriptedPods:
    """Cluster whose exec returns the same session for all pods."""

    def __init__(self, session: ScriptedSession) -> None:
        self._session = session

    def exec(self, name: str, command: Any, **_: Any) -> Any:
        return self._session

    def read_log(self, name: str, **_: Any) -> Any:
        raise NotImplementedError


def scripted(session: ScriptedSession) -> Harness:
    cluster = MemoryCluster(clock=SystemClock())
    cluster.attach_pods(ScriptedPods(session))
    observed: Cluster = cluster
    observed.create(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "db", "namespace": "default"},
            "spec": {"containers": [{"name": "server", "image": "busybox"}]},
        }
    )
    return Harness(observed)


def out(text: str) -> ExecChunk:
    return ExecChunk(Channel.STDOUT, text.encode())


def err(text: str) -> ExecChunk:
    return ExecChunk(Channel.STDERR, text.encode())


def test_output_line_in_several_chunks() -> None:
    line = '###Phase-output###: {"key": "k", "value": "v"}\n'
    pieces = [out(sign) for sign in line]
    mixed = [chunk for piece in pieces for chunk in (piece, err("."))]
    harness = scripted(ScriptedSession(*mixed, err("\nlast")))
    assert harness.call(KubeExec, inside("true")) == {"k": "v"}
    assert harness.log == ["." * len(line), "last"]


@BOTH
def test_lost_connection_fails_without_a_retry(
    function: type[Func],
) -> None:
    harness = scripted(ScriptedSession(out("working"), StreamLost("gone"), exit_code=None))
    error = failure(lambda: harness.call(function, inside("true")))
    assert (type(error), error.reason) == (UsageError, "StreamLost")


@BOTH
def test_missing_exit_code_is_an_error(function: type[Func]) -> None:
    harness = scripted(ScriptedSession(out("working"), exit_code=None))
    error = failure(lambda: harness.call(function, inside("true")))
    assert (type(error), error.reason) == (UsageError, "StreamLost")


# Several containers


@pytest.fixture
def pair(harness: Harness) -> Harness:
    """A test bed with two pods of two containers each."""
    harness.pod_to_go_into("db-0", "server", "sidecar")
    harness.pod_to_go_into("db-1", "server", "sidecar")
    return harness


def everywhere(text: str, pods: str = "db-0 db-1", containers: str = "server sidecar") -> Any:
    command = ["sh", "-c", text]
    return {"namespace": "default", "pods": pods, "containers": containers, "command": command}


def test_a_command_runs_in_every_container_of_every_pod(pair: Harness) -> None:
    outputs = pair.call(KubeExecAll, everywhere("echo here; kando output $(hostname | tr - _) 1"))
    assert outputs == {"db_0": "1", "db_1": "1"}
    assert pair.log.count("here") == 4


def test_all_commands_run_at_once(pair: Harness) -> None:
    """Every command waits for all others, so they would not end if they ran one after another."""
    text = (
        "mkdir -p /tmp/meeting; mktemp /tmp/meeting/XXXXXX; "
        "until [ $(ls /tmp/meeting | wc -l) -ge 2 ]; do sleep 0.05; done; kando output met yes"
    )
    called = pair.start(KubeExecAll, everywhere(text, pods="db-0 db-0", containers="server"))
    assert called.result() == {"met": "yes"}


def test_failed_command_is_named(pair: Harness) -> None:
    text = 'kando output a 1; [ "$(hostname)" = db-0 ] || exit 5'
    error = failure(lambda: pair.call(KubeExecAll, everywhere(text)))
    assert isinstance(error, CommandFailed)
    assert error.exit_code == 5
    assert error.message.count("exit code 5") == 2
    assert "db-1/server" in error.message
    assert "db-1/sidecar" in error.message
    assert "db-0" not in error.message


def test_a_cancel_ends_all_commands(pair: Harness) -> None:
    called = pair.start(KubeExecAll, everywhere("echo begun; sleep 600"))
    pair.wait_for_line("begun", times=4)
    called.cancel()
    assert isinstance(failure(called.result), RunCancelled)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("exec ")]


def test_the_reason_of_a_single_failure_is_kept(pair: Harness) -> None:
    called = pair.start(KubeExecAll, everywhere("true", pods="db-0 nobody", containers="server"))
    error: KanisterError = failure(called.result)
    assert isinstance(error, NotFound)
    assert is_running(pair.cluster.get(PODS, "db-0", namespace="default"))

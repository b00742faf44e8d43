"""Pods in a sandbox: the system to read, their volumes to write, and nothing else."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kanister_py
from kanister_py.adapters.clock_system import SystemClock
from kanister_py.core.kube.resources import PODS
from kanister_py.embedded.pods.runner import ProcessPodRunner
from kanister_py.ports.cluster import Cluster
from tests.contracts.pods import (
    exec_in,
    in_phase,
    is_ready,
    log_of,
    pod,
    run,
    start,
    wait_for,
)
from tests.embedded.test_pods import running


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    runner = ProcessPodRunner(SystemClock(), state=tmp_path / "state", is_sandboxed=True)
    if runner.why_no_mounts:
        runner.close()
        pytest.skip(f"this machine gives no user namespaces: {runner.why_no_mounts}")
    with running(runner) as cluster:
        yield cluster


def test_commands_run_and_share_the_volumes_of_their_pod(cluster: Cluster) -> None:
    mount = {"volumeMounts": [{"name": "v", "mountPath": "/data"}]}
    volumes = [{"name": "v", "emptyDir": {}}]
    script = "echo kept > /data/f; cat /data/f; kando output size 3"
    ended = run(cluster, pod("works", script, container=mount, volumes=volumes))
    assert ended["status"]["phase"] == "Succeeded", log_of(cluster, "works")
    lines = log_of(cluster, "works").splitlines()
    assert lines == [b"kept", b'###Phase-output###: {"key":"size","value":"3"}']


def test_homes_and_other_mounts_are_not_there(cluster: Cluster, tmp_path: Path) -> None:
    marker = f".kanister-py-test-{os.getpid()}"
    files = [place / marker for place in (Path.home(), Path("/var/tmp"), tmp_path)]
    try:
        for file in files:
            file.write_text("mine")
        script = f"cat {' '.join(map(str, files))} 2>/dev/null; ls -d /*; echo HOME=$HOME"
        run(cluster, pod("looks", script))
    finally:
        for file in files:
            file.unlink()
    lines = set(log_of(cluster, "looks").decode().split())
    own = {"/dev", "/proc", "/tmp", "/.kanister-py", "HOME=/tmp"}
    system = {"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc"}
    # What kando starts from is shown wherever it is, and nothing beside it.
    starts = (sys.prefix, sys.base_prefix, kanister_py.__file__)
    kando = {f"/{Path(place).resolve().parts[1]}" for place in starts}
    assert lines <= own | system | kando


@pytest.mark.parametrize(
    "command",
    [
        pytest.param("touch /usr/mine", id="a new file of the system"),
        pytest.param("touch /etc/mine", id="a new setting"),
        pytest.param("mount -o remount,rw,bind /usr", id="a mount that may be written again"),
        pytest.param("unshare --mount true && mount -t tmpfs x /etc", id="another mount"),
        pytest.param("mknod /tmp/disk b 8 0", id="a device"),
    ],
)
def test_nothing_of_the_system_can_be_changed(cluster: Cluster, command: str) -> None:
    start(cluster, pod("tries", "exec sleep 1000"))
    code, _, error = exec_in(cluster, "tries", "sh", "-c", command)
    assert code != 0, error
    ended = run(cluster, pod("once", f"! ({command})"))
    assert ended["status"]["phase"] == "Succeeded"


def test_no_process_of_the_machine_is_seen(cluster: Cluster) -> None:
    run(cluster, pod("counts", "ls -d /proc/[0-9]* | wc -l"))
    assert int(log_of(cluster, "counts")) <= 5


def test_there_is_no_network_but_its_own(cluster: Cluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        reach = f"import socket; socket.create_connection(('127.0.0.1', {port}), 5)"
        script = f'''
            /usr/bin/env python3 -c "{reach}" 2>/dev/null && echo reached
            ls /sys/class/net 2>/dev/null
            tail -n +3 /proc/net/dev | cut -d: -f1
        '''
        run(cluster, pod("dials", script))
        assert log_of(cluster, "dials").split() == [b"lo"]


@pytest.mark.parametrize(
    "probe",
    [
        pytest.param({"tcpSocket": {"port": "web"}}, id="a connection"),
        pytest.param({"httpGet": {"port": 8080, "path": "/tmp/"}}, id="a request"),
    ],
)
def test_a_pod_is_ready_when_it_answers_on_a_port_of_its_own(
    cluster: Cluster, probe: dict[str, Any]
) -> None:
    script = "sleep 0.3; exec python3 -m http.server 8080 --bind 127.0.0.1 --directory /"
    container = {
        "readinessProbe": {**probe, "periodSeconds": 1, "timeoutSeconds": 10},
        "ports": [{"name": "web", "containerPort": 8080}],
    }
    cluster.create(pod("serves", script, container=container))
    assert not is_ready(wait_for(cluster, PODS, "serves", in_phase("Running")))
    wait_for(cluster, PODS, "serves", is_ready)

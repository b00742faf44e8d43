"""Pods as processes of this machine."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tracemalloc
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.core.errors import BadRequest
from kanister_py.core.kube.resources import NODES, PODS
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.embedded.pods import WARNING
from kanister_py.embedded.pods.launcher import Launcher, ProcessesUnavailable
from kanister_py.embedded.pods.node import ClusterSources, ProcessNode
from kanister_py.embedded.pods.runner import ProcessPodRunner
from kanister_py.ports.cluster import Cluster, KubeObject, LogOptions
from tests.contracts.pods import (
    DEADLINE_SECONDS,
    NAMESPACE,
    PodsContract,
    claim,
    end_pod,
    exec_in,
    in_phase,
    log_of,
    pod,
    run,
    start,
    terminated,
    wait_for,
    wait_for_line,
    wait_gone,
)

ROOT = Path(__file__).parents[2]


@contextlib.contextmanager
def running(runner: ProcessPodRunner, cluster: MemoryCluster | None = None) -> Iterator[Cluster]:
    node = ProcessNode(runner, SystemClock())
    cluster = cluster or MemoryCluster(clock=SystemClock())
    cluster.attach_pods(node)
    node.start(cluster)
    try:
        yield cluster
    finally:
        node.close()


def runner_in(folder: Path, **options: Any) -> ProcessPodRunner:
    return ProcessPodRunner(SystemClock(), state=folder, **options)


@pytest.fixture
def isolated(tmp_path: Path) -> Iterator[ProcessPodRunner]:
    """A runner with the namespaces that this machine supports."""
    runner = runner_in(tmp_path, restart_backoff_seconds=0.05)
    if runner.why_no_mounts:
        runner.close()
        pytest.skip(f"this machine gives no namespaces: {runner.why_no_mounts}")
    yield runner
    runner.close()


@pytest.fixture
def cluster(isolated: ProcessPodRunner) -> Iterator[Cluster]:
    with running(isolated) as cluster:
        yield cluster


@pytest.fixture
def cluster_without_namespaces(tmp_path: Path) -> Iterator[Cluster]:
    with running(runner_in(tmp_path, namespaces="none")) as cluster:
        yield cluster


class TestPods(PodsContract):
    """Contract of clusters with pods, with processes."""


class TestPodsOfAnOrdinaryUser(PodsContract):
    """The same contract with user namespaces."""

    @pytest.fixture
    def isolated(self, tmp_path: Path) -> Iterator[ProcessPodRunner]:
        runner = runner_in(tmp_path, restart_backoff_seconds=0.05, namespaces="user")
        if runner.why_no_mounts:
            runner.close()
            pytest.skip(f"this machine gives no user namespaces: {runner.why_no_mounts}")
        yield runner
        runner.close()

    @pytest.fixture
    def cluster(self, isolated: ProcessPodRunner) -> Iterator[Cluster]:
        with running(isolated) as cluster:
            yield cluster


def test_concurrent_callers_get_the_capabilities(tmp_path: Path) -> None:
    launcher = Launcher(tmp_path, mode="none")
    with ThreadPoolExecutor(8) as pool:
        heard = set(pool.map(lambda _: launcher.why, range(8)))
    launcher.close()
    assert heard == {"they are disabled"}


def test_the_warning_is_one_line() -> None:
    assert "on this machine" in WARNING
    assert "\n" not in WARNING


# Environment of pods


def test_pods_do_not_inherit_the_environment(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "leaked")
    run(cluster, pod("env", "env | sort"))
    names = {line.partition(b"=")[0] for line in log_of(cluster, "env").splitlines()}
    assert names == {b"HOME", b"HOSTNAME", b"PATH", b"PWD", b"RESTIC_CACHE_DIR"}


def test_files_outside_of_volumes_are_not_written_to_the_machine(cluster: Cluster) -> None:
    run(cluster, pod("writes", "echo x > /tmp/kanister-py-trace; echo x > /trace; cat /trace"))
    assert log_of(cluster, "writes") == b"x\n"
    assert not Path("/trace").exists()
    assert not Path("/tmp/kanister-py-trace").exists()


def test_a_missing_mount_point_is_only_created_in_the_pod(cluster: Cluster) -> None:
    target = "/usr/share/kanister-py-test/deep"
    mount = {"volumeMounts": [{"name": "v", "mountPath": target}]}
    script = f"echo x > {target}/f; ls /usr/share | wc -l; ls -A {target}"
    ended = run(
        cluster,
        pod("mounts", script, container=mount, volumes=[{"name": "v", "emptyDir": {}}]),
    )
    assert ended["status"]["phase"] == "Succeeded"
    count, name = log_of(cluster, "mounts").split()
    assert int(count) == len(list(Path("/usr/share").iterdir())) + 1
    assert name == b"f"
    assert not Path("/usr/share/kanister-py-test").exists()


def test_a_pod_only_sees_its_own_processes(cluster: Cluster) -> None:
    run(cluster, pod("alone", "for p in /proc/[0-9]*; do echo ${p#/proc/}; done"))
    assert log_of(cluster, "alone").split() == [b"1", b"2"]


def test_services_are_found_by_variables_and_names(cluster: Cluster) -> None:
    cluster.create(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "my-db", "namespace": NAMESPACE},
            "spec": {
                "clusterIP": "10.0.0.1",
                "ports": [{"name": "sql", "port": 5432, "targetPort": 15432}],
            },
        }
    )
    script = """
        echo $MY_DB_SERVICE_HOST $MY_DB_SERVICE_PORT $MY_DB_SERVICE_PORT_SQL
        echo $MY_DB_PORT_5432_TCP
        getent ahostsv4 my-db.default.svc.cluster.local | head -n 1 | cut -d ' ' -f 1
    """
    run(cluster, pod("client", script))
    assert log_of(cluster, "client").split() == [
        b"127.0.0.1",
        b"15432",
        b"15432",
        b"tcp://127.0.0.1:15432",
        b"127.0.0.1",
    ]


def test_a_script_finds_the_address_of_a_service_in_the_variables_of_its_port(
    cluster: Cluster,
) -> None:
    cluster.create(
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "db", "namespace": NAMESPACE},
            "spec": {"clusterIP": "10.0.0.1", "ports": [{"port": 5432, "targetPort": 15432}]},
        }
    )
    suffixes = ("PROTO", "ADDR", "PORT")
    run(
        cluster,
        pod("client", f"echo {' '.join(f'$DB_PORT_5432_TCP_{suffix}' for suffix in suffixes)}"),
    )
    assert log_of(cluster, "client").split() == [b"tcp", b"127.0.0.1", b"15432"]


def test_a_container_without_a_command_idles(
    cluster: Cluster,
) -> None:
    obj = pod("idle", "")
    obj["spec"]["containers"] = [{"name": "main", "image": "postgres:16", "args": ["-x"]}]
    start(cluster, obj)
    assert exec_in(cluster, "idle", "echo", "hello")[:2] == (0, b"hello\n")


def test_a_missing_command_fails_the_pod_with_a_message(cluster: Cluster) -> None:
    ended = run(cluster, pod("typo", "", container={"command": ["no-such-program"]}))
    state = terminated(ended)
    assert (state["exitCode"], state["reason"]) == (127, "StartError")
    assert 'exec: "no-such-program": executable file not found in $PATH' in state["message"]
    assert log_of(cluster, "typo") == b"no-such-program: not found on this machine\n"


def test_a_pod_that_cannot_start_fails_and_leaks_nothing(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(cluster, pod("before", "sleep 1000"))
    before = len([*Path("/proc/self/fd").iterdir()])
    with monkeypatch.context() as patched:
        patched.setattr(tempfile, "tempdir", "/no-such-folder")
        ended = run(cluster, pod("late", "true"))
    assert ended["status"]["reason"] == "NodeError"
    assert len([*Path("/proc/self/fd").iterdir()]) <= before


class _BrokenSources(ClusterSources):
    """Sources that raise an unexpected error."""

    def services(self) -> Sequence[KubeObject]:
        raise TypeError("'int' object is not iterable")


def test_a_pod_fails_after_an_unexpected_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    memory = MemoryCluster(clock=SystemClock())
    node = ProcessNode(runner_in(tmp_path), SystemClock())
    memory.attach_pods(node)
    node.start(memory, _BrokenSources(memory))
    try:
        ended = run(memory, pod("met", "true"))
    finally:
        node.close()
    assert ended["status"]["phase"] == "Failed"
    assert "TypeError: 'int' object is not iterable" in ended["status"]["message"]
    # The traceback is logged, but not printed on the terminal.
    assert "services" in caplog.text
    assert "Traceback" not in capsys.readouterr().err


def test_a_missing_exec_command_fails_like_in_a_shell(cluster: Cluster) -> None:
    start(cluster, pod("target", "exec sleep 1000"))
    code, out, error = exec_in(cluster, "target", "no-such-program")
    assert (code, out) == (127, b"")
    assert b"executable file not found in $PATH" in error
    code, _, error = exec_in(cluster, "target", "/etc/passwd")
    assert code == 126
    assert b"ermission denied" in error


def test_host_path_volumes_are_refused(cluster: Cluster) -> None:
    mount = {"volumeMounts": [{"name": "h", "mountPath": "/host"}]}
    volumes = [{"name": "h", "hostPath": {"path": "/etc"}}]
    ended = run(cluster, pod("host", "ls /host", container=mount, volumes=volumes))
    assert ended["status"]["reason"] == "VolumeNotSupported"
    assert "hostPath" in ended["status"]["message"]


@pytest.mark.parametrize(
    "sub_path",
    [pytest.param("../../..", id="dots"), pytest.param("link", id="a link that leads out")],
)
def test_a_sub_path_cannot_leave_its_volume(
    isolated: ProcessPodRunner, cluster: Cluster, sub_path: str
) -> None:
    created = cluster.create(claim("data"))
    (isolated.claim_path(created) / "link").symlink_to("/etc")
    mount = {"volumeMounts": [{"name": "d", "mountPath": "/d", "subPath": sub_path}]}
    volumes = [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]
    cluster.create(pod("escape", "ls /d", container=mount, volumes=volumes))

    def is_refused(obj: dict[str, Any]) -> bool:
        statuses = (obj.get("status") or {}).get("containerStatuses") or [{"state": {}}]
        waiting = statuses[0]["state"].get("waiting") or {}
        return "leads out of its volume" in waiting.get("message", "")

    wait_for(cluster, PODS, "escape", is_refused)


# Without namespaces


def test_without_namespaces_a_pod_with_mounts_fails_with_a_reason(
    cluster_without_namespaces: Cluster,
) -> None:
    mount = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    ended = run(
        cluster_without_namespaces,
        pod("mounts", "true", container=mount, volumes=[{"name": "v", "emptyDir": {}}]),
    )
    assert ended["status"]["phase"] == "Failed"
    assert ended["status"]["reason"] == "MountsUnavailable"
    assert "Volumes cannot be mounted" in ended["status"]["message"]


def test_without_namespaces_a_pod_without_mounts_runs(cluster_without_namespaces: Cluster) -> None:
    cluster = cluster_without_namespaces
    start(cluster, pod("plain", "kando output k v; echo up; exec sleep 1000"))
    wait_for_line(cluster, "plain", b"up")
    assert b'{"key":"k","value":"v"}' in log_of(cluster, "plain")
    assert exec_in(cluster, "plain", "sh", "-c", "cat; exit 5", stdin=b"in")[:2] == (5, b"in")
    ended = end_pod(cluster, "plain", grace_period_seconds=DEADLINE_SECONDS)
    assert terminated(ended)["exitCode"] == 143


# Cleanup


def processes_with(marker: str) -> list[int]:
    """Return all processes, in any namespace, that have the marker as an argument."""
    readings = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if marker.encode() in (entry / "cmdline").read_bytes().split(b"\0"):
                    readings.append(int(entry.name))
    return readings


def wait_processes(marker: str, count: int) -> list[int]:
    """Wait until `count` processes have the marker, because shells start others with it."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while len(pids := processes_with(marker)) < count:
        assert time.monotonic() < deadline, f"only {len(pids)} of {count} processes were seen"
        time.sleep(0.01)
    return pids


def mounts_with(text: str) -> list[str]:
    """Return all mounts of this machine, in any namespace, whose source is in a folder."""
    readings = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                lines = (entry / "mountinfo").read_text().splitlines()
                readings += [line for line in lines if text in line]
    return readings


def wait_ended(pids: list[int], pidfds: list[int]) -> None:
    for pid, pidfd in zip(pids, pidfds, strict=True):
        ended = select.select([pidfd], [], [], DEADLINE_SECONDS)[0]
        assert ended, f"process {pid} is still there"
        os.close(pidfd)


# A process that resists: a daemon that ignores signals, in its own session.
STUBBORN = """
    trap '' TERM HUP INT
    (setsid sh -c 'trap "" TERM; sleep {marker}' &)
    sleep {marker} &
    kando output up 1
    while :; do sleep {marker}; done
"""


def test_background_processes_end_with_their_container(cluster: Cluster) -> None:
    marker = f"31{os.getpid()}"
    script = f"(setsid sleep {marker} &) ; echo up; read x < /tmp/go"
    start(cluster, pod("parent", f"mkfifo /tmp/go; {script}"))
    wait_for_line(cluster, "parent", b"up")
    pids = wait_processes(marker, 1)
    pidfds = [os.pidfd_open(pid) for pid in pids]
    exec_in(cluster, "parent", "sh", "-c", "echo > /tmp/go")
    wait_for(cluster, PODS, "parent", in_phase("Succeeded"))
    wait_ended(pids, pidfds)


def test_closing_ends_all_processes_and_removes_all_folders_except_data(tmp_path: Path) -> None:
    marker = f"32{os.getpid()}"
    runner = runner_in(tmp_path)
    with running(runner) as cluster:
        start(cluster, pod("stubborn", STUBBORN.format(marker=marker)))
        wait_for_line(cluster, "stubborn", b"up")
        pids = wait_processes(marker, 2)
        pidfds = [os.pidfd_open(pid) for pid in pids]
    wait_ended(pids, pidfds)
    wait_no_mounts(str(tmp_path))
    assert list((tmp_path / "runs").iterdir()) == []


KILLED_RUN = """
import sys
from pathlib import Path
sys.path.insert(0, {root!r})
from tests.embedded.test_pods import STUBBORN, runner_in, running
from tests.contracts.pods import pod, start, wait_for_line
mount = {{"volumeMounts": [{{"name": "v", "mountPath": "/v"}}]}} if {mounts} else {{}}
with running(runner_in(Path({state!r}), namespaces={namespaces!r})) as cluster:
    script = STUBBORN.format(marker={marker!r})
    volumes = [{{"name": "v", "emptyDir": {{}}}}]
    start(cluster, pod("stubborn", script, container=mount, volumes=volumes))
    wait_for_line(cluster, "stubborn", b"up")
    cluster.exec("stubborn", ["sleep", {marker!r}], namespace="default")
    print("up", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize(
    "namespaces",
    [
        pytest.param("any", id="in the best namespaces there are"),
        pytest.param("user", id="in namespaces of an ordinary user"),
    ],
)
@pytest.mark.parametrize(
    "victim",
    [
        pytest.param("run", id="our own process is killed"),
        pytest.param("spawner", id="the spawner is killed"),
    ],
)
def test_a_killed_run_leaves_no_process_and_no_mount(
    isolated: ProcessPodRunner, tmp_path: Path, namespaces: str, victim: str
) -> None:
    state = tmp_path / "killed"
    marker = f"33{os.getpid()}"
    code = KILLED_RUN.format(
        root=str(ROOT), state=str(state), marker=marker, namespaces=namespaces, mounts=True
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        assert process.stdout.readline() == b"up\n"
        # The resisting processes, and the exec command.
        pids = wait_processes(marker, 3)
        assert mounts_with(str(state)), "the pod has mounts while it runs"
        pidfds = [os.pidfd_open(pid) for pid in pids]
        if victim == "run":
            process.kill()
        else:
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            assert len(children) == 1
            os.kill(int(children[0]), signal.SIGKILL)
        wait_ended(pids, pidfds)
        wait_no_processes(marker)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stdin.close()
    wait_no_mounts(str(state))
    if victim == "spawner":
        # The next run removes the folders of the killed one.
        assert list((state / "runs").iterdir()) != []
        runner_in(state).close()
    wait_empty(state / "runs")


def test_a_killed_run_leaves_nothing_in_the_temporary_folder(tmp_path: Path) -> None:
    blueprint = tmp_path / "stays.yaml"
    blueprint.write_text(STAYS)
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    words = ["run", str(blueprint), "stay", "--pods=processes", "--object", "Namespace/default"]
    process = subprocess.Popen(
        [sys.executable, "-m", "kanister_py", *words],
        stderr=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": str(ROOT)},
    )
    assert process.stderr is not None
    try:
        while not list(temporary.glob("*/pods/*/volumes")):
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.05)
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
    wait_empty(temporary)


STAYS = """
kind: Blueprint
metadata: {name: stays}
actions:
  stay:
    phases:
      - func: KubeTask
        name: stay
        args:
          namespace: default
          image: x
          podOverride: {volumes: [{name: v, emptyDir: {}}]}
          command: [sh, -c, "while :; do date > /tmp/now; done"]
"""


def wait_empty(folder: Path) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while left := list(folder.iterdir()):
        assert time.monotonic() < deadline, f"still there: {left}"
        time.sleep(0.05)


def wait_no_mounts(text: str) -> None:
    """Wait until no mounts are left: they end when the last process is reaped."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while mounts := mounts_with(text):
        assert time.monotonic() < deadline, f"still mounted: {mounts}"
        time.sleep(0.05)


def wait_no_processes(marker: str) -> None:
    """Wait until no process is left, including those that were about to start."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while pids := processes_with(marker):
        assert time.monotonic() < deadline, f"still there: {pids}"
        time.sleep(0.05)


def test_two_runs_on_one_state_folder_leave_each_other_alone(tmp_path: Path) -> None:
    with running(runner_in(tmp_path)) as first:
        start(first, pod("mine", "exec sleep 1000"))
        with running(runner_in(tmp_path)) as second:
            run(second, pod("other", "true"))
        assert exec_in(first, "mine", "echo", "here")[:2] == (0, b"here\n")


def test_a_read_only_state_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ProcessesUnavailable, match="file"):
        runner_in(tmp_path / "file")


# Commands and logs


def test_closing_a_session_in_another_thread_kills_its_processes(cluster: Cluster) -> None:
    marker = f"34{os.getpid()}"
    start(cluster, pod("target", "exec sleep 1000"))
    script = f"sleep {marker} & echo up; sleep {marker}"
    session = cluster.exec("target", ["sh", "-c", script], namespace=NAMESPACE)
    up, read = threading.Event(), []

    def follow() -> None:
        for chunk in session:
            read.append(chunk.data)
            up.set()

    reader = threading.Thread(target=follow)
    reader.start()
    assert up.wait(DEADLINE_SECONDS)
    pids = wait_processes(marker, 2)
    pidfds = [os.pidfd_open(pid) for pid in pids]
    session.close()
    reader.join(DEADLINE_SECONDS)
    assert not reader.is_alive()
    assert read == [b"up\n"]
    assert session.exit_code is None
    wait_ended(pids, pidfds)


def test_a_command_ends_when_its_container_does(cluster: Cluster) -> None:
    start(cluster, pod("target", "mkfifo /tmp/go; echo up; read x < /tmp/go"))
    wait_for_line(cluster, "target", b"up")
    with cluster.exec(
        "target", ["sh", "-c", "echo x > /tmp/go; exec sleep 1000"], namespace=NAMESPACE
    ) as session:
        assert b"".join(chunk.data for chunk in session) == b""
        assert session.exit_code == 137


def test_background_processes_do_not_keep_a_session_open(cluster: Cluster) -> None:
    start(cluster, pod("target", "exec sleep 1000"))
    assert exec_in(cluster, "target", "sh", "-c", "sleep 1000 & echo done") == (0, b"done\n", b"")


def test_a_megabyte_passes_through_a_command(cluster: Cluster) -> None:
    start(cluster, pod("target", "exec sleep 1000"))
    data = os.urandom(60_000)
    code, out, _ = exec_in(
        cluster,
        "target",
        "sh",
        "-c",
        "cat > /tmp/f; for i in $(seq 20); do cat /tmp/f; done",
        stdin=data,
    )
    assert (code, out) == (0, data * 20)


def test_a_log_of_100_mb_in_one_line_is_read_in_constant_memory(cluster: Cluster) -> None:
    cluster.create(pod("huge", "head -c 100000000 /dev/zero | tr '\\0' x; echo; echo end"))
    wait_for(cluster, PODS, "huge", in_phase("Running", "Succeeded"))
    tracemalloc.start()
    try:
        size, last = 0, b""
        options = LogOptions(follow=True)
        with cluster.read_log("huge", namespace=NAMESPACE, options=options) as stream:
            for piece in stream:
                size += len(piece)
                last = (last + piece)[-5:]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (size, last) == (100_000_005, b"\nend\n")
    assert peak < 8_000_000
    assert log_of(cluster, "huge", tail_lines=1) == b"end\n"


def test_an_open_log_outlives_its_pod(cluster: Cluster) -> None:
    run(cluster, pod("short", "echo kept"))
    with cluster.read_log("short", namespace=NAMESPACE, options=LogOptions()) as stream:
        cluster.delete(PODS, "short", namespace=NAMESPACE)
        wait_gone(cluster, PODS, "short")
        assert b"".join(stream) == b"kept\n"


# Node


def test_the_cluster_has_a_ready_node(cluster: Cluster) -> None:
    (node,) = cluster.list(NODES)
    assert node["status"]["conditions"][0]["type"] == "Ready"
    ended = run(cluster, pod("placed", "true"))
    assert ended["spec"]["nodeName"] == node["metadata"]["name"]


def test_pods_of_other_nodes_are_ignored(cluster: Cluster) -> None:
    cluster.create(pod("elsewhere", "true", nodeName="other"))
    run(cluster, pod("here", "true"))
    assert cluster.get(PODS, "elsewhere", namespace=NAMESPACE)["status"]["phase"] == "Pending"
    with pytest.raises(BadRequest):
        log_of(cluster, "elsewhere")


def test_a_pod_of_a_killed_runner_fails_and_is_not_run_again(
    tmp_path: Path,
) -> None:
    cluster = MemoryCluster(clock=SystemClock())
    with running(runner_in(tmp_path), cluster):
        start(cluster, pod("once", "exec sleep 1000"))
        start(cluster, pod("service", "exec sleep 1000", restartPolicy="Always"))
    with running(runner_in(tmp_path), cluster):
        lost = wait_for(cluster, PODS, "once", in_phase("Failed"))
        assert lost["status"]["reason"] == "NodeLost"
        assert terminated(lost)["exitCode"] == 137
        assert not (lost["status"]["containerStatuses"][0]["ready"])
        # Pods that may restart are run again.
        start(cluster, pod("new", "exec sleep 1000"))
        wait_for(cluster, PODS, "service", in_phase("Running"))
        assert exec_in(cluster, "service", "true")[0] == 0


def test_a_name_can_be_used_again_at_once(cluster: Cluster) -> None:
    for number in range(3):
        run(cluster, pod("again", f"echo {number}"))
        assert log_of(cluster, "again") == f"{number}\n".encode()
        cluster.delete(PODS, "again", namespace=NAMESPACE, grace_period_seconds=0)
        wait_gone(cluster, PODS, "again")


def test_an_ordinary_user_can_run_pods_with_mounts(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Root's namespaces do not show whether user namespaces work."""
    if os.geteuid() != 0:
        pytest.skip("this is an ordinary user already: the other tests show it")
    python = next(
        (one for one in (sys.executable, "/usr/bin/python3") if _has_no_processes(one)), None
    )
    if python is None:
        pytest.skip("no Python 3.11 that an ordinary user may run")
    folder = Path(f"/tmp/kanister-py-test-{os.getpid()}")
    folder.mkdir()
    try:
        shutil.copytree(ROOT / "kanister_py", folder / "kanister_py")
        os.chown(folder, 65534, 65534)
        done = subprocess.run(
            [python, "-I", "-c", ORDINARY_USER, str(folder)],
            user=65534,
            group=65534,
            extra_groups=[],
            cwd="/",
            env={},
            check=False,
            capture_output=True,
            text=True,
            timeout=4 * DEADLINE_SECONDS,
        )
    finally:
        shutil.rmtree(folder)
    assert (done.stdout, done.returncode) == ("user\nmounted 65534\n0\n", 0), done.stderr


ORDINARY_USER = """
import os, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from kanister_py.embedded.pods.launcher import Launch, Launcher, Mount
folder = Path(sys.argv[1])
for name in ("root", "tmp", "data"):
    (folder / name).mkdir()
(folder / "data" / "f").write_text("mounted")
launcher = Launcher(folder)
print(launcher.namespaces or launcher.why, flush=True)
null = os.open("/dev/null", os.O_RDWR)
mounts = [Mount(str(folder / "data"), "/var/lib/some/where")]
process = launcher.start(
    Launch(["sh", "-c", "echo $(cat /var/lib/some/where/f) $(id -u)"], {"PATH": "/usr/bin:/bin"},
           root=str(folder / "root"), tmp=str(folder / "tmp"), mounts=mounts),
    stdin=null, stdout=1, stderr=2,
)
process.wait_started()
print(process.wait_exited().code, flush=True)
launcher.close()
"""


def _has_no_processes(python: str) -> bool:
    test = "import sys; sys.exit(sys.version_info < (3, 11))"
    with contextlib.suppress(OSError):
        done = subprocess.run(
            [python, "-I", "-c", test],
            user=65534,
            group=65534,
            extra_groups=[],
            cwd="/",
            check=False,
            capture_output=True,
        )
        return done.returncode == 0
    return False

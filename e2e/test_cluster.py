"""The test cluster itself: permissions, shutdown and restarts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.cluster.client import ApiClient, ApiFailed, ApiUnreachable
from e2e.cluster.local import LocalCluster
from e2e.cluster.programs import BuildFailed, Programs, find_programs
from e2e.conftest import Kubectl

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "e2e" / "cluster" / "run"


def processes_under(folder: Path) -> set[int]:
    """Return the processes with a folder in their command line."""
    processes = set()
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                words = (path / "cmdline").read_bytes()
            except OSError:
                continue
            if str(folder).encode() in words:
                processes.add(int(path.name))
    return processes


def wait_until_gone(folder: Path) -> set[int]:
    deadline = time.monotonic() + 60
    while (left := processes_under(folder)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def started_script(folder: Path) -> subprocess.Popen[str]:
    """Start a cluster by its script, and return when it is ready."""
    script = subprocess.Popen(
        [sys.executable, SCRIPT, "--folder", folder],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert script.stdout is not None
    assert script.stdout.readline() == f"KUBECONFIG={folder}/admin.kubeconfig\n"
    return script


def test_user_has_exactly_the_rights_granted_by_rbac(
    api_server: LocalCluster, kubectl: Kubectl, namespace: str
) -> None:
    theirs = Kubectl(api_server.programs.kubectl, api_server.kubeconfig_for("someone"))
    refused = theirs("-n", namespace, "get", "configmaps")
    assert refused.returncode == 1
    assert b'User "someone" cannot list resource "configmaps"' in refused.stderr
    granted = ("create", "rolebinding", "reads", "--clusterrole=view", "--user=someone")
    assert kubectl("-n", namespace, *granted).returncode == 0
    assert theirs("-n", namespace, "get", "configmaps").returncode == 0
    assert theirs("-n", namespace, "get", "secrets").returncode == 1


@pytest.mark.usefixtures("programs")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_processes_of_a_script_end_with_it(tmp_path: Path, number: int) -> None:
    folder = tmp_path / "cluster"
    with started_script(folder) as script:
        assert len(processes_under(folder)) > 3
        script.send_signal(number)
        script.wait(timeout=120)
    assert wait_until_gone(folder) == set()


@pytest.mark.usefixtures("programs")
def test_a_cluster_for_one_command_ends_with_it(tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    done = subprocess.run(
        [
            sys.executable,
            str(SCRIPT),
            "--no-node",
            "--folder",
            str(folder),
            "--",
            "sh",
            "-c",
            "kubectl get namespace default -o name; exit 5",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines()[1:] == ["namespace/default"]
    assert done.returncode == 5
    assert processes_under(folder) == set()


def test_given_cluster_is_used_unchanged(api_server: LocalCluster) -> None:
    done = subprocess.run(
        [
            sys.executable,
            str(SCRIPT),
            "--kubeconfig",
            str(api_server.kubeconfig),
            "--",
            str(api_server.programs.kubectl),
            "config",
            "current-context",
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "admin\n")
    assert api_server.client.is_ready()


def test_two_clusters_run_side_by_side(
    admin: ApiClient, namespace: str, new_api_server: Callable[..., LocalCluster]
) -> None:
    other = new_api_server()
    with pytest.raises(ApiFailed, match="404"):
        other.client.get(f"/api/v1/namespaces/{namespace}")
    assert admin.get(f"/api/v1/namespaces/{namespace}")["status"]["phase"] == "Active"


def test_restarted_api_server_keeps_its_data(
    new_api_server: Callable[..., LocalCluster],
) -> None:
    cluster = new_api_server()
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kept"}}
    cluster.client.post("/api/v1/namespaces", manifest)
    cluster.stop_api_server(kill=True)
    with pytest.raises(ApiUnreachable):
        cluster.client.get("/api/v1/namespaces/kept")
    cluster.start_api_server()
    assert cluster.client.get("/api/v1/namespaces/kept")["metadata"]["name"] == "kept"
    cluster.freeze_api_server()
    cluster.thaw_api_server()
    cluster.restart_api_server()
    assert cluster.client.get("/api/v1/namespaces/kept")["metadata"]["name"] == "kept"


def test_watch_from_before_a_compaction_ends_with_gone(
    new_api_server: Callable[..., LocalCluster],
) -> None:
    cluster = new_api_server()
    version = cluster.client.get("/api/v1/configmaps")["metadata"]["resourceVersion"]
    for name in ("one", "two"):
        manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
        cluster.client.post("/api/v1/namespaces/default/configmaps", manifest)
    cluster.compact_etcd()
    # The cache of the API server ends with its process.
    cluster.restart_api_server(kill=True)
    event = next(cluster.client.watch("/api/v1/configmaps", resourceVersion=version))
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)


def test_programs_in_kubebuilder_assets_are_used(
    programs: Programs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in (programs.etcd, programs.kube_apiserver, programs.kubectl):
        (tmp_path / path.name).symlink_to(path)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    programs_again = find_programs()
    assert programs_again.kube_apiserver == tmp_path / "kube-apiserver"
    assert programs_again.version == programs.version
    # Such a folder lacks the workload controllers.
    assert programs_again.kube_controller_manager == programs.kube_controller_manager


def test_invalid_version_is_refused() -> None:
    with pytest.raises(BuildFailed, match="no version"):
        find_programs("newest")


def test_helm_is_available(helm: Path) -> None:
    done = subprocess.run([helm, "version", "--short"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("v3.")
    assert os.access(helm, os.X_OK)

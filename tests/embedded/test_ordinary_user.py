"""Unprivileged users on a machine without user namespaces."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]

# Runs a program as an unprivileged user, in a user namespace that does not allow further ones.
_BECOME = """
import ctypes, os, sys
from pathlib import Path
uid, gid = os.getuid(), os.getgid()
if ctypes.CDLL(None, use_errno=True).unshare(0x10000000):
    sys.exit(77)
Path("/proc/self/setgroups").write_text("deny")
Path("/proc/self/uid_map").write_text(f"12345 {uid} 1")
Path("/proc/self/gid_map").write_text(f"12345 {gid} 1")
Path("/proc/sys/user/max_user_namespaces").write_text("0")
os.execv(sys.argv[1], sys.argv[1:])
"""


def as_ordinary_user(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-c", _BECOME, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 77:
        pytest.skip("this machine has no user namespaces: nobody became another user")
    return done


def kanister(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return as_ordinary_user(sys.executable, "-m", "kanister_py", *words, folder=folder)


def test_the_user_of_these_tests_is_unprivileged(tmp_path: Path) -> None:
    done = as_ordinary_user("/bin/sh", "-c", "id -u; unshare --user true", folder=tmp_path)
    assert done.stdout == "12345\n"
    assert done.returncode != 0
    status = as_ordinary_user("/bin/cat", "/proc/self/status", folder=tmp_path).stdout
    assert "CapEff:\t0000000000000000" in status


def test_the_first_run_of_the_readme_succeeds(tmp_path: Path) -> None:
    hello = str(REPOSITORY / "blueprints/hello/blueprint.yaml")
    done = kanister("run", hello, "hello", "--pods", "processes", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "sayHello" in done.stderr
    assert not [*tmp_path.iterdir()]


def test_a_pod_with_volumes_fails_with_a_hint(tmp_path: Path) -> None:
    blueprint = tmp_path / "blueprint.yaml"
    blueprint.write_text(
        """
apiVersion: cr.kanister.io/v1alpha1
kind: Blueprint
metadata: {name: mounts}
actions:
  act:
    phases:
    - func: KubeTask
      name: task
      args:
        namespace: default
        image: busybox
        command: ["true"]
        podOverride:
          containers:
          - {name: container, volumeMounts: [{name: v, mountPath: /v}]}
          volumes: [{name: v, emptyDir: {}}]
"""
    )
    done = kanister("run", str(blueprint), "act", "--pods", "processes", folder=tmp_path)
    assert done.returncode == 1
    assert "Volumes cannot be mounted" in done.stderr

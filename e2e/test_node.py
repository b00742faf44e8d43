"""A node of ours behind a real API server, asked with a client that knows nothing of us."""

from __future__ import annotations

import json
from typing import Any

import pytest

from e2e.conftest import Kubectl

pytestmark = pytest.mark.usefixtures("node")


def pod(name: str, script: str, **spec: Any) -> bytes:
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 2,
                "containers": [
                    {"name": "main", "image": "ignored", "command": ["sh", "-c", script]}
                ],
                **spec,
            },
        }
    ).encode()


def run_pod(kubectl: Kubectl, namespace: str, script: str, name: str = "worker") -> None:
    made = kubectl("-n", namespace, "create", "-f", "-", stdin=pod(name, script))
    assert made.returncode == 0, made.stderr
    waited = kubectl(
        *("-n", namespace, "wait", f"pod/{name}", "--timeout=30s"),
        "--for=jsonpath={.status.containerStatuses[0].containerID}",
    )
    assert waited.returncode == 0, waited.stderr


def test_a_log_is_followed_to_the_end_of_the_container(kubectl: Kubectl, namespace: str) -> None:
    run_pod(kubectl, namespace, "for i in 1 2 3; do echo line $i; sleep 0.2; done")
    said = kubectl("-n", namespace, "logs", "-f", "worker")
    assert said.stdout == b"line 1\nline 2\nline 3\n"


def test_a_command_takes_stdin_to_its_end_and_answers(kubectl: Kubectl, namespace: str) -> None:
    run_pod(kubectl, namespace, "exec sleep 60")
    data = bytes(range(256)) * 4096
    said = kubectl("-n", namespace, "exec", "-i", "worker", "--", "cat", stdin=data)
    assert said.returncode == 0, said.stderr
    assert said.stdout == data

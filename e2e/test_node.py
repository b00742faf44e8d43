"""The test node behind a real API server, through an independent client."""

from __future__ import annotations

import json
import re
import time
import urllib.request
from collections.abc import Callable
from typing import Any

import pytest
import websocket

from e2e.cluster.client import ApiClient
from e2e.cluster.local import LocalCluster
from e2e.cluster.network import pod_network
from e2e.conftest import Kubectl
from e2e.node.node import E2ENode

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
    created = kubectl("-n", namespace, "create", "-f", "-", stdin=pod(name, script))
    assert created.returncode == 0, created.stderr
    waited = kubectl(
        "-n",
        namespace,
        "wait",
        f"pod/{name}",
        "--timeout=120s",
        "--for=jsonpath={.status.containerStatuses[0].containerID}",
    )
    assert waited.returncode == 0, waited.stderr


def test_a_log_is_followed_to_the_end_of_the_container(kubectl: Kubectl, namespace: str) -> None:
    run_pod(kubectl, namespace, "for i in 1 2 3; do echo line $i; sleep 0.2; done")
    done = kubectl("-n", namespace, "logs", "-f", "worker")
    assert done.stdout == b"line 1\nline 2\nline 3\n"


def test_command_reads_stdin_to_its_end(kubectl: Kubectl, namespace: str) -> None:
    run_pod(kubectl, namespace, "exec sleep 60")
    data = bytes(range(256)) * 4096
    done = kubectl("-n", namespace, "exec", "-i", "worker", "--", "cat", stdin=data)
    assert done.returncode == 0, done.stderr
    assert done.stdout == data


def test_log_options_limit_the_lines(kubectl: Kubectl, namespace: str) -> None:
    run_pod(kubectl, namespace, "seq 1 1000; exec sleep 60")
    logs = ("-n", namespace, "logs", "worker")
    kubectl(*logs, "-f", "--limit-bytes=3893")
    assert kubectl(*logs, "--tail=2").stdout == b"999\n1000\n"
    assert kubectl(*logs, "--limit-bytes=5").stdout == b"1\n2\n3"
    assert kubectl(*logs, "--since-time=2999-01-01T00:00:00Z").stdout == b""
    assert kubectl(*logs, "--since=1h", "--tail=1").stdout == b"1000\n"
    stamped = kubectl(*logs, "--timestamps", "--tail=1").stdout.decode()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z 1000\n", stamped)


def test_log_stream_ends_when_its_client_disconnects(
    kubectl: Kubectl, namespace: str, node: E2ENode
) -> None:
    run_pod(kubectl, namespace, "echo first; sleep 60")
    followed = kubectl.start("-n", namespace, "logs", "-f", "worker")
    with followed:
        assert followed.stdout is not None
        assert followed.stdout.readline() == b"first\n"
        assert node.readers == 1
        followed.kill()
    deadline = time.monotonic() + 60
    while node.readers and time.monotonic() < deadline:
        time.sleep(0.02)
    assert node.readers == 0


def test_the_log_before_the_restart_is_the_previous_one(kubectl: Kubectl, namespace: str) -> None:
    script = (
        "test -f /state/was || { touch /state/was; echo before; exit 1; }; echo after; sleep 60"
    )
    spec = {
        "restartPolicy": "OnFailure",
        "volumes": [{"name": "state", "emptyDir": {}}],
        "containers": [
            {
                "name": "main",
                "image": "ignored",
                "command": ["sh", "-c", script],
                "volumeMounts": [{"name": "state", "mountPath": "/state"}],
            }
        ],
    }
    kubectl("-n", namespace, "create", "-f", "-", stdin=pod("worker", "", **spec))
    waited = kubectl(
        "-n",
        namespace,
        "wait",
        "pod/worker",
        "--timeout=120s",
        "--for=jsonpath={.status.containerStatuses[0].restartCount}=1",
    )
    assert waited.returncode == 0, waited.stderr
    assert kubectl("-n", namespace, "logs", "worker", "--previous").stdout == b"before\n"
    assert kubectl("-n", namespace, "logs", "worker", "--tail=1").stdout == b"after\n"


@pytest.mark.parametrize("code", [0, 1, 42, 137])
def test_a_command_ends_with_its_exit_code(kubectl: Kubectl, namespace: str, code: int) -> None:
    run_pod(kubectl, namespace, "exec sleep 60")
    script = f"echo out; echo err >&2; exit {code}"
    done = kubectl("-n", namespace, "exec", "worker", "--", "sh", "-c", script)
    assert done.returncode == code
    assert done.stdout == b"out\n"
    assert done.stderr.startswith(b"err\n")


@pytest.mark.parametrize("protocol", ["v5.channel.k8s.io", "v4.channel.k8s.io"])
def test_a_client_chooses_the_version_of_the_channels(
    kubectl: Kubectl, namespace: str, api_server: LocalCluster, protocol: str
) -> None:
    run_pod(kubectl, namespace, "exec sleep 60")
    command = "command=sh&command=-c&command=head+-n1%3B+exit+4"
    url = f"{api_server.url}/api/v1/namespaces/{namespace}/pods/worker/exec"
    session = websocket.create_connection(
        f"wss{url.removeprefix('https')}?{command}&stdin=1&stdout=1&stderr=1",
        subprotocols=[protocol],
        header=[f"Authorization: Bearer {api_server.admin_token}"],
        sslopt={"ca_certs": str(api_server.ca.certificate)},
        timeout=120,
    )
    assert session.getsubprotocol() == protocol
    session.send_binary(b"\0one\ntwo\n")
    channels: dict[int, bytes] = {}
    while message := session.recv():
        assert isinstance(message, bytes)
        channels[message[0]] = channels.get(message[0], b"") + message[1:]
    session.close()
    session.shutdown()  # type: ignore[no-untyped-call] # the library says no types
    outcome = json.loads(channels.pop(3))
    assert outcome["details"]["causes"] == [{"reason": "ExitCode", "message": "4"}]
    assert channels == {1: b"one\n"}


def test_missing_program_is_reported(kubectl: Kubectl, namespace: str) -> None:
    run_pod(kubectl, namespace, "exec sleep 60")
    done = kubectl("-n", namespace, "exec", "worker", "--", "no-such-program")
    assert done.returncode == 127
    assert b"no-such-program" in done.stderr


def test_a_command_in_a_pod_that_has_ended_is_refused(kubectl: Kubectl, namespace: str) -> None:
    run_pod(kubectl, namespace, "exit 0")
    wait_for_phase(kubectl, namespace, "Succeeded")
    done = kubectl("-n", namespace, "exec", "worker", "--", "true")
    assert done.returncode == 1
    assert b"completed pod" in done.stderr


def test_command_outlives_its_client(kubectl: Kubectl, namespace: str) -> None:
    """As on any node, a command that was started in a container cannot be recalled."""
    run_pod(kubectl, namespace, "exec sleep 60")
    script = "echo started; cat; sleep 0.3; touch /tmp/finished; exec sleep 5"
    session = kubectl.start("-n", namespace, "exec", "-i", "worker", "--", "sh", "-c", script)
    with session:
        assert session.stdout is not None
        assert session.stdout.readline() == b"started\n"
        session.kill()
    wait = "while ! test -f /tmp/finished; do sleep 0.05; done"
    done = kubectl("-n", namespace, "exec", "worker", "--", "sh", "-c", wait, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("script", "phase", "code"),
    [
        pytest.param("exit 0", "Succeeded", 0, id="a success"),
        pytest.param("exit 3", "Failed", 3, id="a failure"),
    ],
)
def test_pod_reports_its_exit_status(
    kubectl: Kubectl, namespace: str, admin: ApiClient, script: str, phase: str, code: int
) -> None:
    run_pod(kubectl, namespace, script)
    wait_for_phase(kubectl, namespace, phase)
    status = admin.get(f"/api/v1/namespaces/{namespace}/pods/worker")["status"]
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == code


def test_deleted_pod_has_its_grace_period(
    kubectl: Kubectl, namespace: str, admin: ApiClient
) -> None:
    run_pod(
        kubectl, namespace, "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.1; done"
    )
    followed = kubectl.start("-n", namespace, "logs", "-f", "worker")
    with followed:
        assert followed.stdout is not None
        assert followed.stdout.readline() == b"up\n"
        deleted = kubectl("-n", namespace, "delete", "pod", "worker", "--grace-period=30")
        assert deleted.returncode == 0
        assert followed.stdout.read() == b"bye\n"
    assert admin.get(f"/api/v1/namespaces/{namespace}/pods")["items"] == []


def test_pod_uses_its_service_account(kubectl: Kubectl, namespace: str, admin: ApiClient) -> None:
    folder = "/var/run/secrets/kubernetes.io/serviceaccount"
    script = (
        f"cat {folder}/namespace; echo; cat {folder}/ca.crt | head -1; "
        f"cat {folder}/token; echo; echo https://$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT"
    )
    run_pod(kubectl, namespace, script)
    wait_for_phase(kubectl, namespace, "Succeeded")
    at, authority, token, url = (
        kubectl("-n", namespace, "logs", "worker").stdout.decode().split("\n")[:4]
    )
    review = admin.post(
        "/apis/authentication.k8s.io/v1/tokenreviews",
        {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token},
        },
    )
    assert at == namespace
    assert authority == "-----BEGIN CERTIFICATE-----"
    assert url == admin.url
    assert review["status"]["user"]["username"] == f"system:serviceaccount:{namespace}:default"


def test_workloads_create_pods(kubectl: Kubectl, namespace: str, admin: ApiClient) -> None:
    created = kubectl("-n", namespace, "create", "deployment", "web", "--image=x", "--replicas=3")
    assert created.returncode == 0, created.stderr
    assert kubectl("-n", namespace, "rollout", "status", "deployment/web").returncode == 0
    kubectl("-n", namespace, "scale", "deployment/web", "--replicas=0")
    gone = kubectl(
        "-n", namespace, "wait", "--for=delete", "pod", "-l", "app=web", "--timeout=120s"
    )
    assert gone.returncode == 0, gone.stderr
    assert admin.get(f"/api/v1/namespaces/{namespace}/pods")["items"] == []


def test_a_job_is_complete_when_its_pod_is(kubectl: Kubectl, namespace: str) -> None:
    kubectl("-n", namespace, "create", "job", "once", "--image=x", "--", "true")
    done = kubectl(
        "-n", namespace, "wait", "--for=condition=Complete", "job/once", "--timeout=120s"
    )
    assert done.returncode == 0, done.stderr


def test_service_of_real_processes_is_reachable(
    kubectl: Kubectl, namespace: str, admin: ApiClient
) -> None:
    if pod_network() is None:
        pytest.skip("pods have addresses in a network of our own only: e2e/run makes one")
    script = (
        "exec python3 -c 'import http.server, os; http.server.test("
        'http.server.SimpleHTTPRequestHandler, port=8080, bind=os.environ["IP"])\''
    )
    dial = (
        "exec python3 -c 'import os, socket; socket.create_connection((os.environ[\"IP\"], 8080))'"
    )
    container = {
        "name": "main",
        "image": "ignored",
        "command": ["sh", "-c", script],
        "env": [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}],
        "readinessProbe": {"exec": {"command": ["sh", "-c", dial]}, "periodSeconds": 1},
    }
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [container]},
    }
    admin.post(
        f"/apis/apps/v1/namespaces/{namespace}/deployments",
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web"},
            "spec": {
                "replicas": 2,
                "selector": {"matchLabels": {"app": "web"}},
                "template": template,
            },
        },
    )
    admin.post(
        f"/api/v1/namespaces/{namespace}/services",
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "web"},
            "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]},
        },
    )
    rolled = kubectl("-n", namespace, "rollout", "status", "deployment/web", "--timeout=120s")
    assert rolled.returncode == 0, rolled.stderr
    addresses = set()
    for event in admin.watch(
        f"/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices", timeoutSeconds="20"
    ):
        ready = [e for e in event["object"]["endpoints"] or () if e["conditions"]["ready"]]
        addresses = {address for subset in ready for address in subset["addresses"]}
        if len(addresses) == 2:
            break
    assert len(addresses) == 2
    for address in addresses:
        with urllib.request.urlopen(f"http://{address}:8080/", timeout=60) as answer:
            assert answer.status == 200


def test_lost_node_is_detected(new_api_server: Callable[..., LocalCluster]) -> None:
    cluster = new_api_server()
    with E2ENode(cluster) as node:
        node.vanish()
        for event in cluster.client.watch("/api/v1/nodes", timeoutSeconds="60"):
            conditions = {
                one["type"]: one["status"] for one in event["object"]["status"]["conditions"]
            }
            if conditions["Ready"] == "Unknown":
                break
        assert conditions["Ready"] == "Unknown"


def wait_for_phase(kubectl: Kubectl, namespace: str, phase: str, name: str = "worker") -> None:
    waited = kubectl(
        "-n",
        namespace,
        "wait",
        f"pod/{name}",
        "--timeout=120s",
        f"--for=jsonpath={{.status.phase}}={phase}",
    )
    assert waited.returncode == 0, waited.stderr

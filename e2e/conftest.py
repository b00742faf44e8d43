"""Shared fixtures: a real API server, a node for its pods, and a proxy that injects faults."""

from __future__ import annotations

import contextlib
import os
import subprocess
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e.cluster.client import ApiClient, ApiFailed
from e2e.cluster.local import LocalCluster
from e2e.cluster.network import pod_network
from e2e.cluster.programs import GoMissing, Programs, find_helm, find_programs
from e2e.cluster.standing import own_folder
from e2e.faults.proxy import FaultProxy
from e2e.node.node import E2ENode
from tests.conftest import kanister, plugin_folder, pytest_configure, pytest_sessionfinish

VERSION_VARIABLE = "KANISTER_PY_E2E_VERSION"
LONG_VARIABLE = "KANISTER_PY_E2E_ALL"

# An OpenTelemetry collector takes long to build, so its path must be given: see README.md.
collect_ignore = [] if os.environ.get("KANISTER_PY_OTELCOL") else ["test_tracing.py"]
if not os.environ.get("KANISTER_PY_RECORDED"):
    collect_ignore.append("test_published.py")

# The command-line fixture, and the rule that skipped gates are failures.
__all__ = ["kanister", "plugin_folder", "pytest_configure", "pytest_sessionfinish"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Ignore warnings about sockets that the fault proxy resets during TLS handshakes.

    asyncio of Python 3.11 does not close these sockets.
    """
    for item in items:
        item.add_marker(pytest.mark.filterwarnings("ignore:unclosed transport:ResourceWarning"))


class Kubectl:
    """Runs kubectl, an independent client."""

    def __init__(self, program: Path, kubeconfig: Path) -> None:
        self.words = [str(program), f"--kubeconfig={kubeconfig}"]

    def __call__(
        self, *words: str, stdin: bytes = b"", timeout: float = 240
    ) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [*self.words, *words], input=stdin, capture_output=True, timeout=timeout, check=False
        )

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Start a command that keeps running; the caller stops it."""
        return subprocess.Popen(
            [*self.words, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )


@pytest.fixture(scope="session")
def programs() -> Programs:
    """Programs of the cluster, built once per version. Skips without Go."""
    try:
        return find_programs(os.environ.get(VERSION_VARIABLE, ""))
    except GoMissing as error:
        pytest.skip(f"NO END-TO-END TEST RUNS: {error}")


@pytest.fixture(scope="session")
def helm() -> Path:
    """Path of Helm."""
    try:
        return find_helm()
    except GoMissing as error:
        pytest.skip(f"NO CHART IS TESTED: {error}")


@pytest.fixture(scope="session")
def is_long() -> bool:
    """Whether the long test matrices run."""
    return bool(os.environ.get(LONG_VARIABLE))


@pytest.fixture(scope="session")
def api_server(programs: Programs) -> Iterator[LocalCluster]:
    """The shared cluster. Tests that stop or break an API server use `new_api_server` instead."""
    with own_folder() as folder, LocalCluster(programs, folder) as cluster:
        yield cluster


@pytest.fixture
def new_api_server(programs: Programs) -> Iterator[Callable[..., LocalCluster]]:
    """Start a cluster that one test may break."""
    with contextlib.ExitStack() as stack:

        def start(**words: object) -> LocalCluster:
            folder = stack.enter_context(own_folder())
            return stack.enter_context(LocalCluster(programs, folder, **words))  # type: ignore[arg-type] # handed on as they are

        yield start


@pytest.fixture(scope="session")
def kubeconfig(api_server: LocalCluster) -> Path:
    """Kubeconfig of an administrator."""
    return api_server.kubeconfig


@pytest.fixture(scope="session")
def admin(api_server: LocalCluster) -> ApiClient:
    """An independent client with all permissions."""
    return api_server.client


@pytest.fixture(scope="session")
def node(api_server: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[E2ENode]:
    """A node of the shared cluster that runs pods as processes. A folder replaces object stores."""
    stores = tmp_path_factory.mktemp("locations")
    with E2ENode(api_server, pod_network=pod_network(), locations=stores) as started:
        yield started


@pytest.fixture(scope="session")
def kubectl(api_server: LocalCluster) -> Kubectl:
    return Kubectl(api_server.programs.kubectl, api_server.kubeconfig)


@pytest.fixture
def namespace(admin: ApiClient) -> Iterator[str]:
    """A namespace for one test, ready for pods."""
    name = f"e2e-{uuid.uuid4().hex[:10]}"
    make_namespace(admin, name)
    yield name
    with contextlib.suppress(ApiFailed):
        admin.delete(f"/api/v1/namespaces/{name}")


def make_namespace(client: ApiClient, name: str) -> None:
    """Create a namespace, and wait until the controllers have added their objects."""
    client.post(
        "/api/v1/namespaces",
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}},
    )
    for what, account in (("serviceaccounts", "default"), ("configmaps", "kube-root-ca.crt")):
        events = client.watch(
            f"/api/v1/namespaces/{name}/{what}",
            fieldSelector=f"metadata.name={account}",
            timeoutSeconds="120",
        )
        assert next(events, None), f"{name} has no {what}/{account} after two minutes"
        events.close()  # type: ignore[attr-defined] # it is a generator


@pytest.fixture
def faults(api_server: LocalCluster) -> Iterator[FaultProxy]:
    """A proxy in front of the shared API server, for one test."""
    with FaultProxy(api_server) as proxy:
        yield proxy


@pytest.fixture
def through_faults(faults: FaultProxy, api_server: LocalCluster) -> Iterator[ApiClient]:
    """A client behind the fault proxy, without retries."""
    client = ApiClient(faults.url, api_server.ca.certificate, token=api_server.admin_token)
    yield client
    client.close()

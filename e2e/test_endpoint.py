"""Endpoint of a controller, with users of the cluster."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import urllib3

from e2e.cluster.client import ApiClient, ApiFailed
from e2e.controllers import Place, definitions, install_definitions, until
from tests.conftest import CommandLine
from tests.http_api.browser import ENTER, Browser, missing_parts, started_browser
from tests.ports import free_port

__all__ = ["definitions", "place"]

HTTP = urllib3.PoolManager(retries=False)


class Served(Place):
    """Controller whose endpoint listens on all addresses."""

    port = 0
    health_port = 0

    def serve(self, *flags: str) -> None:
        self.port = free_port()
        self.health_port = free_port()
        environment = {key: value for key, value in os.environ.items() if "KANISTER_PY" not in key}
        self._processes.append(
            subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "kanister_py",
                    "controller",
                    "--host",
                    "0.0.0.0",
                    "--port",
                    str(self.port),
                    "--health-port",
                    str(self.health_port),
                    "--kubeconfig",
                    str(self.kubeconfig),
                    "--namespace",
                    self.namespace,
                    "--home",
                    self.namespace,
                    "--identity",
                    "one-pod",
                    *flags,
                ],
                env=environment,
            )
        )
        if "--tls" not in flags:
            until(self._answers, 60)

    def _answers(self) -> bool:
        try:
            return bool(self.ask("/healthz").status == 200)
        except urllib3.exceptions.HTTPError:
            return False

    def secret(self, name: str) -> dict[str, str]:
        """Return the content of a Secret; empty if it does not exist."""
        path = f"/api/v1/namespaces/{self.namespace}/secrets/{name}"
        try:
            data = self.client.get(path)["data"]
        except ApiFailed:
            return {}
        return {key: b64decode(text).decode() for key, text in data.items()}

    def ask(self, path: str, token: str = "") -> Any:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return HTTP.request("GET", f"http://127.0.0.1:{self.port}{path}", headers=headers)

    def make_account(self, name: str, *rules: dict[str, Any]) -> str:
        """Create a ServiceAccount with permissions, and return its token."""
        where = f"/api/v1/namespaces/{self.namespace}/serviceaccounts"
        self.client.post(
            where, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}
        )
        full = f"{self.namespace}-{name}"
        group = "/apis/rbac.authorization.k8s.io/v1"
        role = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": {"name": full}}
        self.client.post(
            f"{group}/clusterroles", {**role, "kind": "ClusterRole", "rules": list(rules)}
        )
        subject = {"kind": "ServiceAccount", "name": name, "namespace": self.namespace}
        reference = {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": full,
        }
        self.client.post(
            f"{group}/clusterrolebindings",
            {**role, "kind": "ClusterRoleBinding", "subjects": [subject], "roleRef": reference},
        )
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        token: str = self.client.post(f"{where}/{name}/token", request)["status"]["token"]
        return token


@pytest.fixture
def place(admin: ApiClient, kubeconfig: Path, namespace: str, tmp_path: Path) -> Iterator[Served]:
    install_definitions(admin)
    served = Served(admin, kubeconfig, namespace, tmp_path)
    yield served
    served.close()
    for kind in ("clusterroles", "clusterrolebindings"):
        for name in ("reader", "nobody", "owner"):
            path = f"/apis/rbac.authorization.k8s.io/v1/{kind}/{namespace}-{name}"
            try:
                admin.delete(path)
            except ApiFailed:
                continue


@pytest.mark.usefixtures("node")
def test_users_see_what_their_permissions_allow(
    place: Served, kanister: CommandLine, tmp_path: Path
) -> None:
    place.blueprint("echoes", echo("hello"))
    place.serve()
    place.actionset("first", "echoes")
    place.until_ended("first")
    reader = place.make_account(
        "reader", {"nonResourceURLs": ["/v1/functions", "/v1/functions/*"], "verbs": ["get"]}
    )
    owner = place.make_account(
        "owner", {"apiGroups": ["cr.kanister.io"], "resources": ["actionsets"], "verbs": ["get"]}
    )
    nobody = place.make_account("nobody")
    lines = f"/v1/namespaces/{place.namespace}/actionsets/first/lines"
    got = {
        (path, who): place.ask(path, token).status
        for path in ("/v1/functions", lines)
        for who, token in (
            ("stranger", "no-token"),
            ("reader", reader),
            ("owner", owner),
            ("nobody", nobody),
        )
    }
    assert got == {
        ("/v1/functions", "stranger"): 401,
        ("/v1/functions", "reader"): 200,
        ("/v1/functions", "owner"): 403,
        ("/v1/functions", "nobody"): 403,
        (lines, "stranger"): 401,
        (lines, "reader"): 403,
        (lines, "owner"): 200,
        (lines, "nobody"): 403,
    }
    assert place.ask("/v1/functions").status == 401
    token = tmp_path / "token"
    token.write_text(owner)
    done = kanister(
        "actionset",
        "logs",
        "first",
        "-n",
        place.namespace,
        "--kubeconfig",
        str(place.kubeconfig),
        "--token-file",
        str(token),
        "--server",
        f"http://127.0.0.1:{place.port}",
    )
    assert (done.code, done.err) == (0, "")
    assert done.out == "act/say | hello\n"

    def counted() -> Any:
        answer = place.ask("/v1/functions/KubeTask", reader).json()
        return {version["version"]: version.get("inUseBy") for version in answer["versions"]}[
            "v0.0.0"
        ]

    use = until(counted, 60)
    assert (use["blueprints"], use["actionSets"]) == (1, 0)
    assert use["lastRun"]


def test_the_endpoint_and_health_use_tls_and_renew_their_certificate(
    place: Served, kanister: CommandLine, tmp_path: Path
) -> None:
    flags = ("--tls", "--tls-service", "endpoint", "--tls-secret", "endpoint-tls")
    # The certificate is checked every second, and renewed after eight.
    place.serve(*flags, "--certificate-life", "12s")
    first = until(lambda: place.secret("endpoint-tls"), 60)
    authority = tmp_path / "ca.crt"
    authority.write_text(first["ca.crt"])
    service = f"endpoint.{place.namespace}.svc"
    client = urllib3.PoolManager(
        retries=False, ca_certs=str(authority), server_hostname=service, assert_hostname=service
    )

    def status_of(port: int, path: str) -> int:
        try:
            return int(client.request("GET", f"https://127.0.0.1:{port}{path}").status)
        except urllib3.exceptions.HTTPError:
            return 0

    until(lambda: status_of(place.port, "/healthz") == 200, 60)
    for path in ("/healthz", "/metrics"):
        assert status_of(place.health_port, path) == 200
    assert status_of(place.port, "/v1/functions") == 401

    def shown(port: int) -> str:
        return ssl.get_server_certificate(("127.0.0.1", port), timeout=60)

    before = {port: shown(port) for port in (place.port, place.health_port)}
    until(lambda: all(shown(port) != before[port] for port in before), 60)
    assert place.secret("endpoint-tls")["ca.crt"] == first["ca.crt"]

    place.blueprint("echoes", echo("hello"))
    place.actionset("first", "echoes")
    words = ["actionset", "logs", "first", "-n", place.namespace]
    words += ["--kubeconfig", str(place.kubeconfig), "--server", f"https://localhost:{place.port}"]
    done = kanister(*words)
    assert "certificate verify failed" in done.err
    done = kanister(*words, "--server-ca", str(authority))
    assert "returned 401" in done.err


@pytest.fixture
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    missing = missing_parts()
    if missing:
        pytest.skip(f"{missing} is not installed: the page was NOT tried in a browser")
    # The name of the test would make the paths of sockets too long.
    with started_browser(tmp_path_factory.mktemp("browser") / "profile") as started:
        yield started


def sign_in(browser: Browser, token: str) -> None:
    browser.click("#token")
    # Typing a long token key by key takes long.
    browser.ask("document.getElementById('token').value = arguments[0]", token)
    browser.press(ENTER)


@pytest.mark.usefixtures("node")
def test_a_run_is_watched_and_cancelled_in_a_browser(place: Served, browser: Browser) -> None:
    place.blueprint("echoes", echo("hello from a pod; sleep 600"))
    place.serve()
    place.actionset("first", "echoes")
    place.until_running("first")
    runs = {"apiGroups": ["cr.kanister.io"], "resources": ["actionsets"]}
    owner = place.make_account("owner", {**runs, "verbs": ["get", "list", "patch"]})
    reader = place.make_account("reader", {**runs, "verbs": ["get", "list"]})
    nobody = place.make_account("nobody")
    url = f"http://127.0.0.1:{place.port}"
    run = f"{url}/runs/{place.namespace}/first"
    text = "return document.body ? document.body.innerText : ''"

    browser.open(run)
    sign_in(browser, nobody)
    until(lambda: "does not allow you to see" in browser.ask(text))

    browser.click("form[action='/signout'] button")
    until(lambda: browser.url == f"{url}/signin")
    sign_in(browser, reader)
    until(lambda: browser.url == f"{url}/runs")
    browser.open(f"{url}/runs?namespace={place.namespace}")
    assert "running" in browser.ask(text)
    browser.click(f"a[href='/runs/{place.namespace}/first']")
    until(lambda: "hello from a pod" in browser.ask(text))
    browser.click("form[action$='/cancel'] button")
    until(lambda: "does not allow you to do this" in browser.ask(text))
    assert place.status("first")["state"] == "running"

    browser.click("form[action='/signout'] button")
    until(lambda: browser.url == f"{url}/signin")
    browser.open(run)
    sign_in(browser, owner)
    until(lambda: browser.url == run)
    browser.click("form[action$='/cancel'] button")
    assert place.until_ended("first")["error"]["reason"] == "Cancelled"
    # The state is updated live.
    until(lambda: "Cancelled" in browser.ask(text))


def echo(text: str) -> dict[str, Any]:
    """Return a phase whose pod prints a text."""
    args = {
        "image": "busybox",
        "namespace": "{{ .Object.metadata.name }}",
        "command": ["sh", "-c", f"echo {text}"],
    }
    return {"name": "say", "func": "KubeTask", "args": args}

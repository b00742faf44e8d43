"""Hostile servers in the place of an API server: nothing is trusted, and time is limited."""

from __future__ import annotations

import json
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterable
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest
import urllib3
from urllib3.exceptions import HTTPError

from kanister_py.adapters.cluster_kube.cluster import KubeCluster
from kanister_py.adapters.cluster_kube.connection import ClusterChoice, ClusterConfigInvalid
from kanister_py.adapters.cluster_kube.error_responses import NotConnected
from kanister_py.adapters.cluster_kube.plugins import run_plugin
from kanister_py.adapters.cluster_kube.pool import ServerPool
from kanister_py.adapters.cluster_kube.requests import Timing
from kanister_py.core.errors import ApiError, ClusterUnavailable
from kanister_py.core.kube.resources import CONFIG_MAPS
from kanister_py.core.retries import NO_LIMIT, RetryRule
from tests.adapters.kubeconfigs import kubeconfig
from tests.hostile_server import DRIP_SECONDS, Answer, Request, dripping, hostile_server, http

BRIEF = Timing(patience=0.3, first_patience=0.3, pauses=RetryRule(NO_LIMIT, 0.05))
SHORT = BRIEF._replace(answer=0.5, only_answer=0.5)
# Operations without a limit would take longer than this; a busy machine does not.
GIVEN_UP_SECONDS = 30
DRIPS = 2 * int(GIVEN_UP_SECONDS / DRIP_SECONDS)


def _object(name: str = "settings", **more: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "shop"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **more}


def _attempts(answer: Answer, folder: Path) -> list[Exception | None]:
    """Read, replace, create and delete on one server, and return the results."""
    calls: list[Callable[[KubeCluster], object]] = [
        lambda cluster: cluster.get(CONFIG_MAPS, "settings", namespace="shop"),
        lambda cluster: cluster.replace(_object()),
        lambda cluster: cluster.create(_object()),
        lambda cluster: cluster.delete(CONFIG_MAPS, "settings", namespace="shop", uid="u"),
        lambda cluster: cluster.list(CONFIG_MAPS, namespace="shop"),
    ]
    ended: list[Exception | None] = []
    with hostile_server(answer) as server:
        choice = ClusterChoice(kubeconfig=str(kubeconfig(folder, f"http://{server.address}")))
        for call in calls:
            with KubeCluster(choice, timing=BRIEF) as cluster:
                try:
                    call(cluster)
                    ended.append(None)
                except ApiError as error:
                    ended.append(error)
    return ended


WRONG: dict[str, list[bytes]] = {
    "moved": http(b"", "307 Temporary Redirect", Location="https://elsewhere.example/"),
    "moved for ever": http(b"<html>", "301 Moved Permanently", Location="/login"),
    "not changed": http(b"", "304 Not Modified"),
    "several": http(json.dumps(_object()).encode(), "300 Multiple Choices"),
    "nothing": http(b""),
    "no content": http(b"", "204 No Content"),
    "a page": http(b"<html><body>Sign in</body></html>"),
    "a list": http(b"[]"),
    "null": http(b"null"),
    "an object of nothing": http(b"{}"),
    "another object": http(json.dumps(_object("other")).encode()),
    "deep": http(b"[" * 100_000),
    "no text": http(b"\xff\xfe"),
    "a failure with a good code": http(
        json.dumps({"kind": "Status", "status": "Failure", "code": 503, "message": "no"}).encode()
    ),
    "cut short": [b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n{}"],
    "no length": [b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n{}"],
    "a length beyond all": [b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999\r\n\r\n{}"],
    "pieces of no length": [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n{}\r\n"],
    "no HTTP": [b"SSH-2.0-OpenSSH\r\n\r\n"],
    "a code that is none": [b"HTTP/1.1 abc OK\r\n\r\n"],
    "hung up": [],
}


@pytest.mark.parametrize("sent", WRONG.values(), ids=WRONG)
def test_invalid_response_is_an_error(sent: list[bytes], tmp_path: Path) -> None:
    def answer(asked: Request) -> Iterable[bytes]:
        return sent

    ended = _attempts(answer, tmp_path)
    assert all(isinstance(error, ApiError) for error in ended[:-1]), ended
    # A list has no name, so a list of another namespace cannot be detected.
    assert isinstance(ended[-1], ApiError) or sent is WRONG["another object"]


def test_redirect_error_names_its_target(tmp_path: Path) -> None:
    error = _attempts(lambda _: WRONG["moved"], tmp_path)[1]
    assert isinstance(error, ClusterUnavailable)
    assert "returned 307 and redirects to https://elsewhere.example/" in error.message


# Time limits


def _ask(url: str, seconds: float = 0.5, *, connect_seconds: float = 30.0) -> bytes:
    manager = urllib3.PoolManager(cert_reqs="CERT_NONE", retries=False)
    pool = ServerPool(manager, url)
    try:
        response = pool.send(
            "GET", "/", {}, None, connect_seconds=connect_seconds, read_seconds=seconds
        )
        return b"".join(iter(partial(response.read1, 1 << 16), b""))
    finally:
        pool.close()


INTERIM = b"HTTP/1.1 102 Processing\r\n\r\n"
SLOW: dict[str, Answer] = {
    "a head that drips": lambda _: dripping(b"".join(http(b"{}"))[:-4] + b" " * DRIPS),
    "a body that drips": lambda _: [
        b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % DRIPS,
        *dripping(b" " * DRIPS),
    ],
    "a chunk size that drips": lambda _: [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;",
        *dripping(b"x" * DRIPS),
    ],
    "pieces that drip": lambda _: [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        *dripping(b"1\r\nx\r\n" * (DRIPS // 6)),
    ],
    "a body without a length that drips": lambda _: [
        b"HTTP/1.1 200 OK\r\n\r\n",
        *dripping(b" " * DRIPS),
    ],
    "be patient, again and again": lambda _: [INTERIM, b""] * DRIPS,
    "be patient, very often": lambda _: repeat(INTERIM * 1000),
    "silence": lambda _: [b""] * DRIPS,
}


@pytest.mark.parametrize("answer", SLOW.values(), ids=SLOW)
def test_response_has_one_deadline(answer: Answer) -> None:
    with hostile_server(answer) as server:
        began = time.monotonic()
        with pytest.raises(HTTPError):
            _ask(f"http://{server.address}")
        assert time.monotonic() - began < GIVEN_UP_SECONDS


def test_long_response_is_read_completely() -> None:
    piece = b"x" * (64 << 10)

    def answer(_: Request) -> Iterable[bytes]:
        yield b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (len(piece) * 60)
        for _number in range(60):
            yield piece
            yield b""

    with hostile_server(answer) as server:
        assert len(_ask(f"http://{server.address}", 2.0)) == len(piece) * 60


def test_tls_handshake_times_out() -> None:
    import socket

    listening = socket.create_server(("127.0.0.1", 0))
    over = threading.Event()

    def drip() -> None:
        connection, _ = listening.accept()
        with connection:
            connection.sendall(b"\x16\x03\x03\x40\x00")
            while not over.wait(0.05):
                try:
                    connection.sendall(b"\x02")
                except OSError:
                    return

    thread = threading.Thread(target=drip, daemon=True)
    thread.start()
    url = f"https://127.0.0.1:{listening.getsockname()[1]}"
    began = time.monotonic()
    with pytest.raises(NotConnected):
        _ask(url, connect_seconds=0.5)
    assert time.monotonic() - began < GIVEN_UP_SECONDS
    over.set()
    thread.join()
    listening.close()


# Credentials

VERSION = "client.authentication.k8s.io/v1"


def _plugin(folder: Path, script: str, **more: Any) -> dict[str, Any]:
    program = folder / "plugin"
    program.write_text(script if script.startswith("#!") else f"#!{sys.executable}\n{script}")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return {
        "apiVersion": VERSION,
        "command": str(program),
        "interactiveMode": "Never",
        **more,
    }


def _says(token: str, **more: str) -> str:
    credential = {
        "apiVersion": VERSION,
        "kind": "ExecCredential",
        "status": {"token": token, **more},
    }
    return f"print({json.dumps(json.dumps(credential))})"


def _node(value: Any) -> Any:
    from kubernetes.config.kube_config import ConfigNode

    return ConfigNode("exec", value)  # type: ignore[no-untyped-call] # the client has no types


def test_hanging_plugin_is_killed_with_its_children(tmp_path: Path) -> None:
    from kubernetes.config import ConfigException

    # The shell starts long before the time limit, even on a busy machine.
    script = f"#!/bin/sh\nsleep 600 & echo $! >{tmp_path}/child; wait\n"
    plugin = _node(_plugin(tmp_path, script))
    began = time.monotonic()
    with pytest.raises(ConfigException, match=r"returned no credentials within 4s"):
        run_plugin(plugin, _node({}), None, 4.0)
    assert time.monotonic() - began < GIVEN_UP_SECONDS
    # A killed process disappears after a moment, and may remain as a zombie.
    state = Path(f"/proc/{(tmp_path / 'child').read_text()}/stat")
    while state.exists() and state.read_text().split()[2] != "Z":
        assert time.monotonic() - began < GIVEN_UP_SECONDS


@pytest.mark.parametrize(
    ("script", "why"),
    [
        pytest.param("print('x')", "printed no ExecCredential", id="no JSON"),
        pytest.param("print('[]')", "printed no ExecCredential", id="a list"),
        pytest.param("print('{\"status\": 1}')", "printed no ExecCredential", id="no status"),
        pytest.param(_says(""), "returned no credentials", id="an empty token"),
        pytest.param(_says("t", expirationTimestamp="soon"), "no ExecCredential", id="no time"),
        pytest.param(_says("t").replace("/v1", "/v2"), "instead of", id="another version"),
        pytest.param("import sys; sys.exit('not today')", "exit code 1 not today", id="a refusal"),
    ],
)
def test_plugin_without_credentials_is_named(script: str, why: str, tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, "http://127.0.0.1:1", {"exec": _plugin(tmp_path, script)})
    with pytest.raises(ClusterConfigInvalid, match=why):
        KubeCluster(ClusterChoice(kubeconfig=str(path)))


def test_expired_credentials_of_a_plugin_are_renewed(tmp_path: Path) -> None:
    credential = {"apiVersion": VERSION, "kind": "ExecCredential"}
    script = (
        f"import json, pathlib\ncount = pathlib.Path({str(tmp_path / 'count')!r})\n"
        "number = len(count.read_text()) if count.exists() else 0\n"
        "count.write_text('x' * (number + 1))\n"
        "status = {'token': f'token-{number}', 'expirationTimestamp': '2026-01-01T00:00:00Z'}\n"
        f"print(json.dumps({{**{credential!r}, 'status': status}}))\n"
    )
    with hostile_server(lambda _: http(json.dumps(_object()).encode())) as server:
        user = {"exec": _plugin(tmp_path, script)}
        path = kubeconfig(tmp_path, f"http://{server.address}", user)
        with KubeCluster(ClusterChoice(kubeconfig=str(path))) as cluster:
            cluster.get(CONFIG_MAPS, "settings", namespace="shop")
        assert "Authorization: Bearer token-1" in server.requests[0].head
        assert "token-0" not in path.read_text()


def test_requests_with_valid_credentials_do_not_wait_for_a_plugin(tmp_path: Path) -> None:
    """One request is rejected and waits for the hanging plugin; other requests continue."""
    go = tmp_path / "go"
    script = (
        "import json, pathlib, time\n"
        f"count = pathlib.Path({str(tmp_path / 'count')!r})\n"
        "number = len(count.read_text()) if count.exists() else 0\n"
        "count.write_text('x' * (number + 1))\n"
        f"while number and not pathlib.Path({str(go)!r}).exists(): time.sleep(0.05)\n"
        f"said = {{'apiVersion': {VERSION!r}, 'kind': 'ExecCredential'}}\n"
        "print(json.dumps({**said, 'status': {'token': f'token-{number}'}}))\n"
    )

    def answer(asked: Request) -> list[bytes]:
        name = asked.path.rpartition("/")[2]
        if name == "refused" and "token-0" in asked.head:
            return http(b"{}", "401 Unauthorized")
        return http(json.dumps(_object(name)).encode())

    with hostile_server(answer) as server:
        user = {"exec": _plugin(tmp_path, script)}
        path = kubeconfig(tmp_path, f"http://{server.address}", user)
        with KubeCluster(ClusterChoice(kubeconfig=str(path))) as cluster:
            answers: list[Any] = []

            def refused() -> None:
                answers.append(cluster.get(CONFIG_MAPS, "refused", namespace="shop"))

            thread = threading.Thread(target=refused)
            thread.start()
            until = time.monotonic() + 60
            while (tmp_path / "count").read_text() != "xx" and time.monotonic() < until:
                pass
            for number in range(5):
                assert cluster.get(CONFIG_MAPS, f"c{number}", namespace="shop")
            assert not answers
            go.touch()
            thread.join(180)
    assert answers


# Through a proxy


def _through_proxy(answer: Answer, folder: Path) -> tuple[Any, list[Request]]:
    with hostile_server(answer) as server:
        path = kubeconfig(folder, "http://api.example")
        config = json.loads(path.read_text())
        config["clusters"][0]["cluster"]["proxy-url"] = f"http://{server.address}"
        path.write_text(json.dumps(config))
        outcome: Any
        with KubeCluster(ClusterChoice(kubeconfig=str(path)), timing=SHORT) as cluster:
            try:
                outcome = cluster.get(CONFIG_MAPS, "settings", namespace="shop")
            except ApiError as error:
                outcome = error
        return outcome, server.requests


def test_response_through_a_proxy(tmp_path: Path) -> None:
    response, requests = _through_proxy(lambda _: http(json.dumps(_object()).encode()), tmp_path)
    assert response == _object()
    assert requests[0].path.startswith("http://api.example/")


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(SLOW["a body that drips"], id="a body that drips"),
        pytest.param(lambda _: WRONG["moved"], id="moved"),
        pytest.param(lambda _: WRONG["a page"], id="a page"),
        pytest.param(lambda _: WRONG["cut short"], id="cut short"),
    ],
)
def test_invalid_response_of_a_proxy_is_an_error(answer: Answer, tmp_path: Path) -> None:
    began = time.monotonic()
    response, _ = _through_proxy(answer, tmp_path)
    assert isinstance(response, ClusterUnavailable)
    assert time.monotonic() - began < GIVEN_UP_SECONDS

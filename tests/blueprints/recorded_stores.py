"""Stores that record the requests of kando."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final

import pytest

from kanister_py.runs import RunSettings, run_actionset

S3: Final = {"type": "s3Compliant", "bucket": "b", "endpoint": "https://nowhere"}


MADE: Final = "{apiVersion: v1, kind: ConfigMap, metadata: {name: made, namespace: default}}"


class Listener(ThreadingHTTPServer):
    """Server that rejects all requests, and records them."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        super().__init__(("127.0.0.1", 0), _Refusal)

    def get_request(self) -> Any:
        request = super().get_request()
        self.asked.append(f"connection from {request[1]}")
        return request

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Refusal(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.send_error(403)

    do_GET = do_HEAD = do_PUT = do_DELETE = do_POST  # noqa: N815 - names of the library

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


def listening() -> Iterator[Listener]:
    server = Listener()
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


store = pytest.fixture(listening, name="store")


amazon = pytest.fixture(listening, name="amazon")


def run(
    folder: Path | None,
    func: str,
    args: Mapping[str, Any],
    version: str = "v0.0.0",
    location: Mapping[str, str] = S3,
) -> Mapping[str, Any]:
    reference = {"name": "creds", "namespace": "default"}
    objects: list[dict[str, Any]] = [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": reference,
            "stringData": {"id": "nobody", "secret": "nothing"},
        },
        {
            "apiVersion": "cr.kanister.io/v1alpha1",
            "kind": "Profile",
            "metadata": {"name": "s3", "namespace": "default"},
            "location": {**location},
            "credential": {
                "type": "keyPair",
                "keyPair": {"idField": "id", "secretField": "secret", "secret": reference},
            },
        },
    ]
    before = {"func": "KubeOps", "name": "before", "args": {"operation": "create", "spec": MADE}}
    blueprint = {
        "apiVersion": "cr.kanister.io/v1alpha1",
        "kind": "Blueprint",
        "metadata": {"name": "b", "namespace": "default"},
        "actions": {"act": {"phases": [before, {"func": func, "name": "p", "args": dict(args)}]}},
    }
    action = {
        "name": "act",
        "blueprint": "b",
        "object": {"kind": "Namespace", "name": "default", "namespace": "default"},
        "profile": {"name": "s3", "namespace": "default"},
        "preferredVersion": version,
    }
    actionset = {
        "apiVersion": "cr.kanister.io/v1alpha1",
        "kind": "ActionSet",
        "metadata": {"name": "a", "namespace": "default"},
        "spec": {"actions": [action]},
    }
    settings = RunSettings(objects=objects, pods="processes", locations=folder)
    return run_actionset(actionset, [blueprint], settings).wait(180).status

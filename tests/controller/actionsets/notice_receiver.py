"""A receiver of failure notices, and its Secret."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from typing import Any, NamedTuple

import pytest

from tests.controller.conftest import PATIENCE_SECONDS

KEY = "known to two"


class Notice(NamedTuple):
    """A request that the webhook received."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def content(self) -> dict[str, Any]:
        data: dict[str, Any] = json.loads(self.body)
        return data


class Webhook:
    """A local HTTP server that receives notices; the test sets its response."""

    def __init__(self) -> None:
        self.notices: list[Notice] = []
        self.answers: list[int] = []
        self.location = ""
        self.goes_on = Event()
        self.goes_on.set()
        webhook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                webhook.notices.append(Notice(self.path, dict(self.headers), body))
                webhook.goes_on.wait(PATIENCE_SECONDS)
                self.send_response(webhook.answers.pop(0) if webhook.answers else 204)
                if webhook.location:
                    self.send_header("Location", webhook.location)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_words: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.origin = f"http://127.0.0.1:{self._server.server_port}"
        Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.goes_on.set()
        self._server.shutdown()
        self._server.server_close()

    def until(self, count: int) -> list[Notice]:
        """Wait for deliveries; a delivery may arrive twice if the machine is slow to answer."""
        until = time.monotonic() + PATIENCE_SECONDS
        while len(deliveries := self._deliveries()) < count and time.monotonic() < until:
            Event().wait(0.005)
        assert len(deliveries) == count, self.notices
        return deliveries

    def _deliveries(self) -> list[Notice]:
        by_name: dict[str, Notice] = {}
        for notice in self.notices[:]:
            by_name.setdefault(notice.headers["X-Kanister-Py-Delivery"], notice)
        return list(by_name.values())


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    receiver = Webhook()
    yield receiver
    receiver.close()


def secret(url: str, name: str = "pager") -> dict[str, Any]:
    data = {"url": url, "key": KEY}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": "default"},
        "data": {key: base64.b64encode(text.encode()).decode() for key, text in data.items()},
    }

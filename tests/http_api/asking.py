"""Requests to an app over ASGI, without a socket."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from starlette.types import ASGIApp, Message


@dataclass(frozen=True)
class Response:
    """Response of an app."""

    status: int
    pairs: tuple[tuple[str, str], ...]
    body: bytes

    @property
    def headers(self) -> Mapping[str, str]:
        return dict(self.pairs)

    @property
    def text(self) -> str:
        return self.body.decode()

    def json(self) -> Any:
        return json.loads(self.body)


def ask(
    app: ASGIApp,
    path: str,
    headers: Mapping[str, str] | Iterable[tuple[str, str]] = (),
    method: str = "GET",
) -> Response:
    """Send a request."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    address, _, query = path.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(address),
        "raw_path": address.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode()) for name, value in pairs],
        "server": ("127.0.0.1", 8640),
        "client": ("127.0.0.1", 50000),
    }
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    asyncio.run(_call(app, scope, receive, send))
    start, *body_messages = sent
    header_pairs = tuple((name.decode(), value.decode()) for name, value in start["headers"])
    return Response(
        start["status"],
        header_pairs,
        b"".join(message.get("body", b"") for message in body_messages),
    )


async def _call(app: ASGIApp, scope: Any, receive: Any, send: Any) -> None:
    await app(scope, receive, send)

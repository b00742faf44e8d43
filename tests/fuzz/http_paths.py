"""Mutated paths of the endpoint: a permission for a path does not give access to objects."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from functools import cache
from typing import Any
from urllib.parse import unquote_to_bytes

from kanister_py.executor.review_access import Access
from kanister_py.http_api.app import build_app
from kanister_py.http_api.discovery import Publication
from kanister_py.http_api.guard import Guard
from kanister_py.wiring import read_functions
from tests.fuzz.mutations import mutated_text

_PATHS = (
    "/v1/namespaces/shop/actionsets/one/lines",
    "/v1/functions",
    "/v1/functions/KubeTask/versions/v0.0.0",
    "/v1/versions.yaml",
    "/openapi.json",
    "/",
)
_WORDS = (
    "%0A",
    "%2F",
    "%2e%2e",
    "..",
    "/",
    "//",
    "%00",
    "%",
    "%zz",
    ";",
    "?",
    "#",
    "\\",
    " ",
    "%20",
    "lines",
    "LINES",
    "lines/",
    "namespaces",
    "v1",
    "@",
    ":",
    "%C3%A9",
    "%FF",
    ".json",
    "{name}",
)
_SEEN: list[str] = []


def _give(namespace: str, name: str, _after: int) -> list[dict[str, Any]]:
    _SEEN.append(f"{namespace}/{name}")
    return []


def _knows_every_path(_token: str, asked: Mapping[str, Any]) -> Access:
    # A user with permission for all paths of the endpoint, and for no ActionSet.
    return Access.ALLOWED if "nonResourceAttributes" in asked else Access.FORBIDDEN


@cache
def _app() -> Guard:
    functions = read_functions()
    publication = Publication(functions.registry, functions.release, "{}", "{}")
    return Guard(build_app(publication, lines=_give), _knows_every_path)


def http_path(choose: random.Random) -> bool:
    """Request a mutated path, and check that the authorized route responds."""
    del _SEEN[:]
    target = mutated_text(choose.choice(_PATHS), _WORDS, choose)
    path, _, query = target.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": choose.choice(("GET", "GET", "GET", "HEAD", "POST", "TRACE")),
        "scheme": "http",
        # A server replaces or rejects bytes that are not valid text.
        "path": unquote_to_bytes(path).decode("utf-8", "replace"),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(b"host", b"localhost"), (b"authorization", b"Bearer anybody")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 80),
    }
    status = asyncio.run(_status_of(scope))
    assert status < 500, target
    assert not _SEEN, target
    return status == 200


async def _status_of(scope: dict[str, Any]) -> int:
    statuses: list[int] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    await _app()(scope, receive, send)
    return statuses[0]

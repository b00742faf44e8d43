"""Event stream of the live pages: changes of runs, and log lines as they come."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, Self
from urllib.parse import parse_qsl

from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope, Send

from kanister_py.core.errors import KanisterError
from kanister_py.core.kube.printable import printable
from kanister_py.http_api.answers import encoded_headers
from kanister_py.http_api.live.session import header_of
from kanister_py.http_api.phase_lines import number_in
from kanister_py.ports.overview import Overview

# What comes in bursts is sent together.
_GATHER_SECONDS: Final = 0.1
_ALL_SECONDS: Final = 2.0
_BEAT_SECONDS: Final = 15.0
# A browser that watches longer comes again by itself, and its right is looked at anew.
_LONGEST_SECONDS: Final = 600.0
_LOOK_ELSEWHERE_SECONDS: Final = 2.0

_HEADERS: Final = encoded_headers(
    {
        "content-type": "text/event-stream; charset=utf-8",
        "cache-control": "no-store",
        "x-accel-buffering": "no",
        "x-content-type-options": "nosniff",
    }
)


class EventStream:
    """Stream of events until the browser leaves; costs nothing while nothing happens.

    Of one run where the address names it, with its lines; else of all.
    """

    def __init__(self, overview: Overview) -> None:
        self._overview = overview

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": list(_HEADERS)})
        gone = asyncio.create_task(_until_gone(receive))
        parts: Mapping[str, str] = scope.get("path_params", {})
        sending = self._of_one(scope, send, parts) if parts else self._of_all(scope, send)
        task = asyncio.create_task(sending)
        try:
            await asyncio.wait(
                (gone, task), timeout=_LONGEST_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            for each in (gone, task):
                each.cancel()
                with suppress(asyncio.CancelledError, OSError):
                    await each
        with suppress(OSError):
            await send({"type": "http.response.body", "body": b""})

    async def _of_all(self, scope: Scope, send: Send) -> None:
        namespace = dict(parse_qsl(scope["query_string"].decode("latin-1"))).get("namespace", "")
        with Happening(self._overview, namespace) as happening:
            while True:
                # The first look of all waits until the runs have been read.
                trouble = (await run_in_threadpool(self._overview.runs)).trouble
                await _send(send, "event: change\ndata:\n\n")
                while not await happening.next(_BEAT_SECONDS):
                    if self._overview.runs().trouble != trouble:
                        break
                    await _send(send, ":\n\n")
                await asyncio.sleep(_ALL_SECONDS)

    async def _of_one(self, scope: Scope, send: Send, parts: Mapping[str, str]) -> None:
        wanted = (parts["namespace"], parts["name"])
        after = header_of(scope, b"last-event-id") or scope["query_string"].decode("latin-1")
        number, has_changed = number_in(after), True
        with Happening(self._overview, *wanted) as happening:
            while True:
                lines = await run_in_threadpool(self._lines, *wanted, number)
                number = int(lines[-1]["number"]) if lines else number
                text = "".join(map(_line_event, lines))
                await _send(send, text + ("event: change\ndata:\n\n" if has_changed else ":\n\n"))
                is_elsewhere = await run_in_threadpool(self._overview.is_elsewhere, *wanted)
                patience = _LOOK_ELSEWHERE_SECONDS if is_elsewhere else _BEAT_SECONDS
                has_changed = await happening.next(patience)

    def _lines(self, namespace: str, name: str, after: int) -> list[Mapping[str, Any]]:
        try:
            return list(self._overview.lines(namespace, name, after))
        except KanisterError:
            # Looked for again the next time.
            return []


class Happening:
    """News of one run, of those of a namespace or of all; other threads bring it."""

    def __init__(self, overview: Overview, namespace: str = "", name: str = "") -> None:
        self._overview = overview
        self._namespace = namespace
        self._name = name
        self._loop = asyncio.get_running_loop()
        self._happened = asyncio.Event()

    def __enter__(self) -> Self:
        self._end = self._overview.listen(self._note)
        return self

    def __exit__(self, *exc: object) -> None:
        self._end()

    def _note(self, namespace: str, name: str) -> None:
        is_meant = self._namespace in ("", namespace) and self._name in ("", name)
        if is_meant and not self._happened.is_set():
            # Where the server has just ended nobody watches any more.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._happened.set)

    async def next(self, seconds: float) -> bool:
        """Wait for news for a while; what comes in a burst is one piece of news."""
        try:
            await asyncio.wait_for(self._happened.wait(), seconds)
        except TimeoutError:
            return False
        await asyncio.sleep(_GATHER_SECONDS)
        self._happened.clear()
        return True


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send(send: Send, text: str) -> None:
    await send({"type": "http.response.body", "body": text.encode(), "more_body": True})


def _line_event(line: Mapping[str, Any]) -> str:
    data = json.dumps({"phase": printable(line["phase"]), "line": printable(line["line"])})
    return f"id: {line['number']}\ndata: {data}\n\n"

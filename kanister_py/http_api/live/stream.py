"""Event stream of the live pages: changes of runs, and log lines."""

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
from kanister_py.http_api.phase_lines import line_number
from kanister_py.ports.overview import Overview

# Changes in quick succession are sent together.
_GATHER_SECONDS: Final = 0.1
_MIN_INTERVAL_SECONDS: Final = 2.0
_HEARTBEAT_SECONDS: Final = 15.0
# Browsers reconnect after this time, and their permission is checked again.
_LONGEST_SECONDS: Final = 600.0
_OTHER_REPLICA_SECONDS: Final = 2.0

_HEADERS: Final = encoded_headers(
    {
        "content-type": "text/event-stream; charset=utf-8",
        "cache-control": "no-store",
        "x-accel-buffering": "no",
        "x-content-type-options": "nosniff",
    }
)


class EventStream:
    """Stream of events until the browser disconnects.

    If the path names a run, the stream contains its changes and log lines, otherwise the changes of
    all runs.
    """

    def __init__(self, overview: Overview) -> None:
        self._overview = overview

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": list(_HEADERS)})
        disconnected = asyncio.create_task(_until_disconnected(receive))
        parts: Mapping[str, str] = scope.get("path_params", {})
        sending = self._of_one(scope, send, parts) if parts else self._of_all(scope, send)
        task = asyncio.create_task(sending)
        try:
            await asyncio.wait(
                (disconnected, task), timeout=_LONGEST_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            for running in (disconnected, task):
                running.cancel()
                with suppress(asyncio.CancelledError, OSError):
                    await running
        with suppress(OSError):
            await send({"type": "http.response.body", "body": b""})

    async def _of_all(self, scope: Scope, send: Send) -> None:
        namespace = dict(parse_qsl(scope["query_string"].decode("latin-1"))).get("namespace", "")
        with ChangeSignal(self._overview, namespace) as changes:
            while True:
                # The first call waits until the runs have been listed.
                trouble = (await run_in_threadpool(self._overview.runs)).trouble
                await _send(send, "event: change\ndata:\n\n")
                while not await changes.next(_HEARTBEAT_SECONDS):
                    if self._overview.runs().trouble != trouble:
                        break
                    await _send(send, ":\n\n")
                await asyncio.sleep(_MIN_INTERVAL_SECONDS)

    async def _of_one(self, scope: Scope, send: Send, parts: Mapping[str, str]) -> None:
        run = (parts["namespace"], parts["name"])
        after = header_of(scope, b"last-event-id") or scope["query_string"].decode("latin-1")
        number, has_changed = line_number(after), True
        with ChangeSignal(self._overview, *run) as changes:
            while True:
                lines = await run_in_threadpool(self._lines, *run, number)
                number = int(lines[-1]["number"]) if lines else number
                text = "".join(map(_line_event, lines))
                await _send(send, text + ("event: change\ndata:\n\n" if has_changed else ":\n\n"))
                must_be_polled = await run_in_threadpool(self._overview.must_be_polled, *run)
                patience = _OTHER_REPLICA_SECONDS if must_be_polled else _HEARTBEAT_SECONDS
                has_changed = await changes.next(patience)

    def _lines(self, namespace: str, name: str, after: int) -> list[Mapping[str, Any]]:
        try:
            return list(self._overview.lines(namespace, name, after))
        except KanisterError:
            # The next call retries.
            return []


class ChangeSignal:
    """Changes of one run, of a namespace or of all runs, reported by other threads."""

    def __init__(self, overview: Overview, namespace: str = "", name: str = "") -> None:
        self._overview = overview
        self._namespace = namespace
        self._name = name
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()

    def __enter__(self) -> Self:
        self._unsubscribe = self._overview.listen(self._note)
        return self

    def __exit__(self, *exc: object) -> None:
        self._unsubscribe()

    def _note(self, namespace: str, name: str) -> None:
        is_selected = self._namespace in ("", namespace) and self._name in ("", name)
        if is_selected and not self._changed.is_set():
            # The event loop may have been closed.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._changed.set)

    async def next(self, seconds: float) -> bool:
        """Wait for the next change. Returns False after `seconds`.

        Changes in quick succession count as one.
        """
        try:
            await asyncio.wait_for(self._changed.wait(), seconds)
        except TimeoutError:
            return False
        await asyncio.sleep(_GATHER_SECONDS)
        self._changed.clear()
        return True


async def _until_disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send(send: Send, text: str) -> None:
    await send({"type": "http.response.body", "body": text.encode(), "more_body": True})


def _line_event(line: Mapping[str, Any]) -> str:
    data = json.dumps({"phase": printable(line["phase"]), "line": printable(line["line"])})
    return f"id: {line['number']}\ndata: {data}\n\n"

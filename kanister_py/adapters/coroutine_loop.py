"""Event loop for coroutines of composition functions, in a separate thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable
from typing import Any, Final

_GOODBYE_SECONDS: Final = 5.0


class LoopThread:
    """Event loop for callers without one. It starts with the first coroutine."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, awaitable: Awaitable[Any], timeout_seconds: float = 0.0) -> Any:
        """Wait for a coroutine. After the timeout, cancel it and raise TimeoutError."""

        async def wait() -> Any:
            return await asyncio.wait_for(awaitable, timeout_seconds or None)

        with self._lock:
            # Prevents `close` from stopping the loop before the coroutine is scheduled.
            ended = asyncio.run_coroutine_threadsafe(wait(), self._running())
        return ended.result()

    def _running(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=_run, args=(self._loop,), name="composition functions", daemon=True
            )
            self._thread.start()
        return self._loop

    def close(self) -> None:
        """Stop the loop, and cancel its coroutines."""
        with self._lock:
            if self._loop is not None and self._thread is not None:
                self._loop.call_soon_threadsafe(_cancel_all, self._loop)
                self._thread.join()
                self._loop.close()
                self._loop = self._thread = None


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """Run a loop until it is stopped.

    SystemExit in a coroutine is raised both from the loop and for the waiting caller.
    """
    while True:
        try:
            loop.run_forever()
        except (SystemExit, KeyboardInterrupt):
            continue
        return


def _cancel_all(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel all tasks of a loop, and stop it once they have ended."""
    under_way = asyncio.all_tasks(loop)
    for task in under_way:
        task.cancel()
    ended = asyncio.gather(*under_way, return_exceptions=True)
    ended.add_done_callback(lambda _: loop.stop())
    # A task may ignore the cancellation.
    loop.call_later(_GOODBYE_SECONDS, loop.stop)

"""Server of the endpoint: connections on which no request comes are closed after a while."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import asyncio

    import uvicorn
    from starlette.types import ASGIApp
    from uvicorn.protocols.http.h11_impl import H11Protocol

_REQUEST_SECONDS: Final = 10.0
_LONGEST_HEAD: Final = 32_768
_MOST_CONNECTIONS: Final = 800
_MOST_UNFINISHED: Final = 400


def server_config(
    app: ASGIApp,
    *,
    access_log: bool = False,
    grace_seconds: int = 2,
    request_seconds: float = _REQUEST_SECONDS,
) -> uvicorn.Config:
    """Say how an application is served; at its stop answers have `grace_seconds`.

    A whole request has `request_seconds` to come in.
    """
    import uvicorn

    return uvicorn.Config(
        app,
        http=_protocol(request_seconds),
        log_config=None,
        access_log=access_log,
        lifespan="off",
        ws="none",
        server_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=_LONGEST_HEAD,
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_graceful_shutdown=grace_seconds,
    )


@cache
def _protocol(request_seconds: float) -> type[H11Protocol]:
    """Make uvicorn's protocol one that closes connections whose request does not come."""
    import h11
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class ImpatientProtocol(H11Protocol):
        """HTTP protocol that closes connections after a while, and the oldest of too many."""

        # The oldest first. One process has one endpoint, or few; they share the bound.
        unfinished: Final[dict[Any, asyncio.TimerHandle]] = {}

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn's own
            super().connection_made(transport)
            self._wait_for_request()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
                self._wait_for_request()
            else:
                self._stop_waiting()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop_waiting()
            super().connection_lost(exc)

        def _wait_for_request(self) -> None:
            if self in self.unfinished:
                return
            if len(self.unfinished) >= _MOST_UNFINISHED:
                next(iter(self.unfinished)).give_up()
            self.unfinished[self] = self.loop.call_later(request_seconds, self.give_up)

        def _stop_waiting(self) -> None:
            timer = self.unfinished.pop(self, None)
            if timer is not None:
                timer.cancel()

        def give_up(self) -> None:
            self._stop_waiting()
            self.transport.abort()

    return ImpatientProtocol

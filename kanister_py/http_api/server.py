"""How is an application served? Quietly, and without a word about what serves it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import uvicorn
    from starlette.types import ASGIApp

_LONGEST_HEAD = 32_768


def server_config(
    app: ASGIApp, *, access_log: bool = False, grace_seconds: int = 2
) -> uvicorn.Config:
    """Say how an application is served; whoever stops it waits `grace_seconds` for answers."""
    import uvicorn

    return uvicorn.Config(
        app,
        log_config=None,
        access_log=access_log,
        lifespan="off",
        ws="none",
        server_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=_LONGEST_HEAD,
        timeout_graceful_shutdown=grace_seconds,
    )

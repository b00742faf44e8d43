"""Pages of another controller, over HTTP."""

from __future__ import annotations

from typing import Final

import urllib3

from kanister_py.core.errors import TransientError
from kanister_py.ports.overview import OtherPage

_CONNECT_SECONDS: Final = 3.0
_ANSWER_SECONDS: Final = 15.0
_MOST_BYTES: Final = 8 * 1024 * 1024


class HttpPages:
    """Asks for pages as whoever looks at them: their token goes along, and decides there."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        timeout = urllib3.Timeout(connect=_CONNECT_SECONDS, read=_ANSWER_SECONDS)
        self._pools = urllib3.PoolManager(retries=False, timeout=timeout)

    def get(self, address: str, token: str) -> OtherPage:
        headers = {"Accept": "text/html", "Authorization": f"Bearer {token}"}
        try:
            with self._pools.request(
                *("GET", self._url + address),
                headers=headers,
                redirect=False,
                preload_content=False,
            ) as answer:
                body = answer.read(_MOST_BYTES)
                return OtherPage(answer.status, body)
        except urllib3.exceptions.HTTPError as error:
            raise TransientError(
                f"The controller that composes does not answer: {error}", reason="PageUnavailable"
            ) from error

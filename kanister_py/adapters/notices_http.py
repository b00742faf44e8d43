"""Notices over HTTP, to receivers that the operator allows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import urllib3

from kanister_py.core.errors import TransientError

_CONNECT_SECONDS: Final = 5.0
_ANSWER_SECONDS: Final = 10.0


class HttpNotices:
    """Receivers of notices over HTTP. Connections are not reused, because notices are rare."""

    def __init__(self, origins: Sequence[str]) -> None:
        self.origins = tuple(origins)

    def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> int:
        timeout = urllib3.Timeout(connect=_CONNECT_SECONDS, read=_ANSWER_SECONDS)
        try:
            with urllib3.PoolManager(retries=False, timeout=timeout) as pools:
                # The body of the response is not read, because it may be endless.
                answer = pools.request(
                    "POST", url, body=body, headers=headers, redirect=False, preload_content=False
                )
                answer.close()
        except urllib3.exceptions.HTTPError as error:
            raise TransientError(str(error), reason="NoticeNotDelivered") from error
        return answer.status

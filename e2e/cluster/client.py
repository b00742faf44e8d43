"""An independent client for the API server, to check results without our own client."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

import urllib3

_MERGE: Final = "application/merge-patch+json"
_TIMEOUT: Final = urllib3.Timeout(connect=5.0, read=60.0)
_SERVED_WITHIN_SECONDS: Final = 30.0


class ApiFailed(Exception):
    """The API server answered with a failure."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message

    @property
    def is_of_unserved_path(self) -> bool:
        """Return whether the path is not served, as opposed to a missing object."""
        return self.status == 404 and not self.reason


class ApiUnreachable(Exception):
    """The API server did not answer."""


class ApiClient:
    """Client that addresses the API server by path and exchanges JSON.

    It repeats only one kind of request by itself: creating an object of a kind that is not
    served yet, because a definition is established a moment before its path is served.
    """

    def __init__(
        self,
        url: str,
        authority: Path,
        *,
        token: str = "",
        certificate: tuple[Path, Path] | None = None,
    ) -> None:
        self.url = url
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        context = ssl.create_default_context(cafile=str(authority))
        if certificate is not None:
            context.load_cert_chain(*certificate)
        self._pool = urllib3.PoolManager(
            ssl_context=context, retries=False, timeout=_TIMEOUT, maxsize=32
        )

    def get(self, path: str, **query: str) -> dict[str, Any]:
        return self.request("GET", path, query=query)

    def post(self, path: str, body: Mapping[str, Any], **query: str) -> dict[str, Any]:
        end = time.monotonic() + _SERVED_WITHIN_SECONDS
        while True:
            try:
                return self.request("POST", path, body, query=query)
            except ApiFailed as error:
                if not error.is_of_unserved_path or time.monotonic() > end:
                    raise
            time.sleep(0.05)

    def put(self, path: str, body: Mapping[str, Any], **query: str) -> dict[str, Any]:
        return self.request("PUT", path, body, query=query)

    def patch(
        self, path: str, body: Any, *, media_type: str = _MERGE, **query: str
    ) -> dict[str, Any]:
        return self.request("PATCH", path, body, query=query, media_type=media_type)

    def delete(self, path: str, **query: str) -> dict[str, Any]:
        return self.request("DELETE", path, query=query)

    def text(self, path: str, **query: str) -> str:
        """Read a response that is not JSON, such as a log."""
        return self._send("GET", path, None, query, "").data.decode()

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, str] | None = None,
        media_type: str = "application/json",
    ) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(
            self._send(method, path, body, query or {}, media_type).data
        )
        return answer

    def watch(self, path: str, **query: str) -> Iterator[dict[str, Any]]:
        """Yield watch events until the API server ends the watch."""
        answer = self._send("GET", path, None, {"watch": "1", **query}, "", stream=True)
        try:
            remainder = b""
            for piece in answer.stream(amt=None):
                *lines, remainder = (remainder + piece).split(b"\n")
                for line in lines:
                    yield json.loads(line)
        except urllib3.exceptions.HTTPError as error:
            raise ApiUnreachable(str(error)) from error
        finally:
            answer.close()

    def is_ready(self) -> bool:
        """Return whether the API server is ready."""
        try:
            return self._send("GET", "/readyz", None, {}, "").status == 200
        except (ApiFailed, ApiUnreachable):
            return False

    def close(self) -> None:
        self._pool.clear()

    def _send(
        self,
        method: str,
        path: str,
        body: Any,
        query: Mapping[str, str],
        media_type: str,
        *,
        stream: bool = False,
    ) -> urllib3.BaseHTTPResponse:
        headers = {**self._headers, "Accept": "application/json, */*"}
        if body is not None:
            headers["Content-Type"] = media_type
        try:
            answer = self._pool.request(
                method,
                self.url + path + ("?" + urlencode(query) if query else ""),
                body=None if body is None else json.dumps(body).encode(),
                headers=headers,
                preload_content=not stream,
            )
        except urllib3.exceptions.HTTPError as error:
            raise ApiUnreachable(str(error)) from error
        if answer.status >= 400:
            raise _failure(answer)
        return answer


def _failure(answer: urllib3.BaseHTTPResponse) -> ApiFailed:
    text = answer.data.decode(errors="replace")
    try:
        status = json.loads(text)
    except ValueError:
        return ApiFailed(answer.status, "", text)
    if not isinstance(status, dict):
        return ApiFailed(answer.status, "", text)
    return ApiFailed(answer.status, status.get("reason", ""), status.get("message", text))

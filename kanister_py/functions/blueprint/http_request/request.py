"""HTTP request and response as data, and the address that a request goes to."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import SplitResult, quote, unquote, urljoin, urlsplit

from kanister_py.core.errors import UsageError

_PORTS: Final = {"http": 80, "https": 443}
# Characters that a URL may contain unescaped; existing escapes are kept.
_HEADER_NAME: Final = re.compile(r"[^:\s][^:\r\n]*")
_LINE_BREAK: Final = re.compile(r"\n(?![ \t])|\r(?![ \t\n])")
_SAFE: Final = "!#$%&'()*+,/:;=?@[]~"


class InvalidRequest(UsageError, reason="InvalidRequest"):
    """Error for a request that cannot be sent, or whose destination is not allowed."""


class Address(NamedTuple):
    """Parsed URL."""

    scheme: str
    host: str
    port: int
    target: str
    credentials: str = ""

    @classmethod
    def of(cls, url: str) -> Address:
        """Parse a URL; only http and https are supported."""
        try:
            split = urlsplit(url.strip())
            host, port = split.hostname or "", split.port
            host = host.encode("idna").decode("ascii") if not host.isascii() else host
        except ValueError as error:
            raise InvalidRequest(f"URL cannot be read: {error}") from None
        if split.scheme not in _PORTS or not host:
            raise InvalidRequest("URL wants http or https and a host")
        target = quote(split.path or "/", safe=_SAFE)
        if split.query:
            target += f"?{quote(split.query, safe=_SAFE)}"
        port = _PORTS[split.scheme] if port is None else port
        return cls(split.scheme, host, port, target, _credentials_of(split))

    def joined(self, location: str) -> Address:
        """Parse the target of a redirect."""
        return Address.of(urljoin(f"{self.origin}{self.target}", location))

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.authority}"

    def __str__(self) -> str:
        """Return the URL for logs and messages, without its query, which often contains a token."""
        return f"{self.origin}{self.target.partition('?')[0]}"


def _credentials_of(split: SplitResult) -> str:
    if split.username is None:
        return ""
    pair = f"{unquote(split.username)}:{unquote(split.password or '')}"
    return f"Basic {b64encode(pair.encode()).decode('ascii')}"


def check_header(name: str, value: str) -> None:
    """Reject headers that `http.client` rejects. Values may be secret, so no value is shown."""
    if not name.isascii() or not _HEADER_NAME.fullmatch(name):
        raise InvalidRequest(f"{name!r} is no name of a header")
    if _LINE_BREAK.search(value):
        raise InvalidRequest(f"The header {name} has a line break in its value")


class Request(NamedTuple):
    """Request to send."""

    method: str
    address: Address
    headers: Mapping[str, str]
    body: bytes | None = None


class Response(NamedTuple):
    """Response; the names of its headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        _, _, charset = self.headers.get("content-type", "").partition("charset=")
        try:
            return self.body.decode(charset.strip(' "') or "utf-8", "replace")
        except LookupError:
            return self.body.decode("utf-8", "replace")

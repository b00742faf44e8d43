"""HTTP responses that are built once and sent many times."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from starlette.types import Send

from kanister_py.core.yaml.documents import dump_yaml
from kanister_py.http_api.negotiation import YAML, is_unchanged

Headers = tuple[tuple[bytes, bytes], ...]

# Browsers that guess the type could run text as a script.
NOSNIFF = (b"x-content-type-options", b"nosniff")
# Copies must be revalidated each time, because the next release responds differently.
_REVALIDATE = {"cache-control": "no-cache"}


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete response, ready to be sent."""

    status: int
    headers: Headers
    body: bytes = b""


def json_bytes(document: Any) -> bytes:
    return (json.dumps(document, ensure_ascii=False, indent=1) + "\n").encode()


def encoded_headers(headers: Mapping[str, str] | Iterable[tuple[str, str]]) -> Headers:
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return tuple((name.lower().encode("ascii"), value.encode("ascii")) for name, value in pairs)


def answer_of(
    status: int, media_type: str, body: bytes, headers: Mapping[str, str] | None = None
) -> Answer:
    """Build a response from its body and headers."""
    return Answer(
        status,
        (
            *encoded_headers({"content-type": media_type, "content-length": str(len(body))}),
            NOSNIFF,
            *encoded_headers({**_REVALIDATE, **(headers or {})}),
        ),
        body,
    )


def json_answer(status: int, document: Any, headers: Mapping[str, str] | None = None) -> Answer:
    return answer_of(status, "application/json", json_bytes(document), headers)


class Representation:
    """A resource in one media type, with a strong ETag, as a full or a 304 response."""

    __slots__ = ("etag", "unchanged", "whole")

    def __init__(
        self, media_type: str, body: bytes, headers: Mapping[str, str] | None = None
    ) -> None:
        text = f'"{sha256(body).hexdigest()[:32]}"'
        self.etag = text.encode()
        validators = {"etag": text, **_REVALIDATE, **(headers or {})}
        self.whole = answer_of(200, media_type, body, validators)
        self.unchanged = Answer(304, (NOSNIFF, *encoded_headers(validators)))

    def answer(self, if_none_match: bytes | None) -> Answer:
        if if_none_match is not None and is_unchanged(if_none_match, self.etag):
            return self.unchanged
        return self.whole


@dataclass(slots=True)
class Resource:
    """A document that is served as JSON or YAML.

    `url` has no suffix. YAML is rendered at the first request for it, because most clients use
    JSON.
    """

    url: str
    document: Any
    headers: Mapping[str, str] = field(default_factory=dict)
    _representations: dict[str, Representation] = field(default_factory=dict)

    def representation(self, media_type: str) -> Representation:
        representation = self._representations.get(media_type)
        if representation is None:
            representation = self._representations[media_type] = self._render(media_type)
        return representation

    def _render(self, media_type: str) -> Representation:
        suffix = "yaml" if media_type == YAML else "json"
        headers = {"vary": "Accept", "content-location": f"{self.url}.{suffix}", **self.headers}
        if media_type != YAML:
            return Representation(media_type, json_bytes(self.document), headers)
        return Representation(media_type, dump_yaml(self.document).encode(), headers)


async def send_answer(answer: Answer, send: Send, *, has_body: bool) -> None:
    """Send a response, without its body for HEAD requests."""
    await send(
        {
            "type": "http.response.start",
            "status": answer.status,
            "headers": list(answer.headers),
        }
    )
    await send({"type": "http.response.body", "body": answer.body if has_body else b""})

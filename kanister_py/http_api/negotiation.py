"""Content negotiation: the media type of a response, and conditional requests."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

JSON = "application/json"
YAML = "application/yaml"

# Names of YAML before application/yaml was registered. Responses use the registered name.
_YAML_NAMES = frozenset({YAML, "application/x-yaml", "text/yaml", "text/x-yaml"})

_QUALITY = re.compile(r"(0(\.\d{0,3})?|1(\.0{0,3})?)\Z", re.ASCII)
_LONGEST_CACHED = 1024

SUFFIXES = {".json": JSON, ".yaml": YAML}


class RequestOptions:
    """Headers of a request for content negotiation, and its query."""

    __slots__ = ("accept", "if_none_match", "query", "size")

    def __init__(self, headers: Iterable[tuple[bytes, bytes]], query: bytes = b"") -> None:
        accept = if_none_match = None
        size = 0
        for name, value in headers:
            size += len(name) + len(value)
            # A repeated header is equal to one header with all values as a list.
            if name == b"accept":
                accept = value if accept is None else accept + b"," + value
            elif name == b"if-none-match":
                if_none_match = value if if_none_match is None else if_none_match + b"," + value
        self.accept: bytes | None = accept
        self.if_none_match: bytes | None = if_none_match
        self.size = size
        self.query = query


def choose_media_type(accept: bytes | None) -> str | None:
    """Return JSON or YAML for an `Accept` header, or None if it accepts neither.

    JSON wins ties. The most specific range decides for each type; invalid ranges are ignored.
    """
    if accept is None or not accept.strip():
        return JSON
    if len(accept) > _LONGEST_CACHED:
        return _choose(accept)
    return _choose_cached(accept)


@lru_cache(maxsize=256)
def _choose_cached(accept: bytes) -> str | None:
    return _choose(accept)


def _choose(accept: bytes) -> str | None:
    # Best (specificity, quality) of each media type.
    json, yaml = (0, 0.0), (0, 0.0)
    for part in accept.decode("latin-1").lower().split(","):
        name, quality = _range_of(part)
        if quality is None:
            continue
        if name == "*/*":
            json, yaml = max(json, (1, quality)), max(yaml, (1, quality))
        elif name == "application/*":
            json, yaml = max(json, (2, quality)), max(yaml, (2, quality))
        elif name == "text/*":
            # text/* includes text/yaml, a former name of YAML.
            yaml = max(yaml, (1, quality))
        elif name == JSON:
            json = max(json, (3, quality))
        elif name in _YAML_NAMES:
            yaml = max(yaml, (3, quality))
    if not json[1] and not yaml[1]:
        return None
    return YAML if yaml[1] > json[1] else JSON


def _range_of(part: str) -> tuple[str, float | None]:
    name, *parameters = (piece.strip() for piece in part.split(";"))
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key.strip() == "q":
            quality = _QUALITY.match(value.strip())
            return name, float(value) if quality else None
    return name, 1.0


def split_suffix(text: str) -> tuple[str, str | None]:
    """Split `.json` or `.yaml` from a name. Returns the name and the media type, if any."""
    for suffix, media_type in SUFFIXES.items():
        if text.endswith(suffix):
            return text[: -len(suffix)], media_type
    return text, None


_TAG = re.compile(rb'(?:W/)?("[\x21\x23-\x7e\x80-\xff]*")')


def is_unchanged(if_none_match: bytes, etag: bytes) -> bool:
    """Check whether `If-None-Match` contains this ETag.

    Tags are compared weakly, as RFC 9110 requires: `W/"a"` equals `"a"`.
    """
    if if_none_match == etag:
        return True
    return if_none_match.strip() == b"*" or etag in _TAG.findall(if_none_match)

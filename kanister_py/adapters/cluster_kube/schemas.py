"""OpenAPI schemas of kinds, as the API server publishes them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from math import inf
from typing import Any, Final, NamedTuple

from kanister_py.adapters.cluster_kube.answers import Asked
from kanister_py.adapters.cluster_kube.requests import Request, Requests
from kanister_py.core.errors import (
    ApiError,
    BadRequest,
    Forbidden,
    InternalError,
    MethodNotAllowed,
    NotFound,
    TransientError,
)
from kanister_py.core.kube.openapi import schema_of_kind
from kanister_py.core.kube.request_paths import api_path

_log = logging.getLogger(__name__)

_INDEX: Final = "/openapi/v3"
# Nobody tells us when the server describes something otherwise.
_FRESH_SECONDS: Final = 60.0
# What is not described may be a moment old, and asked for by many.
_MISSING_SECONDS: Final = 5.0
# What the server says that is there and gives out nothing, and will say again.
_REFUSALS: Final = (BadRequest, Forbidden, InternalError, MethodNotAllowed, NotFound)


class _Index(NamedTuple):
    """Index of the groups and versions that are described, each with a mark of its content."""

    marks: Mapping[str, str]
    read_at: float
    is_readable: bool = True


class _Described(NamedTuple):
    """The kinds of one group and version that were asked for, under one mark."""

    mark: str
    fresh_until: float
    schemas: dict[str, Mapping[str, Any] | None]


class Schemas:
    """Descriptions of kinds, read when first asked for, and once more after a change.

    Descriptions are large: only what was asked for is kept. One that the server does not
    give out describes nothing; that is logged once. A server that is away is no answer:
    its last answer holds, and without one that is an error.
    """

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self._lock = threading.Lock()
        self._index: _Index | None = None
        self._described: dict[str, _Described] = {}
        self._unreadable: set[str] = set()

    def of_kind(self, api_version: str, kind: str) -> Mapping[str, Any] | None:
        """Give the schema of a kind, with nothing in it that refers elsewhere."""
        place = api_path(api_version)
        for seconds in (_FRESH_SECONDS, _MISSING_SECONDS):
            mark = self._marks(seconds).get(place)
            if mark is not None:
                schema = self._schema(place, mark, api_version, kind)
                if schema is not None:
                    return schema
        return None

    def _marks(self, seconds: float) -> Mapping[str, str]:
        now = self._requests.clock.monotonic()
        index = self._index
        if index is not None:
            age = seconds if index.is_readable else _FRESH_SECONDS
            if now - index.read_at < age:
                return index.marks
        try:
            listed = self._read(_INDEX)
        except TransientError:
            if index is None:
                raise
            # What was true a minute ago is better than nothing.
            return index.marks
        marks = {
            str(place): str((entry or {}).get("serverRelativeURL") or "")
            for place, entry in ((listed or {}).get("paths") or {}).items()
        }
        self._index = _Index(marks, now, listed is not None)
        return marks

    def _schema(
        self, place: str, mark: str, api_version: str, kind: str
    ) -> Mapping[str, Any] | None:
        now = self._requests.clock.monotonic()
        with self._lock:
            description = self._described.get(place)
            if (
                description is not None
                and description.mark == mark
                and now < description.fresh_until
            ):
                if kind in description.schemas:
                    return description.schemas[kind]
                if description.fresh_until < inf:
                    return None
        # Without the mark in its address: what has changed since is answered all the same.
        try:
            document = self._read(f"{_INDEX}/{place}")
        except TransientError:
            if description is None or description.schemas.get(kind) is None:
                raise
            return description.schemas[kind]
        schema = None if document is None else schema_of_kind(document, api_version, kind)
        with self._lock:
            description = self._described.get(place)
            if document is None:
                self._described[place] = _Described(mark, now + _FRESH_SECONDS, {})
            elif description is None or description.mark != mark or description.fresh_until < inf:
                self._described[place] = _Described(mark, inf, {kind: schema})
            else:
                description.schemas[kind] = schema
        return schema

    def _read(self, path: str) -> dict[str, Any] | None:
        """Read a document; None for one that the server does not let us read."""
        try:
            document = self._requests.json(
                Request("GET", path, Asked(path), is_repeatable=True, must_hold="paths")
            )
        except ApiError as error:
            if not isinstance(error, _REFUSALS):
                raise
            with self._lock:
                is_news = path not in self._unreadable
                self._unreadable.add(path)
            if is_news:
                _log.warning("%s cannot be read, schemas are missing: %s", path, error.message)
            return None
        with self._lock:
            self._unreadable.discard(path)
        return document

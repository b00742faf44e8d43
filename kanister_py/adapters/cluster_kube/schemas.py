"""OpenAPI schemas of kinds, as the API server publishes them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from math import inf
from typing import Any, Final, NamedTuple

from kanister_py.adapters.cluster_kube.error_responses import Subject
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
# The server does not announce changes of its schemas.
_FRESH_SECONDS: Final = 60.0
# A missing schema may have been published a moment ago; limits the requests for it.
_MISSING_SECONDS: Final = 5.0
# Errors that will not disappear with a retry.
_REFUSALS: Final = (BadRequest, Forbidden, InternalError, MethodNotAllowed, NotFound)


class _Index(NamedTuple):
    """Index of the groups and versions with schemas, each with a hash of its content."""

    marks: Mapping[str, str]
    read_at: float
    is_readable: bool = True


class _SchemasOfVersion(NamedTuple):
    """Requested schemas of one group and version, for one content hash."""

    mark: str
    fresh_until: float
    schemas: dict[str, Mapping[str, Any] | None]


class Schemas:
    """OpenAPI schemas of kinds, fetched when first needed, and again after a change.

    Documents are large, so only requested kinds are kept. A document that the server refuses is
    treated as empty, and logged once. If the server does not respond, the last result is used; if
    there is none, this is an error.
    """

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self._lock = threading.Lock()
        self._index: _Index | None = None
        self._described: dict[str, _SchemasOfVersion] = {}
        self._unreadable: set[str] = set()

    def of_kind(self, api_version: str, kind: str) -> Mapping[str, Any] | None:
        """Return the schema of a kind, with all references resolved."""
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
            # If the server does not respond, an outdated result is used.
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
        # The URL omits the hash: with it, a document that has changed since would not be returned.
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
                self._described[place] = _SchemasOfVersion(mark, now + _FRESH_SECONDS, {})
            elif description is None or description.mark != mark or description.fresh_until < inf:
                self._described[place] = _SchemasOfVersion(mark, inf, {kind: schema})
            else:
                description.schemas[kind] = schema
        return schema

    def _read(self, path: str) -> dict[str, Any] | None:
        """Fetch a document. Returns None if the server refuses it."""
        try:
            document = self._requests.json(
                Request("GET", path, Subject(path), is_repeatable=True, required_key="paths")
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

"""Watches of an API server: streams of changes that survive lost connections."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, Self

from kanister_py.adapters.cluster_kube.error_responses import Subject, error_of
from kanister_py.adapters.cluster_kube.requests import (
    Request,
    Requests,
    ResponseStream,
    StreamBroken,
    lines_of,
)
from kanister_py.core.errors import ClusterUnavailable, Expired, NotFound
from kanister_py.core.kube.parts import metadata_of
from kanister_py.core.kube.resources import ResourceKind
from kanister_py.ports.cluster import EventType, KubeObject, ObjectList, WatchEvent

# Limits the requests to a server that ends every watch immediately.
_SHORTEST_SECONDS: Final = 1.0


class WatchTarget(NamedTuple):
    """Objects to watch."""

    path: str
    kind: ResourceKind
    label_selector: str = ""
    field_selector: str = ""

    def query(self) -> list[tuple[str, str]]:
        selectors = [("labelSelector", self.label_selector), ("fieldSelector", self.field_selector)]
        return [pair for pair in selectors if pair[1]]


class KubeWatch(ResponseStream):
    """A stream of events over consecutive connections.

    When a connection ends, breaks or stays silent, the next one resumes after the last event. The
    stream ends only if it cannot be resumed: with `Expired` if the history is gone, or with
    `ClusterUnavailable` if the server does not respond.
    """

    def __init__(
        self,
        requests: Requests,
        target: WatchTarget,
        list_all: Callable[[], ObjectList],
        *,
        resource_version: str = "",
        timeout_seconds: float | None = None,
        bookmarks: bool = False,
    ) -> None:
        super().__init__(requests)
        self._watch_target = target
        self._version = resource_version
        self._bookmarks = bookmarks
        self._opened_at = float("-inf")
        clock = requests.clock
        self._deadline = None if timeout_seconds is None else clock.monotonic() + timeout_seconds
        first: Sequence[KubeObject] = ()
        if not resource_version:
            # Initial events of the server have no order in which a broken connection could be
            # resumed.
            listed = list_all()
            self._version, first = listed.resource_version, listed.items
        self._open()
        self._events = self._follow(first)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> WatchEvent:
        return next(self._events)

    # Stream

    def _follow(self, first: Sequence[KubeObject]) -> Iterator[WatchEvent]:
        try:
            for obj in first:
                if self._was_closed.is_set():
                    return
                yield WatchEvent(EventType.ADDED, obj)
            while not self._is_over():
                yield from self._read()
                if not self._is_over():
                    self._reopen()
        finally:
            self.close()
            self._drop()

    def _is_over(self) -> bool:
        if self._was_closed.is_set():
            return True
        return self._deadline is not None and self._requests.clock.monotonic() >= self._deadline

    def _read(self) -> Iterator[WatchEvent]:
        """Yield the events of one connection."""
        for line in self._lines():
            if self._was_closed.is_set():
                return
            event = json.loads(line)
            obj: KubeObject = event.get("object") or {}
            type_ = event.get("type")
            if type_ == "ERROR":
                raise error_of(int(obj.get("code") or 500), obj, self._subject)
            self._version = metadata_of(obj).get("resourceVersion") or self._version
            if type_ != "BOOKMARK":
                yield WatchEvent(EventType(type_), obj)
            elif self._bookmarks:
                yield WatchEvent(EventType.BOOKMARK, self._bookmark())

    def _lines(self) -> Iterator[bytes]:
        """Yield the complete lines of one connection, however it ends."""
        with suppress(StreamBroken):
            for line in lines_of(self._pieces()):
                if line.endswith(b"\n"):
                    yield line

    def _bookmark(self) -> KubeObject:
        kind = self._watch_target.kind
        return {
            "apiVersion": kind.gvr.api_version,
            "kind": kind.kind,
            "metadata": {"resourceVersion": self._version},
        }

    # Connections

    @property
    def _subject(self) -> Subject:
        return Subject(self._watch_target.kind.gvr.group_resource)

    def _open(self) -> None:
        requests, timing = self._requests, self._requests.timing
        now = requests.clock.monotonic()
        seconds = timing.watch * 0.75 + requests.jittered(timing.watch * 0.25)
        if self._deadline is not None:
            seconds = min(seconds, max(0.0, self._deadline - now))
        window = max(1, math.ceil(seconds))
        query = [
            *self._watch_target.query(),
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", self._version),
            ("timeoutSeconds", str(window)),
        ]
        self._opened_at = now
        self._ask(
            Request(
                "GET",
                self._watch_target.path,
                self._subject,
                query,
                is_repeatable=True,
                silence=window + timing.silence,
            )
        )

    def _reopen(self) -> None:
        self._drop()
        lasted = self._requests.clock.monotonic() - self._opened_at
        if lasted < _SHORTEST_SECONDS:
            self._requests.pause(self._requests.jittered(_SHORTEST_SECONDS))
            if self._requests.is_closed:
                raise ClusterUnavailable("The connection to the cluster was closed")
        try:
            self._open()
        except NotFound as error:
            # The kind no longer exists, and neither do its objects.
            raise Expired(f"too old resource version: {self._version}: {error}") from error

"""Reflector: the loop that lists and watches objects, and resumes after interruptions."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from threading import Condition, Thread, current_thread
from typing import Final, NamedTuple, Protocol

from kanister_py.core.errors import (
    ApiError,
    Expired,
    Forbidden,
    KanisterError,
    NotFound,
    TransientError,
)
from kanister_py.core.kube.resources import GroupVersionResource
from kanister_py.core.retries import NO_LIMIT, RetryRule
from kanister_py.ports.clock import Clock, pause
from kanister_py.ports.cluster import Cluster, EventType, KubeObject, ObjectList, Watch

_LOG: Final = logging.getLogger(__name__)


class Scope(NamedTuple):
    """The objects that a reflector lists and watches. No namespace means all namespaces."""

    resource: GroupVersionResource
    namespace: str = ""
    label_selector: str = ""


class Pacing(NamedTuple):
    """Sizes and times of lists and watches.

    Without `watch_seconds` the API server decides how long a watch lasts. `refused_seconds` is
    the minimum pause after an error that is not transient, such as a missing right.
    """

    page_size: int = 250
    watch_seconds: float | None = 300.0
    retry: RetryRule = RetryRule(NO_LIMIT, 0.5, 2.0, 30.0)
    refused_seconds: float = 5.0


STANDARD_PACING: Final = Pacing()


class Failure(NamedTuple):
    """A failed list or watch. `attempt` counts failures in a row, from one."""

    error: KanisterError
    message: str
    attempt: int
    is_repeated: bool
    """Whether the attempt before failed with the same message."""


class Receiver(Protocol):
    """Consumer of the objects that a reflector reads. Called from the reflector's thread.

    A `KanisterError` that it raises is treated like a failure of the cluster: the list, or the
    watch from the same event on, is tried again after a pause.
    """

    def on_list(self, scope: Scope, pages: Iterator[ObjectList]) -> str:
        """Receive a complete list; return the resourceVersion that the watch starts from."""

    def on_event(self, kind: EventType, obj: KubeObject) -> None: ...

    def on_failure(self, failure: Failure) -> None: ...


class Reflector:
    """Thread that lists a scope, then watches it from the list's resourceVersion.

    A watch that ends is resumed from the last event. The scope is listed again only if the
    cluster no longer has the history since then.
    """

    def __init__(
        self, cluster: Cluster, clock: Clock, scope: Scope, receiver: Receiver, pacing: Pacing
    ) -> None:
        self.scope: Final = scope
        self.has_listed = False
        self.is_watching = False
        self.is_refused = False
        """Whether the last response of the API server was Forbidden or NotFound."""
        self.problem = ""
        """Why the objects may be out of date; empty while the watch is open."""
        self._cluster = cluster
        self._clock = clock
        self._receiver = receiver
        self._pacing = pacing
        self._changed = Condition()
        self._thread: Thread | None = None
        self._watch: Watch | None = None
        self._is_closed = False
        self._failures = 0
        self._version = ""

    def start(self) -> None:
        """Start the thread; later calls do nothing."""
        with self._changed:
            if self._thread is not None:
                return
            name = f"watch {self.scope.resource.resource}"
            self._thread = Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            watch = self._watch
            self._changed.notify_all()
        if watch is not None:
            watch.close()

    def join(self) -> None:
        """Wait for the thread of a closed reflector; call it from any other thread."""
        with self._changed:
            thread = self._thread
        if thread is not None and thread is not current_thread():
            thread.join()

    def _run(self) -> None:
        while not self._is_closed:
            try:
                if not self._version:
                    # A list that fails halfway is repeated from its first page.
                    self._version = self._receiver.on_list(self.scope, self._pages())
                    self.has_listed = True
                    self._failures = 0
                self._watch_once()
            except Expired:
                self._version = ""
            except KanisterError as error:
                # Keep the version, so that events that were already received are not repeated.
                self._pause_after(error)
            except Exception:  # noqa: BLE001 # see below
                # A bug in the receiver must not end the watch.
                self.problem = f"A watch on {self.scope.resource.group_resource} failed"
                _LOG.exception("%s", self.problem)
                self._version = ""
                self._failures += 1
                self._pause(self._pacing.retry.delay_after(self._failures))

    def _pages(self) -> Iterator[ObjectList]:
        resource, namespace, label_selector = self.scope
        token = ""
        while True:
            page = self._cluster.list(
                resource,
                namespace=namespace,
                label_selector=label_selector,
                limit=self._pacing.page_size,
                continue_token=token,
            )
            yield page
            token = page.continue_token
            if not token:
                return

    def _watch_once(self) -> None:
        resource, namespace, label_selector = self.scope
        watch = self._cluster.watch(
            resource,
            namespace=namespace,
            label_selector=label_selector,
            resource_version=self._version,
            timeout_seconds=self._pacing.watch_seconds,
            bookmarks=True,
        )
        with self._changed:
            self._watch = watch
            is_closed = self._is_closed
        with watch:
            if is_closed:
                return
            self.is_watching = True
            self.is_refused = False
            self.problem = ""
            opened_at = self._clock.monotonic()
            try:
                for event in watch:
                    self._failures = 0
                    if event.type is not EventType.BOOKMARK:
                        self._receiver.on_event(event.type, event.object)
                    version = event.object["metadata"].get("resourceVersion")
                    self._version = version or self._version
            finally:
                self.is_watching = False
                held_seconds = self._clock.monotonic() - opened_at
                if held_seconds >= self._pacing.retry.max_backoff_seconds:
                    # The watch was healthy, even if there were no events.
                    self._failures = 0

    def _pause_after(self, error: KanisterError) -> None:
        self._failures += 1
        self.is_refused = isinstance(error, Forbidden | NotFound)
        where = f" in {self.scope.namespace}" if self.scope.namespace else ""
        message = f"Cannot watch {self.scope.resource.group_resource}{where}: {error.message}"
        is_repeated = message == self.problem
        self.problem = message
        if not self._is_closed:
            self._receiver.on_failure(Failure(error, message, self._failures, is_repeated))
        is_refusal = isinstance(error, ApiError) and not isinstance(error, TransientError)
        least_seconds = self._pacing.refused_seconds if is_refusal else 0.0
        self._pause(self._pacing.retry.delay_after(self._failures, least_seconds))

    def _pause(self, seconds: float) -> None:
        pause(self._clock, self._changed, seconds, lambda: self._is_closed)

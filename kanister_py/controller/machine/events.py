"""Events, as `kubectl describe` shows them. Repetitions of an event increase its count.

Events are posted in the background. They are dropped and counted if the queue is full, if they
cannot be posted, or if they are still queued when the controller stops.
"""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from threading import Condition, RLock, Thread
from typing import Any, Final, NamedTuple

from kanister_py.core.actionsets.status import text_of_time
from kanister_py.core.errors import KanisterError, LeadershipLost, NotFound
from kanister_py.core.kube.names import short_hash
from kanister_py.core.kube.resources import EVENTS
from kanister_py.ports.clock import Clock
from kanister_py.ports.cluster import Cluster, KubeObject

_LOG: Final = logging.getLogger(__name__)

COMPONENT: Final = "Kanister Controller"
NORMAL: Final = "Normal"
WARNING: Final = "Warning"

_NAMESPACE_OF_CLUSTER_SCOPED: Final = "default"
_MAX_MESSAGE_LENGTH: Final = 1024
_MAX_REASON_LENGTH: Final = 128
_THREADS: Final = 4
_MAX_QUEUED: Final = 2000
_MAX_REMEMBERED: Final = 1000


class Subject(NamedTuple):
    """The object that an event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: str = ""

    @property
    def event_namespace(self) -> str:
        """The only namespace in which the API server accepts events about the object."""
        return self.namespace or _NAMESPACE_OF_CLUSTER_SCOPED

    def as_dict(self) -> dict[str, str]:
        pairs = {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "name": self.name,
            "uid": self.uid,
            "namespace": self.namespace,
            "resourceVersion": self.resource_version,
        }
        return {key: value for key, value in pairs.items() if value}


PostEvent = Callable[[Subject, str, str, str], None]
"""Posts an event: its subject, type, reason and message."""


def subject_of(obj: KubeObject) -> Subject:
    """Return the reference to an object for its events."""
    metadata = obj["metadata"]
    return Subject(
        obj["apiVersion"],
        obj["kind"],
        metadata.get("namespace", ""),
        metadata["name"],
        metadata["uid"],
        metadata.get("resourceVersion", ""),
    )


class _Identity(NamedTuple):
    """Fields that repetitions of an event have in common."""

    uid: str
    kind: str
    reason: str
    message: str


@dataclass(slots=True, eq=False, repr=False)
class _Pending:
    subject: Subject
    identity: _Identity
    first: str
    last: str
    count: int = 1
    name: str = ""


class EventPoster:
    """Poster of events in background threads. Events about one object are posted in order.

    The queue and the memory of posted events are bounded.
    """

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        *,
        host: str = "",
        threads: int = _THREADS,
        on_dropped: Callable[[], None] | None = None,
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._host = host
        self._threads = threads
        self._on_dropped = on_dropped or (lambda: None)
        lock = RLock()
        self._posted, self._due = Condition(lock), Condition(lock)
        self._waiting: OrderedDict[_Identity, _Pending] = OrderedDict()
        self._of: OrderedDict[str, deque[_Identity]] = OrderedDict()
        """Queued events by the UID of their object, without objects in `_busy`."""
        self._busy: dict[str, deque[_Identity]] = {}
        """Queued events by the UID of their object, while a thread posts an event of the object."""
        self._posted_before: OrderedDict[_Identity, _Pending] = OrderedDict()
        self._started = 0
        self._is_closed = False

    def post(self, subject: Subject, kind: str, reason: str, message: str) -> None:
        """Queue an event about an object. Returns at once."""
        message = message if len(message) <= _MAX_MESSAGE_LENGTH else f"{message[:1023]}…"
        identity = _Identity(subject.uid, kind, reason[:_MAX_REASON_LENGTH], message)
        now = text_of_time(self._clock.now())
        with self._due:
            if self._is_closed:
                return
            waiting = self._waiting.get(identity)
            if waiting is not None:
                waiting.count += 1
                waiting.last = now
                return
            if len(self._waiting) >= _MAX_QUEUED:
                oldest, _ = self._waiting.popitem(last=False)
                self._queue_of(oldest.uid).popleft()
                self._on_dropped()
            self._waiting[identity] = _Pending(subject, identity, now, now)
            self._queue_of(identity.uid).append(identity)
            # Wake one thread. If a thread is posting an event of this object, it continues with
            # this one.
            self._due.notify()
            if self._started < min(self._threads, len(self._of) + len(self._busy)):
                self._started += 1
                Thread(target=self._run, name="events", daemon=True).start()

    def _queue_of(self, uid: str) -> deque[_Identity]:
        """Return the queued events of an object, the oldest first."""
        busy = self._busy.get(uid)
        return self._of.setdefault(uid, deque()) if busy is None else busy

    def close(self, timeout_seconds: float = 0.0) -> None:
        """Wait until the queued events are posted or the timeout ends. Drop all other events."""
        until = self._clock.monotonic() + timeout_seconds
        with self._due:
            while self._waiting or self._busy:
                left = until - self._clock.monotonic()
                if left <= 0:
                    break
                self._clock.wait(self._posted, left)
            self._is_closed = True
            for _ in self._waiting:
                self._on_dropped()
            self._waiting.clear()
            self._of.clear()
            self._due.notify_all()

    def _run(self) -> None:
        while (pending := self._take()) is not None:
            try:
                self._send(pending)
            except LeadershipLost:
                self._on_dropped()
            except KanisterError as error:
                _LOG.info("An event could not be posted: %s", error.message)
                self._on_dropped()
            except Exception:  # noqa: BLE001 # a bug must not keep later events from being posted
                _LOG.exception("An event could not be posted because of a bug")
                self._on_dropped()
            finally:
                self._finish(pending.identity.uid)

    def _take(self) -> _Pending | None:
        """Wait for an event of an object that is not busy. Returns None once closed."""
        with self._due:
            while not self._is_closed:
                while self._of:
                    uid, queue = self._of.popitem(last=False)
                    if queue:
                        self._busy[uid] = queue
                        return self._waiting.pop(queue.popleft())
                self._clock.wait(self._due)
        return None

    def _finish(self, uid: str) -> None:
        with self._due:
            queue = self._busy.pop(uid)
            if queue and not self._is_closed:
                self._of[uid] = queue
            self._posted.notify_all()

    def _send(self, pending: _Pending) -> None:
        identity = pending.identity
        with self._due:
            before = self._posted_before.get(identity)
            if before is not None:
                self._posted_before.move_to_end(identity)
        if before is not None:
            before.count += pending.count
            before.last = pending.last
            try:
                self._cluster.patch(
                    EVENTS,
                    before.name,
                    {"count": before.count, "lastTimestamp": before.last},
                    namespace=before.subject.event_namespace,
                )
            except NotFound:
                # The API server deletes events after an hour: post a new one.
                pass
            else:
                return
        mark = short_hash(*identity, pending.first, length=16)
        pending.name = f"{pending.subject.name[:200]}.{mark}"
        self._cluster.create(self._event_of(pending))
        with self._due:
            self._posted_before[identity] = pending
            if len(self._posted_before) > _MAX_REMEMBERED:
                self._posted_before.popitem(last=False)

    def _event_of(self, pending: _Pending) -> dict[str, Any]:
        subject, identity = pending.subject, pending.identity
        source = {"component": COMPONENT}
        if self._host:
            source["host"] = self._host
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": pending.name, "namespace": subject.event_namespace},
            "involvedObject": subject.as_dict(),
            "type": identity.kind,
            "reason": identity.reason,
            "message": identity.message,
            "source": source,
            "reportingComponent": COMPONENT,
            "firstTimestamp": pending.first,
            "lastTimestamp": pending.last,
            "count": pending.count,
        }

"""Events, as `kubectl describe` shows them; the same event once, and counted.

No run waits for its events, and what could not be posted in time is left out and counted.
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
_LONGEST_MESSAGE: Final = 1024
_LONGEST_REASON: Final = 128
_THREADS: Final = 4
_MOST_QUEUED: Final = 2000
_MOST_REMEMBERED: Final = 1000


class Subject(NamedTuple):
    """Which object something happened to."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: str = ""

    @property
    def event_namespace(self) -> str:
        """The namespace of events about the object; the API server accepts no other one."""
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
"""Takes a happening: to whom, its type, its reason and its message."""


def subject_of(obj: KubeObject) -> Subject:
    """Name an object as events do."""
    metadata = obj["metadata"]
    return Subject(
        obj["apiVersion"],
        obj["kind"],
        metadata.get("namespace", ""),
        metadata["name"],
        metadata["uid"],
        metadata.get("resourceVersion", ""),
    )


class _News(NamedTuple):
    """What makes two happenings the same."""

    uid: str
    kind: str
    reason: str
    message: str


@dataclass(slots=True, eq=False, repr=False)
class _Happening:
    subject: Subject
    news: _News
    first: str
    last: str
    count: int = 1
    name: str = ""


class EventPoster:
    """Poster of events with threads of its own: those of one object in order, others beside them.

    What waits is bounded, and so is what is remembered of what was posted.
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
        self._waiting: OrderedDict[_News, _Happening] = OrderedDict()
        self._of: OrderedDict[str, deque[_News]] = OrderedDict()
        """What waits of each object whose turn it is, by its UID; the rest waits for that."""
        self._busy: dict[str, deque[_News]] = {}
        self._known: OrderedDict[_News, _Happening] = OrderedDict()
        self._started = 0
        self._is_closed = False

    def post(self, subject: Subject, kind: str, reason: str, message: str) -> None:
        """Tell that something happened to an object. Comes back at once."""
        message = message if len(message) <= _LONGEST_MESSAGE else f"{message[:1023]}…"
        news = _News(subject.uid, kind, reason[:_LONGEST_REASON], message)
        now = text_of_time(self._clock.now())
        with self._due:
            if self._is_closed:
                return
            waiting = self._waiting.get(news)
            if waiting is not None:
                waiting.count += 1
                waiting.last = now
                return
            if len(self._waiting) >= _MOST_QUEUED:
                oldest, _ = self._waiting.popitem(last=False)
                self._queue_of(oldest.uid).popleft()
                self._on_dropped()
            self._waiting[news] = _Happening(subject, news, now, now)
            self._queue_of(news.uid).append(news)
            # One thread is enough, and who posts events of this object comes back for it.
            self._due.notify()
            if self._started < min(self._threads, len(self._of) + len(self._busy)):
                self._started += 1
                Thread(target=self._run, name="events", daemon=True).start()

    def _queue_of(self, uid: str) -> deque[_News]:
        """Give what waits of an object, the oldest first."""
        busy = self._busy.get(uid)
        return self._of.setdefault(uid, deque()) if busy is None else busy

    def close(self, timeout_seconds: float = 0.0) -> None:
        """Post what is queued, as far as time allows, and nothing after that."""
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
        while (happening := self._take()) is not None:
            try:
                self._send(happening)
            except LeadershipLost:
                self._on_dropped()
            except KanisterError as error:
                _LOG.info("An event could not be posted: %s", error.message)
                self._on_dropped()
            except Exception:  # noqa: BLE001 # the next event has nothing to do with it
                _LOG.exception("Posting an event fell over")
                self._on_dropped()
            finally:
                self._put_down(happening.news.uid)

    def _take(self) -> _Happening | None:
        """Wait for an event of an object of which none is being posted; None at the end."""
        with self._due:
            while not self._is_closed:
                while self._of:
                    uid, queue = self._of.popitem(last=False)
                    if queue:
                        self._busy[uid] = queue
                        return self._waiting.pop(queue.popleft())
                self._clock.wait(self._due)
        return None

    def _put_down(self, uid: str) -> None:
        with self._due:
            queue = self._busy.pop(uid)
            if queue and not self._is_closed:
                self._of[uid] = queue
            self._posted.notify_all()

    def _send(self, happening: _Happening) -> None:
        news = happening.news
        with self._due:
            before = self._known.get(news)
            if before is not None:
                self._known.move_to_end(news)
        if before is not None:
            before.count += happening.count
            before.last = happening.last
            try:
                self._cluster.patch(
                    EVENTS,
                    before.name,
                    {"count": before.count, "lastTimestamp": before.last},
                    namespace=before.subject.event_namespace,
                )
            except NotFound:
                # Events live for an hour: it is posted anew.
                pass
            else:
                return
        mark = short_hash(*news, happening.first, length=16)
        happening.name = f"{happening.subject.name[:200]}.{mark}"
        self._cluster.create(self._event_of(happening))
        with self._due:
            self._known[news] = happening
            if len(self._known) > _MOST_REMEMBERED:
                self._known.popitem(last=False)

    def _event_of(self, happening: _Happening) -> dict[str, Any]:
        subject, news = happening.subject, happening.news
        source = {"component": COMPONENT}
        if self._host:
            source["host"] = self._host
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": happening.name, "namespace": subject.event_namespace},
            "involvedObject": subject.as_dict(),
            "type": news.kind,
            "reason": news.reason,
            "message": news.message,
            "source": source,
            "reportingComponent": COMPONENT,
            "firstTimestamp": happening.first,
            "lastTimestamp": happening.last,
            "count": happening.count,
        }

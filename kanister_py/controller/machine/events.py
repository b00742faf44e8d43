"""What does `kubectl describe` tell of what happened? Events, the same thing told once and counted.

Telling is nobody's work but its own: a run never waits for it, and what nobody could be
told in time is left out.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from threading import Condition, Thread
from typing import Any, Final, NamedTuple

from kanister_py.core.actionsets.status import text_of_time
from kanister_py.core.errors import KanisterError, NotFound
from kanister_py.core.objects.names import short_hash
from kanister_py.core.objects.resources import EVENTS
from kanister_py.ports.clock import Clock
from kanister_py.ports.cluster import Cluster, KubeObject

_LOG: Final = logging.getLogger(__name__)

COMPONENT: Final = "Kanister Controller"
NORMAL: Final = "Normal"
WARNING: Final = "Warning"

_LONGEST_MESSAGE: Final = 1024
_LONGEST_REASON: Final = 128
_MOST_IN_LINE: Final = 2000
_MOST_REMEMBERED: Final = 4000


class Subject(NamedTuple):
    """Which object something happened to."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    resource_version: str = ""

    def as_dict(self) -> dict[str, str]:
        pairs = {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
            "resourceVersion": self.resource_version,
        }
        return {key: value for key, value in pairs.items() if value}


Tell = Callable[[Subject, str, str, str], None]
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


class _Told(NamedTuple):
    """What makes two happenings the same."""

    uid: str
    kind: str
    reason: str
    message: str


@dataclass(slots=True, eq=False, repr=False)
class _Happening:
    subject: Subject
    told: _Told
    first: str
    last: str
    count: int = 1
    name: str = ""


class EventPoster:
    """Posts events one after the other, in a thread of its own."""

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        *,
        host: str = "",
        on_dropped: Callable[[], None] | None = None,
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._host = host
        self._on_dropped = on_dropped or (lambda: None)
        self._changed = Condition()
        self._line: OrderedDict[_Told, _Happening] = OrderedDict()
        self._known: OrderedDict[_Told, _Happening] = OrderedDict()
        self._is_started = False
        self._is_closed = False
        self._is_posting = False

    def post(self, subject: Subject, kind: str, reason: str, message: str) -> None:
        """Tell that something happened to an object. Comes back at once."""
        message = message if len(message) <= _LONGEST_MESSAGE else f"{message[:1023]}…"
        told = _Told(subject.uid, kind, reason[:_LONGEST_REASON], message)
        now = text_of_time(self._clock.now())
        with self._changed:
            if self._is_closed:
                return
            waiting = self._line.get(told)
            if waiting is not None:
                waiting.count += 1
                waiting.last = now
                return
            if len(self._line) >= _MOST_IN_LINE:
                self._line.popitem(last=False)
                self._on_dropped()
            self._line[told] = _Happening(subject, told, now, now)
            self._changed.notify_all()
            if not self._is_started:
                self._is_started = True
                Thread(target=self._run, name="events", daemon=True).start()

    def close(self, timeout_seconds: float = 0.0) -> None:
        """Post what is in line, as far as time allows, and nothing after that."""
        until = self._clock.monotonic() + timeout_seconds
        with self._changed:
            while self._line or self._is_posting:
                left = until - self._clock.monotonic()
                if left <= 0:
                    break
                self._clock.wait(self._changed, left)
            self._is_closed = True
            self._line.clear()
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._is_posting = False
                self._changed.notify_all()
                while not self._line and not self._is_closed:
                    self._clock.wait(self._changed)
                if self._is_closed:
                    return
                _, happening = self._line.popitem(last=False)
                self._is_posting = True
            try:
                self._send(happening)
            except KanisterError as error:
                _LOG.info("An event could not be posted: %s", error.message)
                self._on_dropped()
            except Exception:  # noqa: BLE001 # the next event has nothing to do with it
                _LOG.exception("Posting an event fell over")

    def _send(self, happening: _Happening) -> None:
        before = self._known.get(happening.told)
        if before is not None:
            self._known.move_to_end(happening.told)
            before.count += happening.count
            before.last = happening.last
            try:
                self._cluster.patch(
                    EVENTS,
                    before.name,
                    {"count": before.count, "lastTimestamp": before.last},
                    namespace=before.subject.namespace,
                )
            except NotFound:
                # Events live for an hour.
                del self._known[happening.told]
            else:
                return
        subject, told = happening.subject, happening.told
        happening.name = _name_of(subject, told, happening.first)
        self._cluster.create(self._event_of(happening))
        self._known[told] = happening
        if len(self._known) > _MOST_REMEMBERED:
            self._known.popitem(last=False)

    def _event_of(self, happening: _Happening) -> dict[str, Any]:
        subject, told = happening.subject, happening.told
        source = {"component": COMPONENT}
        if self._host:
            source["host"] = self._host
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": happening.name, "namespace": subject.namespace},
            "involvedObject": subject.as_dict(),
            "type": told.kind,
            "reason": told.reason,
            "message": told.message,
            "source": source,
            "reportingComponent": COMPONENT,
            "firstTimestamp": happening.first,
            "lastTimestamp": happening.last,
            "count": happening.count,
        }


def _name_of(subject: Subject, told: _Told, first: str) -> str:
    return f"{subject.name[:200]}.{short_hash(*told, first, length=16)}"

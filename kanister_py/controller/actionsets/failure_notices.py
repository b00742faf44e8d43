"""Failure notices on their way: their receivers are found, and sending is tried again.

No run waits for any of it. Each place that notices may go to has a queue and a thread of its
own: one that hangs holds up none of the others.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from heapq import heappop, heappush
from threading import Condition, Thread
from typing import Final

from kanister_py.controller.actionsets.projection import Ended, acts_of, reason_of_end
from kanister_py.controller.machine.events import WARNING, Subject, subject_of
from kanister_py.controller.machine.metrics import Act
from kanister_py.controller.machine.part import PartTools
from kanister_py.core.actionsets.failure_notices import (
    FAILED,
    NOTIFY,
    RECOVERED,
    ActOfRun,
    Receiver,
    RunEnd,
    body_of,
    headers_of,
    origin_of,
    receiver_of,
)
from kanister_py.core.actionsets.status import CANCELLED, text_of_time
from kanister_py.core.errors import KanisterError, NotFound, TransientError
from kanister_py.core.objects.parts import annotations_of, namespace_of
from kanister_py.core.objects.resources import BLUEPRINTS, SECRETS, GroupVersionResource
from kanister_py.core.schedules.model import SCHEDULES
from kanister_py.ports.clock import Clock
from kanister_py.ports.cluster import KubeObject
from kanister_py.ports.notice_receivers import NoticeReceivers
from kanister_py.values import NamedTuple

_LOG: Final = logging.getLogger(__name__)

_MOST_WAITING: Final = 1_000
_MOST_HEARD: Final = 10_000
_RETRY_SECONDS: Final = (1.0, 5.0, 15.0, 60.0, 120.0, 300.0, 300.0, 600.0)
_LATE: Final = timedelta(minutes=10)
"""How old an end may be that this process hears of for the first time, after a restart too."""


class _Waiting(NamedTuple):
    """A notice and when it is due; the number keeps their order."""

    due: float
    number: int
    attempt: int
    end: RunEnd
    subject: Subject
    receiver: Receiver | None = None


class FailureNotices:
    """Notices of what runs come to, sent where a Schedule or Blueprint says so."""

    def __init__(self, tools: PartTools, receivers: NoticeReceivers) -> None:
        self._tools = tools
        self._receivers = receivers
        self._heard: dict[str, None] = {}
        self._finder = _Lane(tools.clock, "notices", self._find, self._count)
        self._lanes = {
            origin: _Lane(tools.clock, f"notices to {origin}", self._send, self._count)
            for origin in receivers.origins
        }

    def start(self) -> None:
        for each in (self._finder, *self._lanes.values()):
            each.start()

    def close(self) -> None:
        for each in (self._finder, *self._lanes.values()):
            each.close()

    def on_end(self, obj: KubeObject, ended: Ended, *, was_failing: bool) -> None:
        """Hear of a run that ended, as often as its object changes. Takes no time."""
        age = self._tools.clock.now() - ended.ended_at
        reason, phase = ("", "") if ended.is_complete else reason_of_end(obj)
        is_news = was_failing if ended.is_complete else reason != CANCELLED
        if not is_news or abs(age) > _LATE or ended.uid in self._heard:
            return
        self._heard[ended.uid] = None
        if len(self._heard) > _MOST_HEARD:
            del self._heard[next(iter(self._heard))]
        acts: Sequence[Act] = tuple(acts_of(obj))
        end = RunEnd(
            RECOVERED if ended.is_complete else FAILED,
            namespace_of(obj),
            obj["metadata"]["name"],
            ended.uid,
            acts[0].schedule if acts else "",
            [ActOfRun(each.blueprint, each.action, each.object) for each in acts],
            text_of_time(ended.ended_at),
            reason,
            phase,
        )
        self._finder.add(end, subject_of(obj))

    # For whom it is

    def _find(self, waiting: _Waiting) -> bool:
        """Find out to whom a notice goes, and hand it on; False to be asked again."""
        try:
            for where, name in self._named(waiting.end):
                self._hand_on(waiting, where, name)
        except TransientError:
            return False
        return True

    def _named(self, end: RunEnd) -> Sequence[tuple[str, str]]:
        """Give namespace and name of the Secrets: the Schedule's if it says one."""
        named = self._secret_of(SCHEDULES, end.namespace, end.schedule) if end.schedule else ""
        if named:
            return [(end.namespace, named)]
        found: dict[tuple[str, str], None] = {}
        for blueprint in dict.fromkeys(each.blueprint for each in end.actions):
            where, _, name = blueprint.rpartition("/")
            if named := self._secret_of(BLUEPRINTS, where or end.namespace, name):
                found[where or end.namespace, named] = None
        return list(found)

    def _secret_of(self, resource: GroupVersionResource, namespace: str, name: str) -> str:
        try:
            found = self._tools.cluster.get(resource, name, namespace=namespace)
        except TransientError:
            raise
        except KanisterError:
            # Who is gone, or may not be seen, wants to know nothing.
            return ""
        return str(annotations_of(found).get(NOTIFY) or "")

    def _hand_on(self, waiting: _Waiting, namespace: str, name: str) -> None:
        try:
            try:
                secret = self._tools.cluster.get(SECRETS, name, namespace=namespace)
            except NotFound as error:
                raise KanisterError(error.message, reason="NoticeReceiverMissing") from error
            receiver = receiver_of(secret, self._receivers.origins)
        except TransientError:
            raise
        except KanisterError as error:
            message = f"No notice of it: Secret {namespace}/{name}: {error.message}"
            self._tools.tell(waiting.subject, WARNING, error.reason, message)
            self._count("refused")
            return
        lane = self._lanes[origin_of(receiver.url)]
        lane.add(waiting.end, waiting.subject, receiver)

    # On its way

    def _send(self, waiting: _Waiting) -> bool:
        """Deliver a notice; False to be asked again."""
        assert waiting.receiver is not None
        url, key = waiting.receiver
        body = body_of(waiting.end)
        seconds = int(self._tools.clock.now().timestamp())
        try:
            status = self._receivers.post(url, body, headers_of(waiting.end, body, key, seconds))
        except TransientError:
            return False
        if status >= 500 or status in (408, 425, 429):
            return False
        if 200 <= status < 300:
            self._count("sent")
            return True
        # An answer may say anything: its number is all that is reported of it.
        message = f"The notice of it was answered with {status} by {origin_of(url)}"
        self._tools.tell(waiting.subject, WARNING, "NoticeRefused", message)
        self._count("refused")
        return True

    def _count(self, outcome: str) -> None:
        self._tools.metrics.count_notice(outcome)


@dataclass(slots=True, eq=False, repr=False)
class _Lane:
    """Notices that wait, and the thread that takes up one after the other when it is due."""

    _clock: Clock
    _name: str
    _act: Callable[[_Waiting], bool]
    _count: Callable[[str], None]
    _changed: Condition = field(default_factory=Condition)
    _waiting: list[_Waiting] = field(default_factory=list)
    _number: int = 0
    _is_closed: bool = False

    def start(self) -> None:
        Thread(target=self._work, name=self._name, daemon=True).start()

    def close(self) -> None:
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def add(self, end: RunEnd, subject: Subject, receiver: Receiver | None = None) -> None:
        self._put(_Waiting(self._clock.monotonic(), 0, 0, end, subject, receiver))

    def _put(self, waiting: _Waiting) -> None:
        with self._changed:
            if len(self._waiting) >= _MOST_WAITING:
                self._count("dropped")
                return
            self._number += 1
            heappush(self._waiting, waiting._replace(number=self._number))
            self._changed.notify_all()

    def _next(self) -> _Waiting | None:
        with self._changed:
            while not self._is_closed:
                left = self._waiting[0].due - self._clock.monotonic() if self._waiting else None
                if left is not None and left <= 0:
                    return heappop(self._waiting)
                self._clock.wait(self._changed, left)
        return None

    def _work(self) -> None:
        while (waiting := self._next()) is not None:
            try:
                if self._act(waiting):
                    continue
            except KanisterError as error:
                _LOG.warning("A notice cannot be sent: %s", error.message)
            except Exception:  # noqa: BLE001 # whatever one notice does, the others are sent
                _LOG.exception("Sending a notice fell over")
            if waiting.attempt >= len(_RETRY_SECONDS):
                end = waiting.end
                message = "The notice of ActionSet %s/%s was given up after %d attempts"
                _LOG.warning(message, end.namespace, end.name, waiting.attempt + 1)
                self._count("dropped")
                continue
            due = self._clock.monotonic() + _RETRY_SECONDS[waiting.attempt]
            self._put(waiting._replace(due=due, attempt=waiting.attempt + 1))

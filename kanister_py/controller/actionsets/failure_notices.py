"""Sending failure notices, with retries, in the background.

Notices are sent one at a time to each origin, and there is a thread for each origin, so that
an origin that hangs does not delay the others.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from threading import Lock
from typing import Final

from kanister_py.controller.actionsets.projection import Ended, action_labels_of, reason_of_end
from kanister_py.controller.machine.events import WARNING, Subject, subject_of
from kanister_py.controller.machine.metrics import ActionLabels
from kanister_py.controller.machine.part import PartTools
from kanister_py.controller.machine.work_loop import DONE, PassResult, WorkLoop
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
from kanister_py.core.kube.parts import annotations_of, namespace_of
from kanister_py.core.kube.resources import BLUEPRINTS, SECRETS, GroupVersionResource
from kanister_py.core.retries import RetryRule
from kanister_py.core.schedules.model import SCHEDULES
from kanister_py.ports.cluster import KubeObject
from kanister_py.ports.notice_receivers import NoticeReceivers

_LOG: Final = logging.getLogger(__name__)

_MAX_WAITING: Final = 1_000
_MAX_REPORTED: Final = 10_000
_RETRY: Final = RetryRule(limit=8, backoff_seconds=1.0, factor=3.0, max_backoff_seconds=600.0)
_RETRY_LATER: Final = PassResult(has_failed=True)
_MAX_AGE: Final = timedelta(minutes=10)
"""Maximum age of the end of a run for a notice. After a restart, older ends are not reported."""


@dataclass(slots=True, frozen=True, eq=False, repr=False)
class _Notice:
    """A queued notice. Without a receiver, the first step is to find its receivers."""

    end: RunEnd
    subject: Subject
    receiver: Receiver | None = None

    @property
    def origin(self) -> str:
        """Origin of the receiver's URL; empty without a receiver."""
        return "" if self.receiver is None else origin_of(self.receiver.url)

    def __str__(self) -> str:
        # For the log, which must contain neither the address nor the key.
        return f"of ActionSet {self.end.namespace}/{self.end.name}"


class FailureNotices:
    """Notices of failed and recovered runs, for the receivers that Schedules or Blueprints name."""

    def __init__(self, tools: PartTools, receivers: NoticeReceivers) -> None:
        self._tools = tools
        self._receivers = receivers
        self._reported: dict[str, None] = {}
        self._lock = Lock()
        self._held: dict[str, int] = defaultdict(int)
        """Number of queued notices for each origin."""
        self._loop: WorkLoop[_Notice] = WorkLoop(
            "Notice",
            tools,
            threads=len(receivers.origins) + 1,
            groups_of=lambda notice: ((notice.origin, 1),),
            retry=_RETRY,
            give_up=self._give_up,
        )

    def start(self) -> None:
        self._loop.start(self._process)

    def close(self) -> None:
        self._loop.close()

    def on_end(self, obj: KubeObject, ended: Ended, *, was_failing: bool) -> None:
        """Queue a notice for a run that failed, or that succeeded after a failure.

        Called for every change of the object, so notices are only queued once per run.
        """
        age = self._tools.clock.now() - ended.ended_at
        reason, phase = ("", "") if ended.is_complete else reason_of_end(obj)
        is_news = was_failing if ended.is_complete else reason != CANCELLED
        if not is_news or abs(age) > _MAX_AGE or ended.uid in self._reported:
            return
        self._reported[ended.uid] = None
        if len(self._reported) > _MAX_REPORTED:
            del self._reported[next(iter(self._reported))]
        action_labels: Sequence[ActionLabels] = tuple(action_labels_of(obj))
        end = RunEnd(
            RECOVERED if ended.is_complete else FAILED,
            namespace_of(obj),
            obj["metadata"]["name"],
            ended.uid,
            action_labels[0].schedule if action_labels else "",
            [ActOfRun(act.blueprint, act.action, act.object) for act in action_labels],
            text_of_time(ended.ended_at),
            reason,
            phase,
        )
        self._add(_Notice(end, subject_of(obj)))

    def _add(self, notice: _Notice) -> None:
        with self._lock:
            has_room = self._held[notice.origin] < _MAX_WAITING
            self._held[notice.origin] += has_room
        if has_room:
            self._loop.queue.add(notice)
        else:
            self._count("dropped")

    def _process(self, notice: _Notice) -> PassResult:
        try:
            result = self._find(notice) if notice.receiver is None else self._send(notice)
        except TransientError:
            return _RETRY_LATER
        if not result.has_failed:
            self._release(notice)
        return result

    def _give_up(self, notice: _Notice) -> None:
        _LOG.warning("The notice %s was dropped after %d attempts", notice, _RETRY.limit + 1)
        self._count("dropped")
        self._release(notice)

    def _release(self, notice: _Notice) -> None:
        with self._lock:
            self._held[notice.origin] -= 1

    # Receivers

    def _find(self, notice: _Notice) -> PassResult:
        """Find the receivers of a notice, and queue a notice for each."""
        for namespace, name in self._secrets_of(notice.end):
            self._add_for(notice, namespace, name)
        return DONE

    def _secrets_of(self, end: RunEnd) -> Sequence[tuple[str, str]]:
        """Return namespace and name of the receivers' Secrets.

        The Schedule's Secret takes precedence over the Blueprints' Secrets.
        """
        named = self._secret_of(SCHEDULES, end.namespace, end.schedule) if end.schedule else ""
        if named:
            return [(end.namespace, named)]
        names: dict[tuple[str, str], None] = {}
        for blueprint in dict.fromkeys(action.blueprint for action in end.actions):
            where, _, name = blueprint.rpartition("/")
            if named := self._secret_of(BLUEPRINTS, where or end.namespace, name):
                names[where or end.namespace, named] = None
        return list(names)

    def _secret_of(self, resource: GroupVersionResource, namespace: str, name: str) -> str:
        try:
            obj = self._tools.cluster.get(resource, name, namespace=namespace)
        except TransientError:
            raise
        except KanisterError:
            # The Schedule or Blueprint is gone, or may not be read.
            return ""
        return str(annotations_of(obj).get(NOTIFY) or "")

    def _add_for(self, notice: _Notice, namespace: str, name: str) -> None:
        """Queue a notice for the receiver in a Secret."""
        try:
            try:
                secret = self._tools.cluster.get(SECRETS, name, namespace=namespace)
            except NotFound as error:
                raise KanisterError(error.message, reason="NoticeReceiverMissing") from error
            receiver = receiver_of(secret, self._receivers.origins)
        except TransientError:
            raise
        except KanisterError as error:
            message = f"No notice was sent: Secret {namespace}/{name}: {error.message}"
            self._tools.post_event(notice.subject, WARNING, error.reason, message)
            self._count("refused")
            return
        self._add(_Notice(notice.end, notice.subject, receiver))

    # Sending

    def _send(self, notice: _Notice) -> PassResult:
        """Deliver a notice to its receiver."""
        assert notice.receiver is not None
        url, key = notice.receiver
        body = body_of(notice.end)
        seconds = int(self._tools.clock.now().timestamp())
        status = self._receivers.post(url, body, headers_of(notice.end, body, key, seconds))
        if status >= 500 or status in (408, 425, 429):
            return _RETRY_LATER
        if 200 <= status < 300:
            self._count("sent")
            return DONE
        # The response is untrusted, so only its status is reported.
        message = f"{origin_of(url)} returned {status} for the notice"
        self._tools.post_event(notice.subject, WARNING, "NoticeRefused", message)
        self._count("refused")
        return DONE

    def _count(self, outcome: str) -> None:
        self._tools.metrics.count_notice(outcome)

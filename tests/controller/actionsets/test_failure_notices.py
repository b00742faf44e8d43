"""Notices of failures and of the first success after: signatures, retries and limits."""

from __future__ import annotations

import hmac
import time
from collections.abc import Iterator, Mapping
from queue import Queue
from threading import Event
from typing import Any

import pytest

from kanister_py.adapters.notices_http import HttpNotices
from kanister_py.controller.actionsets.failure_notices import FailureNotices
from kanister_py.controller.actionsets.projection import Ended
from kanister_py.controller.controller import Controller
from kanister_py.core.actionsets.creation import SCHEDULE_LABEL
from kanister_py.core.actionsets.failure_notices import NOTIFY
from kanister_py.core.errors import TransientError
from kanister_py.core.kube.resources import BLUEPRINTS, EVENTS
from kanister_py.embedded.cluster.cluster import MemoryCluster
from tests.controller.actionsets.notice_receiver import KEY, Webhook, secret, webhook
from tests.controller.conftest import PATIENCE_SECONDS, Environment, actionset, blueprint, phase
from tests.controller.part_tools import part_tools
from tests.fake_clock import FakeClock

__all__ = ["webhook"]


def notifying(*phases: Any, name: str, secret_name: str = "pager") -> dict[str, Any]:
    manifest = blueprint(*phases, name=name)
    manifest["metadata"]["annotations"] = {NOTIFY: secret_name}
    return manifest


def sent(controller: Controller, outcome: str, count: int) -> None:
    value = controller.metrics.registry.get_sample_value
    until = time.monotonic() + PATIENCE_SECONDS
    labels = {"outcome": outcome}
    while value("kanister_py_notices_total", labels) != count and time.monotonic() < until:
        Event().wait(0.005)
    assert value("kanister_py_notices_total", labels) == count


def test_a_failure_and_the_first_success_after_it_are_sent_with_signatures(
    env: Environment, webhook: Webhook
) -> None:
    env.create(secret(f"{webhook.origin}/hooks/1?room=ops"))
    env.create(notifying(phase("Fails"), name="backup"))
    controller = env.controller(receivers=HttpNotices([webhook.origin]))
    env.create(actionset("first", blueprint="backup"))
    env.until_state("failed", "first")
    (notice,) = webhook.until(1)
    seconds = notice.headers["X-Kanister-Py-Timestamp"]
    signed = hmac.new(KEY.encode(), seconds.encode() + b"." + notice.body, "sha256").hexdigest()
    assert notice.path == "/hooks/1?room=ops"
    assert notice.headers["X-Kanister-Py-Signature"] == f"sha256={signed}"
    assert abs(int(seconds) - time.time()) < 600
    status, uid = env.status("first"), env.get("first")["metadata"]["uid"]
    content = notice.content
    assert content.pop("endedAt")
    assert content == {
        "version": 1,
        "event": "failed",
        "namespace": "default",
        "actionSet": "first",
        "uid": uid,
        "schedule": "",
        "actions": [
            {"blueprint": "backup", "action": "act", "object": "Namespace/default/default"}
        ],
        "reason": status["error"]["reason"],
        "phase": "fails",
    }
    assert notice.headers["X-Kanister-Py-Delivery"] == f"{uid}-failed"
    # The function's message must not leave the cluster.
    assert b"no luck" not in notice.body

    env.cluster.delete(BLUEPRINTS, "backup", namespace="default")
    env.create(notifying(phase("Echo"), name="backup"))
    for name in ("second", "third"):
        env.create(actionset(name, blueprint="backup"))
        env.until_state("complete", name)
    env.create(actionset("refused", blueprint="backup", action={"name": "no-such"}))
    env.until_state("failed", "refused")
    events = [
        (notice.content["event"], notice.content["actionSet"]) for notice in webhook.until(3)[1:]
    ]
    assert sorted(events) == [("failed", "refused"), ("recovered", "second")]
    sent(controller, "sent", 3)


def test_the_receiver_of_a_schedule_is_used_for_its_runs(
    env: Environment, webhook: Webhook
) -> None:
    env.create(secret(f"{webhook.origin}/schedule", "nights"), secret(webhook.origin))
    env.create(notifying(phase("Fails"), name="backup"))
    schedule = {
        "apiVersion": "kanister-py.io/v1alpha1",
        "kind": "Schedule",
        "metadata": {"name": "nightly", "namespace": "default", "annotations": {NOTIFY: "nights"}},
        "spec": {
            "suspend": True,
            "schedule": "0 2 * * *",
            "template": {"spec": actionset()["spec"]},
        },
    }
    env.create(schedule)
    env.controller(receivers=HttpNotices([webhook.origin]))
    labels = {"labels": {SCHEDULE_LABEL: "nightly"}}
    env.create(actionset("night", blueprint="backup", metadata=labels))
    (notice,) = webhook.until(1)
    assert (notice.path, notice.content["schedule"]) == ("/schedule", "nightly")


def test_an_unavailable_receiver_is_retried_without_delaying_others(
    env: Environment, webhook: Webhook
) -> None:
    webhook.answers = [503]
    webhook.goes_on.clear()
    env.create(secret(webhook.origin), notifying(phase("Fails"), name="bad"))
    env.create(blueprint(phase("Echo")))
    controller = env.controller(receivers=HttpNotices([webhook.origin]))
    env.create(actionset("bad", blueprint="bad"))
    webhook.until(1)
    env.create(actionset("good"))
    env.until_state("complete", "good")
    webhook.goes_on.set()
    sent(controller, "sent", 1)
    first, *again = webhook.notices
    assert again
    assert {notice.body for notice in again} == {first.body}
    # All attempts carry the same delivery ID.
    assert len(webhook.until(1)) == 1


@pytest.fixture
def elsewhere() -> Iterator[Webhook]:
    receiver = Webhook()
    yield receiver
    receiver.close()


@pytest.mark.parametrize("how", ["its own word", "a redirection", "a name that looks like it"])
def test_notices_are_sent_only_to_allowed_origins(
    env: Environment, webhook: Webhook, elsewhere: Webhook, how: str
) -> None:
    url = webhook.origin
    if how == "its own word":
        url = elsewhere.origin
    elif how == "a redirection":
        webhook.answers, webhook.location = [307], elsewhere.origin
    else:
        url = f"{webhook.origin}@{elsewhere.origin.removeprefix('http://')}/"
    env.create(secret(url), notifying(phase("Fails"), name="bad"))
    controller = env.controller(receivers=HttpNotices([webhook.origin]))
    env.create(actionset("bad", blueprint="bad"))
    sent(controller, "refused", 1)
    until = time.monotonic() + PATIENCE_SECONDS
    messages: list[str] = []
    while not messages and time.monotonic() < until:
        events = env.cluster.list(EVENTS).items
        messages = [event["message"] for event in events if event["reason"].startswith("NoticeRec")]
        messages += [event["message"] for event in events if event["reason"] == "NoticeRefused"]
        Event().wait(0.005)
    (message,) = messages
    assert "307" in message if how == "a redirection" else "--notify ORIGIN" in message
    assert elsewhere.notices == []
    assert bool(webhook.notices) is (how == "a redirection")


def test_the_next_controller_sends_the_notice_of_a_killed_one(
    env: Environment, webhook: Webhook
) -> None:
    env.create(secret(webhook.origin), notifying(phase("Fails"), name="bad"))
    first = env.controller()
    env.create(actionset("bad", blueprint="bad"))
    env.until_state("failed", "bad")
    first.stop()
    env.controller(receivers=HttpNotices([webhook.origin]))
    (notice,) = webhook.until(1)
    assert notice.content["event"] == "failed"


class Away:
    """A receiver that never answers, and records the times of the calls."""

    origins = ("https://away.example.org:443",)

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.called_at: Queue[float] = Queue()

    def post(self, _url: str, _body: bytes, _headers: Mapping[str, str]) -> int:
        self.called_at.put(self._clock.monotonic())
        raise TransientError("Nobody answers", reason="NoticeNotDelivered")


def test_notices_to_an_unavailable_receiver_are_dropped_after_half_an_hour(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = FakeClock()
    cluster = MemoryCluster(clock=clock)
    cluster.create(secret("https://away.example.org/hook"))
    cluster.create(notifying(phase("Fails"), name="bad"))
    tools, away = part_tools(cluster, clock), Away(clock)
    notices = FailureNotices(tools, away)
    run = actionset("bad", blueprint="bad")
    run["metadata"]["uid"] = "1"
    notices.on_end(run, Ended("1", is_complete=False, ended_at=clock.now()), was_failing=False)
    notices.start()
    calls = [away.called_at.get(timeout=PATIENCE_SECONDS)]
    for wait in (1, 3, 9, 27, 81, 243, 600, 600):
        assert clock.wait_for_sleepers(1)
        clock.advance(wait)
        calls.append(away.called_at.get(timeout=PATIENCE_SECONDS))
    assert calls == [0, 1, 4, 13, 40, 121, 364, 964, 1564]
    dropped = ("kanister_py_notices_total", {"outcome": "dropped"})
    until = time.monotonic() + PATIENCE_SECONDS
    while not tools.metrics.registry.get_sample_value(*dropped) and time.monotonic() < until:
        Event().wait(0.005)
    assert tools.metrics.registry.get_sample_value(*dropped) == 1
    assert "notice of ActionSet default/bad was dropped after 9 attempts" in caplog.text
    notices.close()
    tools.timers.close()


def test_at_most_a_thousand_notices_are_queued() -> None:
    clock = FakeClock()
    tools = part_tools(MemoryCluster(clock=clock), clock)
    notices = FailureNotices(tools, Away(clock))
    for number in range(1_003):
        run = actionset("bad", blueprint="bad")
        run["metadata"]["uid"] = str(number)
        ended = Ended(str(number), is_complete=False, ended_at=clock.now())
        notices.on_end(run, ended, was_failing=False)
    value = tools.metrics.registry.get_sample_value
    assert value("kanister_py_notices_total", {"outcome": "dropped"}) == 3

"""The controller on a real API server: runs, crashes, replicas, and faults."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from e2e.cluster.client import ApiClient, ApiFailed, ApiUnreachable
from e2e.cluster.local import LocalCluster
from e2e.conftest import Kubectl, make_namespace
from e2e.controllers import (
    PATIENCE_SECONDS,
    Place,
    definitions,
    gate,
    install_definitions,
    is_gone,
    is_served,
    kube_ops,
    kube_task,
    make_gate,
    open_gate,
    place,
    until,
)
from e2e.faults.faults import Hold
from e2e.faults.proxy import FaultProxy
from e2e.faults.requests import ApiRequest
from kanister_py.cli.exit_codes import LEADERSHIP_LOST

__all__ = ["definitions", "place"]


@contextmanager
def stalls() -> Iterator[list[float]]:
    """Measure scheduling delays of this machine during the block."""
    delays, is_over = list[float](), threading.Event()

    def look() -> None:
        step = 0.05
        began = time.monotonic()
        while not is_over.wait(step):
            now = time.monotonic()
            delays.append(max(0.0, now - began - 2 * step))
            began = now

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield delays
    finally:
        is_over.set()
        thread.join()


def test_action_sets_run_and_kubectl_shows_their_progress(place: Place, kubectl: Kubectl) -> None:
    place.blueprint("made-up", kube_ops(place.namespace))
    place.start()
    place.actionset("one", "made-up")
    assert place.until_ended("one")["state"] == "complete", place.logs()
    shown = kubectl("-n", place.namespace, "get", "actionset", "one").stdout.decode()
    assert "complete" in shown
    assert "100" in shown


def test_stopped_replica_exits_with_zero_and_the_next_one_leads_at_once(place: Place) -> None:
    place.blueprint("gated", gate(place.namespace), kube_ops(place.namespace))
    make_gate(place)
    first = place.start(identity="first")
    place.actionset("one", "gated")
    place.until_running("one")
    first.send_signal(signal.SIGTERM)
    assert first.wait(PATIENCE_SECONDS) == 0, place.logs()
    place.start(identity="second")
    open_gate(place)
    status = place.until_ended("one")
    assert status["state"] == "complete", place.logs()
    assert status["actions"][0]["phases"][0]["attempt"] == 1


def test_standby_takes_over_within_fifteen_seconds_of_a_kill(place: Place) -> None:
    place.blueprint("gated", gate(place.namespace), kube_ops(place.namespace))
    make_gate(place)
    first = place.start("--leader-elect", identity="first")
    place.actionset("one", "gated")
    place.until_running("one")
    place.start("--leader-elect", identity="second")
    lease = (
        f"/apis/coordination.k8s.io/v1/namespaces/{place.namespace}/leases/kanister-py-controller"
    )
    until(lambda: "Standby second: first is the leader" in place.logs())
    with stalls() as stalled:
        first.kill()
        began = time.monotonic()
        until(lambda: place.client.get(lease)["spec"]["holderIdentity"] == "second")
        took = time.monotonic() - began
    # Delays of the machine affect the other replica in the same way, so they do not count.
    assert took - sum(stalled) < 15.0
    open_gate(place)
    assert place.until_ended("one")["state"] == "complete", place.logs()


def test_a_second_controller_without_leader_election_is_refused(place: Place) -> None:
    place.start(identity="first")
    until(lambda: "Leader as first" in place.logs())
    second = place.start(identity="second")
    assert second.wait(PATIENCE_SECONDS) == 1
    assert "Another kanister-py controller (first)" in place.logs()


class Moment(NamedTuple):
    """The n-th write of a kind in a run: before the API server receives it, or after it is done."""

    verb: str
    resource: str
    subresource: str
    number: int
    is_done: bool

    def __str__(self) -> str:
        when = "after" if self.is_done else "before"
        what = "/".join(filter(None, (self.resource, self.subresource)))
        return f"{when} {self.verb} {what} number {self.number}"


def moments_of(writes: Sequence[ApiRequest], *, is_long: bool) -> list[Moment]:
    """Return the writes at which to kill: all of them, or the first and the last of each kind."""
    kinds: dict[tuple[str, str, str], int] = {}
    for write in writes:
        kind = (write.verb, write.resource, write.subresource)
        kinds[kind] = kinds.get(kind, 0) + 1
    if is_long:
        return [
            Moment(*kind, number, is_done)
            for kind, count in kinds.items()
            for number in range(count)
            for is_done in (False, True)
        ]
    ends = [
        (Moment(*kind, 0, is_done=False), Moment(*kind, count - 1, is_done=True))
        for kind, count in kinds.items()
    ]
    return [moment for both in ends for moment in both]


class AllSeen:
    """Records every object that ever existed at a path: its name by UID."""

    def __init__(self, client: ApiClient, path: str) -> None:
        self._client, self._path = client, path
        self.names: dict[str, str] = {}
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        with suppress(ApiFailed, ApiUnreachable):
            version = self._client.get(self._path)["metadata"]["resourceVersion"]
            while True:
                # The client ends a watch that receives nothing for long.
                with suppress(ApiUnreachable):
                    for event in self._client.watch(self._path, resourceVersion=version):
                        if event["type"] == "ERROR":
                            # The history is gone, as after a compaction.
                            break
                        metadata = event["object"]["metadata"]
                        self.names[metadata["uid"]] = metadata["name"]
                        version = metadata["resourceVersion"]
                # The API server was stopped.
                listed = self._client.get(self._path)
                for obj in listed["items"]:
                    self.names[obj["metadata"]["uid"]] = obj["metadata"]["name"]
                version = listed["metadata"]["resourceVersion"]


@pytest.mark.usefixtures("definitions", "node")
def test_run_survives_a_kill_at_any_write(
    admin: ApiClient, faults: FaultProxy, namespace: str, tmp_path: Path, is_long: bool
) -> None:
    place = Place(admin, faults.kubeconfig, namespace, tmp_path)
    place.blueprint(
        "three",
        kube_task(namespace, "first", "kando output said hello"),
        kube_ops(namespace),
        kube_task(namespace, "second", "echo '{{ .Phases.first.Output.said }}'"),
        deferPhase=kube_task(namespace, "tidy", "true"),
    )
    pods = AllSeen(admin, f"/api/v1/namespaces/{namespace}/pods")
    try:
        controller = place.start()
        place.actionset("whole", "three")
        check_its_end(place, "whole", "nobody was killed")
        writes = [
            request
            for request in faults.requests
            if request.is_write and request.namespace == namespace and request.resource in KILLED_AT
        ]
        assert {write.resource for write in writes} == KILLED_AT
        moments = moments_of(writes, is_long=is_long)
        for number, moment in enumerate(moments):
            name = f"run-{number}"
            with faults.inject(
                Hold(is_done=moment.is_done),
                verb=moment.verb,
                resource=moment.resource,
                subresource=moment.subresource,
                namespace=namespace,
                skip=moment.number,
                times=1,
            ) as held:
                place.actionset(name, "three")
                held.wait_for_hit(seconds=PATIENCE_SECONDS)
                controller.kill()
                controller.wait()
            controller = place.start()
            check_its_end(place, name, f"killed {moment}")
        controller.send_signal(signal.SIGTERM)
        assert controller.wait(PATIENCE_SECONDS) == 0
        # Each of the three pods of a run was created once.
        assert len(set(pods.names.values())) == len(pods.names) == 3 * (len(moments) + 1)
    finally:
        place.close()


KILLED_AT = {"actionsets", "pods", "configmaps"}


def check_its_end(place: Place, name: str, what: str) -> None:
    """Check that a run completed as if undisturbed, and left nothing behind."""
    status = place.until_ended(name)
    details = f"{what}: {status}\n{place.logs()}"
    assert status["state"] == "complete", details
    assert status["progress"]["percentCompleted"] == "100", details
    action = status["actions"][0]
    phases = [*action["phases"], action["deferPhase"]]
    assert [phase["attempt"] for phase in phases] == [1, 1, 1, 1], details
    assert action["phases"][0]["output"] == {"said": "hello"}, details
    until(partial(place.is_let_go, name))
    path = f"/api/v1/namespaces/{place.namespace}/pods"
    until(lambda: not place.client.get(path)["items"])


@pytest.mark.usefixtures("node")
def test_deleting_a_running_actionset_deletes_its_pod(place: Place) -> None:
    space = place.namespace
    place.blueprint(
        "long", kube_task(space, "sleep", "sleep 300"), deferPhase=kube_ops(space, "tidied")
    )
    place.start()
    place.actionset("one", "long")
    pods = f"/api/v1/namespaces/{space}/pods"
    until(
        lambda: any(
            (pod.get("status") or {}).get("phase") == "Running"
            for pod in place.client.get(pods)["items"]
        )
    )
    place.client.delete(place.path("one"))
    until(lambda: not place.client.get(pods)["items"])
    until(lambda: is_gone(place, "one"))
    place.client.get(f"/api/v1/namespaces/{space}/configmaps/tidied-one")


def test_run_continues_after_the_history_is_compacted(
    new_api_server: Callable[..., LocalCluster], tmp_path: Path
) -> None:
    server = new_api_server()
    install_definitions(server.client)
    make_namespace(server.client, "shop")
    place = Place(server.client, server.kubeconfig, "shop", tmp_path)
    try:
        place.blueprint("gated", gate("shop"), kube_ops("shop"))
        make_gate(place)
        first = place.start()
        place.actionset("one", "gated")
        place.until_running("one")
        server.compact_etcd()
        server.restart_api_server()
        until(lambda: is_served(server.client, "actionsets"))
        with suppress(subprocess.TimeoutExpired):
            # A replica that cannot renew its Lease for too long exits; a kubelet would restart it.
            assert first.wait(20) == LEADERSHIP_LOST, place.logs()
            assert "Traceback" not in place.logs()
            place.start()
        open_gate(place)
        assert place.until_ended("one")["state"] == "complete", place.logs()
        place.actionset("two", "gated")
        assert place.until_ended("two")["state"] == "complete", place.logs()
    finally:
        place.close()

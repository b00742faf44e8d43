"""Failures that a controller survives: API servers, networks, nodes, permissions, and users.

The controller runs in this process, over the adapter for real clusters and a proxy that
injects faults. Each test checks what the user sees, and that nothing was lost.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster.client import ApiClient, ApiFailed
from e2e.cluster.local import LocalCluster
from e2e.cluster.network import pod_network
from e2e.conftest import make_namespace
from e2e.controllers import (
    GROUP,
    Place,
    gate,
    install_definitions,
    is_gone,
    kube_ops,
    kube_task,
    make_gate,
    open_gate,
    until,
)
from e2e.faults.faults import Cut, Delay, Fault, Hold, Refuse, Stall
from e2e.faults.proxy import FaultProxy
from e2e.node.node import E2ENode
from kanister_py.adapters.clock_system import SystemClock
from kanister_py.adapters.cluster_kube.cluster import KubeCluster
from kanister_py.adapters.cluster_kube.connection import ClusterChoice
from kanister_py.adapters.cluster_kube.requests import Timing
from kanister_py.adapters.effects_system import system_effects
from kanister_py.controller.controller import Controller, ControllerSettings
from kanister_py.controller.machine.lease import LeaseTerms
from kanister_py.executor.function_source import FunctionSource
from kanister_py.executor.loading import load_function
from kanister_py.wiring import read_functions

__all__ = ["definitions", "place"]

# Timeouts as in production, shortened.
TIMING = Timing(
    answer=2.0, only_answer=3.0, patience=6.0, watch=5.0, silence=1.0, log_silence=2.0, ping=0.5
)
TERMS = LeaseTerms(term_seconds=9.0, acts_for_seconds=7.5, renews_every_seconds=0.5)
RBAC = "/apis/rbac.authorization.k8s.io/v1"


class ShiftedClock(SystemClock):
    """The clock of the machine, which a test can set."""

    shift = timedelta()

    def now(self) -> datetime:
        return super().now() + self.shift


class FaultyNamespace:
    """A namespace, a faulty connection to its API server, and the controllers in this process."""

    def __init__(self, place: Place, faults: FaultProxy) -> None:
        self.place = place
        self.faults = faults
        self.clock = ShiftedClock()
        self._stack = contextlib.ExitStack()

    def start(self, kubeconfig: Path | None = None, **settings: Any) -> Controller:
        """Start a controller, and return when it is active."""
        cluster = self._stack.enter_context(
            KubeCluster(
                ClusterChoice(kubeconfig=str(kubeconfig or self.faults.kubeconfig)),
                clock=self.clock,
                timing=TIMING,
            )
        )
        namespace = self.place.namespace
        settings_of_controller = {
            "namespaces": (namespace,),
            "home": namespace,
            "terms": TERMS,
            **settings,
        }
        controller = Controller(
            cluster,
            FunctionSource(read_functions().registry, load_function),
            clock=self.clock,
            settings=ControllerSettings(**settings_of_controller),
            effects=system_effects(self.clock),
        )
        controller.start()
        self._stack.callback(controller.kill)
        until(lambda: controller.is_settled or controller.has_ended)
        assert not controller.has_ended
        return controller

    def pods(self) -> list[dict[str, Any]]:
        path = f"/api/v1/namespaces/{self.place.namespace}/pods"
        listed: list[dict[str, Any]] = self.place.client.get(path)["items"]
        return listed

    def until_pod_runs(self) -> dict[str, Any]:
        def running() -> dict[str, Any] | None:
            running_pods = [
                e for e in self.pods() if (e.get("status") or {}).get("phase") == "Running"
            ]
            return running_pods[0] if running_pods else None

        pod: dict[str, Any] = until(running)
        return pod

    def events(self, name: str) -> list[dict[str, Any]]:
        path = f"/api/v1/namespaces/{self.place.namespace}/events"
        return [
            pod
            for pod in self.place.client.get(path)["items"]
            if pod["involvedObject"]["name"] == name
        ]

    def close(self) -> None:
        self.faults.heal()
        self._stack.close()


@pytest.fixture(scope="module")
def definitions(admin: ApiClient) -> None:
    install_definitions(admin)


@pytest.fixture
def faulty(
    definitions: None,  # noqa: ARG001 # it is wanted for its effect
    admin: ApiClient,
    faults: FaultProxy,
    namespace: str,
    tmp_path: Path,
) -> Iterator[FaultyNamespace]:
    place = Place(admin, faults.kubeconfig, namespace, tmp_path)
    setup = FaultyNamespace(place, faults)
    try:
        yield setup
    finally:
        setup.close()


@pytest.fixture
def place(faulty: FaultyNamespace) -> Place:
    """Manage the objects of the namespace; a run of two phases waits for a gate in between."""
    place = faulty.place
    space = place.namespace
    place.blueprint("gated", kube_ops(space, "before"), gate(space), kube_ops(space, "after"))
    make_gate(place)
    return place


def is_at_gate(place: Place, name: str) -> bool:
    status = place.status(name)
    return bool(status.get("progress", {}).get("runningPhase") == "gate")


def ends_well(place: Place, name: str) -> dict[str, Any]:
    """Wait until a run is complete, each of its phases in one attempt."""
    status = place.until_ended(name)
    assert status["state"] == "complete", status
    assert status["progress"]["percentCompleted"] == "100"
    phases = status["actions"][0]["phases"]
    assert [phase["attempt"] for phase in phases] == [1] * len(phases), status
    for run_name in ("before", "after"):
        place.client.get(f"/api/v1/namespaces/{place.namespace}/configmaps/{run_name}-{name}")
    return status


def fails(place: Place, name: str, reason: str) -> dict[str, Any]:
    """Wait until a run has failed for a reason, and return its error."""
    status = place.until_ended(name)
    assert status["state"] == "failed", status
    error: dict[str, Any] = status["error"]
    assert error["reason"] == reason, status
    return error


class TestTheNetwork:
    def test_interrupted_and_late_watches_lose_nothing(
        self, faulty: FaultyNamespace, place: Place
    ) -> None:
        faulty.start()
        place.actionset("one", "gated")
        until(lambda: is_at_gate(place, "one"))
        held = faulty.faults.inject(Hold(), verb="watch")
        faulty.faults.cut(verb="watch")
        held.wait_for_hit(2)
        # No watch has reported these yet.
        open_gate(place)
        place.actionset("two", "gated")
        held.remove()
        for name in ("one", "two"):
            ends_well(place, name)

    def test_half_open_connection_is_closed(self, faulty: FaultyNamespace, place: Place) -> None:
        controller = faulty.start()
        place.actionset("one", "gated")
        until(lambda: is_at_gate(place, "one"))
        faulty.faults.freeze()
        open_gate(place)
        place.actionset("two", "gated")
        # Longer than any request timeout, shorter than the Lease.
        threading.Event().wait(TIMING.answer + 0.5)
        faulty.faults.thaw()
        faulty.faults.cut()
        for name in ("one", "two"):
            ends_well(place, name)
        assert controller.is_leader

    def test_disconnected_leader_stops_and_the_next_one_continues(
        self, faulty: FaultyNamespace, place: Place
    ) -> None:
        first = faulty.start(terms=LeaseTerms(5.0, 4.0, 0.4))
        place.actionset("one", "gated")
        until(lambda: is_at_gate(place, "one"))
        faulty.faults.refuse()
        # It stops acting at once; a hanging request can delay its exit.
        until(lambda: first.has_ended)
        assert first.checks()["controller"]().startswith("This process is not the leader")
        open_gate(place)
        faulty.faults.accept()
        faulty.start(identity="second", stands_by=True)
        ends_well(place, "one")


class TestAnswers:
    @pytest.mark.parametrize(
        "fault",
        [
            pytest.param(Refuse(409, reason="Conflict"), id="a conflict"),
            pytest.param(Refuse(409, reason="Conflict", is_done=True), id="one after it was done"),
            pytest.param(Refuse(429, retry_after=1), id="too many requests"),
            pytest.param(Refuse(500), id="a failure"),
            pytest.param(Refuse(500, is_done=True), id="a failure after it was done"),
            pytest.param(Refuse(503), id="a server that is not there"),
            pytest.param(Delay(1.0), id="a slow answer"),
            pytest.param(Cut(), id="a connection that breaks"),
            pytest.param(Cut(after_bytes=10), id="one that breaks after it was done"),
            pytest.param(Stall(), id="an answer that never comes"),
        ],
    )
    def test_status_writes_succeed_despite_faults(
        self, faulty: FaultyNamespace, place: Place, fault: Fault
    ) -> None:
        space = place.namespace
        phases = [kube_ops(space, "before"), gate(space), kube_ops(space, "after")]
        # The running pods are the reason for the finalizer.
        place.blueprint("tidy", *phases, deferPhase=kube_ops(space, "tidied"))
        faulty.start()
        open_gate(place)
        injected = faulty.faults.inject(
            fault,
            times=3,
            where=lambda request: request.is_write and request.resource == "actionsets",
        )
        place.actionset("one", "tidy")
        ends_well(place, "one")
        until(lambda: place.is_let_go("one"))
        assert len(injected.hits) == 3
        place.client.get(f"/api/v1/namespaces/{space}/configmaps/tidied-one")
        # Events are refused.
        assert {event["type"] for event in faulty.events("one")} == {"Normal"}

    @pytest.mark.parametrize(
        "fault",
        [
            pytest.param(Refuse(429, retry_after=1), id="too many requests"),
            pytest.param(Refuse(500), id="a failure"),
            pytest.param(Refuse(503), id="a server that is not there"),
            pytest.param(Delay(0.3), id="slow answers"),
            pytest.param(Cut(), id="connections that break"),
            pytest.param(Cut(after_bytes=10), id="answers that break off"),
        ],
    )
    def test_failed_reads_are_retried(
        self, faulty: FaultyNamespace, place: Place, fault: Fault
    ) -> None:
        faulty.start()
        open_gate(place)
        count = iter(range(1_000_000))
        faulty.faults.inject(
            fault,
            where=lambda request: request.verb in {"get", "list", "watch"} and next(count) % 2 == 0,
        )
        names = [f"run-{number}" for number in range(3)]
        for name in names:
            place.actionset(name, "gated")
        for name in names:
            ends_well(place, name)

    def test_refused_events_do_not_delay_runs(self, faulty: FaultyNamespace, place: Place) -> None:
        faulty.start()
        open_gate(place)
        refused = faulty.faults.inject(Refuse(403), resource="events")
        place.actionset("one", "gated")
        ends_well(place, "one")
        assert refused.hits

    def test_compacted_history_is_listed_again(self, faulty: FaultyNamespace, place: Place) -> None:
        faulty.start()
        place.actionset("one", "gated")
        until(lambda: is_at_gate(place, "one"))
        faulty.faults.reset()
        # Schedules have watches of their own if their kind is installed.
        watches = faulty.faults.expire_watches("actionsets")
        assert watches
        # The watch on the gate starts a moment after the phase.
        until(lambda: faulty.faults.expire_watches("configmaps"))
        place.actionset("two", "gated")
        open_gate(place)
        for name in ("one", "two"):
            ends_well(place, name)
        assert faulty.faults.count("list", "actionsets") == watches

    def test_uncertain_write_of_a_function_is_not_repeated(
        self, faulty: FaultyNamespace, place: Place
    ) -> None:
        faulty.start()
        open_gate(place)
        lost = faulty.faults.inject(
            Cut(after_bytes=10), verb="create", resource="configmaps", times=1
        )
        place.actionset("one", "gated")
        status = place.until_ended("one")
        assert len(lost.hits) == 1
        # The message says that the result is unknown; a retry finds the created object.
        assert status["state"] == "failed"
        assert "may have executed the request" in status["error"]["message"]
        place.client.get(f"/api/v1/namespaces/{place.namespace}/configmaps/before-one")


def token_of(admin: ApiClient, namespace: str, bound_to: str = "") -> str:
    """Create a token for the service account; it is revoked with the Secret it is bound to."""
    spec: dict[str, Any] = {"expirationSeconds": 3600}
    if bound_to:
        secret = admin.get(f"/api/v1/namespaces/{namespace}/secrets/{bound_to}")
        spec["boundObjectRef"] = {
            "apiVersion": "v1",
            "kind": "Secret",
            "name": bound_to,
            "uid": secret["metadata"]["uid"],
        }
    created = admin.post(
        f"/api/v1/namespaces/{namespace}/serviceaccounts/runner/token",
        {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec},
    )
    return str(created["status"]["token"])


def make_account(admin: ApiClient, namespace: str) -> None:
    """Create the service account `runner` with all rights in its namespace, by several bindings."""
    named = {"name": "runner", "namespace": namespace}
    admin.post(
        f"/api/v1/namespaces/{namespace}/serviceaccounts",
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": named},
    )
    rules: Mapping[str, list[tuple[str, str]]] = {
        "statuses": [("cr.kanister.io", "actionsets/status")],
        "secrets": [("", "secrets")],
        "sets": [("cr.kanister.io", "actionsets")],
        "rest": [
            ("", "configmaps"),
            ("cr.kanister.io", "blueprints"),
            ("coordination.k8s.io", "leases"),
            ("apps", "deployments"),
            ("", "events"),
            ("", "namespaces"),
        ],
    }
    for name, places in rules.items():
        role = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {"name": name, "namespace": namespace},
            "rules": [
                {"apiGroups": [group], "resources": [resource], "verbs": ["*"]}
                for group, resource in places
            ],
        }
        admin.post(f"{RBAC}/namespaces/{namespace}/roles", role)
        bind(admin, namespace, name)


def bind(admin: ApiClient, namespace: str, role: str) -> None:
    admin.post(
        f"{RBAC}/namespaces/{namespace}/rolebindings",
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": role, "namespace": namespace},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": "runner", "namespace": namespace}],
        },
    )


def unbind(admin: ApiClient, namespace: str, role: str) -> None:
    admin.delete(f"{RBAC}/namespaces/{namespace}/rolebindings/{role}")


class TestRights:
    def test_a_token_that_expires_is_replaced_without_a_gap(
        self, faulty: FaultyNamespace, place: Place, admin: ApiClient, tmp_path: Path
    ) -> None:
        space = place.namespace
        make_account(admin, space)
        metadata = {"name": "leash", "namespace": space}
        admin.post(
            f"/api/v1/namespaces/{space}/secrets",
            {"apiVersion": "v1", "kind": "Secret", "metadata": metadata},
        )
        token = tmp_path / "token"
        old = token_of(admin, space, "leash")
        token.write_text(old)
        kubeconfig = faulty.faults.kubeconfig_for(f"expiring-{uuid.uuid4().hex[:6]}", "unused")
        kubeconfig.write_text(
            kubeconfig.read_text().replace("token: unused", f"tokenFile: {token}")
        )
        controller = faulty.start(kubeconfig)
        place.actionset("one", "gated")
        until(lambda: is_at_gate(place, "one"))
        # As a kubelet does: the new token exists before the old one expires.
        token.write_text(token_of(admin, space))
        admin.delete(f"/api/v1/namespaces/{space}/secrets/leash")
        refused = faulty.faults.inject(
            Refuse(401), where=lambda request: request.authorization == f"Bearer {old}"
        )
        faulty.faults.cut()
        open_gate(place)
        place.actionset("two", "gated")
        for name in ("one", "two"):
            ends_well(place, name)
        assert controller.is_leader
        # Each watch that was reset may have reconnected with the old token once.
        assert len(refused.hits) <= 6

    def test_revoked_right_of_a_phase_is_named(
        self, faulty: FaultyNamespace, place: Place, admin: ApiClient
    ) -> None:
        space = place.namespace
        make_account(admin, space)
        secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: made}\n"
        args = {"operation": "create", "namespace": space, "spec": secret}
        make = {"func": "KubeOps", "name": "secret", "args": args}
        place.blueprint("secretive", gate(space), make)
        faulty.start(faulty.faults.kubeconfig_for(f"r-{space}", token_of(admin, space)))
        place.actionset("one", "secretive")
        until(lambda: is_at_gate(place, "one"))
        unbind(admin, space, "secrets")
        open_gate(place)
        error = fails(place, "one", "Forbidden")
        assert 'cannot create resource "secrets"' in error["message"]

    def test_run_continues_when_its_status_can_be_written_again(
        self,
        faulty: FaultyNamespace,
        place: Place,
        admin: ApiClient,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        space = place.namespace
        make_account(admin, space)
        faulty.start(faulty.faults.kubeconfig_for(f"s-{space}", token_of(admin, space)))
        place.actionset("one", "gated")
        until(lambda: is_at_gate(place, "one"))
        with caplog.at_level(logging.WARNING):
            unbind(admin, space, "statuses")
            open_gate(place)
            until(lambda: "cannot continue, retrying in" in caplog.text)
            assert "actionsets/status" in caplog.text or 'subresource "status"' in caplog.text
            bind(admin, space, "statuses")
            status = place.until_ended("one")
        assert status["state"] == "complete", status

    def test_revoked_right_to_watch_is_reported_until_restored(
        self, faulty: FaultyNamespace, place: Place, admin: ApiClient
    ) -> None:
        space = place.namespace
        make_account(admin, space)
        controller = faulty.start(
            faulty.faults.kubeconfig_for(f"w-{space}", token_of(admin, space))
        )
        is_ready = controller.checks()["controller"]
        assert is_ready() == ""
        unbind(admin, space, "sets")
        # Open watches continue until they end.
        faulty.faults.cut(verb="watch", resource="actionsets")
        until(is_ready)
        assert is_ready().startswith("Cannot watch actionsets.cr.kanister.io")
        place.actionset("one", "gated")
        open_gate(place)
        bind(admin, space, "sets")
        ends_well(place, "one")
        until(lambda: is_ready() == "")


class TestTime:
    @pytest.mark.parametrize("jump", [pytest.param(1, id="ahead"), pytest.param(-1, id="back")])
    def test_clock_jump_ends_no_run_and_no_leadership(
        self, faulty: FaultyNamespace, place: Place, jump: int
    ) -> None:
        space = place.namespace
        timed = {**gate(space), "timeout": "10m"}
        place.blueprint("timed", kube_ops(space, "before"), timed, kube_ops(space, "after"))
        controller = faulty.start()
        place.actionset("one", "timed")
        until(lambda: is_at_gate(place, "one"))
        faulty.clock.shift = jump * timedelta(hours=3)
        place.actionset("two", "timed")
        until(lambda: is_at_gate(place, "two"))
        open_gate(place)
        for name in ("one", "two"):
            ends_well(place, name)
        assert controller.is_leader

    def test_timeout_applies_when_the_clock_is_set_back(
        self, faulty: FaultyNamespace, place: Place
    ) -> None:
        space = place.namespace
        place.blueprint("timed", {**gate(space), "timeout": "8s"})
        faulty.start()
        place.actionset("one", "timed")
        until(lambda: is_at_gate(place, "one"))
        faulty.clock.shift = -timedelta(hours=3)
        fails(place, "one", "PhaseTimedOut")


class TestPods:
    @pytest.mark.usefixtures("node")
    def test_pod_deleted_by_another_client_is_detected(self, faulty: FaultyNamespace) -> None:
        place = faulty.place
        space = place.namespace
        place.blueprint("long", kube_task(space, "sleep", "sleep 300"))
        faulty.start()
        place.actionset("one", "long")
        name = faulty.until_pod_runs()["metadata"]["name"]
        place.client.delete(f"/api/v1/namespaces/{space}/pods/{name}", gracePeriodSeconds="0")
        status = place.until_ended("one")
        assert status["state"] == "failed"
        assert status["actions"][0]["phases"][0]["error"]["reason"] == "PodGone"
        assert f"{space}/{name}" in status["error"]["message"]
        assert faulty.pods() == []

    def test_pod_on_a_lost_node_times_out(
        self, faulty: FaultyNamespace, api_server: LocalCluster
    ) -> None:
        place = faulty.place
        space = place.namespace
        task = kube_task(space, "sleep", "echo up; sleep 300")
        doomed = f"doomed-{space}"
        task["args"]["podOverride"] = {"nodeName": doomed}
        task["timeout"] = "15s"
        place.blueprint("long", task)
        faulty.start()
        with E2ENode(api_server, name=doomed, takes_all=False, pod_network=pod_network()) as node:
            place.actionset("one", "long")
            name = faulty.until_pod_runs()["metadata"]["name"]
            node.vanish()
            status = place.until_ended("one")
        assert status["state"] == "failed"
        assert name in status["error"]["message"] or "15s" in status["error"]["message"], status
        # No kubelet confirms the deletion, so the pod is removed without a grace period.
        until(lambda: faulty.pods() == [])

    @pytest.mark.usefixtures("node")
    def test_pod_is_followed_to_its_end_despite_faults(self, faulty: FaultyNamespace) -> None:
        place = faulty.place
        space = place.namespace
        lines = "i=0; while [ $i -lt 60 ]; do echo line $i; sleep 0.02; i=$((i+1)); done"
        script = f"{lines}; kando output said hello"
        place.blueprint("chatty", kube_task(space, "talk", script))
        faulty.start()
        faults = faulty.faults
        faults.inject(Cut(after_bytes=600), subresource="log", times=2)
        faults.inject(Stall(after_bytes=600), subresource="log", times=1)
        faults.inject(Cut(after_bytes=10), verb="watch", resource="pods", times=2)
        lost = faults.inject(Cut(after_bytes=10), verb="create", resource="pods", times=1)
        place.actionset("one", "chatty")
        status = place.until_ended("one")
        assert status["state"] == "complete", status
        (phase,) = status["actions"][0]["phases"]
        assert (phase["attempt"], phase["output"]) == (1, {"said": "hello"})
        assert len(lost.hits) == 1
        until(lambda: faulty.pods() == [])
        assert faults.count("create", "pods") == 1


class TestPeople:
    def test_deleted_blueprint_does_not_affect_a_running_run(
        self, faulty: FaultyNamespace, place: Place
    ) -> None:
        faulty.start()
        place.actionset("one", "gated")
        until(lambda: is_at_gate(place, "one"))
        place.client.delete(f"{GROUP}/namespaces/{place.namespace}/blueprints/gated")
        open_gate(place)
        ends_well(place, "one")
        place.actionset("two", "gated")
        error = fails(place, "two", "BlueprintNotFound")
        assert "gated" in error["message"]

    def test_changed_blueprint_applies_to_later_runs(
        self, faulty: FaultyNamespace, place: Place
    ) -> None:
        faulty.start()
        place.actionset("one", "gated")
        until(lambda: is_at_gate(place, "one"))
        space = place.namespace
        place.client.patch(
            f"{GROUP}/namespaces/{space}/blueprints/gated",
            {"actions": {"act": {"phases": [kube_ops(space, "other")]}}},
        )
        open_gate(place)
        ends_well(place, "one")
        place.actionset("two", "gated")
        assert [phase["name"] for phase in place.until_ended("two")["actions"][0]["phases"]] == [
            "other"
        ]

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            pytest.param("delete", "BlueprintNotFound", id="deleted"),
            pytest.param("patch", "BlueprintChanged", id="changed"),
        ],
    )
    def test_run_is_not_resumed_with_another_blueprint(
        self, faulty: FaultyNamespace, place: Place, change: str, reason: str
    ) -> None:
        first = faulty.start()
        place.actionset("one", "gated")
        until(lambda: is_at_gate(place, "one"))
        first.kill()
        space = place.namespace
        path = f"{GROUP}/namespaces/{space}/blueprints/gated"
        if change == "delete":
            place.client.delete(path)
        else:
            phases = [kube_ops(space, "other")]
            place.client.patch(path, {"actions": {"act": {"phases": phases}}})
        faulty.start()
        fails(place, "one", reason)
        phases_now = place.status("one")["actions"][0]["phases"]
        assert [phase["state"] for phase in phases_now] == ["complete", "failed", "pending"]

    def test_deleting_a_running_actionset_does_not_affect_others(
        self, faulty: FaultyNamespace, place: Place
    ) -> None:
        controller = faulty.start()
        for name in ("one", "two"):
            place.actionset(name, "gated")
            until(lambda name=name: is_at_gate(place, name))  # type: ignore[misc] # the loop's
        place.client.delete(place.path("one"))
        until(lambda: is_gone(place, "one"))
        until(lambda: controller.active_runs == 1)
        open_gate(place)
        ends_well(place, "two")
        with pytest.raises(ApiFailed):
            place.client.get(f"/api/v1/namespaces/{place.namespace}/configmaps/after-one")

    def test_deleted_namespace_ends_its_runs(
        self, faulty: FaultyNamespace, place: Place, admin: ApiClient
    ) -> None:
        other = f"{place.namespace}-2"
        make_namespace(admin, other)
        away = Place(admin, faulty.faults.kubeconfig, other, Path())
        away.blueprint("gated", gate(other), kube_ops(other), deferPhase=kube_ops(other, "tidied"))
        make_gate(away)
        controller = faulty.start(namespaces=(place.namespace, other))
        away.actionset("one", "gated")
        place.actionset("one", "gated")
        for controller_place in (away, place):
            until(lambda candidate=controller_place: is_at_gate(candidate, "one"))  # type: ignore[misc] # the loop's
        admin.delete(f"/api/v1/namespaces/{other}")

        def has_gone() -> bool:
            with contextlib.suppress(ApiFailed):
                admin.get(f"/api/v1/namespaces/{other}")
                return False
            return True

        until(has_gone)
        until(lambda: controller.active_runs == 1)
        open_gate(place)
        ends_well(place, "one")

    def test_second_controller_without_leader_election_does_not_act(
        self, faulty: FaultyNamespace, place: Place
    ) -> None:
        faulty.start(identity="first")
        with pytest.raises(AssertionError):
            faulty.start(identity="second")
        open_gate(place)
        place.actionset("one", "gated")
        ends_well(place, "one")


def much(size: int) -> dict[str, Any]:
    """An output of this length."""
    return {"text": {"keyValue": {"text": f'{{{{ repeat {size} "x" }}}}'}}}


class TestSizes:
    def test_artifacts_up_to_their_limit_are_stored(self, faulty: FaultyNamespace) -> None:
        place = faulty.place
        size = 500 * 1024
        place.blueprint("much", kube_ops(place.namespace), outputArtifacts=much(size))
        faulty.start()
        place.actionset("one", "much")
        status = place.until_ended("one")
        assert status["state"] == "complete"
        assert len(status["actions"][0]["artifacts"]["text"]["keyValue"]["text"]) == size

    def test_artifacts_beyond_their_limit_fail_the_run(self, faulty: FaultyNamespace) -> None:
        place = faulty.place
        place.blueprint("too-much", kube_ops(place.namespace), outputArtifacts=much(600 * 1024))
        faulty.start()
        place.actionset("one", "too-much")
        error = fails(place, "one", "ArtifactsTooLarge")
        assert "512 KiB" in error["message"]
        assert place.status("one")["actions"][0]["phases"][0]["state"] == "complete"

    def test_status_that_does_not_fit_is_reported(self, faulty: FaultyNamespace) -> None:
        place = faulty.place
        place.blueprint("much", kube_ops(place.namespace), outputArtifacts=much(500 * 1024))
        faulty.start()
        action = {
            "name": "act",
            "blueprint": "much",
            "object": {"kind": "Namespace", "name": place.namespace},
            "options": {"name": "one", "long": "x" * 1_200_000},
        }
        place.actionset("one", "much", actions=[action])
        error = fails(place, "one", "StatusTooLarge")
        assert "status" in error["message"]
        # The progress before that is kept.
        assert place.status("one")["actions"][0]["phases"][0]["state"] == "complete"


@contextlib.contextmanager
def dead_webhook(admin: ApiClient, namespace: str, rule: Mapping[str, Any]) -> Iterator[None]:
    """Register a webhook without a server for requests in a namespace."""
    name = f"dead-{namespace}"
    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    admin.post(
        path,
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": name},
            "webhooks": [
                {
                    "name": "dead.example.org",
                    "admissionReviewVersions": ["v1"],
                    "sideEffects": "None",
                    "failurePolicy": "Fail",
                    "timeoutSeconds": 1,
                    "clientConfig": {"url": "https://127.0.0.1:1/"},
                    "namespaceSelector": {
                        "matchLabels": {"kubernetes.io/metadata.name": namespace}
                    },
                    "rules": [dict(rule)],
                }
            ],
        },
    )
    try:
        yield
    finally:
        admin.delete(f"{path}/{name}")


class TestWebhooks:
    def test_unavailable_webhook_fails_the_phase_and_is_named(
        self, faulty: FaultyNamespace, place: Place, admin: ApiClient
    ) -> None:
        rule = {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "resources": ["configmaps"],
            "operations": ["CREATE"],
        }
        space = place.namespace
        faulty.start()
        with dead_webhook(admin, space, rule):
            until(lambda: is_refused(admin, space))
            place.actionset("one", "gated")
            status = place.until_ended("one")
        assert status["state"] == "failed"
        assert "dead.example.org" in status["error"]["message"]

    def test_unavailable_webhook_on_the_status_is_retried(
        self,
        faulty: FaultyNamespace,
        place: Place,
        admin: ApiClient,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        rule = {
            "apiGroups": ["cr.kanister.io"],
            "apiVersions": ["*"],
            "resources": ["actionsets/status"],
            "operations": ["UPDATE"],
        }
        faulty.start()
        with caplog.at_level(logging.WARNING):
            with dead_webhook(admin, place.namespace, rule):
                until(lambda: is_status_refused(place))
                place.actionset("one", "gated")
                open_gate(place)
                until(lambda: "dead.example.org" in caplog.text)
            ends_well(place, "one")


def is_refused(admin: ApiClient, namespace: str) -> bool:
    name = {"name": f"probe-{uuid.uuid4().hex[:6]}"}
    try:
        admin.post(
            f"/api/v1/namespaces/{namespace}/configmaps",
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": name},
        )
    except ApiFailed as error:
        return error.status == 500
    return False


def is_status_refused(place: Place) -> bool:
    """Wait until the webhook has an effect, on an object that is not run."""
    with contextlib.suppress(ApiFailed):
        place.actionset("probe", "nothing", suspend=True)
    probe = place.client.get(place.path("probe"))
    try:
        place.client.put(f"{place.path('probe')}/status", probe)
    except ApiFailed as error:
        return error.status == 500
    return False


class TestTheApiServer:
    def test_run_survives_a_restart_and_a_compacted_history(
        self, new_api_server: Callable[..., LocalCluster], tmp_path: Path
    ) -> None:
        server = new_api_server()
        install_definitions(server.client)
        make_namespace(server.client, "shop")
        with FaultProxy(server) as faults:
            place = Place(server.client, faults.kubeconfig, "shop", tmp_path)
            faulty = FaultyNamespace(place, faults)
            try:
                place.blueprint(
                    "gated", kube_ops("shop", "before"), gate("shop"), kube_ops("shop", "after")
                )
                make_gate(place)
                # On a busy machine the restart can take longer than the Lease.
                controller = faulty.start(terms=LeaseTerms(120.0, 90.0, 0.5))
                place.actionset("one", "gated")
                until(lambda: is_at_gate(place, "one"))
                server.compact_etcd()
                server.restart_api_server(kill=True)
                server.compact_etcd()
                open_gate(place)
                place.actionset("two", "gated")
                for name in ("one", "two"):
                    ends_well(place, name)
                assert controller.is_leader
            finally:
                faulty.close()

    def test_frozen_etcd_and_killed_api_server_lose_nothing(
        self,
        new_api_server: Callable[..., LocalCluster],
        tmp_path: Path,
        is_long: bool,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        server = new_api_server()
        install_definitions(server.client)
        make_namespace(server.client, "shop")
        kills, frozen_seconds = (20, 40) if is_long else (3, 12)
        with FaultProxy(server) as faults:
            place = Place(server.client, faults.kubeconfig, "shop", tmp_path)
            faulty = FaultyNamespace(place, faults)
            try:
                place.blueprint(
                    "gated", kube_ops("shop", "before"), gate("shop"), kube_ops("shop", "after")
                )
                make_gate(place)
                controller = faulty.start(terms=LeaseTerms(240.0, 180.0, 0.5))
                names = [f"run-{number}" for number in range(kills)]
                for name in names:
                    place.actionset(name, "gated")
                    server.restart_api_server(kill=True)
                    server.compact_etcd()
                for name in names:
                    until(lambda: is_at_gate(place, name))  # noqa: B023 # it is asked at once
                server.freeze_etcd()
                time.sleep(frozen_seconds)
                server.thaw_etcd()
                server.wait_for_api_server()
                open_gate(place)
                for name in names:
                    ends_well(place, name)
                config_maps = place.client.get("/api/v1/namespaces/shop/configmaps")["items"]
                effects = [
                    config_map["metadata"]["name"]
                    for config_map in config_maps
                    if config_map["metadata"]["name"].startswith(("before-", "after-"))
                ]
                assert controller.is_leader
            finally:
                faulty.close()
        with capsys.disabled():
            print(
                f"\n{kills} kills of the API server, {frozen_seconds} s without etcd, "
                f"{len(names)} runs, {len(effects)} effects, "
                f"{2 * len(names) - len(set(effects))} lost"
            )
        assert len(effects) == 2 * len(names)

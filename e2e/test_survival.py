"""What a controller outlives: bad days of API servers, networks, nodes, rights, and people.

The controller runs in this process, over the adapter for real clusters, and through a proxy
that makes the days bad. Each test says what the user sees, and that nothing was lost.
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
from e2e.faults.faults import Cut, Delay, Fault, Hold, Refuse, Stall
from e2e.faults.proxy import FaultProxy
from e2e.node.node import E2ENode
from e2e.test_controller import (
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

# As patient as in production, in less time.
TIMING = Timing(
    answer=2.0, only_answer=3.0, patience=6.0, watch=5.0, silence=1.0, log_silence=2.0, ping=0.5
)
TERMS = LeaseTerms(term_seconds=9.0, acts_for_seconds=7.5, renews_every_seconds=0.5)
RBAC = "/apis/rbac.authorization.k8s.io/v1"


class ShiftedClock(SystemClock):
    """The machine's clock, until somebody sets it."""

    shift = timedelta()

    def now(self) -> datetime:
        return super().now() + self.shift


class World:
    """A namespace, a bad way to its API server, and the controllers that run here."""

    def __init__(self, place: Place, faults: FaultProxy) -> None:
        self.place = place
        self.faults = faults
        self.clock = ShiftedClock()
        self._stack = contextlib.ExitStack()

    def start(self, kubeconfig: Path | None = None, **settings: Any) -> Controller:
        """Start a controller, and come back when it acts."""
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
def world(
    definitions: None,  # noqa: ARG001 # it is wanted for its effect
    admin: ApiClient,
    faults: FaultProxy,
    namespace: str,
    tmp_path: Path,
) -> Iterator[World]:
    place = Place(admin, faults.kubeconfig, namespace, tmp_path)
    setup = World(place, faults)
    try:
        yield setup
    finally:
        setup.close()


@pytest.fixture
def place(world: World) -> Place:
    """What happens in the namespace; a run of two phases waits between them for a gate."""
    place = world.place
    space = place.namespace
    place.blueprint("gated", kube_ops(space, "before"), gate(space), kube_ops(space, "after"))
    make_gate(place)
    return place


def is_at_gate(place: Place, name: str) -> bool:
    status = place.status(name)
    return bool(status.get("progress", {}).get("runningPhase") == "gate")


def ends_well(place: Place, name: str) -> dict[str, Any]:
    """See a run through to its end: complete, each of its phases in one attempt."""
    status = place.until_ended(name)
    assert status["state"] == "complete", status
    assert status["progress"]["percentCompleted"] == "100"
    phases = status["actions"][0]["phases"]
    assert [phase["attempt"] for phase in phases] == [1] * len(phases), status
    for run_name in ("before", "after"):
        place.client.get(f"/api/v1/namespaces/{place.namespace}/configmaps/{run_name}-{name}")
    return status


def fails(place: Place, name: str, reason: str) -> dict[str, Any]:
    """See a run fail for a reason, and give its error."""
    status = place.until_ended(name)
    assert status["state"] == "failed", status
    error: dict[str, Any] = status["error"]
    assert error["reason"] == reason, status
    return error


class TestTheNetwork:
    def test_watches_that_are_cut_or_come_late_lose_nothing(
        self, world: World, place: Place
    ) -> None:
        world.start()
        place.actionset("one", "gated")
        until(lambda: is_at_gate(place, "one"))
        held = world.faults.inject(Hold(), verb="watch")
        world.faults.cut(verb="watch")
        held.wait_for_hit(2)
        # Nobody is told of these yet.
        open_gate(place)
        place.actionset("two", "gated")
        held.remove()
        for name in ("one", "two"):
            ends_well(place, name)

    def test_a_half_open_connection_is_let_go(self, world: World, place: Place) -> None:
        controller = world.start()
        place.actionset("one", "gated")
        until(lambda: is_at_gate(place, "one"))
        world.faults.freeze()
        open_gate(place)
        place.actionset("two", "gated")
        # Longer than anybody waits for an answer, shorter than the leader's term.
        threading.Event().wait(TIMING.answer + 0.5)
        world.faults.thaw()
        world.faults.cut()
        for name in ("one", "two"):
            ends_well(place, name)
        assert controller.is_leader

    def test_one_who_is_cut_off_for_long_stops_and_the_next_one_goes_on(
        self, world: World, place: Place
    ) -> None:
        first = world.start(terms=LeaseTerms(5.0, 4.0, 0.4))
        place.actionset("one", "gated")
        until(lambda: is_at_gate(place, "one"))
        world.faults.refuse()
        # It acts no more at once; a request that hangs may keep it from its end for a while.
        until(lambda: first.has_ended)
        assert first.checks()["controller"]().startswith("This process is not the leader")
        open_gate(place)
        world.faults.accept()
        world.start(identity="second", stands_by=True)
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
    def test_what_is_written_into_an_actionset_gets_there_whatever_goes_wrong(
        self, world: World, place: Place, fault: Fault
    ) -> None:
        space = place.namespace
        phases = [kube_ops(space, "before"), gate(space), kube_ops(space, "after")]
        # What runs at the end is why there is a finalizer.
        place.blueprint("tidy", *phases, deferPhase=kube_ops(space, "tidied"))
        world.start()
        open_gate(place)
        injected = world.faults.inject(
            fault,
            times=3,
            where=lambda request: request.is_write and request.resource == "actionsets",
        )
        place.actionset("one", "tidy")
        ends_well(place, "one")
        until(lambda: place.is_let_go("one"))
        assert len(injected.hits) == 3
        place.client.get(f"/api/v1/namespaces/{space}/configmaps/tidied-one")
        # Nobody wants to hear of it.
        assert {event["type"] for event in world.events("one")} == {"Normal"}

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
    def test_reading_anything_goes_wrong_now_and_then(
        self, world: World, place: Place, fault: Fault
    ) -> None:
        world.start()
        open_gate(place)
        count = iter(range(1_000_000))
        world.faults.inject(
            fault,
            where=lambda request: request.verb in {"get", "list", "watch"} and next(count) % 2 == 0,
        )
        names = [f"run-{number}" for number in range(3)]
        for name in names:
            place.actionset(name, "gated")
        for name in names:
            ends_well(place, name)

    def test_events_that_nobody_takes_hold_nothing_up(self, world: World, place: Place) -> None:
        world.start()
        open_gate(place)
        refused = world.faults.inject(Refuse(403), resource="events")
        place.actionset("one", "gated")
        ends_well(place, "one")
        assert refused.hits

    def test_a_lost_history_is_read_anew(self, world: World, place: Place) -> None:
        world.start()
        place.actionset("one", "gated")
        until(lambda: is_at_gate(place, "one"))
        world.faults.reset()
        # Schedules have watches of their own, if somebody has installed their kind.
        watches = world.faults.expire_watches("actionsets")
        assert watches
        # That on the gate begins a moment after the phase has.
        until(lambda: world.faults.expire_watches("configmaps"))
        place.actionset("two", "gated")
        open_gate(place)
        for name in ("one", "two"):
            ends_well(place, name)
        assert world.faults.count("list", "actionsets") == watches

    def test_a_write_of_a_function_that_may_have_been_done_is_not_made_twice(
        self, world: World, place: Place
    ) -> None:
        world.start()
        open_gate(place)
        lost = world.faults.inject(
            Cut(after_bytes=10), verb="create", resource="configmaps", times=1
        )
        place.actionset("one", "gated")
        status = place.until_ended("one")
        assert len(lost.hits) == 1
        # It says what it does not know; whoever retries finds what was made.
        assert status["state"] == "failed"
        assert "may have done it all the same" in status["error"]["message"]
        place.client.get(f"/api/v1/namespaces/{place.namespace}/configmaps/before-one")


def token_of(admin: ApiClient, namespace: str, bound_to: str = "") -> str:
    """Have a token made for the service account; it dies with the secret it is bound to."""
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
    """Make the service account `runner`, with all rights in its namespace, by several bindings."""
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
        self, world: World, place: Place, admin: ApiClient, tmp_path: Path
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
        kubeconfig = world.faults.kubeconfig_for(f"expiring-{uuid.uuid4().hex[:6]}", "unused")
        kubeconfig.write_text(
            kubeconfig.read_text().replace("token: unused", f"tokenFile: {token}")
        )
        controller = world.start(kubeconfig)
        place.actionset("one", "gated")
        until(lambda: is_at_gate(place, "one"))
        # As a kubelet does: the new one is there before the old one dies.
        token.write_text(token_of(admin, space))
        admin.delete(f"/api/v1/namespaces/{space}/secrets/leash")
        refused = world.faults.inject(
            Refuse(401), where=lambda request: request.authorization == f"Bearer {old}"
        )
        world.faults.cut()
        open_gate(place)
        place.actionset("two", "gated")
        for name in ("one", "two"):
            ends_well(place, name)
        assert controller.is_leader
        # Watches that were cut may have come back with the old one at most once each.
        assert len(refused.hits) <= 6

    def test_a_right_that_a_phase_needs_is_named_when_it_is_gone(
        self, world: World, place: Place, admin: ApiClient
    ) -> None:
        space = place.namespace
        make_account(admin, space)
        secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: made}\n"
        args = {"operation": "create", "namespace": space, "spec": secret}
        make = {"func": "KubeOps", "name": "secret", "args": args}
        place.blueprint("secretive", gate(space), make)
        world.start(world.faults.kubeconfig_for(f"r-{space}", token_of(admin, space)))
        place.actionset("one", "secretive")
        until(lambda: is_at_gate(place, "one"))
        unbind(admin, space, "secrets")
        open_gate(place)
        error = fails(place, "one", "Forbidden")
        assert 'cannot create resource "secrets"' in error["message"]

    def test_a_run_whose_status_may_not_be_written_goes_on_when_it_may_again(
        self, world: World, place: Place, admin: ApiClient, caplog: pytest.LogCaptureFixture
    ) -> None:
        space = place.namespace
        make_account(admin, space)
        world.start(world.faults.kubeconfig_for(f"s-{space}", token_of(admin, space)))
        place.actionset("one", "gated")
        until(lambda: is_at_gate(place, "one"))
        with caplog.at_level(logging.WARNING):
            unbind(admin, space, "statuses")
            open_gate(place)
            until(lambda: "cannot go on, and is looked at again" in caplog.text)
            assert "actionsets/status" in caplog.text or 'subresource "status"' in caplog.text
            bind(admin, space, "statuses")
            status = place.until_ended("one")
        assert status["state"] == "complete", status

    def test_a_right_to_watch_that_is_gone_is_told_until_it_is_back(
        self, world: World, place: Place, admin: ApiClient
    ) -> None:
        space = place.namespace
        make_account(admin, space)
        controller = world.start(world.faults.kubeconfig_for(f"w-{space}", token_of(admin, space)))
        is_ready = controller.checks()["controller"]
        assert is_ready() == ""
        unbind(admin, space, "sets")
        # Watches that are open go on until they end.
        world.faults.cut(verb="watch", resource="actionsets")
        until(is_ready)
        assert is_ready().startswith("Cannot watch actionsets.cr.kanister.io")
        place.actionset("one", "gated")
        open_gate(place)
        bind(admin, space, "sets")
        ends_well(place, "one")
        until(lambda: is_ready() == "")


class TestTime:
    @pytest.mark.parametrize("jump", [pytest.param(1, id="ahead"), pytest.param(-1, id="back")])
    def test_a_clock_that_jumps_ends_no_run_and_no_leadership(
        self, world: World, place: Place, jump: int
    ) -> None:
        space = place.namespace
        timed = {**gate(space), "timeout": "10m"}
        place.blueprint("timed", kube_ops(space, "before"), timed, kube_ops(space, "after"))
        controller = world.start()
        place.actionset("one", "timed")
        until(lambda: is_at_gate(place, "one"))
        world.clock.shift = jump * timedelta(hours=3)
        place.actionset("two", "timed")
        until(lambda: is_at_gate(place, "two"))
        open_gate(place)
        for name in ("one", "two"):
            ends_well(place, name)
        assert controller.is_leader

    def test_a_time_limit_holds_though_the_clock_is_set_back(
        self, world: World, place: Place
    ) -> None:
        space = place.namespace
        place.blueprint("timed", {**gate(space), "timeout": "8s"})
        world.start()
        place.actionset("one", "timed")
        until(lambda: is_at_gate(place, "one"))
        world.clock.shift = -timedelta(hours=3)
        fails(place, "one", "PhaseTimedOut")


class TestPods:
    @pytest.mark.usefixtures("node")
    def test_a_pod_that_another_client_deletes_is_missed(self, world: World) -> None:
        place = world.place
        space = place.namespace
        place.blueprint("long", kube_task(space, "sleep", "sleep 300"))
        world.start()
        place.actionset("one", "long")
        name = world.until_pod_runs()["metadata"]["name"]
        place.client.delete(f"/api/v1/namespaces/{space}/pods/{name}", gracePeriodSeconds="0")
        status = place.until_ended("one")
        assert status["state"] == "failed"
        assert status["actions"][0]["phases"][0]["error"]["reason"] == "PodGone"
        assert f"{space}/{name}" in status["error"]["message"]
        assert world.pods() == []

    def test_a_pod_on_a_node_that_vanished_is_given_up_in_time(
        self, world: World, api_server: LocalCluster
    ) -> None:
        place = world.place
        space = place.namespace
        task = kube_task(space, "sleep", "echo up; sleep 300")
        doomed = f"doomed-{space}"
        task["args"]["podOverride"] = {"nodeName": doomed}
        task["timeout"] = "15s"
        place.blueprint("long", task)
        world.start()
        with E2ENode(api_server, name=doomed, takes_all=False, pod_network=pod_network()) as node:
            place.actionset("one", "long")
            name = world.until_pod_runs()["metadata"]["name"]
            node.vanish()
            status = place.until_ended("one")
        assert status["state"] == "failed"
        assert name in status["error"]["message"] or "15s" in status["error"]["message"], status
        # Nobody is there to end it: it is taken away without asking.
        until(lambda: world.pods() == [])

    @pytest.mark.usefixtures("node")
    def test_a_pod_is_followed_to_its_end_on_a_bad_line(self, world: World) -> None:
        place = world.place
        space = place.namespace
        lines = "i=0; while [ $i -lt 60 ]; do echo line $i; sleep 0.02; i=$((i+1)); done"
        script = f"{lines}; kando output said hello"
        place.blueprint("chatty", kube_task(space, "talk", script))
        world.start()
        faults = world.faults
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
        until(lambda: world.pods() == [])
        assert faults.count("create", "pods") == 1


class TestPeople:
    def test_a_blueprint_that_is_deleted_in_mid_run_is_not_needed_any_more(
        self, world: World, place: Place
    ) -> None:
        world.start()
        place.actionset("one", "gated")
        until(lambda: is_at_gate(place, "one"))
        place.client.delete(f"{GROUP}/namespaces/{place.namespace}/blueprints/gated")
        open_gate(place)
        ends_well(place, "one")
        place.actionset("two", "gated")
        error = fails(place, "two", "BlueprintNotFound")
        assert "gated" in error["message"]

    def test_a_blueprint_that_is_changed_in_mid_run_counts_for_later_runs(
        self, world: World, place: Place
    ) -> None:
        world.start()
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
    def test_a_run_is_not_taken_up_with_another_blueprint_than_it_began_with(
        self, world: World, place: Place, change: str, reason: str
    ) -> None:
        first = world.start()
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
        world.start()
        fails(place, "one", reason)
        phases_now = place.status("one")["actions"][0]["phases"]
        assert [phase["state"] for phase in phases_now] == ["complete", "failed", "pending"]

    def test_an_actionset_that_is_deleted_in_mid_run_is_gone_and_others_go_on(
        self, world: World, place: Place
    ) -> None:
        controller = world.start()
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

    def test_a_namespace_that_is_deleted_goes_with_its_runs(
        self, world: World, place: Place, admin: ApiClient
    ) -> None:
        other = f"{place.namespace}-2"
        make_namespace(admin, other)
        away = Place(admin, world.faults.kubeconfig, other, Path())
        away.blueprint("gated", gate(other), kube_ops(other), deferPhase=kube_ops(other, "tidied"))
        make_gate(away)
        controller = world.start(namespaces=(place.namespace, other))
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

    def test_two_without_leader_election_do_not_act_side_by_side(
        self, world: World, place: Place
    ) -> None:
        world.start(identity="first")
        with pytest.raises(AssertionError):
            world.start(identity="second")
        open_gate(place)
        place.actionset("one", "gated")
        ends_well(place, "one")


def much(size: int) -> dict[str, Any]:
    """An output that is this long."""
    return {"text": {"keyValue": {"text": f'{{{{ repeat {size} "x" }}}}'}}}


class TestSizes:
    def test_artifacts_up_to_their_limit_are_kept_whole(self, world: World) -> None:
        place = world.place
        size = 500 * 1024
        place.blueprint("much", kube_ops(place.namespace), outputArtifacts=much(size))
        world.start()
        place.actionset("one", "much")
        status = place.until_ended("one")
        assert status["state"] == "complete"
        assert len(status["actions"][0]["artifacts"]["text"]["keyValue"]["text"]) == size

    def test_artifacts_beyond_their_limit_fail_and_say_so(self, world: World) -> None:
        place = world.place
        place.blueprint("too-much", kube_ops(place.namespace), outputArtifacts=much(600 * 1024))
        world.start()
        place.actionset("one", "too-much")
        error = fails(place, "one", "ArtifactsTooLarge")
        assert "512 KiB" in error["message"]
        assert place.status("one")["actions"][0]["phases"][0]["state"] == "complete"

    def test_a_status_that_finds_no_room_beside_its_spec_says_so(self, world: World) -> None:
        place = world.place
        place.blueprint("much", kube_ops(place.namespace), outputArtifacts=much(500 * 1024))
        world.start()
        action = {
            "name": "act",
            "blueprint": "much",
            "object": {"kind": "Namespace", "name": place.namespace},
            "options": {"name": "one", "long": "x" * 1_200_000},
        }
        place.actionset("one", "much", actions=[action])
        error = fails(place, "one", "StatusTooLarge")
        assert "status" in error["message"]
        # What it had done until then is still known.
        assert place.status("one")["actions"][0]["phases"][0]["state"] == "complete"


@contextlib.contextmanager
def dead_webhook(admin: ApiClient, namespace: str, rule: Mapping[str, Any]) -> Iterator[None]:
    """Have the API server ask somebody who is not there, for what happens in a namespace."""
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
    def test_a_webhook_that_is_down_keeps_a_phase_from_acting_and_is_named(
        self, world: World, place: Place, admin: ApiClient
    ) -> None:
        rule = {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "resources": ["configmaps"],
            "operations": ["CREATE"],
        }
        space = place.namespace
        world.start()
        with dead_webhook(admin, space, rule):
            until(lambda: is_refused(admin, space))
            place.actionset("one", "gated")
            status = place.until_ended("one")
        assert status["state"] == "failed"
        assert "dead.example.org" in status["error"]["message"]

    def test_a_webhook_that_is_down_in_front_of_our_status_is_waited_for(
        self, world: World, place: Place, admin: ApiClient, caplog: pytest.LogCaptureFixture
    ) -> None:
        rule = {
            "apiGroups": ["cr.kanister.io"],
            "apiVersions": ["*"],
            "resources": ["actionsets/status"],
            "operations": ["UPDATE"],
        }
        world.start()
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
    """Try it on one that nobody runs."""
    with contextlib.suppress(ApiFailed):
        place.actionset("probe", "nothing", suspend=True)
    probe = place.client.get(place.path("probe"))
    try:
        place.client.put(f"{place.path('probe')}/status", probe)
    except ApiFailed as error:
        return error.status == 500
    return False


class TestTheApiServer:
    def test_a_run_outlives_a_restart_and_a_history_that_is_gone(
        self, new_api_server: Callable[..., LocalCluster], tmp_path: Path
    ) -> None:
        server = new_api_server()
        install_definitions(server.client)
        make_namespace(server.client, "shop")
        with FaultProxy(server) as faults:
            place = Place(server.client, faults.kubeconfig, "shop", tmp_path)
            world = World(place, faults)
            try:
                place.blueprint(
                    "gated", kube_ops("shop", "before"), gate("shop"), kube_ops("shop", "after")
                )
                make_gate(place)
                # It may take longer than a term until it is back, on a busy machine.
                controller = world.start(terms=LeaseTerms(120.0, 90.0, 0.5))
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
                world.close()

    def test_an_etcd_that_freezes_and_a_server_that_is_killed_again_and_again_lose_nothing(
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
            world = World(place, faults)
            try:
                place.blueprint(
                    "gated", kube_ops("shop", "before"), gate("shop"), kube_ops("shop", "after")
                )
                make_gate(place)
                controller = world.start(terms=LeaseTerms(240.0, 180.0, 0.5))
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
                world.close()
        with capsys.disabled():
            print(
                f"\n{kills} kills of the API server, {frozen_seconds} s without etcd, "
                f"{len(names)} runs, {len(effects)} effects, "
                f"{2 * len(names) - len(set(effects))} lost"
            )
        assert len(effects) == 2 * len(names)

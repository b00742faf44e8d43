"""The fault proxy itself: faults apply to matching requests and to no others."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from e2e.cluster.client import ApiClient, ApiFailed, ApiUnreachable
from e2e.cluster.local import LocalCluster
from e2e.conftest import Kubectl
from e2e.faults.faults import Cut, Delay, Hold, Refuse, Stall
from e2e.faults.proxy import FaultProxy
from e2e.faults.requests import parse_request


def config_map(name: str = "settings") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": {"colour": "red"},
    }


@pytest.fixture
def maps(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/configmaps"


@pytest.mark.parametrize(
    ("method", "path", "want"),
    [
        pytest.param("GET", "/api/v1/pods", ("list", "", "pods", "", "", ""), id="all pods"),
        pytest.param(
            "GET",
            "/api/v1/namespaces/a/pods?watch=true",
            ("watch", "", "pods", "", "a", ""),
            id="a watch",
        ),
        pytest.param(
            "PATCH",
            "/apis/cr.kanister.io/v1alpha1/namespaces/a/actionsets/b/status",
            ("patch", "cr.kanister.io", "actionsets", "status", "a", "b"),
            id="a status",
        ),
        pytest.param(
            "GET", "/api/v1/namespaces/a", ("get", "", "namespaces", "", "", "a"), id="a namespace"
        ),
        pytest.param(
            "PUT",
            "/api/v1/namespaces/a/finalize",
            ("update", "", "namespaces", "finalize", "", "a"),
            id="the end of a namespace",
        ),
        pytest.param(
            "DELETE",
            "/api/v1/namespaces/a/pods",
            ("deletecollection", "", "pods", "", "a", ""),
            id="all pods of a namespace go",
        ),
        pytest.param("GET", "/version", ("get", "", "", "", "", ""), id="no resource"),
    ],
)
def test_request_is_described_in_terms_of_rbac(
    method: str, path: str, want: tuple[str, ...]
) -> None:
    assert parse_request(method, path, {}, b"")[:6] == want


def test_requests_pass_without_faults(
    through_faults: ApiClient, faults: FaultProxy, maps: str
) -> None:
    created = through_faults.post(maps, config_map())
    assert through_faults.get(f"{maps}/settings") == created
    assert faults.counts() == {("create", "configmaps"): 1, ("get", "configmaps"): 1}


def test_refused_write_does_not_reach_the_api_server(
    through_faults: ApiClient, faults: FaultProxy, admin: ApiClient, maps: str
) -> None:
    faults.inject(Refuse(429, retry_after=7), verb="create", resource="configmaps", times=1)
    with pytest.raises(ApiFailed) as refused:
        through_faults.post(maps, config_map())
    assert (refused.value.status, refused.value.reason) == (429, "TooManyRequests")
    assert [one["metadata"]["name"] for one in admin.get(maps)["items"]] == ["kube-root-ca.crt"]
    through_faults.post(maps, config_map())


def test_write_can_be_processed_and_refused(
    through_faults: ApiClient, faults: FaultProxy, admin: ApiClient, maps: str
) -> None:
    faults.inject(Refuse(500, is_done=True), verb="create")
    with pytest.raises(ApiFailed):
        through_faults.post(maps, config_map())
    assert admin.get(f"{maps}/settings")["data"] == {"colour": "red"}


def test_fault_applies_only_to_matching_requests(
    through_faults: ApiClient, faults: FaultProxy, maps: str
) -> None:
    faults.inject(Refuse(503), resource="configmaps", name="settings", skip=1, times=1)
    through_faults.post(maps, config_map())
    through_faults.get(f"{maps}/settings")
    with pytest.raises(ApiFailed):
        through_faults.get(f"{maps}/settings")
    through_faults.get(f"{maps}/settings")


@pytest.mark.parametrize(
    "fault", [pytest.param(Cut(), id="before"), pytest.param(Cut(after_bytes=40), id="after")]
)
def test_reset_connection_has_no_response(
    through_faults: ApiClient, faults: FaultProxy, maps: str, fault: Cut
) -> None:
    faults.inject(fault, verb="get", times=1)
    with pytest.raises(ApiUnreachable):
        through_faults.get(f"{maps}/kube-root-ca.crt")
    through_faults.get(f"{maps}/kube-root-ca.crt")


def test_held_request_is_processed_when_released(
    through_faults: ApiClient, faults: FaultProxy, admin: ApiClient, maps: str
) -> None:
    held = faults.inject(Hold(), verb="create")
    asking = threading.Thread(target=through_faults.post, args=(maps, config_map()))
    asking.start()
    assert held.wait_for_hit().namespace in maps
    with pytest.raises(ApiFailed):
        admin.get(f"{maps}/settings")
    held.release()
    asking.join()
    assert admin.get(f"{maps}/settings")["data"] == {"colour": "red"}


def test_delayed_response_is_complete(
    through_faults: ApiClient, faults: FaultProxy, maps: str
) -> None:
    faults.inject(Delay(0.5), verb="get", times=1)
    started = time.monotonic()
    through_faults.get(f"{maps}/kube-root-ca.crt")
    assert time.monotonic() - started >= 0.5


def test_a_connection_that_stalls_stays_open_until_it_is_cut(
    through_faults: ApiClient, faults: FaultProxy, maps: str
) -> None:
    stalled = faults.inject(Stall(after_bytes=10), verb="get", times=1)
    failures: list[Exception] = []

    def ask() -> None:
        try:
            through_faults.get(f"{maps}/kube-root-ca.crt")
        except ApiUnreachable as error:
            failures.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    stalled.wait_for_hit()
    asking.join(timeout=0.3)
    assert asking.is_alive()
    assert faults.cut(verb="get") == 1
    asking.join(180)
    assert len(failures) == 1


def read_names(events: Iterator[dict[str, Any]], names: list[str]) -> None:
    try:
        names.extend(event["object"]["metadata"].get("name", "?") for event in events)
    except ApiUnreachable:
        names.append("cut")


def test_watch_ends_with_gone(through_faults: ApiClient, faults: FaultProxy, maps: str) -> None:
    events = through_faults.watch(maps)
    assert next(events)["object"]["metadata"]["name"] == "kube-root-ca.crt"
    assert faults.expire_watches("configmaps") == 1
    event = next(events)
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
    assert list(events) == []


def test_watch_is_reset_in_the_middle(
    through_faults: ApiClient, faults: FaultProxy, maps: str
) -> None:
    events = through_faults.watch(maps)
    next(events)
    assert faults.cut(verb="watch", resource="configmaps") == 1
    with pytest.raises(ApiUnreachable):
        next(events)


def test_frozen_network_forwards_nothing(
    through_faults: ApiClient, faults: FaultProxy, admin: ApiClient, maps: str
) -> None:
    names: list[str] = []
    events = through_faults.watch(maps)
    next(events)
    reading = threading.Thread(target=read_names, args=(events, names))
    reading.start()
    faults.freeze()
    admin.post(maps, config_map("unseen"))
    reading.join(timeout=0.5)
    assert names == []
    faults.thaw()
    deadline = time.monotonic() + 60
    while not names and time.monotonic() < deadline:
        reading.join(timeout=0.02)
    assert names == ["unseen"]
    faults.cut(verb="watch")
    reading.join(180)
    assert names == ["unseen", "cut"]


def test_refused_connection_succeeds_later(
    through_faults: ApiClient, faults: FaultProxy, maps: str
) -> None:
    through_faults.get(maps)
    faults.refuse()
    with pytest.raises(ApiUnreachable):
        through_faults.get(maps)
    faults.accept()
    through_faults.get(maps)


@pytest.mark.usefixtures("node")
def test_commands_and_logs_pass(
    faults: FaultProxy, api_server: LocalCluster, namespace: str, kubectl: Kubectl
) -> None:
    through = Kubectl(api_server.programs.kubectl, faults.kubeconfig)
    result = through(
        "-n", namespace, "run", "worker", "--image=x", "--command", "--", "sleep", "60"
    )
    assert result.returncode == 0, result.stderr
    through("-n", namespace, "wait", "--for=condition=Ready", "pod/worker", "--timeout=120s")
    done = through("-n", namespace, "exec", "-i", "worker", "--", "cat", stdin=b"hello" * 100_000)
    assert (done.returncode, done.stdout) == (0, b"hello" * 100_000), done.stderr
    faults.inject(Cut(after_bytes=0), resource="pods", subresource="exec")
    done = through("-n", namespace, "exec", "worker", "--", "sh", "-c", "echo a; sleep 5")
    assert done.returncode != 0
    kubectl("-n", namespace, "delete", "pod", "worker", "--grace-period=0", "--force")

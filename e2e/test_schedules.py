"""Schedules on a real API server: what it refuses, and one run per time whatever dies."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster.client import ApiClient, ApiFailed
from e2e.conftest import Kubectl
from e2e.faults.faults import Hold
from e2e.faults.proxy import FaultProxy
from e2e.test_controller import PATIENCE_SECONDS, Place, kube_ops, until

SCHEDULES = "/apis/kanister-py.io/v1alpha1"


@pytest.fixture(scope="module")
def definitions(kubeconfig: Path) -> None:
    subprocess.run(
        [
            *(sys.executable, "-m", "kanister_py", "crds", "install", "--only", "blueprints"),
            *("--kubeconfig", str(kubeconfig)),
        ],
        check=True,
        capture_output=True,
    )


@pytest.fixture
def place(
    definitions: None,  # noqa: ARG001 # it is wanted for its effect
    admin: ApiClient,
    faults: FaultProxy,
    namespace: str,
    tmp_path: Path,
) -> Iterator[Place]:
    made = Place(admin, faults.kubeconfig, namespace, tmp_path)
    try:
        yield made
    finally:
        made.close()


def schedule(place: Place, name: str = "often", **spec: Any) -> dict[str, Any]:
    reference = {"kind": "Namespace", "name": place.namespace, "namespace": place.namespace}
    action = {"name": "act", "blueprint": "made-up", "object": reference, "options": {"name": "x"}}
    return {
        "apiVersion": "kanister-py.io/v1alpha1",
        "kind": "Schedule",
        "metadata": {"name": name},
        "spec": {
            "schedule": "@every 2s",
            "concurrencyPolicy": "Queue",
            "historyLimits": {"complete": 1000},
            "template": {"spec": {"actions": [action]}},
            **spec,
        },
    }


def create(place: Place, obj: dict[str, Any]) -> dict[str, Any]:
    return place.client.post(f"{SCHEDULES}/namespaces/{place.namespace}/schedules", obj)


def status(place: Place, name: str = "often") -> dict[str, Any]:
    path = f"{SCHEDULES}/namespaces/{place.namespace}/schedules/{name}"
    found: dict[str, Any] = place.client.get(path).get("status") or {}
    return found


def times(place: Place) -> list[str]:
    path = f"/apis/cr.kanister.io/v1alpha1/namespaces/{place.namespace}/actionsets"
    found = place.client.get(path, labelSelector="kanister-py.io/schedule=often")["items"]
    return [each["metadata"]["annotations"]["kanister-py.io/scheduled-at"] for each in found]


def unhurried(place: Place) -> None:
    """Make the blueprint that is run: it makes a ConfigMap, or finds it there."""
    place.blueprint("made-up", {**kube_ops(place.namespace), "funcVersion": "v0.1.0"})


@pytest.mark.parametrize(
    ("name", "spec", "said"),
    [
        ("line", {"schedule": "0 0 2 * * *"}, "must be five fields"),
        ("policy", {"concurrencyPolicy": "Allow"}, "Unsupported value"),
        ("empty", {"template": {"spec": {"actions": []}}}, "at least 1 item"),
        ("n" * 64, {}, "no more than 63 characters"),
    ],
)
def test_the_api_server_itself_refuses_what_cannot_be(
    place: Place, name: str, spec: dict[str, Any], said: str
) -> None:
    with pytest.raises(ApiFailed) as refused:
        create(place, schedule(place, name, **spec))
    assert said in str(refused.value)


def test_a_schedule_runs_and_kubectl_shows_how_it_stands(place: Place, kubectl: Kubectl) -> None:
    unhurried(place)
    create(place, schedule(place))
    place.start()
    until(lambda: status(place).get("lastSuccessfulTime"))
    shown = kubectl("-n", place.namespace, "get", "schedules").stdout.decode()
    assert "@every 2s" in shown
    assert "NEXT" in shown
    (ready,) = (each for each in status(place)["conditions"] if each["type"] == "Ready")
    assert ready["status"] == "True"


@pytest.mark.parametrize("is_done", [False, True], ids=["before it is done", "after"])
@pytest.mark.parametrize(
    ("verb", "resource", "subresource"),
    [("create", "actionsets", ""), ("update", "schedules", "status")],
)
def test_each_time_runs_once_wherever_the_controller_is_killed(
    place: Place, faults: FaultProxy, verb: str, resource: str, subresource: str, *, is_done: bool
) -> None:
    unhurried(place)
    create(place, schedule(place))
    first = place.start("--leader-elect", identity="first")
    until(lambda: len(times(place)) > 1)
    with faults.inject(
        Hold(is_done=is_done),
        verb=verb,
        resource=resource,
        subresource=subresource,
        namespace=place.namespace,
        times=1,
    ) as held:
        held.wait_for_hit(seconds=PATIENCE_SECONDS)
        # Another one takes over while the first still believes that it leads.
        first.send_signal(signal.SIGSTOP)
        before = len(times(place))
        place.start("--leader-elect", identity="second")
        until(lambda: len(times(place)) > before + 1)
    first.send_signal(signal.SIGCONT)
    first.wait(PATIENCE_SECONDS)
    seen = len(times(place))
    until(lambda: len(times(place)) > seen + 1)
    found = times(place)
    assert len(found) == len(set(found)), place.logs()

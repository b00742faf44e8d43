"""Partitions on a real API server: assignment, failover, and refused duplicates."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.cluster.client import ApiClient
from e2e.controllers import (
    PATIENCE_SECONDS,
    Place,
    definitions,
    install_definitions,
    kube_ops,
    kube_task,
    until,
)
from kanister_py.cli.exit_codes import LEADERSHIP_LOST

__all__ = ["definitions", "place"]

PARTITION = "kanister-py.io/partition"


@pytest.fixture
def place(admin: ApiClient, kubeconfig: Path, namespace: str, tmp_path: Path) -> Iterator[Place]:
    install_definitions(admin)
    new_place = Place(admin, kubeconfig, namespace, tmp_path)
    try:
        yield new_place
    finally:
        new_place.close()


def begin(place: Place, name: str, blueprint: str, partition: str) -> None:
    """Create an ActionSet, in a partition if one is given."""
    reference = {"kind": "Namespace", "name": place.namespace, "namespace": place.namespace}
    action = {"name": "act", "blueprint": blueprint, "object": reference, "options": {"name": name}}
    obj: dict[str, Any] = {
        "apiVersion": "cr.kanister.io/v1alpha1",
        "kind": "ActionSet",
        "metadata": {"name": name, "labels": {PARTITION: partition} if partition else {}},
        "spec": {"actions": [action]},
    }
    place.create("actionsets", obj)


def holder(place: Place, partition: str) -> str:
    name = "-".join(filter(None, ("kanister-py-controller", partition)))
    path = f"/apis/coordination.k8s.io/v1/namespaces/{place.namespace}/leases"
    specs = {
        action_set["metadata"]["name"]: action_set["spec"]
        for action_set in place.client.get(path)["items"]
    }
    return str(specs.get(name, {}).get("holderIdentity") or "")


def test_each_partition_runs_its_objects_and_a_second_controller_for_it_is_refused(
    place: Place,
) -> None:
    place.blueprint("made-up", kube_ops(place.namespace))
    place.start("--partition", "red", identity="red")
    place.start(identity="plain")
    until(lambda: (holder(place, "red"), holder(place, "")) == ("red", "plain"))
    for partition in ("red", ""):
        name = f"of-{partition or 'none'}"
        begin(place, name, "made-up", partition)
        status = place.until_ended(name)
        assert status["state"] == "complete", place.logs()
        assert status.get("partition", "") == partition
    again = place.start("--partition", "red", "--home", "default", identity="again")
    assert again.wait(PATIENCE_SECONDS) == 1
    assert "red (Lease" in place.logs()
    assert holder(place, "red") == "red"


@pytest.mark.usefixtures("node")
@pytest.mark.parametrize("ends", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "frozen"])
def test_standby_of_the_partition_resumes_a_run_whose_label_has_changed(
    place: Place, ends: signal.Signals
) -> None:
    space = place.namespace
    place.blueprint("slow", kube_task(space, "wait", "sleep 8; kando output said hello"))
    place.start(identity="plain")
    active = place.start("--partition", "red", "--leader-elect", identity="active")
    until(lambda: holder(place, "red") == "active")
    place.start("--partition", "red", "--leader-elect", identity="standby")
    begin(place, "one", "slow", "red")
    place.until_running("one")
    place.client.patch(place.path("one"), {"metadata": {"labels": {PARTITION: None}}})
    active.send_signal(ends)
    until(lambda: holder(place, "red") == "standby")
    status = place.until_ended("one")
    assert status["state"] == "complete", place.logs()
    assert status["partition"] == "red"
    assert status["actions"][0]["phases"][0]["attempt"] == 1
    if ends == signal.SIGSTOP:
        active.send_signal(signal.SIGCONT)
        assert active.wait(PATIENCE_SECONDS) == LEADERSHIP_LOST

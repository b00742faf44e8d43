"""A command in a pod that has volumes mounted."""

from __future__ import annotations

from typing import Any

import pytest

from kanister_py.core.errors import CommandFailed, ObjectNotFetched
from kanister_py.core.templates.facts import ActionFacts, Workload
from kanister_py.functions.blueprint.prepare_data.v0_0_0 import PrepareData
from kanister_py.functions.blueprint.prepare_data.v0_1_0 import PrepareDataV010
from kanister_py.ports.function import Func
from tests.functions.blueprint.conftest import Harness, failure
from tests.raising import refused_as

BOTH = pytest.mark.parametrize("function", [PrepareData, PrepareDataV010])


def claim(harness: Harness, name: str, mode: str = "ReadWriteOnce") -> None:
    harness.cluster.create(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"accessModes": [mode], "resources": {"requests": {"storage": "1Mi"}}},
        }
    )


def prepare(text: str, **rest: Any) -> dict[str, Any]:
    return {"namespace": "default", "image": "busybox", "command": ["sh", "-c", text], **rest}


def about(**claims: str) -> ActionFacts:
    workload = Workload("db", "default", ("db-0",), (("server",),), {"db-0": claims})
    return ActionFacts(time="2026-01-01T00:00:00Z", stateful_set=workload)


@BOTH
def test_volumes_are_mounted_at_their_paths(harness: Harness, function: type[Func]) -> None:
    claim(harness, "data")
    harness.call(function, prepare("echo kept > /v/file", volumes={"data": "/v"}))
    args = prepare("kando output read $(cat /w/file)", volumes={"data": "/w"})
    assert harness.call(function, args, phase=1) == {"read": "kept"}
    assert harness.pods() == []


def test_volumes_of_the_workload_are_mounted_by_default(harness: Harness) -> None:
    claim(harness, "data")
    args = prepare("test -d /mnt/prepare_data/data && kando output is there")
    assert harness.call(PrepareData, args, facts=about(data="/var/lib/db")) == {"is": "there"}


def test_failed_command_is_ignored_unless_fail_on_error(harness: Harness) -> None:
    claim(harness, "data")
    args = prepare("kando output half yes; exit 3", volumes={"data": "/v"})
    assert harness.call(PrepareData, args, uid="a") == {"half": "yes"}
    assert "exit code 3" in harness.log[-1]
    minded = {**args, "failOnError": "true"}
    error = failure(lambda: harness.call(PrepareData, minded, uid="b"))
    assert isinstance(error, CommandFailed)
    assert error.exit_code == 3
    assert isinstance(failure(lambda: harness.call(PrepareDataV010, args, uid="c")), CommandFailed)
    overlooked = {**args, "failOnError": False}
    assert harness.call(PrepareDataV010, overlooked, uid="d") == {"half": "yes"}
    assert harness.pods() == []


@BOTH
def test_missing_volume_is_named(harness_without_pods: Harness, function: type[Func]) -> None:
    args = prepare("true", volumes={"nothing": "/v"})
    error = failure(lambda: harness_without_pods.call(function, args))
    assert isinstance(error, ObjectNotFetched)
    assert error.message.startswith("Failed to retrieve PVC. Namespace default, Name nothing")
    assert harness_without_pods.pods() == []


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        pytest.param(
            ActionFacts(time="2026-01-01T00:00:00Z"), "Failed to get volumes", id="no workload"
        ),
        pytest.param(about(), "No volumes found", id="a workload without volumes"),
    ],
)
def test_workload_without_volumes_is_an_error(
    harness_without_pods: Harness, facts: ActionFacts, message: str
) -> None:
    with refused_as("VolumesNotFound") as caught:
        harness_without_pods.call(PrepareData, prepare("true"), facts=facts)
    assert caught.value.message.startswith(message)


def test_pod_has_the_expected_spec(harness: Harness) -> None:
    claim(harness, "data")
    claim(harness, "shared", "ReadOnlyMany")
    args = prepare("sleep 600", serviceaccount="mover", volumes={"data": "/v", "shared": "/s"})
    called = harness.start(PrepareData, args)
    pod = harness.seen_pod()
    called.cancel()
    failure(called.result)
    assert pod["metadata"]["name"].startswith("prepare-data-job-")
    spec = pod["spec"]
    assert spec["serviceAccountName"] == "mover"
    mounts = {
        volume_mount["mountPath"]: volume_mount
        for volume_mount in spec["containers"][0]["volumeMounts"]
    }
    assert "readOnly" not in mounts["/v"]
    assert mounts["/s"]["readOnly"] is True
    volumes = {volume["name"]: volume.get("persistentVolumeClaim") for volume in spec["volumes"]}
    assert volumes[mounts["/s"]["name"]] == {"claimName": "shared", "readOnly": True}
    assert all(name.startswith("vol-") for name in (mounts["/v"]["name"], mounts["/s"]["name"]))

"""Two commands in parallel, with a shared volume."""

from __future__ import annotations

from typing import Any

import pytest

from kanister_py.core.errors import CommandFailed
from kanister_py.core.kube.quantities import InvalidQuantity
from kanister_py.core.templates.facts import ActionFacts
from kanister_py.functions.blueprint.multi_container_run.v0_0_0 import (
    MultiContainerRun,
    override_of,
)
from tests.functions.blueprint.conftest import Harness, failure


def pair(background: str, output: str, **rest: Any) -> dict[str, Any]:
    return {
        "namespace": "default",
        "backgroundImage": "busybox",
        "backgroundCommand": ["sh", "-c", background],
        "outputImage": "busybox",
        "outputCommand": ["sh", "-c", output],
        **rest,
    }


def made(harness: Harness, args: dict[str, Any], **found: Any) -> Any:
    """Return the pod that a call creates; the call is then cancelled."""
    facts = ActionFacts(time="2026-01-01T00:00:00Z", **found)
    called = harness.start(MultiContainerRun, args, facts=facts)
    pod = harness.seen_pod()
    called.cancel()
    failure(called.result)
    return pod


IDLE = pair("sleep 600", "sleep 600")


def test_volume_is_shared_and_one_container_has_outputs(harness: Harness) -> None:
    background = "kando output mine no; mkfifo /tmp/pipe; echo payload > /tmp/pipe"
    output = "until [ -p /tmp/pipe ]; do sleep 0.05; done; kando output got $(cat /tmp/pipe)"
    assert harness.call(MultiContainerRun, pair(background, output)) == {"got": "payload"}
    assert harness.pods() == []


def test_init_container_runs_first(harness: Harness) -> None:
    args = pair(
        "true",
        "kando output got $(cat /data/left)",
        initImage="busybox",
        initCommand=["sh", "-c", "echo early > /data/left"],
        sharedVolumeDir="/data",
    )
    assert harness.call(MultiContainerRun, args) == {"got": "early"}


@pytest.mark.parametrize(
    ("background", "output", "who"),
    [
        pytest.param("exit 4", "kando output a b", "background", id="the one behind"),
        pytest.param("true", "kando output a b; exit 4", "output", id="the one with outputs"),
    ],
)
def test_phase_fails_if_a_container_fails(
    harness: Harness, background: str, output: str, who: str
) -> None:
    error = failure(lambda: harness.call(MultiContainerRun, pair(background, output)))
    assert isinstance(error, CommandFailed)
    assert error.exit_code == 4
    assert f"container {who} ended with exit code 4" in error.message
    assert harness.pods() == []


def test_pod_has_the_expected_spec(harness: Harness) -> None:
    args = {**IDLE, "sharedVolumeMedium": "Memory", "sharedVolumeSizeLimit": "64Mi"}
    pod = made(harness, args)
    assert pod["metadata"]["name"].startswith("kanister-job-")
    assert pod["metadata"]["labels"]["createdBy"] == "kanister"
    assert pod["metadata"]["annotations"] == {"kubectl.kubernetes.io/default-container": "output"}
    assert [container["name"] for container in pod["spec"]["containers"]] == [
        "output",
        "background",
    ]
    shared = {"name": "shared", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}}
    assert shared in pod["spec"]["volumes"]
    for container in pod["spec"]["containers"]:
        assert {"name": "shared", "mountPath": "/tmp/"} in container["volumeMounts"]
    assert "initContainers" not in pod["spec"]


def test_volume_limit_does_not_affect_later_phases(harness: Harness) -> None:
    made(harness, {**IDLE, "sharedVolumeSizeLimit": "64Mi", "initCommand": ["true"]})
    volumes = made(harness, IDLE)["spec"]["volumes"]
    assert {"name": "shared", "emptyDir": {}} in volumes


def test_invalid_size_is_rejected(harness_without_pods: Harness) -> None:
    args = {**IDLE, "sharedVolumeSizeLimit": "much"}
    assert isinstance(
        failure(lambda: harness_without_pods.call(MultiContainerRun, args)), InvalidQuantity
    )


def test_concurrent_pods_run_their_own_commands(harness: Harness) -> None:
    calls = {
        number: harness.start(
            MultiContainerRun, pair("true", f"kando output number {number}"), phase=number
        )
        for number in range(4)
    }
    assert {number: call.result() for number, call in calls.items()} == {
        number: {"number": str(number)} for number in calls
    }


def named(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, **fields}


@pytest.mark.parametrize(
    ("override", "has_init", "want"),
    [
        pytest.param(None, True, None, id="none"),
        pytest.param({"nodeName": "n"}, True, {"nodeName": "n"}, id="no containers"),
        pytest.param(
            {"containers": [named("container", tty=True)]},
            False,
            {"containers": [named("output", tty=True), named("background", tty=True)]},
            id="the usual container means both",
        ),
        pytest.param(
            {"containers": [named("container", tty=True)]},
            True,
            {
                "containers": [named("output", tty=True), named("background", tty=True)],
                "initContainers": [named("init", tty=True)],
            },
            id="and the one before them",
        ),
        pytest.param(
            {"containers": [named("container", tty=True), named("output", stdin=True)]},
            False,
            {"containers": [named("output", stdin=True), named("background", tty=True)]},
            id="but not one that is named itself",
        ),
        pytest.param(
            {"containers": [named("background", tty=True)]},
            True,
            {"containers": [named("background", tty=True)]},
            id="names of its own stay",
        ),
    ],
)
def test_override_of_the_default_container_applies_to_all(
    override: Any, has_init: bool, want: Any
) -> None:
    assert override_of(override, has_init=has_init) == want


def test_shared_override_is_not_changed(harness: Harness) -> None:
    override = {"containers": [named("container", env=[{"name": "A", "value": "1"}])]}
    pod = made(harness, IDLE, pod_override=override)
    for container in pod["spec"]["containers"]:
        assert {"name": "A", "value": "1"} in container["env"]
    assert override == {"containers": [named("container", env=[{"name": "A", "value": "1"}])]}

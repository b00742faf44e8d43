"""Two commands side by side, with a volume between them."""

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
from tests.functions.blueprint.conftest import World, failure


def pair(background: str, output: str, **rest: Any) -> dict[str, Any]:
    return {
        "namespace": "default",
        "backgroundImage": "busybox",
        "backgroundCommand": ["sh", "-c", background],
        "outputImage": "busybox",
        "outputCommand": ["sh", "-c", output],
        **rest,
    }


def made(world: World, args: dict[str, Any], **found: Any) -> Any:
    """The pod that a call makes; the call is cancelled then."""
    facts = ActionFacts(time="2026-01-01T00:00:00Z", **found)
    called = world.start(MultiContainerRun, args, facts=facts)
    pod = world.seen_pod()
    called.cancel()
    failure(called.result)
    return pod


IDLE = pair("sleep 600", "sleep 600")


def test_both_see_the_volume_and_only_one_gives_outputs(world: World) -> None:
    background = "kando output mine no; mkfifo /tmp/pipe; echo payload > /tmp/pipe"
    output = "until [ -p /tmp/pipe ]; do sleep 0.05; done; kando output got $(cat /tmp/pipe)"
    assert world.call(MultiContainerRun, pair(background, output)) == {"got": "payload"}
    assert world.pods() == []


def test_an_init_container_goes_first(world: World) -> None:
    args = pair(
        "true",
        "kando output got $(cat /data/left)",
        initImage="busybox",
        initCommand=["sh", "-c", "echo early > /data/left"],
        sharedVolumeDir="/data",
    )
    assert world.call(MultiContainerRun, args) == {"got": "early"}


@pytest.mark.parametrize(
    ("background", "output", "who"),
    [
        pytest.param("exit 4", "kando output a b", "background", id="the one behind"),
        pytest.param("true", "kando output a b; exit 4", "output", id="the one with outputs"),
    ],
)
def test_the_phase_fails_when_either_fails(
    world: World, background: str, output: str, who: str
) -> None:
    error = failure(lambda: world.call(MultiContainerRun, pair(background, output)))
    assert isinstance(error, CommandFailed)
    assert error.exit_code == 4
    assert f"container {who} ended with exit code 4" in error.message
    assert world.pods() == []


def test_the_pod_is_made_as_users_know_it(world: World) -> None:
    args = {**IDLE, "sharedVolumeMedium": "Memory", "sharedVolumeSizeLimit": "64Mi"}
    pod = made(world, args)
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


def test_what_one_phase_limits_limits_no_later_one(world: World) -> None:
    made(world, {**IDLE, "sharedVolumeSizeLimit": "64Mi", "initCommand": ["true"]})
    volumes = made(world, IDLE)["spec"]["volumes"]
    assert {"name": "shared", "emptyDir": {}} in volumes


def test_a_size_that_is_none_is_refused(paper: World) -> None:
    args = {**IDLE, "sharedVolumeSizeLimit": "much"}
    assert isinstance(failure(lambda: paper.call(MultiContainerRun, args)), InvalidQuantity)


def test_containers_at_the_same_time_do_not_mix_up_their_commands(world: World) -> None:
    calls = {
        number: world.start(
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
def test_an_override_of_the_usual_container_is_one_of_each(
    override: Any, has_init: bool, want: Any
) -> None:
    assert override_of(override, has_init=has_init) == want


def test_the_override_that_phases_share_stays_as_it_was(world: World) -> None:
    override = {"containers": [named("container", env=[{"name": "A", "value": "1"}])]}
    pod = made(world, IDLE, pod_override=override)
    for container in pod["spec"]["containers"]:
        assert {"name": "A", "value": "1"} in container["env"]
    assert override == {"containers": [named("container", env=[{"name": "A", "value": "1"}])]}

"""A command in a pod of its own."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from kanister_py.core.errors import CommandFailed, RunCancelled, WaitTimedOut
from kanister_py.core.kube.resources import PODS
from kanister_py.core.templates.facts import ActionFacts
from kanister_py.core.yaml.weak import InvalidArgs
from kanister_py.functions.blueprint.kube_task.v0_0_0 import KubeTask
from kanister_py.functions.blueprint.kube_task.v0_1_0 import KubeTaskV010
from kanister_py.ports.function import Func
from tests.functions.blueprint.conftest import World, failure, has_ended, is_running
from tests.raising import refused_as

BOTH = pytest.mark.parametrize("task", [KubeTask, KubeTaskV010])


def script(text: str, **rest: Any) -> dict[str, Any]:
    return {"image": "busybox", "command": ["sh", "-c", text], "namespace": "default", **rest}


def facts(**found: Any) -> ActionFacts:
    return ActionFacts(time="2026-01-01T00:00:00Z", **found)


@BOTH
def test_what_the_command_prints_as_output_is_output_and_the_rest_is_logged(
    world: World, task: type[Func]
) -> None:
    lines = "echo hello; kando output size 12; kando output size 13; kando output host db >&2"
    assert world.call(task, script(lines)) == {"size": "13", "host": "db"}
    assert world.log == ["hello"]


@BOTH
def test_the_pod_is_gone_when_the_phase_is_over(world: World, task: type[Func]) -> None:
    world.call(task, script("true"))
    assert world.pods() == []


@BOTH
def test_a_command_that_fails_says_its_exit_code(world: World, task: type[Func]) -> None:
    error = failure(lambda: world.call(task, script("echo out of tape; exit 3")))
    assert isinstance(error, CommandFailed)
    assert error.exit_code == 3
    assert error.message == (
        "Failed while waiting for Pod to complete: Pod failed: its command ended with exit code 3"
    )
    assert world.log == ["out of tape"]
    assert world.pods() == []


def test_a_command_that_fails_keeps_its_outputs_from_the_first_version_that_promises_it(
    world: World,
) -> None:
    args = script("kando output half yes; exit 1")
    lost = failure(lambda: world.call(KubeTask, args, uid="a"))
    kept = failure(lambda: world.call(KubeTaskV010, args, uid="b"))
    assert isinstance(lost, CommandFailed)
    assert isinstance(kept, CommandFailed)
    assert (lost.outputs, kept.outputs) == ({}, {"half": "yes"})


@BOTH
def test_a_broken_output_line_fails_the_phase(world: World, task: type[Func]) -> None:
    args = script("echo '###Phase-output###: {\"key\": 1}'; echo after")
    error = failure(lambda: world.call(task, args))
    assert error.reason == "OutputUnreadable"
    assert world.log == ["after"]
    assert world.pods() == []


def test_a_log_of_bytes_that_are_no_text_harms_nobody(world: World) -> None:
    args = script(r"printf '\377\376\000\001\n'; head -c 200000 /dev/urandom; kando output a b")
    assert world.call(KubeTask, args) == {"a": "b"}


def test_a_cancel_ends_the_command_and_deletes_its_pod(world: World) -> None:
    called = world.start(KubeTask, script("sleep 600"))
    world.seen_pod(is_running)
    called.cancel()
    assert isinstance(failure(called.result), RunCancelled)
    assert world.pods() == []


def test_a_pod_that_an_earlier_process_left_is_followed_to_its_end(world: World) -> None:
    args = script("kando output began $(date +%s%N); sleep 1; kando output done yes")
    first = world.start(KubeTask, args, is_written_down=False)
    uid = world.seen_pod(is_running)["metadata"]["uid"]
    second = world.start(KubeTask, args)
    assert second.result()["done"] == "yes"
    assert uid not in {pod["metadata"]["uid"] for pod in world.pods()}
    # Whoever loses its pod to the other one fails, and starts nothing anew.
    first.thread.join(180)
    assert first.failed or first.ended == [second.result()]
    assert world.pods() == []


def test_a_pod_that_ended_while_nobody_looked_still_gives_its_outputs(world: World) -> None:
    args = script("kando output done yes")
    pod = _left_behind(world, args)
    world.seen_pod(has_ended)
    assert world.call(KubeTask, args) == {"done": "yes"}
    assert pod["metadata"]["name"] not in {pod["metadata"]["name"] for pod in world.pods()}


def test_an_end_that_was_not_written_down_is_found_again_and_not_done_again(
    world: World,
) -> None:
    args = script("kando output at $(date +%s%N)")
    first = world.call(KubeTask, args, is_written_down=False)
    assert len(world.pods()) == 1
    assert world.call(KubeTask, args) == first
    assert world.pods() == []


def test_a_failure_that_was_not_written_down_is_found_again_and_not_done_again(
    world: World,
) -> None:
    args = script("echo $(date +%s%N); exit 3")
    failure(lambda: world.call(KubeTask, args, is_written_down=False))
    error = failure(lambda: world.call(KubeTask, args))
    assert isinstance(error, CommandFailed)
    assert error.exit_code == 3
    assert len(world.log) == 2
    assert len({*world.log}) == 1
    assert world.pods() == []


def _left_behind(world: World, args: dict[str, Any]) -> Any:
    """The pod of a process that died right after it made it."""
    from kanister_py.core.templates.params import Params
    from kanister_py.functions.blueprint.kube_task.v0_0_0 import KubeTaskArgs, job_of
    from kanister_py.functions.blueprint.pods import pod_of

    params = Params(facts())
    return world.cluster.create(
        pod_of(world.context(), params, job_of(params, KubeTaskArgs(**args)))
    )


def test_a_pod_that_somebody_deletes_fails_the_phase(world: World) -> None:
    called = world.start(KubeTask, script("sleep 600"))
    name = world.seen_pod(is_running)["metadata"]["name"]
    world.cluster.delete(PODS, name, namespace="default", grace_period_seconds=0)
    with refused_as("PodGone"):
        called.result()


def test_many_tasks_at_once_do_not_mix_up_their_commands(world: World) -> None:
    calls = {
        number: world.start(KubeTask, script(f"kando output number {number}"), phase=number)
        for number in range(8)
    }
    assert {number: call.result() for number, call in calls.items()} == {
        number: {"number": str(number)} for number in calls
    }


def test_the_pod_is_made_as_users_know_it(world: World) -> None:
    args = script("sleep 600", podLabels={"who": "phase"}, podAnnotations={"note": "n"})
    actionset_facts = facts(
        pod_labels={"who": "actionset", "also": "x"}, pod_annotations={"more": "m"}
    )
    called = world.start(KubeTask, args, facts=actionset_facts)
    pod = world.seen_pod()
    called.cancel()
    failure(called.result)
    metadata = pod["metadata"]
    run = metadata["labels"].pop("kanister-py.io/run")
    assert metadata["name"] == f"kanister-job-{run}"
    assert metadata["labels"] == {"createdBy": "kanister", "who": "phase", "also": "x"}
    assert metadata["annotations"] == {"note": "n", "more": "m"}
    container = pod["spec"]["containers"][0]
    assert (container["name"], container["imagePullPolicy"]) == ("container", "IfNotPresent")
    assert pod["spec"]["restartPolicy"] == "Never"


def test_what_the_actionset_overrides_wins_over_what_the_phase_overrides(world: World) -> None:
    args = script(
        "kando output who $WHO; kando output what $WHAT",
        podOverride={
            "activeDeadlineSeconds": 99,
            "containers": [
                {
                    "name": "container",
                    "env": [{"name": "WHO", "value": "phase"}, {"name": "WHAT", "value": "dump"}],
                }
            ],
        },
    )
    override = {
        "containers": [{"name": "container", "env": [{"name": "WHO", "value": "actionset"}]}]
    }
    outputs = world.call(KubeTask, args, facts=facts(pod_override=override))
    assert outputs == {"who": "actionset", "what": "dump"}


def test_without_a_namespace_the_pod_runs_where_the_controller_does(world: World) -> None:
    args = {"image": "busybox", "command": ["sleep", "600"]}
    called = world.start(KubeTask, args)
    pod = world.seen_pod()
    called.cancel()
    failure(called.result)
    assert pod["metadata"]["namespace"] == world.cluster.default_namespace


def test_where_nothing_runs_pods_the_phase_fails_at_once(paper: World) -> None:
    with refused_as("PodsNotRun"):
        paper.call(KubeTask, script("true"))
    assert paper.pods() == []


@pytest.mark.parametrize(
    ("args", "path"),
    [
        pytest.param({"command": ["true"]}, "image", id="no image"),
        pytest.param({"image": "busybox"}, "command", id="no command"),
        pytest.param(script("true", timeout="1m"), "timeout", id="an arg of a later version"),
    ],
)
def test_args_that_are_missing_or_not_known_are_refused(
    paper: World, args: dict[str, Any], path: str
) -> None:
    with pytest.raises(InvalidArgs) as caught:
        paper.call(KubeTask, args)
    assert [problem.path for problem in caught.value.problems] == [path]


def test_a_command_of_one_word_needs_no_brackets(world: World) -> None:
    assert world.call(KubeTask, {"image": "busybox", "command": "true"}) == {}


def test_a_task_that_takes_too_long_is_ended(world: World) -> None:
    # A slow machine gets more time, until the command has begun.
    for number, (timeout, seconds) in enumerate((("1500ms", 1.5), ("8s", 8.0), ("40s", 40.0))):
        args = script("echo begun; sleep 600", timeout=timeout)
        error = failure(functools.partial(world.call, KubeTaskV010, args, uid=f"uid-{number}"))
        assert isinstance(error, WaitTimedOut)
        assert error.timeout_seconds == seconds
        if world.log:
            break
    assert world.log == ["begun"]
    assert world.pods() == []


@pytest.mark.parametrize("timeout", ["soon", "-1s", "0s"])
def test_a_timeout_that_says_nothing_is_refused(paper: World, timeout: str) -> None:
    with pytest.raises(InvalidArgs):
        paper.call(KubeTaskV010, script("true", timeout=timeout))

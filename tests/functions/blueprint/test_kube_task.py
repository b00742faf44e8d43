"""A command in a new pod."""

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
from tests.functions.blueprint.conftest import Harness, failure, has_ended, is_running
from tests.raising import refused_as

BOTH = pytest.mark.parametrize("task", [KubeTask, KubeTaskV010])


def script(text: str, **rest: Any) -> dict[str, Any]:
    return {"image": "busybox", "command": ["sh", "-c", text], "namespace": "default", **rest}


def facts(**found: Any) -> ActionFacts:
    return ActionFacts(time="2026-01-01T00:00:00Z", **found)


@BOTH
def test_outputs_are_collected_and_other_lines_logged(harness: Harness, task: type[Func]) -> None:
    lines = "echo hello; kando output size 12; kando output size 13; kando output host db >&2"
    assert harness.call(task, script(lines)) == {"size": "13", "host": "db"}
    assert harness.log == ["hello"]


@BOTH
def test_pod_is_deleted_when_the_phase_ends(harness: Harness, task: type[Func]) -> None:
    harness.call(task, script("true"))
    assert harness.pods() == []


@BOTH
def test_failed_command_error_has_the_exit_code(harness: Harness, task: type[Func]) -> None:
    error = failure(lambda: harness.call(task, script("echo out of tape; exit 3")))
    assert isinstance(error, CommandFailed)
    assert error.exit_code == 3
    assert error.message == (
        "Failed while waiting for Pod to complete: Pod failed: its command ended with exit code 3"
    )
    assert harness.log == ["out of tape"]
    assert harness.pods() == []


def test_outputs_of_a_failed_command_are_kept_from_v0_1_0_on(
    harness: Harness,
) -> None:
    args = script("kando output half yes; exit 1")
    lost = failure(lambda: harness.call(KubeTask, args, uid="a"))
    kept = failure(lambda: harness.call(KubeTaskV010, args, uid="b"))
    assert isinstance(lost, CommandFailed)
    assert isinstance(kept, CommandFailed)
    assert (lost.outputs, kept.outputs) == ({}, {"half": "yes"})


@BOTH
def test_malformed_output_line_fails_the_phase(harness: Harness, task: type[Func]) -> None:
    args = script("echo '###Phase-output###: {\"key\": 1}'; echo after")
    error = failure(lambda: harness.call(task, args))
    assert error.reason == "OutputUnreadable"
    assert harness.log == ["after"]
    assert harness.pods() == []


def test_log_that_is_not_utf8_is_accepted(harness: Harness) -> None:
    args = script(r"printf '\377\376\000\001\n'; head -c 200000 /dev/urandom; kando output a b")
    assert harness.call(KubeTask, args) == {"a": "b"}


def test_a_cancel_ends_the_command_and_deletes_its_pod(harness: Harness) -> None:
    called = harness.start(KubeTask, script("sleep 600"))
    harness.seen_pod(is_running)
    called.cancel()
    assert isinstance(failure(called.result), RunCancelled)
    assert harness.pods() == []


def test_resumed_phase_follows_its_existing_pod(harness: Harness) -> None:
    args = script("kando output began $(date +%s%N); sleep 1; kando output done yes")
    first = harness.start(KubeTask, args, is_written_down=False)
    uid = harness.seen_pod(is_running)["metadata"]["uid"]
    second = harness.start(KubeTask, args)
    assert second.result()["done"] == "yes"
    assert uid not in {pod["metadata"]["uid"] for pod in harness.pods()}
    # The process that loses its pod to the other one fails, and starts no new pod.
    first.thread.join(180)
    assert first.failed or first.ended == [second.result()]
    assert harness.pods() == []


def test_resumed_phase_reads_outputs_of_an_ended_pod(harness: Harness) -> None:
    args = script("kando output done yes")
    pod = _left_behind(harness, args)
    harness.seen_pod(has_ended)
    assert harness.call(KubeTask, args) == {"done": "yes"}
    assert pod["metadata"]["name"] not in {pod["metadata"]["name"] for pod in harness.pods()}


def test_unrecorded_success_is_not_repeated(
    harness: Harness,
) -> None:
    args = script("kando output at $(date +%s%N)")
    first = harness.call(KubeTask, args, is_written_down=False)
    assert len(harness.pods()) == 1
    assert harness.call(KubeTask, args) == first
    assert harness.pods() == []


def test_unrecorded_failure_is_not_repeated(
    harness: Harness,
) -> None:
    args = script("echo $(date +%s%N); exit 3")
    failure(lambda: harness.call(KubeTask, args, is_written_down=False))
    error = failure(lambda: harness.call(KubeTask, args))
    assert isinstance(error, CommandFailed)
    assert error.exit_code == 3
    assert len(harness.log) == 2
    assert len({*harness.log}) == 1
    assert harness.pods() == []


def _left_behind(harness: Harness, args: dict[str, Any]) -> Any:
    """Create the pod of a process that died immediately afterwards."""
    from kanister_py.core.templates.params import Params
    from kanister_py.functions.blueprint.kube_task.v0_0_0 import KubeTaskArgs, job_of
    from kanister_py.functions.blueprint.pods import pod_of

    params = Params(facts())
    return harness.cluster.create(
        pod_of(harness.context(), params, job_of(params, KubeTaskArgs(**args)))
    )


def test_deleted_pod_fails_the_phase(harness: Harness) -> None:
    called = harness.start(KubeTask, script("sleep 600"))
    name = harness.seen_pod(is_running)["metadata"]["name"]
    harness.cluster.delete(PODS, name, namespace="default", grace_period_seconds=0)
    with refused_as("PodGone"):
        called.result()


def test_concurrent_tasks_run_their_own_commands(harness: Harness) -> None:
    calls = {
        number: harness.start(KubeTask, script(f"kando output number {number}"), phase=number)
        for number in range(8)
    }
    assert {number: call.result() for number, call in calls.items()} == {
        number: {"number": str(number)} for number in calls
    }


def test_pod_has_the_expected_spec(harness: Harness) -> None:
    args = script("sleep 600", podLabels={"who": "phase"}, podAnnotations={"note": "n"})
    actionset_facts = facts(
        pod_labels={"who": "actionset", "also": "x"}, pod_annotations={"more": "m"}
    )
    called = harness.start(KubeTask, args, facts=actionset_facts)
    pod = harness.seen_pod()
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


def test_override_of_the_actionset_takes_precedence(harness: Harness) -> None:
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
    outputs = harness.call(KubeTask, args, facts=facts(pod_override=override))
    assert outputs == {"who": "actionset", "what": "dump"}


def test_pod_without_namespace_runs_in_the_controllers(harness: Harness) -> None:
    args = {"image": "busybox", "command": ["sleep", "600"]}
    called = harness.start(KubeTask, args)
    pod = harness.seen_pod()
    called.cancel()
    failure(called.result)
    assert pod["metadata"]["namespace"] == harness.cluster.default_namespace


def test_phase_fails_immediately_without_pods(harness_without_pods: Harness) -> None:
    with refused_as("PodsNotRun"):
        harness_without_pods.call(KubeTask, script("true"))
    assert harness_without_pods.pods() == []


@pytest.mark.parametrize(
    ("args", "path"),
    [
        pytest.param({"command": ["true"]}, "image", id="no image"),
        pytest.param({"image": "busybox"}, "command", id="no command"),
        pytest.param(script("true", timeout="1m"), "timeout", id="an arg of a later version"),
    ],
)
def test_missing_and_unknown_arguments_are_rejected(
    harness_without_pods: Harness, args: dict[str, Any], path: str
) -> None:
    with pytest.raises(InvalidArgs) as caught:
        harness_without_pods.call(KubeTask, args)
    assert [problem.path for problem in caught.value.problems] == [path]


def test_a_command_of_one_word_needs_no_brackets(harness: Harness) -> None:
    assert harness.call(KubeTask, {"image": "busybox", "command": "true"}) == {}


def test_timeout_ends_the_task(harness: Harness) -> None:
    # A slow machine gets more time until the command has started.
    for number, (timeout, seconds) in enumerate((("1500ms", 1.5), ("8s", 8.0), ("40s", 40.0))):
        args = script("echo begun; sleep 600", timeout=timeout)
        error = failure(functools.partial(harness.call, KubeTaskV010, args, uid=f"uid-{number}"))
        assert isinstance(error, WaitTimedOut)
        assert error.timeout_seconds == seconds
        if harness.log:
            break
    assert harness.log == ["begun"]
    assert harness.pods() == []


@pytest.mark.parametrize("timeout", ["soon", "-1s", "0s"])
def test_invalid_timeout_is_rejected(harness_without_pods: Harness, timeout: str) -> None:
    with pytest.raises(InvalidArgs):
        harness_without_pods.call(KubeTaskV010, script("true", timeout=timeout))

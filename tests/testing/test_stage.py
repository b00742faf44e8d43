"""Tests of blueprints on a stage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kanister_py.core.errors import UsageError
from kanister_py.testing import Answer, Command, Stage
from kanister_py.testing.stage import SPEED

HELLO: dict[str, Any] = {
    "apiVersion": "cr.kanister.io/v1alpha1",
    "kind": "Blueprint",
    "metadata": {"name": "hello"},
    "actions": {
        "hello": {
            "outputArtifacts": {
                "said": {"keyValue": {"text": "{{ .Phases.say.Output.text }}"}},
            },
            "phases": [
                {
                    "func": "KubeTask",
                    "name": "say",
                    "args": {
                        "namespace": "{{ .Namespace.Name }}",
                        "image": "tools",
                        "command": ["say", "{{ .Options.what }}"],
                    },
                }
            ],
        }
    },
}


def test_a_run_has_all_details(blueprint_stage: Stage) -> None:
    blueprint_stage.script("say hi", prints="a line", outputs={"text": "hi!"})
    ran = blueprint_stage.run(HELLO, "hello", options={"what": "hi"})
    assert ran.is_complete, ran.error
    assert ran.outputs == {"say": {"text": "hi!"}}
    assert ran.artifacts == {"said": {"keyValue": {"text": "hi!"}}}
    assert ran.log == ("hello/say | a line",)
    assert ran.versions == {"say": "v0.0.0"}
    command = ran.command("say hi")
    assert (command.image, command.words, command.is_exec) == ("tools", ("say", "hi"), False)
    assert ran.pods == ()


def test_a_misspelt_argument_of_a_run_is_refused(
    blueprint_stage: Stage,
) -> None:
    with pytest.raises(UsageError) as caught:
        blueprint_stage.run(HELLO, "hello", optoins={"what": "hi"})
    assert caught.value.message == (
        "An action of an ActionSet has no field optoins; did you mean options?"
    )


def test_an_unscripted_command_fails_with_a_message(blueprint_stage: Stage) -> None:
    ran = blueprint_stage.run(HELLO, "hello", options={"what": "what?"})
    assert (ran.state, ran.reason) == ("failed", "CommandFailed")
    assert ran.log == ("hello/say | No script matches this command: say what?",)
    assert ran.artifacts == {}


def test_a_command_that_fails_once_succeeds_at_the_retry(
    blueprint_stage: Stage,
) -> None:
    phase = {**HELLO["actions"]["hello"]["phases"][0]}
    phase["retry"] = {"limit": 1, "backoff": "20s", "on": ["CommandFailed"]}
    blueprint = {**HELLO, "actions": {"hello": {"phases": [phase]}}}
    blueprint_stage.script("say", complains="not now", exit_code=3, times=1)
    blueprint_stage.script("say", outputs={"text": "now"})
    ran = blueprint_stage.run(blueprint, "hello", options={"what": "hi"})
    assert ran.is_complete, ran.error
    assert [command.words for command in ran.commands] == [("say", "hi")] * 2
    assert len(ran.made_pods) == 2
    assert ran.log == ("hello/say | not now",)
    # Twenty seconds passed on the clock of the stage.
    times = [entry["time"] for entry in ran.journal if entry["what"] == "PhaseStarted"]
    assert times[0].startswith("2026-01-02T03:04:05")
    assert times[1].startswith("2026-01-02T03:04:25")


def test_a_reply_may_be_a_function_of_the_command(blueprint_stage: Stage) -> None:
    def echo(command: Command) -> Answer:
        return Answer(outputs={"text": command.words[-1].upper()})

    blueprint_stage.otherwise(echo)
    assert blueprint_stage.run(HELLO, "hello", options={"what": "hi"}).outputs == {
        "say": {"text": "HI"}
    }


def test_a_stage_separates_the_records_of_several_runs(blueprint_stage: Stage) -> None:
    blueprint_stage.script("say", outputs={"text": "-"})
    first = blueprint_stage.run(HELLO, "hello", options={"what": "one"})
    second = blueprint_stage.run(HELLO, "hello", options={"what": "two"})
    assert [command.text for command in first.commands] == ["say one"]
    assert [command.text for command in second.commands] == ["say two"]


EXEC: dict[str, Any] = {
    "apiVersion": "cr.kanister.io/v1alpha1",
    "kind": "Blueprint",
    "metadata": {"name": "inside"},
    "actions": {
        "look": {
            "phases": [
                {
                    "func": "KubeExec",
                    "name": "inside",
                    "args": {
                        "namespace": "{{ .Deployment.Namespace }}",
                        "pod": "{{ index .Deployment.Pods 0 }}",
                        "container": "main",
                        "command": ["status"],
                    },
                }
            ]
        }
    },
}
WEB: dict[str, Any] = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "shop"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "main", "image": "nginx", "command": ["nginx"]}]},
        },
    },
}


def test_workloads_are_started_and_their_pods_run_commands(blueprint_stage: Stage) -> None:
    blueprint_stage.given(WEB).script("^status$", prints="fine", outputs={"users": "3"})
    ran = blueprint_stage.run(EXEC, "look", object="Deployment/shop/web")
    assert ran.is_complete, ran.error
    assert ran.outputs == {"inside": {"users": "3"}}
    (command,) = ran.commands
    assert (command.is_exec, command.container, command.image) == (True, "main", "nginx")
    assert command.pod.startswith("shop/web-")
    # Pods of the Deployment are not created by the run.
    assert ran.made_pods == ()
    assert len(blueprint_stage.objects("Pod")) == 2


def test_an_exec_command_fails_as_scripted(blueprint_stage: Stage) -> None:
    blueprint_stage.given(WEB).script("status", complains="broken", exit_code=4)
    ran = blueprint_stage.run(EXEC, "look", object="Deployment/shop/web")
    assert ran.state == "failed"
    assert ran.status["error"]["exitCode"] == 4


def test_objects_are_loaded_from_files(blueprint_stage: Stage, tmp_path: Path) -> None:
    file = tmp_path / "maps.yaml"
    file.write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: shop}\ndata: {k: v}\n"
        "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: b, namespace: shop}\n"
    )
    blueprint_stage.given(file)
    obj = blueprint_stage.object("ConfigMap", "shop/a")
    assert obj is not None
    assert obj["data"] == {"k": "v"}
    assert blueprint_stage.object("ConfigMap", "shop/c") is None
    assert [
        config_map["metadata"]["name"] for config_map in blueprint_stage.objects("ConfigMap")
    ] == ["a", "b"]


def test_a_missing_file_is_reported_with_the_searched_folders(
    blueprint_stage: Stage,
) -> None:
    with pytest.raises(FileNotFoundError, match=r"missing\.yaml is in none of .*testing"):
        blueprint_stage.given("missing.yaml")


WAIT: dict[str, Any] = {
    "apiVersion": "cr.kanister.io/v1alpha1",
    "kind": "Blueprint",
    "metadata": {"name": "waits"},
    "actions": {
        "go": {
            "phases": [
                {
                    "func": "KubeTask",
                    "name": "long",
                    "args": {"namespace": "shop", "image": "x", "command": ["server"]},
                }
            ]
        }
    },
}


def test_a_run_that_takes_too_long_is_cancelled_and_leaves_no_pod(blueprint_stage: Stage) -> None:
    blueprint_stage.script("server", prints="up", stays=True)
    # Slow machines get more time, until the pod has printed.
    for seconds in (1, 10, 60):
        ran = blueprint_stage.run(WAIT, "go", timeout_seconds=seconds)
        assert (ran.state, ran.reason) == ("failed", "RunTimedOut")
        assert ran.pods == ()
        if ran.log:
            break
    assert ran.log == ("go/long | up",)
    assert ran.pods == ()


def test_a_controller_sets_the_status_of_objects(blueprint_stage: Stage) -> None:
    claim = {
        "apiVersion": "example.com/v1",
        "kind": "Bucket",
        "metadata": {"name": "b", "namespace": "shop"},
        "spec": {"size": 3},
    }
    blueprint_stage.given(claim)
    blueprint_stage.controlled(
        "example.com/v1", "Bucket", lambda obj: {"ready": obj["spec"]["size"] > 2}
    )
    blueprint_stage.script("say", outputs={"text": "-"})
    blueprint_stage.run(HELLO, "hello", options={"what": "hi"})
    bucket = next(
        event.object
        for event in blueprint_stage.cluster.watch(
            blueprint_stage.cluster.resource_for("example.com/v1", "Bucket").gvr,
            timeout_seconds=60 * SPEED,
        )
        if event.object.get("status")
    )
    assert bucket["status"] == {"ready": True}


def test_commands_run_as_processes_on_request(blueprint_stage: Stage) -> None:
    phases = HELLO["actions"]["hello"]["phases"]
    phase = {
        **phases[0],
        "args": {**phases[0]["args"], "command": ["kando", "output", "text", "x"]},
    }
    blueprint = {**HELLO, "actions": {"hello": {"phases": [phase]}}}
    ran = blueprint_stage.use_processes().run(blueprint, "hello")
    assert ran.is_complete, ran.error
    assert ran.outputs == {"say": {"text": "x"}}
    assert ran.command("kando").words == ("kando", "output", "text", "x")

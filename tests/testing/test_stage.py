"""A blueprint's author tries a blueprint on a stage."""

from __future__ import annotations

from kanister_py.testing import Stage

HELLO = {
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


def test_a_run_is_looked_at_from_all_sides(blueprint_stage: Stage) -> None:
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

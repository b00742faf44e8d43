"""What becomes of an ActionSet that somebody creates."""

from __future__ import annotations

from tests.controller.conftest import World, actionset, blueprint, phase


def test_an_action_set_runs_to_its_end(world: World) -> None:
    world.create(blueprint(phase("Echo", args={"say": "{{ .Options.word }}"})))
    world.controller()
    world.create(actionset(action={"options": {"word": "hello"}}))
    status = world.until_state("complete")
    assert status["actions"][0]["phases"][0]["output"] == {"said": "hello"}
    assert status["progress"]["percentCompleted"] == "100"

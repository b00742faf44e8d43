"""Namespaces from a watch cache: used for facts of templates, but not by phases."""

from __future__ import annotations

from threading import Event
from typing import Any

from kanister_py.core.kube.resources import NAMESPACES
from tests.controller.conftest import Environment, actionset, blueprint, phase


class Lagging:
    """A cluster whose watches of Namespaces report nothing before the test releases them."""

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster
        self.goes_on = Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    def watch(self, resource: Any, **options: Any) -> Any:
        if resource == NAMESPACES:
            self.goes_on.wait(30)
        return self._cluster.watch(resource, **options)


def test_a_phase_sees_its_own_change_of_a_namespace(env: Environment) -> None:
    env.create(blueprint(phase("Brand", args={"colour": "{{ .Options.colour }}"})))
    lagging = Lagging(env.cluster)
    env.controller(lagging)
    try:
        for colour in ("red", "green", "blue"):
            env.create(actionset(colour, action={"options": {"colour": colour}}))
            status = env.until_state("complete", colour)
            assert status["actions"][0]["phases"][0]["output"] == {"found": colour}
    finally:
        lagging.goes_on.set()

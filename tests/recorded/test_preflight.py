"""Actions that Kanister renders without an error are not refused before they run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from kanister_py.core.blueprints.analysis import ActionAnalysis
from kanister_py.core.blueprints.model import blueprints_in
from kanister_py.core.blueprints.plan import PlanBasis, choose_phase_version, renderer_of
from kanister_py.core.blueprints.texts import DEFER
from kanister_py.core.errors import KanisterError, NotFound
from kanister_py.core.kube.resources import GroupVersionResource
from kanister_py.core.registry.choose import Choice
from kanister_py.core.registry.entries import FunctionEntry
from kanister_py.core.templates.params import Params
from kanister_py.core.yaml.documents import parse_documents
from kanister_py.executor.loading import load_function
from kanister_py.executor.preflight import run_preflight
from kanister_py.gotemplate.effects import Effects
from kanister_py.ports.cluster import Cluster
from kanister_py.wiring import read_functions
from tests.recorded.rendered import CORPUS, RENDERED_AT, _answers, _params

# The recording invents values of arguments.
_NOT_OF_TEMPLATES = ("InvalidArgs",)


class RecordedObjects:
    """A cluster with the recorded objects of the phases of one action."""

    def __init__(self, answer: Mapping[str, Any]) -> None:
        self._objects: dict[tuple[str, str], Any] = {}
        phases = {**answer["params"]["Phases"], "": answer["params"]["DeferPhase"]}
        for phase in answer["phases"]:
            own = phases.get(phase["phase"]) or phases[""]
            for name, reference in (phase.get("objects") or {}).items():
                objects = {**(own["Secrets"] or {}), **(own["ConfigMaps"] or {})}
                if name in objects:
                    place = (reference.get("namespace", ""), reference["name"])
                    self._objects[place] = objects[name]

    def get(self, resource: GroupVersionResource, name: str, *, namespace: str = "") -> Any:
        obj = self._objects.get((namespace, name))
        if obj is None:
            raise NotFound(f'{resource.resource} "{name}" not found')
        return obj


def _choice(phase: Any) -> Choice[FunctionEntry] | KanisterError:
    try:
        return choose_phase_version(read_functions().registry, phase)
    except KanisterError as error:
        return error


@pytest.mark.parametrize(("blueprint", "answer"), list(_answers()))
def test_action_that_renders_in_kanister_is_not_refused(
    blueprint: str, answer: Mapping[str, Any]
) -> None:
    (located,) = (
        candidate
        for candidate in blueprints_in(parse_documents((CORPUS / blueprint).read_bytes()))
        if answer["action"] in candidate.blueprint.actions
    )
    blueprint_model, name = located.blueprint, answer["action"]
    phases = blueprint_model.actions[name].every_phase()
    renderer = renderer_of(blueprint_model, name, Effects(now=lambda: RENDERED_AT))
    analysis = ActionAnalysis(blueprint_model, name, renderer.engine)
    basis = PlanBasis(
        analysis,
        renderer,
        Params(_params(answer["params"]).facts),
        load_function,
        has_all_inputs=True,
    )
    choices = [_choice(phase) for _, phase in phases]
    report = run_preflight(basis, choices, cast("Cluster", RecordedObjects(answer)))
    failing = {
        DEFER if path[-1] == "deferPhase" else path[-1]
        for (path, _), phase in zip(phases, answer["phases"], strict=True)
        if "error" in phase
    }
    false_obstacles = [
        obstacle
        for obstacle in report.obstacles
        if obstacle.phase not in failing and obstacle.reason not in _NOT_OF_TEMPLATES
    ]
    assert false_obstacles == []
    assert failing <= {obstacle.phase for obstacle in report.obstacles}

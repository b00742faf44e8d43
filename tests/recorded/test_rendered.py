"""Published blueprints render as in Kanister."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from kanister_py.core.templates.engines import Engine, choose_engine
from kanister_py.core.templates.params import Params
from kanister_py.core.templates.render import Renderer, RenderFailed
from kanister_py.core.yaml.documents import parse_document, parse_documents
from kanister_py.gotemplate.effects import Effects
from tests.recorded.rendered import (
    CORPUS,
    RENDERED_AT,
    _answers,
    _params,
)

RENDERER = Renderer(Engine.GO, Effects(now=lambda: RENDERED_AT))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _texts(list(value))
        yield from _texts(list(value.values()))
    elif isinstance(value, list):
        for entry in value:
            yield from _texts(entry)


def _rendered_phase(phase: Mapping[str, Any], params: Params) -> dict[str, Any]:
    answer: dict[str, Any] = {"phase": phase.get("name", ""), "func": phase["func"]}
    try:
        if phase.get("objects"):
            references = RENDERER.references(phase["objects"], params)
            answer["objects"] = {
                name: {key: text for key, text in value.items() if text or key != "namespace"}
                for name, value in references.items()
            }
        answer["args"] = RENDERER.args(phase.get("args") or {}, params)
    except RenderFailed as error:
        answer["error"] = error.original
    return answer


@pytest.mark.parametrize(("blueprint", "answer"), list(_answers()))
def test_action_renders_as_in_kanister(blueprint: str, answer: Mapping[str, Any]) -> None:
    document = parse_document((CORPUS / blueprint).read_bytes()).value
    action = document["actions"][answer["action"]]
    params = _params(answer["params"])
    phases = [*action.get("phases", ()), *filter(None, [action.get("deferPhase")])]

    assert [_rendered_phase(phase, params) for phase in phases] == answer["phases"]
    assert RENDERER.artifacts(action.get("outputArtifacts") or {}, params) == answer.get(
        "artifacts", {}
    )


@pytest.mark.parametrize("blueprint", sorted(CORPUS.rglob("*.yaml")), ids=lambda file: file.stem)
def test_published_blueprints_use_go_templates(blueprint: Path) -> None:
    for document in parse_documents(blueprint.read_bytes()):
        if document.value["kind"] == "Blueprint":
            assert choose_engine({}, _texts(document.value["actions"])).engine is Engine.GO

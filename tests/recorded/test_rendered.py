"""Blueprints that people use render here as they render in Kanister."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kanister_py.core.templates.engines import Engine, choose_engine
from kanister_py.core.templates.facts import (
    ActionFacts,
    KeyPair,
    Named,
    ResolvedProfile,
    Workload,
)
from kanister_py.core.templates.params import Params
from kanister_py.core.templates.render import Renderer, RenderFailed
from kanister_py.core.yaml.documents import parse_document, parse_documents
from kanister_py.gotemplate.effects import Effects
from kanister_py.gotemplate.times import from_datetime

RECORDED = Path(os.environ["KANISTER_PY_RECORDED"])
CORPUS = RECORDED.parent / "corpus" / "blueprints"
# One blueprint prints the time at which it was rendered.
RENDERED_AT = from_datetime(datetime(2026, 11, 18, 11, 50, 31, tzinfo=UTC))
RENDERER = Renderer(Engine.GO, Effects(now=lambda: RENDERED_AT))


def _answers() -> Iterator[Any]:
    for file in sorted((RECORDED / "rendered").glob("*.json")):
        answers = json.loads(file.read_text())
        for answer in answers["actions"]:
            yield pytest.param(answers["blueprint"], answer, id=f"{file.stem} {answer['action']}")


def _workload(found: Mapping[str, Any] | None) -> Workload | None:
    if found is None:
        return None
    return Workload(
        name=found["Name"],
        namespace=found["Namespace"],
        pods=tuple(found["Pods"]),
        containers=tuple(map(tuple, found["Containers"])),
        persistent_volume_claims=found["PersistentVolumeClaims"],
    )


def _named(found: Mapping[str, Any] | None) -> Named | None:
    return found and Named(found["Name"], found["Namespace"])  # type: ignore[return-value]  # an empty mapping is none


def _profile(found: Mapping[str, Any]) -> ResolvedProfile:
    credential = found["Credential"]
    pair = credential["KeyPair"]
    return ResolvedProfile(
        location=found["Location"],
        credential_type=credential["Type"],
        skip_ssl_verify=found["SkipSSLVerify"],
        key_pair=KeyPair(pair["ID"], pair["Secret"]),
    )


def _params(found: Mapping[str, Any]) -> Params:
    params = Params(
        ActionFacts(
            time=found["Time"],
            object=found["Object"],
            stateful_set=_workload(found["StatefulSet"]),
            deployment=_workload(found["Deployment"]),
            deployment_config=_workload(found["DeploymentConfig"]),
            pvc=_named(found["PVC"]),
            namespace=_named(found["Namespace"]),
            artifacts=found["ArtifactsIn"],
            config_maps=found["ConfigMaps"],
            secrets=found["Secrets"],
            profile=_profile(found["Profile"]),
            options=found["Options"],
            pod_labels=found["PodLabels"],
            pod_annotations=found["PodAnnotations"],
        )
    )
    for name, phase in found["Phases"].items():
        params.enter_phase(name, phase["Secrets"], phase["ConfigMaps"])
        params.leave_phase(name, phase["Output"])
    defer = found["DeferPhase"]
    params.enter_phase(None, defer["Secrets"], defer["ConfigMaps"])
    params.leave_phase(None, defer["Output"])
    return params


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
def test_an_action_renders_as_in_kanister(blueprint: str, answer: Mapping[str, Any]) -> None:
    document = parse_document((CORPUS / blueprint).read_bytes()).value
    action = document["actions"][answer["action"]]
    params = _params(answer["params"])
    phases = [*action.get("phases", ()), *filter(None, [action.get("deferPhase")])]

    assert [_rendered_phase(phase, params) for phase in phases] == answer["phases"]
    assert RENDERER.artifacts(action.get("outputArtifacts") or {}, params) == answer.get(
        "artifacts", {}
    )


@pytest.mark.parametrize("blueprint", sorted(CORPUS.rglob("*.yaml")), ids=lambda file: file.stem)
def test_a_blueprint_from_kanister_is_taken_for_go(blueprint: Path) -> None:
    for document in parse_documents(blueprint.read_bytes()):
        if document.value["kind"] == "Blueprint":
            assert choose_engine({}, _texts(document.value["actions"])).engine is Engine.GO

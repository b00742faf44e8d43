"""Published blueprints render as in Kanister."""

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
# One blueprint prints the current time.
RENDERED_AT = from_datetime(datetime(2026, 11, 18, 11, 50, 31, tzinfo=UTC))
RENDERER = Renderer(Engine.GO, Effects(now=lambda: RENDERED_AT))


def _answers() -> Iterator[Any]:
    for file in sorted((RECORDED / "rendered").glob("*.json")):
        answers = json.loads(file.read_text())
        for answer in answers["actions"]:
            yield pytest.param(answers["blueprint"], answer, id=f"{file.stem} {answer['action']}")


def _workload(workload: Mapping[str, Any] | None) -> Workload | None:
    if workload is None:
        return None
    return Workload(
        name=workload["Name"],
        namespace=workload["Namespace"],
        pods=tuple(workload["Pods"]),
        containers=tuple(map(tuple, workload["Containers"])),
        persistent_volume_claims=workload["PersistentVolumeClaims"],
    )


def _named(reference: Mapping[str, Any] | None) -> Named | None:
    return reference and Named(reference["Name"], reference["Namespace"])  # type: ignore[return-value]  # an empty mapping stands for None


def _profile(profile: Mapping[str, Any]) -> ResolvedProfile:
    credential = profile["Credential"]
    pair = credential["KeyPair"]
    return ResolvedProfile(
        location=profile["Location"],
        credential_type=credential["Type"],
        skip_ssl_verify=profile["SkipSSLVerify"],
        key_pair=KeyPair(pair["ID"], pair["Secret"]),
    )


def _params(recorded_params: Mapping[str, Any]) -> Params:
    params = Params(
        ActionFacts(
            time=recorded_params["Time"],
            object=recorded_params["Object"],
            stateful_set=_workload(recorded_params["StatefulSet"]),
            deployment=_workload(recorded_params["Deployment"]),
            deployment_config=_workload(recorded_params["DeploymentConfig"]),
            pvc=_named(recorded_params["PVC"]),
            namespace=_named(recorded_params["Namespace"]),
            artifacts=recorded_params["ArtifactsIn"],
            config_maps=recorded_params["ConfigMaps"],
            secrets=recorded_params["Secrets"],
            profile=_profile(recorded_params["Profile"]),
            options=recorded_params["Options"],
            pod_labels=recorded_params["PodLabels"],
            pod_annotations=recorded_params["PodAnnotations"],
        )
    )
    for name, phase in recorded_params["Phases"].items():
        params.enter_phase(name, phase["Secrets"], phase["ConfigMaps"])
        params.leave_phase(name, phase["Output"])
    defer = recorded_params["DeferPhase"]
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

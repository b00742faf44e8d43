"""Recorded renderings: their inputs and answers."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kanister_py.core.templates.facts import (
    ActionFacts,
    KeyPair,
    Named,
    ResolvedProfile,
    Workload,
)
from kanister_py.core.templates.params import Params
from kanister_py.gotemplate.times import from_datetime

RECORDED = Path(os.environ["KANISTER_PY_RECORDED"])


CORPUS = RECORDED.parent / "corpus" / "blueprints"


# One blueprint prints the current time.
RENDERED_AT = from_datetime(datetime(2026, 11, 18, 11, 50, 31, tzinfo=UTC))


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

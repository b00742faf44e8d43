"""Lint of patches against the definitions among the given files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.definitions import BUCKET, BUCKET_CRD, XRD
from tests.conftest import CommandLine


def composition(*patches: dict[str, Any]) -> dict[str, Any]:
    resource = {"name": "bucket", "base": BUCKET, "patches": [*patches]}
    return {
        "apiVersion": "apiextensions.crossplane.io/v1",
        "kind": "Composition",
        "metadata": {"name": "apps"},
        "spec": {
            "compositeTypeRef": {"apiVersion": "example.org/v1", "kind": "XApp"},
            "mode": "Pipeline",
            "pipeline": [
                {
                    "step": "compose",
                    "functionRef": {"name": "function-patch-and-transform"},
                    "input": {
                        "apiVersion": "pt.fn.crossplane.io/v1beta1",
                        "kind": "Resources",
                        "resources": [resource],
                    },
                }
            ],
        },
    }


def findings(
    kanister: CommandLine, folder: Path, patch: dict[str, Any], *definitions: dict[str, Any]
) -> list[str]:
    file = folder / "all.yaml"
    file.write_text(yaml.safe_dump_all([composition(patch), *definitions], sort_keys=False))
    done = kanister("lint", "all.yaml", "-o", "json", cwd=folder)
    return [f"{found['rule']}: {found['message']}" for found in json.loads(done.out)["findings"]]


def combine(*paths: str) -> dict[str, Any]:
    return {
        "strategy": "string",
        "string": {"fmt": "%s-%s"},
        "variables": [{"fromFieldPath": path} for path in paths],
    }


@pytest.mark.parametrize(
    "patch",
    [
        pytest.param({"fromFieldPath": "spec.region"}, id="same field on both sides"),
        pytest.param(
            {"fromFieldPath": "metadata.labels[app]", "toFieldPath": "spec.labels[app.io/name]"},
            id="metadata and a map",
        ),
        pytest.param(
            {"fromFieldPath": "spec.free.any.thing", "toFieldPath": "spec.zones[0].name"},
            id="preserved fields and a list",
        ),
        pytest.param(
            {
                "type": "FromEnvironmentFieldPath",
                "fromFieldPath": "a.b",
                "toFieldPath": "spec.size",
            },
            id="environment",
        ),
        pytest.param(
            {
                "type": "CombineFromComposite",
                "combine": combine("spec.region", "spec.crossplane.compositionRef.name"),
                "toFieldPath": "spec.region",
            },
            id="combined",
        ),
    ],
)
def test_patches_of_existing_fields_pass(
    kanister: CommandLine, tmp_path: Path, patch: dict[str, Any]
) -> None:
    assert findings(kanister, tmp_path, patch, XRD, BUCKET_CRD) == []


@pytest.mark.parametrize(
    ("patch", "expected"),
    [
        pytest.param(
            {"fromFieldPath": "spec.regoin", "toFieldPath": "spec.region"},
            "The schema of spec has no field regoin; did you mean region?",
            id="from the composite resource",
        ),
        pytest.param(
            {"fromFieldPath": "spec.region", "toFieldPath": "spec.zones[0].nmae"},
            "The schema of spec.zones[0] has no field nmae; did you mean name?",
            id="to the composed resource",
        ),
        pytest.param(
            {
                "type": "ToCompositeFieldPath",
                "fromFieldPath": "spec.region",
                "toFieldPath": "spec.regoin",
            },
            "The schema of spec has no field regoin; did you mean region?",
            id="to the composite resource",
        ),
        pytest.param(
            {
                "type": "CombineFromComposite",
                "combine": combine("spec.region", "spec.sise"),
                "toFieldPath": "spec.region",
            },
            "The schema of spec has no field sise; did you mean size?",
            id="combined",
        ),
    ],
)
def test_patch_of_an_unknown_field_is_reported(
    kanister: CommandLine, tmp_path: Path, patch: dict[str, Any], expected: str
) -> None:
    assert findings(kanister, tmp_path, patch, XRD, BUCKET_CRD) == [
        f"patch-field-unknown: {expected}"
    ]


def test_patches_are_not_checked_without_definitions(kanister: CommandLine, tmp_path: Path) -> None:
    assert findings(kanister, tmp_path, {"fromFieldPath": "spec.regoin"}) == []

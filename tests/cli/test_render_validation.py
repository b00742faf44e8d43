"""Validation by `render`: XRs against their definition, composed resources against schemas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.definitions import BUCKET, BUCKET_CRD, XRD
from tests.conftest import CommandLine


class Rendering:
    """A folder with an XR, a Composition of one resource, and schemas."""

    def __init__(self, kanister: CommandLine, folder: Path) -> None:
        self._kanister = kanister
        self._folder = folder
        self._write("xrd.yaml", XRD)
        (folder / "schemas").mkdir()
        self._write("schemas/bucket.yaml", BUCKET_CRD)

    def _write(self, name: str, obj: Any) -> None:
        (self._folder / name).write_text(yaml.safe_dump(obj, sort_keys=False))

    def __call__(
        self, *flags: str, spec: dict[str, Any], bucket: dict[str, Any] = BUCKET
    ) -> tuple[int, str]:
        xr = {"apiVersion": "example.org/v1", "kind": "XApp", "metadata": {"name": "shop"}}
        self._write("xr.yaml", {**xr, "spec": spec})
        step = {
            "step": "compose",
            "functionRef": {"name": "function-patch-and-transform"},
            "input": {
                "apiVersion": "pt.fn.crossplane.io/v1beta1",
                "kind": "Resources",
                "resources": [{"name": "bucket", "base": bucket}],
            },
        }
        composition = {
            "apiVersion": "apiextensions.crossplane.io/v1",
            "kind": "Composition",
            "metadata": {"name": "apps"},
            "spec": {
                "compositeTypeRef": {"apiVersion": "example.org/v1", "kind": "XApp"},
                "pipeline": [step],
            },
        }
        self._write("composition.yaml", composition)
        done = self._kanister("render", "xr.yaml", "composition.yaml", *flags, cwd=self._folder)
        return done.code, done.err


@pytest.fixture
def rendering(kanister: CommandLine, tmp_path: Path) -> Rendering:
    return Rendering(kanister, tmp_path)


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({}, id="default of a required field"),
        pytest.param({"region": "us", "size": 3, "labels": {"any": "text"}}, id="typed fields"),
        pytest.param({"free": {"any": {"thing": 1}}}, id="preserved unknown fields"),
        pytest.param({"crossplane": {"compositionRef": {"name": "apps"}}}, id="standard fields"),
    ],
)
def test_valid_xr_is_rendered(rendering: Rendering, spec: dict[str, Any]) -> None:
    assert rendering("--xrd", "xrd.yaml", spec=spec) == (0, "")


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"size": "3"}, "xr.yaml:6:3: spec.size: Invalid value", id="wrong type"),
        pytest.param({"size": 10}, "spec.size: Invalid value: 10", id="beyond the maximum"),
        pytest.param({"region": "mars"}, 'supported values: "eu", "us"', id="not in the enum"),
        pytest.param({"size": 7}, "7 brings bad luck", id="rule in CEL"),
        pytest.param({"sise": 3}, "spec.sise: Unknown field; did you mean size?", id="unknown"),
        pytest.param(
            {"zones": [{"name": "a"}, {"nmae": "b"}]},
            "spec.zones[1].nmae: Unknown field; did you mean name?",
            id="unknown in a list",
        ),
        pytest.param(
            {"crossplane": {"compositonRef": {"name": "apps"}}},
            "spec.crossplane.compositonRef: Unknown field; did you mean compositionRef",
            id="unknown standard field",
        ),
    ],
)
def test_invalid_xr_is_refused_with_its_place(
    rendering: Rendering, spec: dict[str, Any], expected: str
) -> None:
    code, err = rendering("--xrd", "xrd.yaml", spec=spec)
    assert code == 1
    assert expected in err


def test_unknown_fields_can_be_warnings(rendering: Rendering) -> None:
    code, err = rendering("--xrd", "xrd.yaml", "--validate=warn", spec={"sise": 3})
    assert code == 0
    assert "spec.sise: Unknown field; did you mean size?" in err
    assert rendering("--xrd", "xrd.yaml", "--validate=ignore", spec={"sise": 3}) == (0, "")


def test_wrong_types_are_refused_even_if_unknown_fields_are_ignored(rendering: Rendering) -> None:
    code, _ = rendering("--xrd", "xrd.yaml", "--validate=ignore", spec={"size": "3"})
    assert code == 1


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"size": "3"}, "spec.size: Invalid value", id="wrong type"),
        pytest.param({"sise": 3}, "spec.sise: Unknown field; did you mean size?", id="unknown"),
    ],
)
def test_composed_resource_is_checked_against_its_crd(
    rendering: Rendering, spec: dict[str, Any], expected: str
) -> None:
    bucket = {**BUCKET, "spec": {"region": "eu", **spec}}
    assert rendering(spec={}, bucket=bucket)[0] == 0
    code, err = rendering("--schemas", "schemas", spec={}, bucket=bucket)
    assert code == 1
    assert f"composed resource bucket: {expected}" in err


def test_valid_composed_resource_passes(rendering: Rendering) -> None:
    assert rendering("--schemas", "schemas", spec={}) == (0, "")

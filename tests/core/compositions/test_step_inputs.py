"""Inputs of steps in ConfigMaps and artifacts, valid and invalid."""

from __future__ import annotations

from typing import Any

import pytest

from kanister_py.core.compositions.model import parse_composition
from kanister_py.core.compositions.step_inputs import (
    ArtifactRef,
    InputRef,
    StepInputUnusable,
    input_in,
)
from kanister_py.core.errors import InvalidDocument
from kanister_py.core.revisions.package import PackageReference
from kanister_py.core.yaml.documents import Document


def config_map(**data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data}


@pytest.mark.parametrize(
    ("ref", "stored"),
    [
        pytest.param(InputRef("c"), config_map(only="kind: A"), id="the one key"),
        pytest.param(InputRef("c", key="a"), config_map(a="kind: A", b="1"), id="its key"),
    ],
)
def test_input_is_parsed_as_yaml(ref: InputRef, stored: dict[str, Any]) -> None:
    assert input_in(ref, "shop", stored) == {"kind": "A"}


@pytest.mark.parametrize(
    ("ref", "namespace", "stored", "message"),
    [
        pytest.param(
            InputRef("c"),
            "shop",
            None,
            "inputRef names ConfigMap shop/c, which does not exist",
            id="no ConfigMap",
        ),
        pytest.param(
            InputRef("c", "own"), "shop", None, "ConfigMap own/c", id="in its own namespace"
        ),
        pytest.param(InputRef("c"), "", None, "without a namespace", id="no namespace at all"),
        pytest.param(
            InputRef("c", key="z"),
            "shop",
            config_map(a="1", b="2"),
            "has no key z: it has a, b",
            id="another key",
        ),
        pytest.param(
            InputRef("c"),
            "shop",
            config_map(a="1", b="2"),
            "name one in inputRef: it has a, b",
            id="which key",
        ),
        pytest.param(InputRef("c"), "shop", config_map(), "it has none", id="nothing in it"),
        pytest.param(InputRef("c"), "shop", config_map(a="1"), "an input is a map", id="no map"),
        pytest.param(InputRef("c"), "shop", config_map(a="{"), "ConfigMap shop/c a", id="no YAML"),
    ],
)
def test_invalid_input_is_reported_with_its_place(
    ref: InputRef, namespace: str, stored: dict[str, Any] | None, message: str
) -> None:
    with pytest.raises(StepInputUnusable) as caught:
        input_in(ref, namespace, stored)
    assert message in caught.value.message


def composition(**step: Any) -> Document:
    called = {"step": "one", "functionRef": {"name": "f"}, **step}
    return Document.of(
        {
            "apiVersion": "apiextensions.crossplane.io/v1",
            "kind": "Composition",
            "metadata": {"name": "c"},
            "spec": {
                "compositeTypeRef": {"apiVersion": "example.org/v1", "kind": "XR"},
                "mode": "Pipeline",
                "pipeline": [called],
            },
        }
    )


def test_reference_to_a_config_map_is_parsed() -> None:
    ref = {"configMapRef": {"name": "c", "namespace": "n", "key": "k"}}
    (step,) = parse_composition(composition(inputRef=ref)).steps
    assert step.input_ref == InputRef("c", "n", "k")


DIGEST = f"sha256:{'0' * 64}"
PACKAGE = f"r.example.org/team/templates:v1.0.0@{DIGEST}"


def test_reference_to_an_artifact_is_parsed() -> None:
    ref = {"ociRef": {"package": PACKAGE, "path": "a.yaml", "packagePullSecrets": [{"name": "s"}]}}
    (step,) = parse_composition(composition(inputRef=ref)).steps
    package = PackageReference("r.example.org", "team/templates", "v1.0.0", DIGEST)
    assert step.input_ref == ArtifactRef(package, "a.yaml", ("s",))


@pytest.mark.parametrize(
    ("step", "message"),
    [
        pytest.param(
            {"inputRef": {"ociRef": {"package": "r.example.org/team/templates:v1.0.0"}}},
            "ociRef.package: Must name a digest, as r.example.org/team/templates:v1.0.0@sha256:",
            id="a tag may move",
        ),
        pytest.param(
            {"inputRef": {"ociRef": {"package": "templates"}}}, "has no registry", id="no place"
        ),
        pytest.param(
            {"inputRef": {"ociRef": {"package": PACKAGE}, "configMapRef": {"name": "c"}}},
            "one of configMapRef and ociRef",
            id="two places",
        ),
        pytest.param(
            {"inputRef": {"configMapRef": {"name": "c"}}, "input": {"kind": "A"}},
            "input and inputRef exclude each other",
            id="both",
        ),
        pytest.param({"inputRef": {}}, "configMapRef: Must be given", id="nothing named"),
    ],
)
def test_invalid_reference_is_refused(step: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidDocument) as caught:
        parse_composition(composition(**step))
    assert message in caught.value.message

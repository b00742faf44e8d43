"""Do the manifests that are installed on clusters say what our models read?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.core.blueprints import model
from kanister_py.core.yaml.documents import parse_documents
from kanister_py.embedded.cluster.cluster import MemoryCluster
from tests.contracts.revisions import check_that_only_the_number_of_a_revision_changes

MANIFESTS = sorted((Path(__file__).parents[2] / "kanister_py" / "crds").glob("*.yaml"))


def manifest(plural: str) -> dict[str, Any]:
    path = next(each for each in MANIFESTS if each.stem == plural)
    (document,) = parse_documents(path.read_bytes(), path.name)
    read: dict[str, Any] = document.value
    return read


def schema(plural: str) -> Any:
    return manifest(plural)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]


def keys_of(model: type[BaseModel]) -> set[str]:
    return {str(field.alias) for field in model.model_fields.values()}


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_a_cluster_takes_every_manifest(path: Path) -> None:
    (document,) = parse_documents(path.read_bytes(), path.name)
    made = MemoryCluster(clock=SystemClock()).create(document.value)
    assert made["metadata"]["name"].startswith(f"{path.stem}.")


def test_only_the_number_of_a_composition_revision_changes() -> None:
    cluster = MemoryCluster(clock=SystemClock())
    cluster.create(manifest("compositionrevisions"))
    check_that_only_the_number_of_a_revision_changes(cluster)


def test_a_blueprint_keeps_every_field_that_is_read() -> None:
    action = schema("blueprints")["actions"]["additionalProperties"]["properties"]
    assert set(action) == keys_of(model.Action)
    for phase in (action["phases"]["items"], action["deferPhase"]):
        assert set(phase["properties"]) == keys_of(model.Phase)
        objects = phase["properties"]["objects"]["additionalProperties"]["properties"]
        assert set(objects) == keys_of(model.ObjectReference)


def test_an_actionset_keeps_every_field_that_is_read() -> None:
    spec = schema("actionsets")["spec"]["properties"]
    assert set(spec) == {
        "actions",
        "executionMode",
        "cancel",
        "serviceAccountName",
        "suspend",
        "ttlSecondsAfterFinished",
        "ttlSecondsAfterFailure",
    }
    assert set(spec["actions"]["items"]["properties"]) == {
        "name",
        "object",
        "blueprint",
        "artifacts",
        "configMaps",
        "secrets",
        "profile",
        "podOverride",
        "options",
        "preferredVersion",
        "podLabels",
        "podAnnotations",
    }


def test_only_the_controller_writes_the_status_of_an_actionset() -> None:
    assert manifest("actionsets")["spec"]["versions"][0]["subresources"] == {"status": {}}


@pytest.mark.parametrize(
    ("plural", "want"),
    [
        ("actionsets", ["State", "Progress", "Running Phase", "Warning", "Age"]),
        ("compositionrevisions", ["Name-Of", "Revision", "XR-Kind", "Valid-Pipeline", "Age"]),
    ],
)
def test_kubectl_shows_what_people_ask_first(plural: str, want: list[str]) -> None:
    columns = manifest(plural)["spec"]["versions"][0]["additionalPrinterColumns"]
    assert [each["name"] for each in columns if not each.get("priority")] == want

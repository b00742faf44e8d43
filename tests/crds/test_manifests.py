"""CRD manifests, compared with the models and with full examples of the originals."""

from __future__ import annotations

from pathlib import Path

import pytest

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.core.yaml.documents import Document, parse_documents
from kanister_py.embedded.cluster.cluster import MemoryCluster
from tests.contracts.revisions import check_revisions_are_immutable_except_for_their_number
from tests.crds.generate import (
    MODELS,
    disagreements,
    generated,
    manifest,
    structural_schema,
    undescribed,
)

MANIFESTS = sorted((Path(__file__).parents[2] / "kanister_py" / "crds").glob("*.yaml"))


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_cluster_accepts_every_manifest(path: Path) -> None:
    (document,) = parse_documents(path.read_bytes(), path.name)
    crd = MemoryCluster(clock=SystemClock()).create(document.value)
    assert crd["metadata"]["name"].startswith(f"{path.stem}.")


def test_only_the_number_of_a_composition_revision_changes() -> None:
    cluster = MemoryCluster(clock=SystemClock())
    cluster.create(manifest("compositionrevisions"))
    check_revisions_are_immutable_except_for_their_number(cluster)


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_manifest_has_the_fields_and_descriptions_of_its_model(path: Path) -> None:
    assert manifest(path.stem) == generated(path.stem), "run python -m tests.crds.generate"


@pytest.mark.parametrize("plural", sorted(MODELS))
def test_manifest_accepts_what_its_model_accepts(plural: str) -> None:
    expected = structural_schema(MODELS[plural])
    for version in manifest(plural)["spec"]["versions"]:
        assert [*disagreements(version["schema"]["openAPIV3Schema"], expected)] == []


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_every_field_is_described(path: Path) -> None:
    for version in manifest(path.stem)["spec"]["versions"]:
        assert [*undescribed(version["schema"]["openAPIV3Schema"])] == []


@pytest.mark.parametrize(
    "document",
    parse_documents((Path(__file__).parent / "originals.yaml").read_bytes()),
    ids=lambda document: f"{document.value['kind']} of {document.value['apiVersion']}",
)
def test_every_field_of_the_originals_is_kept(document: Document) -> None:
    cluster = MemoryCluster(clock=SystemClock())
    plural = f"{document.value['kind'].lower()}s"
    cluster.create(manifest(plural))
    created = cluster.create(document.value)
    if "status" in document.value:
        created = cluster.replace_status({**created, "status": document.value["status"]})
    stored = {key: created.get(key) for key in document.value if key != "metadata"}
    assert stored == {key: part for key, part in document.value.items() if key != "metadata"}


def test_only_the_controller_writes_the_status_of_an_actionset() -> None:
    assert manifest("actionsets")["spec"]["versions"][0]["subresources"] == {"status": {}}


@pytest.mark.parametrize(
    ("plural", "want"),
    [
        ("actionsets", ["State", "Progress", "Running Phase", "Warning", "Age"]),
        ("compositionrevisions", ["Name-Of", "Revision", "XR-Kind", "Valid-Pipeline", "Age"]),
    ],
)
def test_printer_columns(plural: str, want: list[str]) -> None:
    columns = manifest(plural)["spec"]["versions"][0]["additionalPrinterColumns"]
    assert [column["name"] for column in columns if not column.get("priority")] == want

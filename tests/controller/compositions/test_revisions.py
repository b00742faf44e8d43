"""CompositionRevisions of Compositions."""

from __future__ import annotations

from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pytest

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.controller.compositions.revisions import reconcile_composition
from kanister_py.controller.machine.events import Subject
from kanister_py.core.errors import KanisterError
from kanister_py.core.revisions.identity import COMPOSITION_NAME_LABEL
from kanister_py.core.revisions.kinds import COMPOSITION_REVISIONS, COMPOSITIONS
from kanister_py.core.yaml.documents import parse_documents
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.ports.cluster import Cluster, KubeObject

CRDS = Path(__file__).parents[3] / "kanister_py" / "crds"


def _composition(size: int = 1, **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": "apiextensions.crossplane.io/v1",
        "kind": "Composition",
        "metadata": {"name": "bucket", "labels": labels},
        "spec": {
            "compositeTypeRef": {"apiVersion": "example.org/v1", "kind": "XBucket"},
            "pipeline": [
                {
                    "step": "a",
                    "functionRef": {"name": "f"},
                    "input": {"apiVersion": "x/v1", "kind": "I", "size": size},
                }
            ],
        },
    }


@pytest.fixture
def cluster() -> MemoryCluster:
    memory = MemoryCluster(clock=SystemClock())
    for name in ("compositions", "compositionrevisions"):
        path = CRDS / f"{name}.yaml"
        memory.create(parse_documents(path.read_bytes(), path.name)[0].value)
    return memory


@pytest.fixture
def events() -> list[str]:
    return []


@pytest.fixture
def tell(events: list[str]) -> Any:
    def note(_subject: Subject, _kind: str, reason: str, message: str) -> None:
        events.append(f"{reason}: {message}")

    return note


def _say(cluster: MemoryCluster, composition: dict[str, Any]) -> KubeObject:
    """Apply a Composition as `kubectl apply` does."""
    return cluster.apply(composition, field_manager="people", force=True)


def _numbers(cluster: MemoryCluster) -> dict[int, int]:
    """Map the sizes in the compositions to the numbers of their revisions."""
    return {
        obj["spec"]["pipeline"][0]["input"]["size"]: obj["spec"]["revision"]
        for obj in cluster.list(COMPOSITION_REVISIONS).items
    }


def test_a_change_creates_a_revision_and_going_back_renumbers_the_old_one(
    cluster: MemoryCluster, tell: Any, events: list[str]
) -> None:
    names = []
    for size in (1, 2, 1):
        _say(cluster, _composition(size))
        names.append(reconcile_composition(cluster, "bucket", tell))
    assert _numbers(cluster) == {1: 3, 2: 2}
    assert names[0] == names[2] != names[1]
    assert [event.partition(":")[0] for event in events] == [
        "CreateRevision",
        "CreateRevision",
        "UpdateRevision",
    ]


def test_a_revision_has_the_owner_and_labels_of_its_composition(
    cluster: MemoryCluster, tell: Any
) -> None:
    created = _say(cluster, _composition(channel="alpha"))
    name = reconcile_composition(cluster, "bucket", tell)
    revision = cluster.get(COMPOSITION_REVISIONS, name)
    labels = revision["metadata"]["labels"]
    assert labels["channel"] == "alpha"
    assert labels[COMPOSITION_NAME_LABEL] == "bucket"
    (owner,) = revision["metadata"]["ownerReferences"]
    assert owner["uid"] == created["metadata"]["uid"]
    assert owner["controller"] is True


def test_a_changed_label_creates_a_revision_and_old_labels_are_kept(
    cluster: MemoryCluster, tell: Any
) -> None:
    _say(cluster, _composition(channel="alpha"))
    first = reconcile_composition(cluster, "bucket", tell)
    _say(cluster, _composition(channel="stable"))
    second = reconcile_composition(cluster, "bucket", tell)
    assert first != second
    assert cluster.get(COMPOSITION_REVISIONS, first)["metadata"]["labels"]["channel"] == "alpha"


def test_a_second_reconcile_writes_nothing(cluster: MemoryCluster, tell: Any) -> None:
    _say(cluster, _composition())
    name = reconcile_composition(cluster, "bucket", tell)
    before = cluster.get(COMPOSITION_REVISIONS, name)
    annotated = _composition()
    annotated["metadata"]["annotations"] = {"argocd.argoproj.io/tracking-id": "x"}
    _say(cluster, annotated)
    assert reconcile_composition(cluster, "bucket", tell) == name
    assert cluster.get(COMPOSITION_REVISIONS, name) == before


def test_a_revision_created_by_crossplane_is_reused_without_a_write(
    cluster: MemoryCluster, tell: Any
) -> None:
    composition = _say(cluster, _composition(channel="alpha"))
    theirs = {
        "apiVersion": "apiextensions.crossplane.io/v1",
        "kind": "CompositionRevision",
        "metadata": {
            "name": "bucket-d3adb33",
            "labels": {
                "channel": "alpha",
                "crossplane.io/composition-name": "bucket",
                "crossplane.io/composition-hash": "d3adb33f",
            },
            "ownerReferences": [
                {
                    "apiVersion": "apiextensions.crossplane.io/v1",
                    "kind": "Composition",
                    "name": "bucket",
                    "uid": composition["metadata"]["uid"],
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {**composition["spec"], "revision": 4},
    }
    before = cluster.create(theirs)
    assert reconcile_composition(cluster, "bucket", tell) == "bucket-d3adb33"
    assert cluster.list(COMPOSITION_REVISIONS).items == [before]


def test_restored_revisions_get_their_owner_reference_back(
    cluster: MemoryCluster, tell: Any
) -> None:
    _say(cluster, _composition(1))
    first = reconcile_composition(cluster, "bucket", tell)
    _say(cluster, _composition(2))
    reconcile_composition(cluster, "bucket", tell)
    # A restored Composition has a new UID, and its revisions refer to the old one.
    for obj in cluster.list(COMPOSITION_REVISIONS).items:
        obj["metadata"]["ownerReferences"][0]["uid"] = "of-another-life"
        cluster.replace(obj)
    reconcile_composition(cluster, "bucket", tell)
    uid = cluster.get(COMPOSITIONS, "bucket")["metadata"]["uid"]
    for obj in cluster.list(COMPOSITION_REVISIONS).items:
        assert [owner["uid"] for owner in obj["metadata"]["ownerReferences"]] == [uid]
    assert _numbers(cluster) == {1: 1, 2: 2}
    assert cluster.get(COMPOSITION_REVISIONS, first)["spec"]["revision"] == 1


def test_a_revision_with_another_controller_is_unchanged_and_reported(
    cluster: MemoryCluster, tell: Any, events: list[str]
) -> None:
    _say(cluster, _composition())
    name = reconcile_composition(cluster, "bucket", tell)
    revision = cluster.get(COMPOSITION_REVISIONS, name)
    revision["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "y", "controller": True}
    ]
    before = cluster.replace(revision)
    # It has the name that our revision would get.
    assert reconcile_composition(cluster, "bucket", tell).startswith(name)
    assert cluster.get(COMPOSITION_REVISIONS, name) == before
    assert any("controlled by ConfigMap x" in event for event in events)


@pytest.mark.parametrize("size", [1, 2])
def test_two_concurrent_controllers_create_one_revision(
    cluster: MemoryCluster, tell: Any, size: int
) -> None:
    _say(cluster, _composition(1))
    reconcile_composition(cluster, "bucket", tell)
    _say(cluster, _composition(2))
    reconcile_composition(cluster, "bucket", tell)
    _say(cluster, _composition(size + 2 if size == 2 else 1))
    gate = Barrier(4)

    def reconcile(view: Cluster) -> None:
        gate.wait()
        for _attempt in range(10):
            try:
                reconcile_composition(view, "bucket", tell)
            except KanisterError:
                continue
            return

    threads = [Thread(target=reconcile, args=(cluster,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    numbers = _numbers(cluster)
    assert sorted(numbers.values()) == sorted(set(numbers.values()))
    assert max(numbers.values()) == 3


def test_a_deleted_composition_gets_no_revision(cluster: MemoryCluster, tell: Any) -> None:
    assert reconcile_composition(cluster, "bucket", tell) == ""
    held = _composition()
    held["metadata"]["finalizers"] = ["example.org/wait"]
    _say(cluster, held)
    cluster.delete(COMPOSITIONS, "bucket")
    assert reconcile_composition(cluster, "bucket", tell) == ""
    assert cluster.list(COMPOSITION_REVISIONS).items == []

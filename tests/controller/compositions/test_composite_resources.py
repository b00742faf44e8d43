"""Composite resources are composed, updated and deleted."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from kanister_py.adapters.clock_system import SystemClock
from kanister_py.controller.functions.settings import CompositionSettings
from kanister_py.core.errors import Invalid
from kanister_py.core.kube.resources import (
    CONFIG_MAPS,
)
from kanister_py.core.revisions.kinds import COMPOSITION_REVISIONS, COMPOSITIONS, DEFINITIONS
from kanister_py.core.yaml.documents import parse_documents
from kanister_py.embedded.cluster.cluster import MemoryCluster
from kanister_py.ports.cluster import KubeObject
from tests.controller.compositions.harness import (
    BUCKETS,
    CRDS,
    REVISIONS,
    Harness,
    bucket,
    composition,
    definition,
)


@pytest.fixture
def harness() -> Iterator[Harness]:
    running = Harness(REVISIONS)
    running.start()
    running.define(definition())
    yield running
    running.close()


def test_a_composite_resource_is_composed_and_ready(harness: Harness) -> None:
    harness.apply(composition())
    harness.apply(bucket())
    harness.until(harness.is_ready)
    xr = harness.bucket()
    assert set(harness.composed()) == {"a", "b"}
    assert harness.condition("Synced")["status"] == "True"
    assert xr["status"]["address"] == "red"
    machinery = xr["spec"]["crossplane"]
    assert machinery["compositionRef"] == {"name": "bucket"}
    assert len(machinery["resourceRefs"]) == 2
    assert xr["status"]["crossplane"]["pipeline"][0]["step"] == "template"
    for obj in harness.composed().values():
        (owner,) = obj["metadata"]["ownerReferences"]
        assert owner["uid"] == xr["metadata"]["uid"]


def test_functions_see_the_circuit_condition_in_the_first_reconcile(harness: Harness) -> None:
    obj = composition()
    source = obj["spec"]["pipeline"][0]["input"]["inline"]
    source["template"] = (
        "{{ $condition := index .observed.composite.resource.status.conditions 0 }}"
        '{{ if ne $condition.reason "WatchCircuitClosed" }}{{ fail "no condition" }}{{ end }}'
        f"{source['template']}"
    )
    harness.apply(obj)
    harness.apply(bucket())
    harness.until(harness.is_ready)
    assert not [event for event in harness.events if event.startswith("Warning")]


def test_the_first_reconcile_makes_as_few_writes_as_possible(harness: Harness) -> None:
    harness.apply(composition())
    harness.until(lambda: len(harness.cluster.list(COMPOSITION_REVISIONS).items) == 1)
    harness.until_idle()
    harness.apply(bucket("first", ("a",)))
    harness.until(lambda: harness.is_ready("first"))
    harness.until_idle()
    harness.writes.clear()
    harness.apply(bucket(names=("a", "b", "c")))
    harness.until(harness.is_ready)
    harness.until_idle()
    assert len(harness.writes) <= 3 + 4


def test_a_reconcile_without_changes_writes_nothing(harness: Harness) -> None:
    harness.apply(composition())
    harness.apply(bucket())
    harness.until(harness.is_ready)
    harness.until_idle()
    harness.writes.clear()
    annotated = harness.bucket()
    annotated["metadata"].setdefault("annotations", {})["note"] = "x"
    harness.cluster.replace(annotated)
    harness.until_idle()
    assert harness.writes == []


def test_a_restart_without_changes_writes_nothing(harness: Harness) -> None:
    harness.apply(composition())
    for index in range(5):
        harness.apply(bucket(f"b{index}"))
    harness.until(lambda: all(harness.is_ready(f"b{index}") for index in range(5)))
    harness.until_idle()
    harness.close()
    again = Harness(REVISIONS, harness.cluster)
    again.start()
    try:
        again.until(lambda: len(again.compositions.index.names_with_revisions) == 1)
        again.until_idle()
        assert again.writes == []
    finally:
        again.close()


def test_undesired_resources_are_deleted(harness: Harness) -> None:
    harness.apply(composition())
    harness.apply(bucket(names=("a", "b")))
    harness.until(lambda: set(harness.composed()) == {"a", "b"})
    harness.apply(bucket(names=("b",)))
    harness.until(lambda: set(harness.composed()) == {"b"})
    harness.until(lambda: len(harness.bucket()["spec"]["crossplane"]["resourceRefs"]) == 1)


def test_a_pipeline_that_desires_nothing_deletes_nothing(harness: Harness) -> None:
    harness.apply(composition())
    harness.apply(bucket())
    harness.until(harness.is_ready)
    harness.apply(bucket(names=()))
    harness.until(lambda: "desires no resource" in harness.condition("Synced").get("message", ""))
    assert set(harness.composed()) == {"a", "b"}
    allowed = composition()
    allowed["metadata"]["annotations"] = {"kanister-py.io/allow-empty-desired": "true"}
    allowed["metadata"]["labels"] = {"is": "new"}
    harness.apply(allowed)
    harness.until(lambda: harness.composed() == {})


def test_manual_changes_and_deletions_are_reverted(harness: Harness) -> None:
    harness.apply(composition())
    harness.apply(bucket())
    harness.until(harness.is_ready)
    harness.until_idle()
    changed = harness.composed()["a"]
    changed["data"]["colour"] = "black"
    harness.cluster.replace(changed)
    harness.until(lambda: harness.colours() == {"red"})
    gone = harness.composed()["b"]["metadata"]
    harness.cluster.delete(CONFIG_MAPS, gone["name"], namespace="default")
    harness.until(lambda: set(harness.composed()) == {"a", "b"})


def test_a_changed_composition_updates_only_resources_with_an_automatic_policy(
    harness: Harness,
) -> None:
    harness.apply(composition("red"))
    harness.apply(bucket("follows"))
    harness.apply(bucket("pinned", compositionUpdatePolicy="Manual"))
    harness.until(lambda: harness.is_ready("follows") and harness.is_ready("pinned"))
    harness.until_idle()
    before = harness.bucket("pinned")
    harness.apply(composition("green"))
    harness.until(lambda: harness.colours("follows") == {"green"})
    harness.until_idle()
    assert harness.colours("pinned") == {"red"}
    assert harness.bucket("pinned") == before
    numbers = sorted(
        obj["spec"]["revision"] for obj in harness.cluster.list(COMPOSITION_REVISIONS).items
    )
    assert numbers == [1, 2]


def test_resources_move_one_by_one_by_labels_of_revisions(harness: Harness) -> None:
    harness.apply(composition("red", channel="stable"))
    stable = {"matchLabels": {"channel": "stable"}}
    harness.apply(bucket("careful", compositionRevisionSelector=stable))
    harness.until(lambda: harness.is_ready("careful"))
    harness.apply(composition("green", channel="alpha"))
    alpha = {"matchLabels": {"channel": "alpha"}}
    harness.apply(
        bucket("brave", compositionRevisionSelector=alpha, compositionUpdatePolicy="Manual")
    )
    harness.until(lambda: harness.is_ready("brave"))
    harness.until_idle()
    assert (harness.colours("careful"), harness.colours("brave")) == ({"red"}, {"green"})


def test_resources_select_compositions_and_revisions_by_expressions(harness: Harness) -> None:
    harness.apply(composition("red", channel="stable"))

    def one_of(operator: str, *values: str) -> dict[str, Any]:
        expression = {"key": "channel", "operator": operator, "values": list(values)}
        return {"matchExpressions": [expression]}

    harness.apply(
        bucket(
            "careful",
            compositionSelector=one_of("In", "stable", "alpha"),
            compositionRevisionSelector=one_of("NotIn", "alpha"),
        )
    )
    harness.until(lambda: harness.is_ready("careful"))
    harness.apply(composition("green", channel="alpha"))
    harness.apply(bucket("brave", compositionRevisionSelector=one_of("In", "alpha", "beta")))
    harness.until(lambda: harness.is_ready("brave"))
    harness.until_idle()
    assert (harness.colours("careful"), harness.colours("brave")) == ({"red"}, {"green"})


def test_revision_records_the_versions_it_was_composed_with(harness: Harness) -> None:
    harness.apply(composition())
    harness.apply(bucket())
    harness.until(harness.is_ready)
    harness.until_idle()
    (revision,) = harness.cluster.list(COMPOSITION_REVISIONS).items
    (step,) = revision["status"]["composedWith"]
    assert step["step"] == "template"
    assert step["functionRevision"].startswith("function-go-templating")


def test_without_revisions_a_resource_uses_the_composition_itself() -> None:
    harness = Harness(CompositionSettings("kanister-py"))
    harness.start()
    try:
        harness.define(definition())
        harness.apply(composition("red"))
        harness.apply(bucket())
        harness.until(harness.is_ready)
        harness.apply(composition("green"))
        harness.until(lambda: harness.colours() == {"green"})
        assert harness.cluster.list(COMPOSITION_REVISIONS).items == []
    finally:
        harness.close()


def test_a_deleted_resource_is_finalized(harness: Harness) -> None:
    harness.apply(composition())
    harness.apply(bucket())
    harness.until(harness.is_ready)
    harness.cluster.delete(BUCKETS, "mine", namespace="default")

    def is_gone() -> bool:
        return not harness.cluster.list(BUCKETS, namespace="default").items

    harness.until(is_gone)


def test_a_paused_resource_is_reconciled_once_it_resumes(harness: Harness) -> None:
    paused = bucket()
    paused["metadata"]["annotations"] = {"crossplane.io/paused": "true"}
    harness.apply(composition())
    harness.apply(paused)
    harness.until(lambda: harness.condition("Synced").get("reason") == "ReconcilePaused")
    assert harness.composed() == {}
    paused["metadata"]["annotations"] = {}
    harness.apply(paused)
    harness.until(harness.is_ready)


@pytest.mark.parametrize(
    ("machinery", "message"),
    [
        pytest.param({"compositionRef": {"name": "none"}}, "none", id="missing composition"),
        pytest.param(
            {"compositionSelector": {"matchLabels": {"a": "b"}}}, "a=b", id="labels without a match"
        ),
    ],
)
def test_a_resource_that_cannot_be_composed_reports_the_reason(
    harness: Harness, machinery: dict[str, Any], message: str
) -> None:
    harness.apply(composition())
    harness.apply(bucket(**machinery))
    harness.until(lambda: message in harness.condition("Synced").get("message", ""))
    assert harness.condition("Synced")["status"] == "False"
    assert harness.composed() == {}


def test_a_change_of_a_composition_costs_a_resource_one_status(harness: Harness) -> None:
    harness.define(definition())
    harness.apply(composition("red"))
    harness.apply(bucket("one"))
    harness.until(lambda: harness.is_ready("one"))
    harness.until_idle()
    harness.writes.clear()
    harness.apply(composition("green"))
    harness.until(
        lambda: [obj["data"]["colour"] for obj in harness.composed("one").values()] == ["green"] * 2
    )
    harness.until_idle()
    # Two objects and one status, which has the generation after the selection was written.
    assert harness.writes.count("apply") == 3
    live = harness.cluster.get(BUCKETS, "one", namespace="default")
    generations = {condition["observedGeneration"] for condition in live["status"]["conditions"]}
    assert generations == {live["metadata"]["generation"]}


def test_a_failure_and_its_recovery_are_logged_once(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    def messages(what: str) -> list[str]:
        lines = [record.getMessage() for record in caplog.records[:]]
        return [line for line in lines if line.startswith(f"XBucket default/mine {what}")]

    caplog.set_level(logging.INFO, "kanister_py")
    harness.apply(bucket())
    harness.until(lambda: bool(messages("is failing: ")))
    xr = bucket()
    xr["metadata"]["annotations"] = {"crossplane.io/reconcile-requested-at": "now"}
    harness.apply(xr)
    harness.until(lambda: harness.bucket()["status"].get("lastHandledReconcileAt") == "now")
    harness.apply(composition())
    harness.until(lambda: bool(messages("has recovered")))
    assert len(messages("is failing")) == 1


def test_a_resource_keeps_its_selected_composition_after_a_failure(
    harness: Harness,
) -> None:
    wrong = composition(name="broken")
    wrong["spec"]["pipeline"][0]["functionRef"]["name"] = "function-missing"
    harness.apply(wrong)
    harness.apply(bucket())
    harness.until(lambda: "function-missing" in harness.condition("Synced").get("message", ""))
    assert harness.bucket()["spec"]["crossplane"]["compositionRef"] == {"name": "broken"}
    harness.apply(composition(name="another"))
    xr = harness.bucket()
    xr["metadata"]["annotations"] = {"crossplane.io/reconcile-requested-at": "now"}
    harness.cluster.replace(xr)
    harness.until(lambda: harness.bucket()["status"].get("lastHandledReconcileAt") == "now")
    assert harness.bucket()["spec"]["crossplane"]["compositionRef"] == {"name": "broken"}
    assert harness.condition("Synced")["status"] == "False"
    assert harness.condition("Synced")["observedGeneration"] == xr["metadata"]["generation"]


def test_a_missing_function_is_reported_with_the_existing_ones(harness: Harness) -> None:
    wrong = composition()
    wrong["spec"]["pipeline"][0]["functionRef"]["name"] = "function-go-templates"
    harness.apply(wrong)
    harness.apply(bucket())
    harness.until(lambda: "function-go-templates" in harness.condition("Synced").get("message", ""))
    harness.until(lambda: any("function-go-templates" in event for event in [*harness.events]))


class _RefusesKinds:
    """A cluster that refuses invalid schemas, as an API server does."""

    def __init__(self, cluster: MemoryCluster) -> None:
        self._cluster = cluster

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cluster, name)

    def apply(self, obj: KubeObject, **options: Any) -> KubeObject:
        if obj["kind"] == "CustomResourceDefinition":
            raise Invalid("spec.validation.openAPIV3Schema: Unsupported value: 'nonsense'")
        return self._cluster.apply(obj, **options)


def test_a_definition_with_a_refused_schema_reports_that() -> None:
    cluster = MemoryCluster(clock=SystemClock())
    for path in sorted(CRDS.glob("*.yaml")):
        cluster.create(parse_documents(path.read_bytes(), path.name)[0].value)
    harness = Harness(REVISIONS, cluster, through=_RefusesKinds(cluster))
    harness.start()
    try:
        harness.apply(definition())
        harness.until(lambda: any("ApplyCRD" in event for event in harness.events), "an event")
        harness.until_idle()
    finally:
        harness.close()
    (condition,) = cluster.get(DEFINITIONS, "xbuckets.example.org")["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("Established", "False")
    assert condition["reason"] == "InvalidDefinition"
    assert "Unsupported value: 'nonsense'" in condition["message"]


def test_an_invalid_poll_interval_is_reported_with_its_annotation(
    harness: Harness,
) -> None:
    harness.apply(composition())
    xr = bucket()
    xr["metadata"]["annotations"] = {"crossplane.io/poll-interval": "banana"}
    harness.apply(xr)
    harness.until(harness.is_ready)
    harness.until(lambda: any("PollInterval" in event for event in harness.events), "a warning")
    (warning, *_) = (event for event in harness.events if "PollInterval" in event)
    assert "metadata.annotations[crossplane.io/poll-interval]" in warning
    assert "banana" in warning


def test_an_object_of_the_same_name_with_another_owner_is_unchanged(harness: Harness) -> None:
    harness.apply(composition())
    harness.apply(bucket(names=("a",)))
    harness.until(harness.is_ready)
    (name,) = [obj["metadata"]["name"] for obj in harness.composed().values()]
    theirs = harness.cluster.get(CONFIG_MAPS, name, namespace="default")
    theirs["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "Secret", "name": "x", "uid": "other", "controller": True}
    ]
    before = harness.cluster.replace(theirs)
    harness.until(lambda: "a" in harness.condition("Synced").get("message", ""))
    config_map = harness.cluster.get(CONFIG_MAPS, name, namespace="default")
    assert config_map["metadata"]["ownerReferences"] == before["metadata"]["ownerReferences"]


def test_deleting_a_composition_keeps_composed_resources(harness: Harness) -> None:
    harness.apply(composition())
    harness.apply(bucket())
    harness.until(harness.is_ready)
    harness.cluster.delete(COMPOSITIONS, "bucket")
    harness.until_idle()
    assert set(harness.composed()) == {"a", "b"}


def test_a_hundred_resources_become_ready(harness: Harness) -> None:
    harness.apply(composition())
    for index in range(100):
        harness.apply(bucket(f"b{index}", ("a",)))
    harness.until(lambda: all(harness.is_ready(f"b{index}") for index in range(100)))

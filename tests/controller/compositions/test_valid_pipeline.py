"""The condition ValidPipeline, and the refusal of functions that cannot compose.

The FunctionRevisions are written as their controller writes them, and run as built-in functions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from kanister_py.controller.compositions.tasks import Role, Task
from kanister_py.controller.functions.settings import CompositionSettings
from kanister_py.controller.machine.work_loop import FAILED
from kanister_py.core.compositions.endpoints import builtin_endpoint
from kanister_py.core.revisions.kinds import COMPOSITION_REVISIONS, FUNCTION_REVISIONS
from kanister_py.executor.watch_cache import ObjectKey
from kanister_py.ports.cluster import KubeObject
from tests.controller.compositions.harness import (
    REVISIONS,
    Harness,
    bucket,
    composition,
    definition,
)

COMPOSES = ("composition",)
OPERATES = ("operation",)


@pytest.fixture
def harness() -> Iterator[Harness]:
    running = Harness(REVISIONS)
    running.start()
    running.define(definition())
    yield running
    running.close()


def install(
    harness: Harness,
    number: int = 1,
    can: tuple[str, ...] = COMPOSES,
    *,
    state: str = "Active",
    labels: Mapping[str, str] | None = None,
    function: str = "templates",
    runs: str = "function-go-templating",
) -> None:
    """Create a healthy FunctionRevision."""
    status: dict[str, Any] = {
        "endpoint": builtin_endpoint(runs, "v0.1.0"),
        "conditions": [{"type": "RuntimeHealthy", "status": "True"}],
    }
    if can:
        status["capabilities"] = list(can)
    harness.cluster.load(
        [
            {
                "apiVersion": "pkg.crossplane.io/v1",
                "kind": "FunctionRevision",
                "metadata": {
                    "name": f"{function}-{number}",
                    "labels": {"pkg.crossplane.io/package": function, **(labels or {})},
                },
                "spec": {"desiredState": state, "revision": number, "image": "r.example.org/t:v1"},
                "status": status,
            }
        ]
    )


def using(colour: str = "red", **step: Any) -> dict[str, Any]:
    obj = composition(colour)
    obj["spec"]["pipeline"][0].update({"functionRef": {"name": "templates"}, **step})
    return obj


def say_capabilities(harness: Harness, name: str, *can: str) -> None:
    stored = harness.cluster.get(FUNCTION_REVISIONS, name)
    status = {**stored["status"], "capabilities": list(can)}
    harness.cluster.replace_status({**stored, "status": status})


def say_state(harness: Harness, name: str, state: str) -> None:
    stored = harness.cluster.get(FUNCTION_REVISIONS, name)
    harness.cluster.replace({**stored, "spec": {**stored["spec"], "desiredState": state}})


def revision(harness: Harness) -> KubeObject:
    (stored,) = harness.cluster.list(COMPOSITION_REVISIONS).items
    return stored


def revision_condition(harness: Harness, kind: str = "ValidPipeline") -> dict[str, Any]:
    for obj in harness.cluster.list(COMPOSITION_REVISIONS).items:
        for condition in (obj.get("status") or {}).get("conditions") or ():
            if condition["type"] == kind:
                return dict(condition)
    return {}


def is_valid(harness: Harness) -> bool:
    return revision_condition(harness).get("status") == "True"


def is_invalid(harness: Harness) -> bool:
    return revision_condition(harness).get("status") == "False"


def is_refused(harness: Harness) -> bool:
    return "not for composition" in harness.condition("Synced").get("message", "")


def complaints(harness: Harness) -> list[str]:
    return [event for event in harness.events if "CheckCapabilities" in event]


def test_a_revision_with_capable_functions_is_valid_without_a_warning(
    harness: Harness,
) -> None:
    install(harness)
    harness.apply(bucket())
    harness.apply(using())
    harness.until(lambda: is_valid(harness) and harness.is_ready())
    stored = revision(harness)
    assert revision_condition(harness)["reason"] == "ValidPipeline"
    assert revision_condition(harness)["observedGeneration"] == stored["metadata"]["generation"]
    assert (
        revision_condition(harness, "Synced")["status"],
        revision_condition(harness, "Synced")["reason"],
    ) == (
        "True",
        "ReconcileSuccess",
    )
    harness.until_idle()
    assert complaints(harness) == []
    assert revision(harness)["status"]["composedWith"]
    assert is_valid(harness)


def test_a_function_that_cannot_compose_is_refused_with_alternatives(harness: Harness) -> None:
    install(harness, can=OPERATES)
    harness.apply(using())
    harness.apply(bucket())
    harness.until(lambda: is_invalid(harness) and is_refused(harness))
    assert revision_condition(harness)["reason"] == "MissingCapabilities"
    assert revision_condition(harness, "Synced")["status"] == "True"
    for message in (revision_condition(harness)["message"], harness.condition("Synced")["message"]):
        for word in ('step "template"', "templates-1", "operation", "spec.capabilities"):
            assert word in message
    assert harness.condition("Synced")["status"] == "False"
    assert harness.composed() == {}
    harness.until_idle()
    assert complaints(harness) == [
        f"Warning CheckCapabilities: {revision_condition(harness)['message']}"
    ]


def test_compositions_are_checked_in_the_same_way_without_revisions() -> None:
    harness = Harness(CompositionSettings("kanister-py"))
    harness.start()
    try:
        harness.define(definition())
        install(harness, can=OPERATES)
        harness.apply(using())
        harness.apply(bucket())
        harness.until(lambda: is_refused(harness))
        assert harness.composed() == {}
        say_capabilities(harness, "templates-1", "composition")
        harness.until(harness.is_ready)
        assert harness.cluster.list(COMPOSITION_REVISIONS).items == []
    finally:
        harness.close()


def test_changed_capabilities_reach_all_users_of_a_function(harness: Harness) -> None:
    install(harness, can=OPERATES)
    harness.apply(using())
    harness.apply(bucket())
    harness.until(lambda: is_invalid(harness) and is_refused(harness))
    say_capabilities(harness, "templates-1", "operation", "Composition")
    harness.until(lambda: is_valid(harness) and harness.is_ready())
    assert "message" not in revision_condition(harness)
    say_capabilities(harness, "templates-1", "operation")
    harness.until(lambda: is_invalid(harness) and is_refused(harness))
    assert set(harness.composed()) == {"a", "b"}


def test_which_revision_serves_decides_whether_a_pipeline_is_valid(harness: Harness) -> None:
    install(harness)
    install(harness, 2, OPERATES, state="Inactive")
    harness.apply(using())
    harness.apply(bucket())
    harness.until(lambda: is_valid(harness) and harness.is_ready())
    say_state(harness, "templates-2", "Active")
    harness.until(lambda: is_invalid(harness) and is_refused(harness))
    assert "name templates-1 in functionRevisionRef" in revision_condition(harness)["message"]
    say_state(harness, "templates-2", "Inactive")
    harness.until(lambda: is_valid(harness) and harness.condition("Synced")["status"] == "True")


@pytest.mark.parametrize(
    "step",
    [
        pytest.param({"functionRevisionRef": {"name": "templates-1"}}, id="its name"),
        pytest.param(
            {"functionRevisionSelector": {"matchLabels": {"channel": "stable"}}}, id="its labels"
        ),
    ],
)
def test_a_step_that_selects_a_capable_revision_is_composed(
    harness: Harness, step: dict[str, Any]
) -> None:
    install(harness, labels={"channel": "stable"})
    install(harness, 2, OPERATES, labels={"channel": "alpha"})
    harness.apply(using(**step))
    harness.apply(bucket())
    harness.until(lambda: is_valid(harness) and harness.is_ready())


@pytest.mark.parametrize(
    "function", [pytest.param("missing", id="none"), pytest.param("empty", id="one empty")]
)
def test_unknown_capabilities_do_not_invalidate_a_pipeline(harness: Harness, function: str) -> None:
    install(harness, can=(), function="empty")
    harness.apply(using(functionRef={"name": function}))
    harness.until(lambda: is_valid(harness))
    assert complaints(harness) == []


def test_a_built_in_function_is_valid(harness: Harness) -> None:
    harness.apply(composition())
    harness.until(lambda: is_valid(harness))


def test_a_skipped_step_may_name_a_function_that_cannot_compose(harness: Harness) -> None:
    install(harness, can=OPERATES)
    obj = composition()
    skipped = {"step": "later", "functionRef": {"name": "templates"}, "when": "false"}
    obj["spec"]["pipeline"].append(skipped)
    harness.apply(obj)
    harness.apply(bucket())
    harness.until(lambda: is_invalid(harness) and harness.is_ready())


def test_a_composition_without_a_pipeline_is_checked_for_its_implied_function(
    harness: Harness,
) -> None:
    name = "function-patch-and-transform"
    install(harness, can=OPERATES, function=name, runs=name)
    obj = composition()
    template = {"apiVersion": "v1", "kind": "ConfigMap"}
    obj["spec"] = {
        "compositeTypeRef": obj["spec"]["compositeTypeRef"],
        "resources": [{"name": "a", "base": template}],
    }
    harness.apply(obj)
    harness.until(lambda: is_invalid(harness))
    say_capabilities(harness, f"{name}-1", "composition")
    harness.until(lambda: is_valid(harness))


def test_an_unreadable_revision_reports_the_reason(harness: Harness) -> None:
    harness.apply(using(functionRef={"name": "templates", "version": "newest"}))
    harness.until(lambda: revision_condition(harness, "Synced").get("status") == "False")
    assert revision_condition(harness, "Synced")["reason"] == "ReconcileError"
    assert "newest" in revision_condition(harness, "Synced")["message"]
    assert revision_condition(harness) == {}


def test_going_back_to_a_revision_updates_its_conditions(harness: Harness) -> None:
    install(harness)

    def current_conditions() -> dict[int, list[bool]]:
        """Map numbers of revisions to whether their conditions are up to date."""
        return {
            obj["spec"]["revision"]: [
                condition["observedGeneration"] == obj["metadata"]["generation"]
                for condition in (obj.get("status") or {}).get("conditions") or ()
            ]
            for obj in harness.cluster.list(COMPOSITION_REVISIONS).items
        }

    harness.apply(using("red"))
    harness.until(lambda: current_conditions() == {1: [True, True]})
    harness.apply(using("green"))
    harness.until(lambda: current_conditions() == {1: [True, True], 2: [True, True]})
    harness.apply(using("red"))
    harness.until(lambda: current_conditions() == {2: [True, True], 3: [True, True]})


def test_removed_conditions_are_written_again(harness: Harness) -> None:
    install(harness)
    harness.apply(using())
    harness.until(lambda: is_valid(harness))
    stored = revision(harness)
    harness.cluster.replace_status({**stored, "status": {**stored["status"], "conditions": []}})
    harness.until(lambda: is_valid(harness))


def test_unchanged_conditions_are_not_written_even_after_a_restart(harness: Harness) -> None:
    install(harness)
    install(harness, function="other", can=OPERATES)
    harness.apply(using())
    broken = using()
    broken["metadata"]["name"] = "broken"
    broken["spec"]["pipeline"][0]["functionRef"]["name"] = "other"
    harness.apply(broken)
    harness.apply(bucket(compositionRef={"name": "bucket"}))
    harness.until(harness.is_ready)
    harness.until(lambda: len(complaints(harness)) == 1)
    harness.until_idle()
    harness.writes.clear()
    # A change that concerns neither capabilities nor the desired state has no effect.
    stored = harness.cluster.get(FUNCTION_REVISIONS, "other-1")
    harness.cluster.replace_status({**stored, "status": {**stored["status"], "resolvedImage": "x"}})
    for obj in harness.cluster.list(COMPOSITION_REVISIONS).items:
        harness.compositions.queue.add(_task(obj))
    harness.until_idle()
    assert harness.writes == []
    harness.close()
    again = Harness(REVISIONS, harness.cluster)
    # Nothing is written before the functions are in the cache.
    for obj in harness.cluster.list(COMPOSITION_REVISIONS).items:
        assert again.compositions.reconcile(_task(obj)) == FAILED
    again.start()
    try:
        again.until(lambda: len(again.compositions.index.names_with_revisions) == 2)
        again.until_idle()
        assert again.writes == []
        assert complaints(again) == []
    finally:
        again.close()


def _task(obj: KubeObject) -> Task:
    key = ObjectKey("", obj["metadata"]["name"])
    return Task(Role.COMPOSITION_REVISION, COMPOSITION_REVISIONS, key)

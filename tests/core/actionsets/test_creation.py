"""Creation of ActionSets from requests and from parents."""

from __future__ import annotations

from typing import Any

import pytest

from kanister_py.core.actionsets.creation import (
    Order,
    new_actionset,
    references_of,
    retry_of,
)
from kanister_py.core.blueprints.model import ObjectReference
from kanister_py.core.errors import UsageError

DB = ObjectReference(kind="StatefulSet", name="db", namespace="shop")
CACHE = ObjectReference(kind="StatefulSet", name="cache", namespace="shop")


def first(letters: str) -> str:
    return letters[0]


def parent(state: str = "complete") -> dict[str, Any]:
    action = {
        "name": "backup",
        "blueprint": "mysql",
        "object": DB.as_dict(),
        "artifacts": {"old": {"keyValue": {"from": "before"}}},
        "options": {"a": "1", "b": "2"},
        "preferredVersion": "v0.1.0",
        "podOverride": {"nodeName": "n"},
        "podLabels": {"x": "y"},
    }
    left = {"dump": {"keyValue": {"path": "s3"}}}
    return {
        "metadata": {"name": "backup-1", "namespace": "shop", "labels": {"team": "db"}},
        "spec": {"actions": [action], "cancel": True},
        "status": {"state": state, "actions": [{"name": "backup", "artifacts": left}]},
    }


def test_every_object_has_its_own_action() -> None:
    order = Order("backup", namespace="shop", blueprint="mysql", objects=(DB, CACHE))
    actionset = new_actionset(order, None, first)
    assert actionset["metadata"] == {"name": "backup-bbbbb", "namespace": "shop"}
    assert [action["object"]["name"] for action in actionset["spec"]["actions"]] == ["db", "cache"]
    assert actionset["spec"]["actions"][0] == {
        "name": "backup",
        "blueprint": "mysql",
        "object": DB.as_dict(),
    }


@pytest.mark.parametrize(
    ("order", "remedy"),
    [
        pytest.param(Order(blueprint="b", objects=(DB,)), "--action", id="no action"),
        pytest.param(Order("a", objects=(DB,)), "--blueprint", id="no blueprint"),
        pytest.param(Order("a", blueprint="b"), "--from", id="no object"),
    ],
)
def test_actionset_without_action_or_object_is_refused_with_the_missing_flag(
    order: Order, remedy: str
) -> None:
    with pytest.raises(UsageError, match=remedy) as refused:
        new_actionset(order, None, first)
    assert refused.value.reason == "ActionSetUnclear"


def test_child_uses_artifacts_of_its_parent_instead_of_its_inputs() -> None:
    actionset = new_actionset(Order("restore", namespace="shop"), parent(), first)
    (action,) = actionset["spec"]["actions"]
    assert actionset["metadata"]["name"] == "restore-backup-1-bbbbb"
    assert actionset["metadata"]["annotations"] == {"kanister-py.io/from": "backup-1"}
    assert action["name"] == "restore"
    assert action["artifacts"] == {"dump": {"keyValue": {"path": "s3"}}}
    assert action["object"] == DB.as_dict()


def test_child_inherits_version_pod_override_and_pod_labels() -> None:
    (action,) = new_actionset(Order("restore"), parent(), first)["spec"]["actions"]
    assert action["preferredVersion"] == "v0.1.0"
    assert action["podOverride"] == {"nodeName": "n"}
    assert action["podLabels"] == {"x": "y"}


def test_request_overrides_the_parent_and_maps_are_merged() -> None:
    order = Order("restore", objects=(DB, CACHE), options={"b": "3"}, preferred_version="v0.0.0")
    actions = new_actionset(order, parent(), first)["spec"]["actions"]
    assert [action["object"]["name"] for action in actions] == ["db", "cache"]
    assert [action["options"] for action in actions] == [{"a": "1", "b": "3"}] * 2
    assert {action["preferredVersion"] for action in actions} == {"v0.0.0"}


@pytest.mark.parametrize("state", ["pending", "running", "failed"])
def test_incomplete_parent_is_refused(state: str) -> None:
    with pytest.raises(UsageError, match=f"shop/backup-1 is {state}") as refused:
        new_actionset(Order("restore"), parent(state), first)
    assert refused.value.reason == "ActionSetIncomplete"


def test_creating_a_child_does_not_change_the_parent() -> None:
    original = parent()
    new_actionset(Order("restore", options={"b": "3"}), original, first)
    assert original == parent()


def test_retry_has_the_same_spec_and_an_annotation_with_the_original() -> None:
    failed = parent("failed")
    failed["metadata"]["annotations"] = {
        "kanister-py.io/concurrency-key": "db",
        "kanister-py.io/status": "{}",
    }
    retried = retry_of(failed, "", "dump", first)
    assert retried["metadata"] == {
        "name": "backup-1-bbbbb",
        "namespace": "shop",
        "labels": {"team": "db"},
        "annotations": {
            "kanister-py.io/concurrency-key": "db",
            "kanister-py.io/retry-of": "backup-1",
            "kanister-py.io/retry-from": "dump",
        },
    }
    assert retried["spec"] == {"actions": failed["spec"]["actions"]}
    assert "status" not in retried


def test_references_are_listed_without_duplicates() -> None:
    secret = ObjectReference(name="s", namespace="shop")
    order = Order(
        "a", blueprint="b", objects=(DB, CACHE), profile=secret, secrets={"x": secret, "y": secret}
    )
    actionset = new_actionset(order, None, first)
    assert [what for what, _ in references_of(actionset)] == ["profile", "secret"]

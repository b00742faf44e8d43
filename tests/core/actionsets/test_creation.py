"""Creation of ActionSets: wishes, and what a parent left."""

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


def test_each_object_gets_an_action_of_its_own() -> None:
    order = Order("backup", namespace="shop", blueprint="mysql", objects=(DB, CACHE))
    made = new_actionset(order, None, first)
    assert made["metadata"] == {"name": "backup-bbbbb", "namespace": "shop"}
    assert [action["object"]["name"] for action in made["spec"]["actions"]] == ["db", "cache"]
    assert made["spec"]["actions"][0] == {
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
def test_what_would_do_nothing_is_refused_with_the_flag_that_helps(
    order: Order, remedy: str
) -> None:
    with pytest.raises(UsageError, match=remedy) as refused:
        new_actionset(order, None, first)
    assert refused.value.reason == "ActionSetUnclear"


def test_a_child_takes_what_its_parent_left_and_nothing_that_it_was_given() -> None:
    made = new_actionset(Order("restore", namespace="shop"), parent(), first)
    (action,) = made["spec"]["actions"]
    assert made["metadata"]["name"] == "restore-backup-1-bbbbb"
    assert made["metadata"]["annotations"] == {"kanister-py.io/from": "backup-1"}
    assert action["name"] == "restore"
    assert action["artifacts"] == {"dump": {"keyValue": {"path": "s3"}}}
    assert action["object"] == DB.as_dict()


def test_a_child_inherits_version_pod_override_and_labels_of_pods() -> None:
    (action,) = new_actionset(Order("restore"), parent(), first)["spec"]["actions"]
    assert action["preferredVersion"] == "v0.1.0"
    assert action["podOverride"] == {"nodeName": "n"}
    assert action["podLabels"] == {"x": "y"}


def test_what_is_asked_for_wins_over_the_parent_and_maps_are_merged() -> None:
    order = Order("restore", objects=(DB, CACHE), options={"b": "3"}, preferred_version="v0.0.0")
    actions = new_actionset(order, parent(), first)["spec"]["actions"]
    assert [action["object"]["name"] for action in actions] == ["db", "cache"]
    assert [action["options"] for action in actions] == [{"a": "1", "b": "3"}] * 2
    assert {action["preferredVersion"] for action in actions} == {"v0.0.0"}


@pytest.mark.parametrize("state", ["pending", "running", "failed"])
def test_nobody_follows_a_parent_that_is_not_complete(state: str) -> None:
    with pytest.raises(UsageError, match=f"shop/backup-1 is {state}") as refused:
        new_actionset(Order("restore"), parent(state), first)
    assert refused.value.reason == "ActionSetIncomplete"


def test_a_parent_is_not_changed_by_its_child() -> None:
    given = parent()
    new_actionset(Order("restore", options={"b": "3"}), given, first)
    assert given == parent()


def test_a_retry_says_the_same_and_names_whom_it_repeats() -> None:
    given = parent("failed")
    given["metadata"]["annotations"] = {
        "kanister-py.io/concurrency-key": "db",
        "kanister-py.io/status": "{}",
    }
    made = retry_of(given, "", "dump", first)
    assert made["metadata"] == {
        "name": "backup-1-bbbbb",
        "namespace": "shop",
        "labels": {"team": "db"},
        "annotations": {
            "kanister-py.io/concurrency-key": "db",
            "kanister-py.io/retry-of": "backup-1",
            "kanister-py.io/retry-from": "dump",
        },
    }
    assert made["spec"] == {"actions": given["spec"]["actions"]}
    assert "status" not in made


def test_what_an_actionset_names_is_listed_once() -> None:
    secret = ObjectReference(name="s", namespace="shop")
    order = Order(
        "a", blueprint="b", objects=(DB, CACHE), profile=secret, secrets={"x": secret, "y": secret}
    )
    made = new_actionset(order, None, first)
    assert [what for what, _ in references_of(made)] == ["profile", "secret"]

"""Retention: which backups are deleted, when, and what becomes of those that cannot be."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from kanister_py.core.actionsets.creation import PARENT
from kanister_py.core.actionsets.stored_status import ARTIFACTS_ANNOTATION
from kanister_py.core.errors import AlreadyExists, LeadershipLost
from kanister_py.core.kube.resources import ACTION_SETS
from kanister_py.core.schedules.runs import RETENTION_LABEL
from tests.controller.conftest import Mortal, blueprint
from tests.controller.schedules.test_reconcile import KEY, Place
from tests.core.schedules.schedules import at

FIRST = "2026-11-19T02:00"


@pytest.fixture(name="there")
def _there() -> Place:
    return Place()


def nights(there: Place, count: int, **spec: Any) -> None:
    """Have a schedule make backups, one each night."""
    there.create(**{"keep": {"daily": 2}, **spec})
    for night in range(count):
        night_of(there, night)


def night_of(there: Place, night: int) -> None:
    there.go_to(at(FIRST) + timedelta(days=night))
    there.look()
    (created,) = (actionset for actionset in there.actionsets() if not actionset.get("status"))
    there.clock.advance(60)
    left = {"dump": {"keyValue": {"path": f"night-{night}"}}}
    there.end(created["metadata"]["name"], actions=[{"name": "act", "artifacts": left}])
    there.look()


def deletions(there: Place) -> list[str]:
    """Name what the deletions delete."""
    names = []
    for deletion in there.deletions():
        (action,) = deletion["spec"]["actions"]
        assert action["name"] == "delete"
        names.append(action["artifacts"]["dump"]["keyValue"]["path"])
    return sorted(names)


def end_deletions(there: Place, state: str = "complete", **more: Any) -> None:
    for deletion in there.deletions():
        if not deletion.get("status"):
            there.end(deletion["metadata"]["name"], state, **more)
    there.look()


def backups(there: Place) -> dict[str, str]:
    """Give the backups by the time they were made for, with the note on each."""
    return {
        actionset["metadata"]["annotations"]["kanister-py.io/scheduled-at"][5:10]: actionset[
            "metadata"
        ]["annotations"].get(ARTIFACTS_ANNOTATION, "")
        for actionset in there.actionsets()
    }


def test_what_falls_out_is_deleted_by_an_actionset_like_any_other(there: Place) -> None:
    nights(there, 2)
    assert deletions(there) == []
    night_of(there, 2)
    assert deletions(there) == ["night-0"]
    (created,) = there.deletions()
    parent = created["metadata"]["annotations"][PARENT]
    assert created["metadata"]["name"].startswith("nightly-20261119020000-")
    assert created["metadata"]["ownerReferences"][0]["name"] == parent
    assert "kanister-py.io/schedule" not in created["metadata"]["labels"]
    assert there.status()["backups"] == {"kept": 2, "leaving": 1}
    end_deletions(there)
    assert backups(there) == {"11-19": "Deleted", "11-20": "", "11-21": ""}
    assert ("Deleted", f"Deleted the artifacts of backup {parent}") in there.events
    there.look()
    assert there.status()["backups"] == {"kept": 2, "leaving": 0}
    assert there.conditions()["Retention"] == ("True", "AsSaid")


def test_nothing_goes_before_a_newer_backup_is_complete(there: Place) -> None:
    nights(there, 1, keep={"last": 1}, concurrencyPolicy="Queue")
    there.look("2026-11-20T02:00")
    (running,) = (actionset for actionset in there.actionsets() if not actionset.get("status"))
    there.look("2026-11-20T02:30")
    assert deletions(there) == []
    there.end(running["metadata"]["name"], "failed")
    there.look()
    assert deletions(there) == []
    night_of(there, 2)
    assert deletions(there) == ["night-0"]


def test_what_is_being_read_stays_until_that_has_ended(there: Place) -> None:
    nights(there, 2)
    (first, *_others) = there.actionsets()
    restore = {
        "apiVersion": "cr.kanister.io/v1alpha1",
        "kind": "ActionSet",
        "metadata": {"name": "restore", "namespace": "default"},
        "spec": {
            "actions": [
                {
                    "name": "restore",
                    "blueprint": "made-up",
                    "artifacts": first["status"]["actions"][0]["artifacts"],
                }
            ]
        },
    }
    there.cluster.create(restore)
    night_of(there, 2)
    assert deletions(there) == []
    assert there.look().requeue_seconds == 60.0
    there.end("restore")
    there.look()
    assert deletions(there) == ["night-0"]


def test_a_restore_that_is_made_at_the_same_moment_is_seen(there: Place) -> None:
    nights(there, 2)
    (first, *_others) = there.actionsets()
    restore = {
        "apiVersion": "cr.kanister.io/v1alpha1",
        "kind": "ActionSet",
        "metadata": {
            "name": "restore",
            "namespace": "default",
            "annotations": {PARENT: first["metadata"]["name"]},
        },
        "spec": {"actions": [{"name": "restore", "blueprint": "made-up"}]},
    }

    class InBetween:
        """A cluster on which a restore is made right before each deletion."""

        def __getattr__(self, name: str) -> Any:
            attribute = getattr(there.cluster, name)

            def create(obj: Any, **options: Any) -> Any:
                if RETENTION_LABEL in obj["metadata"].get("labels", {}):
                    with suppress(AlreadyExists):
                        there.cluster.create(restore)
                return attribute(obj, **options)

            return create if name == "create" else attribute

    cluster: Any = InBetween()
    there.looker = there.another(cluster)
    night_of(there, 2)
    assert deletions(there) == []
    there.end("restore")
    there.look()
    (created,) = there.deletions()
    assert created["spec"]["suspend"] is False


def test_a_deletion_that_fails_is_tried_again_and_said(there: Place) -> None:
    nights(there, 3)
    end_deletions(there, "failed", error={"message": "The store is away"})
    assert there.conditions()["Retention"] == ("False", "DeleteFailed")
    assert len(there.deletions()) == 1
    assert there.look().requeue_seconds == 300.0
    there.clock.advance(300)
    there.look()
    assert deletions(there) == ["night-0", "night-0"]
    end_deletions(there)
    assert there.conditions()["Retention"] == ("True", "AsSaid")
    assert backups(there)["11-19"] == "Deleted"


def test_the_pause_before_a_deletion_is_tried_again_grows(there: Place) -> None:
    nights(there, 3)
    pauses = []
    for _ in range(7):
        end_deletions(there, "failed")
        there.change(suspend=True)
        pauses.append(there.look().requeue_seconds)
        there.clock.advance(pauses[-1] or 0)
        there.look()
    assert pauses == [300, 1200, 4800, 19_200, 76_800, 86_400, 86_400]


def test_what_has_begun_to_go_goes_also_when_more_is_kept_afterwards(there: Place) -> None:
    nights(there, 3)
    there.change(keep={"daily": 30})
    end_deletions(there)
    assert backups(there)["11-19"] == "Deleted"
    assert there.status()["backups"]["kept"] == 2


def test_many_that_fall_out_go_a_few_at_a_time(there: Place) -> None:
    nights(there, 9, keep={"daily": 30})
    there.change(keep={"last": 1, "daily": None})
    there.look()
    assert deletions(there) == ["night-0", "night-1", "night-2"]
    end_deletions(there)
    there.look()
    assert len(deletions(there)) == 6


def test_a_backup_of_another_object_is_no_newer_one(there: Place) -> None:
    nights(there, 1, keep={"last": 1})
    other = {"name": "act", "blueprint": "made-up", "object": {"kind": "Namespace", "name": "x"}}
    there.change(template={"spec": {"actions": [other]}})
    night_of(there, 1)
    there.look()
    assert deletions(there) == []


def test_a_record_goes_once_its_artifacts_have_gone(there: Place) -> None:
    nights(there, 3, historyLimits={"complete": 0})
    assert len(there.actionsets()) == 3
    end_deletions(there)
    there.look()
    assert sorted(backups(there)) == ["11-20", "11-21"]


# Deleting a backup is four writes: the status that counts it, the ActionSet, the word that it
# may begin, and the note.
@pytest.mark.parametrize("is_lost", [True, False], ids=["write is lost", "write is made"])
@pytest.mark.parametrize("writes", range(1, 6))
def test_wherever_it_dies_each_backup_is_deleted_once(
    there: Place, writes: int, *, is_lost: bool
) -> None:
    nights(there, 2)
    there.change(keep={"last": 1, "daily": None})
    mortal: Any = Mortal(there.cluster, writes, before=is_lost)
    looker = there.another(mortal)
    for _ in range(4):
        try:
            looker.reconcile(KEY)
        except LeadershipLost:
            looker = there.another()
            looker.reconcile(KEY)
        for deletion in there.deletions():
            if not deletion.get("status") and not deletion["spec"]["suspend"]:
                there.end(deletion["metadata"]["name"])
    assert deletions(there) == ["night-0"]
    assert sorted(backups(there).items()) == [("11-19", "Deleted"), ("11-20", "")]


@pytest.mark.parametrize(
    ("reads", "want"),
    [
        ("{{ .Namespace.Name }}", {"kind": "Namespace", "name": "shop", "namespace": "shop"}),
        ("{{ .StatefulSet.Namespace }}", {"kind": "StatefulSet", "name": "db"}),
        ("nothing", {"kind": "StatefulSet", "name": "db"}),
    ],
)
def test_a_deletion_acts_on_what_its_blueprint_made_it_for(
    there: Place, reads: str, want: dict[str, str]
) -> None:
    phase = {"name": "p", "func": "KubeTask", "args": {"namespace": reads}}
    manifest = blueprint(phase)
    manifest["actions"]["delete"] = {"phases": [phase]}
    there.cluster.create(manifest)
    database = {"kind": "StatefulSet", "name": "db", "namespace": "shop"}
    action = {"name": "act", "blueprint": "made-up", "object": database}
    nights(there, 3, template={"spec": {"actions": [action]}})
    (deletion,) = there.deletions()
    assert deletion["spec"]["actions"][0]["object"].items() >= want.items()


def test_without_a_rule_nothing_goes(there: Place) -> None:
    there.create()
    for night in range(3):
        night_of(there, night)
    assert there.deletions() == []
    assert "backups" not in there.status()
    assert len(there.cluster.list(ACTION_SETS).items) == 3

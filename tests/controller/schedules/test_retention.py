"""Retention: which backups are deleted, when, and how failed deletions are retried."""

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
from tests.controller.schedules.schedule_environment import KEY, ScheduleEnvironment
from tests.core.schedules.schedules import at

FIRST = "2026-11-19T02:00"


@pytest.fixture
def env() -> ScheduleEnvironment:
    return ScheduleEnvironment()


def create_backups(env: ScheduleEnvironment, count: int, **spec: Any) -> None:
    """Create a schedule and its backups, one per night."""
    env.create(**{"keep": {"daily": 2}, **spec})
    for night in range(count):
        create_backup(env, night)


def create_backup(env: ScheduleEnvironment, night: int) -> None:
    env.advance_to(at(FIRST) + timedelta(days=night))
    env.reconcile()
    (created,) = (actionset for actionset in env.actionsets() if not actionset.get("status"))
    env.clock.advance(60)
    left = {"dump": {"keyValue": {"path": f"night-{night}"}}}
    env.end(created["metadata"]["name"], actions=[{"name": "act", "artifacts": left}])
    env.reconcile()


def deletions(env: ScheduleEnvironment) -> list[str]:
    """Return the paths of the artifacts that the deletions delete."""
    names = []
    for deletion in env.deletions():
        (action,) = deletion["spec"]["actions"]
        assert action["name"] == "delete"
        names.append(action["artifacts"]["dump"]["keyValue"]["path"])
    return sorted(names)


def end_deletions(env: ScheduleEnvironment, state: str = "complete", **more: Any) -> None:
    for deletion in env.deletions():
        if not deletion.get("status"):
            env.end(deletion["metadata"]["name"], state, **more)
    env.reconcile()


def backups(env: ScheduleEnvironment) -> dict[str, str]:
    """Return the artifacts annotation of each backup, by the date of its due time."""
    return {
        actionset["metadata"]["annotations"]["kanister-py.io/scheduled-at"][5:10]: actionset[
            "metadata"
        ]["annotations"].get(ARTIFACTS_ANNOTATION, "")
        for actionset in env.actionsets()
    }


def test_an_expired_backup_is_deleted_by_an_actionset(env: ScheduleEnvironment) -> None:
    create_backups(env, 2)
    assert deletions(env) == []
    create_backup(env, 2)
    assert deletions(env) == ["night-0"]
    (created,) = env.deletions()
    parent = created["metadata"]["annotations"][PARENT]
    assert created["metadata"]["name"].startswith("nightly-20261119020000-")
    assert created["metadata"]["ownerReferences"][0]["name"] == parent
    assert "kanister-py.io/schedule" not in created["metadata"]["labels"]
    assert env.status()["backups"] == {"kept": 2, "leaving": 1}
    end_deletions(env)
    assert backups(env) == {"11-19": "Deleted", "11-20": "", "11-21": ""}
    assert ("Deleted", f"Deleted the artifacts of backup {parent}") in env.events
    env.reconcile()
    assert env.status()["backups"] == {"kept": 2, "leaving": 0}
    assert env.conditions()["Retention"] == ("True", "AsSaid")


def test_no_backup_is_deleted_before_a_newer_one_is_complete(env: ScheduleEnvironment) -> None:
    create_backups(env, 1, keep={"last": 1}, concurrencyPolicy="Queue")
    env.reconcile("2026-11-20T02:00")
    (running,) = (actionset for actionset in env.actionsets() if not actionset.get("status"))
    env.reconcile("2026-11-20T02:30")
    assert deletions(env) == []
    env.end(running["metadata"]["name"], "failed")
    env.reconcile()
    assert deletions(env) == []
    create_backup(env, 2)
    assert deletions(env) == ["night-0"]


def test_a_backup_that_is_being_read_is_kept_until_the_reader_ends(
    env: ScheduleEnvironment,
) -> None:
    create_backups(env, 2)
    (first, *_others) = env.actionsets()
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
    env.cluster.create(restore)
    create_backup(env, 2)
    assert deletions(env) == []
    assert env.reconcile().requeue_seconds == 60.0
    env.end("restore")
    env.reconcile()
    assert deletions(env) == ["night-0"]


def test_a_restore_that_is_created_at_the_same_moment_keeps_the_backup(
    env: ScheduleEnvironment,
) -> None:
    create_backups(env, 2)
    (first, *_others) = env.actionsets()
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
        """A cluster on which a restore is created right before each deletion."""

        def __getattr__(self, name: str) -> Any:
            attribute = getattr(env.cluster, name)

            def create(obj: Any, **options: Any) -> Any:
                if RETENTION_LABEL in obj["metadata"].get("labels", {}):
                    with suppress(AlreadyExists):
                        env.cluster.create(restore)
                return attribute(obj, **options)

            return create if name == "create" else attribute

    cluster: Any = InBetween()
    env.reconciler = env.new_reconciler(cluster)
    create_backup(env, 2)
    assert deletions(env) == []
    env.end("restore")
    env.reconcile()
    (created,) = env.deletions()
    assert created["spec"]["suspend"] is False


def test_a_failed_deletion_is_retried_and_reported(env: ScheduleEnvironment) -> None:
    create_backups(env, 3)
    end_deletions(env, "failed", error={"message": "The store is away"})
    assert env.conditions()["Retention"] == ("False", "DeleteFailed")
    assert len(env.deletions()) == 1
    assert env.reconcile().requeue_seconds == 300.0
    env.clock.advance(300)
    env.reconcile()
    assert deletions(env) == ["night-0", "night-0"]
    end_deletions(env)
    assert env.conditions()["Retention"] == ("True", "AsSaid")
    assert backups(env)["11-19"] == "Deleted"


def test_the_delay_before_a_deletion_is_retried_grows(env: ScheduleEnvironment) -> None:
    create_backups(env, 3)
    pauses = []
    for _ in range(7):
        end_deletions(env, "failed")
        env.change(suspend=True)
        pauses.append(env.reconcile().requeue_seconds)
        env.clock.advance(pauses[-1] or 0)
        env.reconcile()
    assert pauses == [300, 1200, 4800, 19_200, 76_800, 86_400, 86_400]


def test_a_started_deletion_continues_when_the_retention_is_extended(
    env: ScheduleEnvironment,
) -> None:
    create_backups(env, 3)
    env.change(keep={"daily": 30})
    end_deletions(env)
    assert backups(env)["11-19"] == "Deleted"
    assert env.status()["backups"]["kept"] == 2


def test_many_expired_backups_are_deleted_a_few_at_a_time(env: ScheduleEnvironment) -> None:
    create_backups(env, 9, keep={"daily": 30})
    env.change(keep={"last": 1, "daily": None})
    env.reconcile()
    assert deletions(env) == ["night-0", "night-1", "night-2"]
    end_deletions(env)
    env.reconcile()
    assert len(deletions(env)) == 6


def test_a_backup_of_another_object_does_not_count_as_newer(env: ScheduleEnvironment) -> None:
    create_backups(env, 1, keep={"last": 1})
    other = {"name": "act", "blueprint": "made-up", "object": {"kind": "Namespace", "name": "x"}}
    env.change(template={"spec": {"actions": [other]}})
    create_backup(env, 1)
    env.reconcile()
    assert deletions(env) == []


def test_a_record_is_deleted_after_its_artifacts(env: ScheduleEnvironment) -> None:
    create_backups(env, 3, historyLimits={"complete": 0})
    assert len(env.actionsets()) == 3
    end_deletions(env)
    env.reconcile()
    assert sorted(backups(env)) == ["11-20", "11-21"]


# Deleting a backup takes four writes: the status, the ActionSet, its resumption, and the
# annotation of the backup.
@pytest.mark.parametrize("is_lost", [True, False], ids=["write is lost", "write is made"])
@pytest.mark.parametrize("writes", range(1, 6))
def test_each_backup_is_deleted_once_although_the_process_dies(
    env: ScheduleEnvironment, writes: int, *, is_lost: bool
) -> None:
    create_backups(env, 2)
    env.change(keep={"last": 1, "daily": None})
    mortal: Any = Mortal(env.cluster, writes, before=is_lost)
    reconciler = env.new_reconciler(mortal)
    for _ in range(4):
        try:
            reconciler.reconcile(KEY)
        except LeadershipLost:
            reconciler = env.new_reconciler()
            reconciler.reconcile(KEY)
        for deletion in env.deletions():
            if not deletion.get("status") and not deletion["spec"]["suspend"]:
                env.end(deletion["metadata"]["name"])
    assert deletions(env) == ["night-0"]
    assert sorted(backups(env).items()) == [("11-19", "Deleted"), ("11-20", "")]


@pytest.mark.parametrize(
    ("reads", "want"),
    [
        ("{{ .Namespace.Name }}", {"kind": "Namespace", "name": "shop", "namespace": "shop"}),
        ("{{ .StatefulSet.Namespace }}", {"kind": "StatefulSet", "name": "db"}),
        ("nothing", {"kind": "StatefulSet", "name": "db"}),
    ],
)
def test_a_deletion_acts_on_the_object_of_its_backup(
    env: ScheduleEnvironment, reads: str, want: dict[str, str]
) -> None:
    phase = {"name": "p", "func": "KubeTask", "args": {"namespace": reads}}
    manifest = blueprint(phase)
    manifest["actions"]["delete"] = {"phases": [phase]}
    env.cluster.create(manifest)
    database = {"kind": "StatefulSet", "name": "db", "namespace": "shop"}
    action = {"name": "act", "blueprint": "made-up", "object": database}
    create_backups(env, 3, template={"spec": {"actions": [action]}})
    (deletion,) = env.deletions()
    assert deletion["spec"]["actions"][0]["object"].items() >= want.items()


def test_without_retention_rules_nothing_is_deleted(env: ScheduleEnvironment) -> None:
    env.create()
    for night in range(3):
        create_backup(env, night)
    assert env.deletions() == []
    assert "backups" not in env.status()
    assert len(env.cluster.list(ACTION_SETS).items) == 3

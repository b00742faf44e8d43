"""Deletions of backups: which are begun, which are tried again, and which are done.

A deletion is an ActionSet that runs the action `delete` of the backup's Blueprints. Once one
has begun, its backup is no backup any more: it stands for nothing that stays, and it goes in
the end, however often that fails.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta, tzinfo
from typing import Any, Final, NamedTuple

from kanister_py.core.actionsets.creation import PARENT, Order, new_actionset
from kanister_py.core.blueprints.model import Action, Blueprint
from kanister_py.core.blueprints.reads import engine_of, reads_of_action
from kanister_py.core.kube.names import MAX_LABEL, short_hash
from kanister_py.core.kube.parts import annotations_of, maps_in, metadata_of, spec_of, status_of
from kanister_py.core.schedules.retention import Backup, Keep, Verdict, judge_backups
from kanister_py.core.schedules.runs import RETENTION_LABEL, Run, backups_among
from kanister_py.core.templates.facts import ROOT_BY_KIND

ACTION: Final = "delete"
_MOST_AT_ONCE: Final = 3
_FIRST_PAUSE: Final = timedelta(minutes=5)
_LONGEST_PAUSE: Final = timedelta(hours=24)
_GROWTH: Final = 4


class Deletion(NamedTuple):
    """A backup that is to be deleted, and the deletion that failed before."""

    backup: Run
    after: str = ""

    @property
    def name(self) -> str:
        """Name its ActionSet: the same for every maker."""
        end = f"-{ACTION}-{short_hash(self.backup.uid, self.after)}"
        return f"{self.backup.name[: MAX_LABEL - len(end)]}{end}"


class Plan(NamedTuple):
    """Plan for the backups of a schedule."""

    verdicts: Sequence[Verdict] = ()
    begin: Sequence[Deletion] = ()
    held: Sequence[Deletion] = ()
    """Deletions that are made, and wait until no run reads their backups."""
    done: Sequence[Run] = ()
    """Backups whose deletion is complete, which is not noted on them yet."""
    failed: Sequence[Run] = ()
    """Deletions that failed, each the last one of its backup."""
    look_at: datetime | None = None

    @property
    def kept(self) -> int:
        return sum(each.stays for each in self.verdicts)


def plan_deletions(
    runs: Iterable[Run], deletions: Iterable[Run], keep: Keep, zone: tzinfo, now: datetime
) -> Plan:
    """Decide what is to be done now."""
    tries: dict[str, list[Run]] = {}
    for each in sorted(deletions, key=lambda each: (each.created, each.name)):
        tries.setdefault(each.parent, []).append(each)
    backups = {each.name: each for each in backups_among(runs)}
    begun = {name: tried for name, tried in tries.items() if name in backups}
    done = [backups[name] for name, tried in begun.items() if tried[-1].is_complete]
    held = [
        Deletion(backups[name], tried[-2].uid if tried[1:] else "")
        for name, tried in begun.items()
        if tried[-1].is_held
    ]
    if not keep.says_anything:
        return Plan(held=held, done=done)
    verdicts = judge_backups(
        (
            Backup(each.name, each.taken_at, each.group)
            for each in backups.values()
            if each.name not in begun
        ),
        keep,
        zone,
    )
    again = [
        (_due(tried), Deletion(backups[name], tried[-1].uid))
        for name, tried in begun.items()
        if tried[-1].ended is not None and not tried[-1].is_complete
    ]
    wanted = [each for due, each in sorted(again, key=lambda each: each[0]) if due <= now]
    goes = [backups[each.backup.name] for each in verdicts if not each.stays]
    wanted += [Deletion(each) for each in reversed(goes)]
    at_work = sum(tried[-1].is_active for tried in begun.values())
    return Plan(
        verdicts,
        wanted[: max(0, _MOST_AT_ONCE - at_work)],
        held,
        done,
        [tried[-1] for tried in begun.values() if tried[-1].state == "failed"],
        min((due for due, _ in again if due > now), default=None),
    )


def _due(tried: Sequence[Run]) -> datetime:
    """Say when a deletion is tried again that failed: the pause grows."""
    ended = tried[-1].ended or tried[-1].created
    pause = _FIRST_PAUSE
    for _ in tried[1:]:
        pause = min(pause * _GROWTH, _LONGEST_PAUSE)
    return ended + pause


def deletion_of(
    deletion: Deletion, backup: Mapping[str, Any], blueprints: Mapping[str, Blueprint]
) -> dict[str, Any]:
    """Write the ActionSet of a deletion; it goes when the record of its backup goes."""
    metadata = metadata_of(backup)
    order = Order(
        ACTION,
        deletion.name,
        str(metadata["namespace"]),
        labels={RETENTION_LABEL: deletion.backup.schedule},
    )
    made = new_actionset(order, backup, lambda letters: letters[0])
    aim(made, blueprints)
    # It begins once it is sure that no run reads the backup: a restore that is made after
    # it sees it, one that was made before is seen.
    made["spec"]["suspend"] = True
    made["metadata"]["ownerReferences"] = [
        {
            "apiVersion": backup["apiVersion"],
            "kind": backup["kind"],
            "name": metadata["name"],
            "uid": metadata["uid"],
        }
    ]
    return made


def aim(actionset: Mapping[str, Any], blueprints: Mapping[str, Blueprint]) -> None:
    """Have each action of an ActionSet that follows a backup act on what it is made for."""
    for each in actionset["spec"]["actions"]:
        blueprint = blueprints.get(str(each.get("blueprint")))
        action = blueprint.actions.get(str(each.get("name"))) if blueprint is not None else None
        if blueprint is not None and action is not None and each.get("object"):
            each["object"] = target_of(blueprint, action, each["object"])


def target_of(blueprint: Blueprint, action: Action, reference: Mapping[str, Any]) -> dict[str, Any]:
    """Give the object that an action acts on: the given one, or the namespace it is in.

    Deletions of most published blueprints read `.Namespace`, which only an object of that
    kind fills, though their backups act on a workload.
    """
    kind, namespace = str(reference.get("kind") or "").lower(), reference.get("namespace")
    if kind == "namespace" or not namespace:
        return dict(reference)
    roots = {read.names[0] for read in reads_of_action(action, engine_of(blueprint).engine)}
    if ROOT_BY_KIND.get(kind) in roots or "Object" in roots:
        return dict(reference)
    if "Namespace" in roots or action.kind == "Namespace":
        return {"kind": "Namespace", "name": namespace, "namespace": namespace}
    return dict(reference)


def reads(actionset: Mapping[str, Any], backup: Mapping[str, Any]) -> bool:
    """Say whether an ActionSet that has not ended works with what a backup left."""
    if status_of(actionset).get("state") in ("complete", "failed"):
        return False
    if annotations_of(actionset).get(PARENT) == metadata_of(backup)["name"]:
        return True
    left = _artifacts_in(status_of(backup))
    return bool(left) and any(each in left for each in _artifacts_in(spec_of(actionset)))


def _artifacts_in(part: Mapping[str, Any]) -> list[Any]:
    return [
        artifact
        for action in maps_in(part, "actions")
        for artifact in (action.get("artifacts") or {}).values()
        if artifact
    ]

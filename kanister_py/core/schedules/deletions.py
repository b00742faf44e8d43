"""Deletions of backups: start, retry and complete them.

A deletion is an ActionSet that runs the action `delete` of the Blueprints of a backup. When it has
started, its backup no longer counts for retention, and it is retried until it succeeds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta, tzinfo
from typing import Any, Final, NamedTuple

from kanister_py.core.actionsets.creation import PARENT, Order, new_actionset
from kanister_py.core.blueprints.model import Action, Blueprint
from kanister_py.core.blueprints.options import declared_options
from kanister_py.core.blueprints.reads import engine_of, reads_of_action
from kanister_py.core.kube.names import MAX_LABEL, short_hash
from kanister_py.core.kube.parts import annotations_of, maps_in, metadata_of, spec_of, status_of
from kanister_py.core.schedules.retention import Backup, Keep, Verdict, apply_retention
from kanister_py.core.schedules.runs import RETENTION_LABEL, Run, backups_among
from kanister_py.core.templates.facts import ROOT_BY_KIND

ACTION: Final = "delete"
_MAX_AT_ONCE: Final = 3
_FIRST_PAUSE: Final = timedelta(minutes=5)
_MAX_PAUSE: Final = timedelta(hours=24)
_GROWTH: Final = 4


class Deletion(NamedTuple):
    """Deletion of a backup. `after` is the uid of a failed deletion that it retries."""

    backup: Run
    after: str = ""

    @property
    def name(self) -> str:
        """Name of the ActionSet; deterministic."""
        end = f"-{ACTION}-{short_hash(self.backup.uid, self.after)}"
        return f"{self.backup.name[: MAX_LABEL - len(end)]}{end}"


class Plan(NamedTuple):
    """Plan for the backups of a Schedule."""

    verdicts: Sequence[Verdict] = ()
    begin: Sequence[Deletion] = ()
    suspended: Sequence[Deletion] = ()
    """Deletions that were created suspended, until no run reads their backups."""
    done: Sequence[Run] = ()
    """Backups whose deletion is complete, but not yet recorded on them."""
    failed: Sequence[Run] = ()
    """Deletions whose last attempt failed."""
    requeue_at: datetime | None = None

    @property
    def kept(self) -> int:
        return sum(verdict.stays for verdict in self.verdicts)


def plan_deletions(
    runs: Iterable[Run], deletions: Iterable[Run], keep: Keep, zone: tzinfo, now: datetime
) -> Plan:
    """Plan the deletions that are due now."""
    attempts_by_backup: dict[str, list[Run]] = {}
    for deletion in sorted(deletions, key=lambda run: (run.created, run.name)):
        attempts_by_backup.setdefault(deletion.parent, []).append(deletion)
    backups = {run.name: run for run in backups_among(runs)}
    begun = {name: attempts for name, attempts in attempts_by_backup.items() if name in backups}
    done = [backups[name] for name, attempts in begun.items() if attempts[-1].is_complete]
    suspended = [
        Deletion(backups[name], attempts[-2].uid if attempts[1:] else "")
        for name, attempts in begun.items()
        if attempts[-1].is_suspended
    ]
    if not keep.has_rules:
        return Plan(suspended=suspended, done=done)
    verdicts = apply_retention(
        (
            Backup(run.name, run.taken_at, run.group)
            for run in backups.values()
            if run.name not in begun
        ),
        keep,
        zone,
    )
    retries = [
        (_due(attempts), Deletion(backups[name], attempts[-1].uid))
        for name, attempts in begun.items()
        if attempts[-1].ended is not None and not attempts[-1].is_complete
    ]
    due_retries = [retry for due, retry in sorted(retries, key=lambda pair: pair[0]) if due <= now]
    expired = [backups[verdict.backup.name] for verdict in verdicts if not verdict.stays]
    to_begin = [*due_retries, *(Deletion(run) for run in reversed(expired))]
    active = sum(attempts[-1].is_active for attempts in begun.values())
    return Plan(
        verdicts,
        to_begin[: max(0, _MAX_AT_ONCE - active)],
        suspended,
        done,
        [attempts[-1] for attempts in begun.values() if attempts[-1].state == "failed"],
        min((due for due, _ in retries if due > now), default=None),
    )


def _due(attempts: Sequence[Run]) -> datetime:
    """Return when a failed deletion is retried. The pause grows with every attempt."""
    ended = attempts[-1].ended or attempts[-1].created
    pause = _FIRST_PAUSE
    for _ in attempts[1:]:
        pause = min(pause * _GROWTH, _MAX_PAUSE)
    return ended + pause


def deletion_of(
    deletion: Deletion, backup: Mapping[str, Any], blueprints: Mapping[str, Blueprint]
) -> dict[str, Any]:
    """Build the ActionSet of a deletion. It is deleted with the ActionSet of its backup."""
    metadata = metadata_of(backup)
    order = Order(
        ACTION,
        deletion.name,
        str(metadata["namespace"]),
        labels={RETENTION_LABEL: deletion.backup.schedule},
    )
    actionset = new_actionset(order, backup, lambda letters: letters[0])
    complete_actions(actionset, blueprints)
    # It is resumed when no run reads the backup. A restore that is created later finds this
    # deletion; a restore that was created earlier is found by the check.
    actionset["spec"]["suspend"] = True
    actionset["metadata"]["ownerReferences"] = [
        {
            "apiVersion": backup["apiVersion"],
            "kind": backup["kind"],
            "name": metadata["name"],
            "uid": metadata["uid"],
        }
    ]
    return actionset


def complete_actions(actionset: Mapping[str, Any], blueprints: Mapping[str, Blueprint]) -> None:
    """Set the objects on which the actions of a follow-up ActionSet act.

    Options of the earlier run that an action does not declare are removed.
    """
    for entry in actionset["spec"]["actions"]:
        blueprint = blueprints.get(str(entry.get("blueprint")))
        action = blueprint.actions.get(str(entry.get("name"))) if blueprint is not None else None
        if blueprint is None or action is None:
            continue
        if entry.get("object"):
            entry["object"] = target_of(blueprint, action, entry["object"])
        if entry.get("options"):
            entry["options"] = declared_options(action, entry["options"])


def target_of(blueprint: Blueprint, action: Action, reference: Mapping[str, Any]) -> dict[str, Any]:
    """Return the object for an action: the given object, or its namespace.

    The delete actions of most published Blueprints read `.Namespace`, which is only set for an
    object of that kind, although their backups act on a workload.
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


def uses_backup(actionset: Mapping[str, Any], backup: Mapping[str, Any]) -> bool:
    """Return whether an ActionSet that has not ended uses the artifacts of a backup."""
    if status_of(actionset).get("state") in ("complete", "failed"):
        return False
    if annotations_of(actionset).get(PARENT) == metadata_of(backup)["name"]:
        return True
    artifacts = _artifacts_in(status_of(backup))
    return bool(artifacts) and any(
        artifact in artifacts for artifact in _artifacts_in(spec_of(actionset))
    )


def _artifacts_in(part: Mapping[str, Any]) -> list[Any]:
    return [
        artifact
        for action in maps_in(part, "actions")
        for artifact in (action.get("artifacts") or {}).values()
        if artifact
    ]

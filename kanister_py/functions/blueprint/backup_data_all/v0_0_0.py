"""BackupDataAll v0.0.0: a folder of every pod, each in a repository of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field

from kanister_py.core.errors import UsageError
from kanister_py.core.templates.params import Params
from kanister_py.functions.blueprint.commands import CommandFunc, Target
from kanister_py.functions.blueprint.repositories import (
    POD_NAMES,
    Repository,
    RepositoryArgs,
    for_every_pod,
    place_of,
    tag_of,
    workload_of,
)
from kanister_py.ports.function import PhaseContext
from kanister_py.ports.models import Outputs


class BackupDataAllArgs(RepositoryArgs):
    """Arguments of BackupDataAll."""

    namespace: str = Field(description="The namespace of the pods.")
    container: str = Field(
        description="The container to run restic in, the same name in every pod; its image "
        "must contain bash and restic."
    )
    include_path: str = Field(description="The folder in the containers to back up.")
    backup_artifact_prefix: str = Field(
        description="Path of the repositories in the bucket of the Profile; may start with the "
        "name of the bucket. Every pod has a repository of its own below this path, named after "
        "the pod.",
    )
    pods: str = POD_NAMES


class BackupDataAllOutputs(Outputs):
    """Outputs of BackupDataAll."""

    backup_all_info: str = Field(
        alias="BackupAllInfo",
        description="The IDs and tags of the backups of all pods, as JSON; the argument "
        "`backupInfo` of RestoreDataAll and DeleteDataAll.",
    )
    version: str = Field(description="The version of the function that created the backups.")


class BackupDataAll(CommandFunc):
    """Backs up a folder of several pods in parallel, using restic in their containers.

    Every backup behaves like BackupData. If a backup fails, the phase fails once all backups
    have ended.
    """

    name = "BackupDataAll"
    version: ClassVar = "v0.0.0"
    Args = BackupDataAllArgs
    Outputs = BackupDataAllOutputs

    def exec(self, ctx: PhaseContext, params: Params, args: BackupDataAllArgs) -> Mapping[str, Any]:
        place = place_of(ctx, params, args.backup_artifact_prefix)

        def back_up(pod: str) -> dict[str, str]:
            target = Target(args.namespace, pod, args.container)
            tag = tag_of(ctx, pod)
            repository = Repository(ctx, place.below(pod), args, target)
            done = repository.backup(args.include_path, tag)
            return {"PodName": pod, "BackupID": done.id, "BackupTag": tag}

        pods = pods_of(params, args.pods, "Failed to get pods")
        results = for_every_pod(ctx, pods, back_up, "Failed to backup data for pod")
        return {"BackupAllInfo": format_backup_info(results), "version": "v0.0.0"}


def format_backup_info(backups: Mapping[str, Any]) -> str:
    """Return the backups of the pods as JSON, in the format that RestoreDataAll reads."""
    return json.dumps(dict(sorted(backups.items())), separators=(",", ":"))


def pods_of(params: Params, named: str, failing: str) -> list[str]:
    """Return the named pods, or by default the pods of the workload."""
    if named.split():
        return named.split()
    workload = workload_of(params)
    if workload is None:
        raise UsageError(
            f"{failing}: the object of the action is not a workload", reason="WorkloadNotKnown"
        )
    return list(workload.pods)

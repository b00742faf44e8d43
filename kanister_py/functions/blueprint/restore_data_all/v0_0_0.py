"""RestoreDataAll v0.0.0: backups of BackupDataAll, restored for all pods in parallel."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field

from kanister_py.core.errors import UsageError
from kanister_py.core.templates.params import Params
from kanister_py.functions.blueprint.backup_data_all.v0_0_0 import pods_of
from kanister_py.functions.blueprint.repositories import (
    POD_NAMES,
    HelperArgs,
    Place,
    VolumeFunc,
    claims_of_pod,
    for_every_pod,
    location_of,
)
from kanister_py.functions.blueprint.restic import check_shell_words
from kanister_py.ports.function import PhaseContext
from kanister_py.ports.models import Args


class AllRestoredBackups(Args):
    """Arguments that select the backups and the destination."""

    namespace: str = Field(description="The namespace of the pods and of the volumes.")
    backup_artifact_prefix: str = Field(
        description="Path of the repositories, including the name of the bucket. Unlike in "
        "other functions, the bucket is not added automatically.",
    )
    backup_info: str = Field(description="The output `BackupAllInfo` of BackupDataAll.")
    restore_path: str = Field(default="/", description="The folder to restore into.")
    pods: str = POD_NAMES


class RestoreDataAllArgs(AllRestoredBackups, HelperArgs):
    """Arguments of RestoreDataAll."""

    image: str = Field(description="The image of the pods, which must contain bash and restic.")


class RestoreDataAll(VolumeFunc):
    """Restores the backups of BackupDataAll in parallel, in a new pod for every original pod.

    Every restore behaves like RestoreData.
    """

    name = "RestoreDataAll"
    needs_pods = False  # the list of pods may be empty
    version: ClassVar = "v0.0.0"
    Args = RestoreDataAllArgs
    pod_prefix: ClassVar = "restore-data-all-"

    def exec(
        self, ctx: PhaseContext, params: Params, args: RestoreDataAllArgs
    ) -> Mapping[str, Any]:
        place = Place(location_of(ctx, params), args.backup_artifact_prefix)
        pods = pods_of(params, args.pods, "Unsupported workload type")
        backups = read_backup_info(args.backup_info)
        for pod in pods:
            if pod not in backups:
                raise UsageError(f"backupInfo has no backup of pod {pod}", reason="NoBackup")
        check_shell_words(ids=backups.values())

        def restore(pod: str) -> dict[str, str]:
            claims = claims_of_pod(params, pod)
            with self.repository(ctx, params, args, place.below(pod), claims, pod) as repository:
                return repository.restore([backups[pod]], args.restore_path)

        outputs_by_pod = for_every_pod(ctx, pods, restore, "Failed to restore data for pod")
        return {key: value for outputs in outputs_by_pod.values() for key, value in outputs.items()}


def read_backup_info(text: str) -> dict[str, str]:
    """Parse the IDs of the pods' backups from the output of BackupDataAll."""
    try:
        return {pod: str(output["BackupID"]) for pod, output in json.loads(text).items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f"Could not decode JSON data: {error}", reason="BackupInfoUnreadable"
        ) from error

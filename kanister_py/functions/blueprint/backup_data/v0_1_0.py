"""BackupData v0.1.0: the volumes of a pod, through restic in a separate pod."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field

from kanister_py.core.templates.params import Params
from kanister_py.functions.blueprint.backup_data.v0_0_0 import BackupOutputs
from kanister_py.functions.blueprint.claims import volumes_below
from kanister_py.functions.blueprint.keyed_repository import (
    HelperPod,
    Progress,
    RetentionArgs,
    SavedSnapshot,
    repository_in_pod,
    run_tag,
)
from kanister_py.functions.blueprint.repositories import VolumeFunc, place_of, prefixed
from kanister_py.ports.function import PhaseContext


class BackupDataArgsV010(RetentionArgs):
    """Arguments of BackupData from v0.1.0 on."""

    namespace: str = Field(description="The namespace of the pod.")
    pod: str = Field(description="The pod whose data to back up.")
    include_path: str = Field(
        description="The folder to back up, as mounted in the pod; it must be on one of the "
        "pod's volumes."
    )
    backup_artifact_prefix: str = Field(
        description="Path of the repository in the bucket of the Profile; may start with the "
        "name of the bucket. The prefix of the Profile is ignored.",
    )
    container: str = Field(
        default="", description="Ignored; accepted for compatibility with blueprints that set it."
    )


class BackupDataV010(VolumeFunc):
    """Backs up a folder on the volumes of a pod, using a new pod on the same node.

    The application needs no restic. The encryption key is required and does not appear on
    command lines. A phase makes one backup per run: after a restart or at another attempt, a
    backup that already exists is used. A repository is created only if there is none.
    """

    name = "BackupData"
    version: ClassVar = "v0.1.0"
    Args = BackupDataArgsV010
    Outputs = BackupOutputs

    def exec(
        self, ctx: PhaseContext, params: Params, args: BackupDataArgsV010
    ) -> Mapping[str, Any]:
        with prefixed("Failed to backup data"):
            done = back_up_pod(ctx, params, self.name, args, args.pod, Progress(ctx))
        return done.as_outputs()


def back_up_pod(
    ctx: PhaseContext,
    params: Params,
    function: str,
    args: Any,
    pod: str,
    progress: Progress,
    *,
    below: str = "",
) -> SavedSnapshot:
    """Back up a folder of one pod; `below` is the folder of its repository below the prefix."""
    place = place_of(ctx, params, args.backup_artifact_prefix)
    if below:
        place = place.below(below)
    volumes = volumes_below(ctx, args.namespace, pod, args.include_path)
    helper = HelperPod(
        args.namespace, volumes.claims, is_read_only=True, node=volumes.node, part=below
    )
    host = f"{args.namespace}/{'+'.join(sorted(volumes.claims))}"
    with repository_in_pod(ctx, params, function, args, place, helper) as repository:
        saved = repository.backup(args.include_path, run_tag(ctx, below), host, progress)
        repository.apply_retention(args.keep, host, prune=args.prune)
    return saved

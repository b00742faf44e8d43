"""CopyVolumeData v0.1.0: a volume, backed up once for each phase of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from kanister_py.core.templates.params import Params
from kanister_py.functions.blueprint.copy_volume_data.v0_0_0 import CopyVolumeData
from kanister_py.functions.blueprint.keyed_repository import (
    HelperPod,
    KeyedRepository,
    Progress,
    RetentionArgs,
    restic_pod,
    run_tag,
)
from kanister_py.functions.blueprint.repositories import (
    REPOSITORY_PREFIX,
    location_of,
    repository_path,
)
from kanister_py.ports.arguments import Field
from kanister_py.ports.function import Func, PhaseContext


class CopyVolumeDataArgsV010(RetentionArgs):
    """What CopyVolumeData takes from v0.1.0 on."""

    namespace: str = Field(description="Where the pod runs, and where the volume is.")
    volume: str = Field(description="The PersistentVolumeClaim that is backed up.")
    data_artifact_prefix: str = REPOSITORY_PREFIX
    mount_path: str = Field(
        default="",
        description="Where the volume is mounted, and so which paths the backup has; left out, "
        "`/mnt/vol_data/<claim>`.",
    )


class CopyVolumeDataV010(Func, parent=CopyVolumeData):
    """Backs a volume up in a new pod that has it mounted, only to be read.

    The key must be named, and stands on no command line. A backup is made once for each
    phase of a run: after a restart, or at another attempt, one that is there counts.
    """

    version: ClassVar = "v0.1.0"
    Args = CopyVolumeDataArgsV010

    def exec(
        self, ctx: PhaseContext, params: Params, args: CopyVolumeDataArgsV010
    ) -> Mapping[str, Any]:
        location = location_of(ctx, params)
        path = repository_path(args.data_artifact_prefix, location)
        root = args.mount_path or f"/mnt/vol_data/{args.volume}"
        helper = HelperPod(args.namespace, {args.volume: root}, is_read_only=True)
        host = f"{args.namespace}/{args.volume}"
        with restic_pod(ctx, params, self.name, args, helper) as target:
            repository = KeyedRepository(ctx, location, path, args, target)
            saved = repository.backup(root, run_tag(ctx), host, Progress(ctx))
            repository.let_go(args.keep, host, prune=args.prune)
        return {**saved.as_outputs(), "backupRoot": root, "backupArtifactLocation": path}

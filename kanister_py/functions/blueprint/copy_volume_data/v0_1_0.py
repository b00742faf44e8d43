"""CopyVolumeData v0.1.0: a volume, backed up once per phase and run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from kanister_py.core.templates.params import Params
from kanister_py.functions.blueprint.copy_volume_data.v0_0_0 import CopiedVolume, CopyVolumeData
from kanister_py.functions.blueprint.keyed_repository import (
    HelperPod,
    Progress,
    RetentionArgs,
    repository_in_pod,
    run_tag,
)
from kanister_py.functions.blueprint.repositories import place_of
from kanister_py.ports.function import Func, PhaseContext


class CopyVolumeDataArgsV010(CopiedVolume, RetentionArgs):
    """Arguments of CopyVolumeData from v0.1.0 on."""


class CopyVolumeDataV010(Func, parent=CopyVolumeData):
    """Backs up a volume in a new pod that mounts it read-only.

    The encryption key is required and does not appear on command lines. A phase makes one
    backup per run: after a restart or at another attempt, a backup that already exists is
    used.
    """

    version: ClassVar = "v0.1.0"
    Args = CopyVolumeDataArgsV010

    def exec(
        self, ctx: PhaseContext, params: Params, args: CopyVolumeDataArgsV010
    ) -> Mapping[str, Any]:
        place, root = place_of(ctx, params, args.data_artifact_prefix), args.root
        helper = HelperPod(args.namespace, {args.volume: root}, is_read_only=True)
        host = f"{args.namespace}/{args.volume}"
        with repository_in_pod(ctx, params, self.name, args, place, helper) as repository:
            saved = repository.backup(root, run_tag(ctx), host, Progress(ctx))
            repository.apply_retention(args.keep, host, prune=args.prune)
        return {**saved.as_outputs(), "backupRoot": root, "backupArtifactLocation": place.path}

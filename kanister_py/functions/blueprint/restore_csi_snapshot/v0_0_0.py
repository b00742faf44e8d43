"""RestoreCSISnapshot v0.0.0: a claim, restored from a VolumeSnapshot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final

from pydantic import Field, field_validator

from kanister_py.core.kube.access import Access
from kanister_py.core.kube.quantities import InvalidQuantity, format_quantity, parse_quantity
from kanister_py.core.kube.resources import PERSISTENT_VOLUME_CLAIMS, VOLUME_SNAPSHOTS
from kanister_py.functions.blueprint.snapshots import make
from kanister_py.ports.cluster import KubeObject
from kanister_py.ports.function import Func, OnRestart, PhaseContext
from kanister_py.ports.models import Args, Outputs

_ACCESS_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce")
_VOLUME_MODES: Final = ("Filesystem", "Block")


class RestoreCSISnapshotArgs(Args):
    """Arguments of RestoreCSISnapshot."""

    name: str = Field(description="The VolumeSnapshot to restore from.")
    pvc: str = Field(description="The name of the new PersistentVolumeClaim.")
    namespace: str = Field(
        description="The namespace of the VolumeSnapshot and of the new PersistentVolumeClaim."
    )
    storage_class: str = Field(description="The StorageClass of the PersistentVolumeClaim.")
    restore_size: str = Field(description="The requested size of the volume, such as `10Gi`.")
    access_modes: list[str] = Field(
        default_factory=lambda: ["ReadWriteOnce"],
        description="The access modes of the volume: `ReadWriteOnce`, `ReadOnlyMany`, "
        "`ReadWriteMany`.",
    )
    volume_mode: str = Field(
        default="Filesystem", description="The volume mode: `Filesystem` or `Block`."
    )
    labels: dict[str, str] | None = Field(
        default=None, description="Labels of the PersistentVolumeClaim."
    )

    @field_validator("access_modes")
    @classmethod
    def _known_access_modes(cls, modes: list[str]) -> list[str]:
        for mode in modes:
            if mode not in _ACCESS_MODES:
                raise ValueError(f"given accessMode {mode} is invalid")
        return modes

    @field_validator("volume_mode")
    @classmethod
    def _known_volume_mode(cls, mode: str) -> str:
        if mode not in _VOLUME_MODES:
            raise ValueError(f"given volumeMode {mode} is invalid")
        return mode

    @field_validator("restore_size")
    @classmethod
    def _some_size(cls, size: str) -> str:
        try:
            quantity = parse_quantity(size)
        except InvalidQuantity as error:
            raise ValueError(error.message) from error
        if quantity.value == 0:
            raise ValueError("failed to restore CSI snapshot. restoreSize argument cannot be zero")
        return format_quantity(quantity)


class RestoreCSISnapshot(Func):
    """Creates a PersistentVolumeClaim from a VolumeSnapshot.

    Does not wait for the volume. An existing claim of the same name fails the phase, and so
    does the access mode `ReadWriteOncePod`. The claim remains when the ActionSet is deleted.
    A phase that is resumed after a restart recognizes the claim that it created.
    """

    name = "RestoreCSISnapshot"
    version: ClassVar = "v0.0.0"
    Args = RestoreCSISnapshotArgs
    Outputs = Outputs
    on_restart = OnRestart.ADOPT

    @classmethod
    def access(cls, args: Mapping[str, Any]) -> Iterable[Access] | None:
        namespace = str(args.get("namespace") or "")
        return [Access("", "persistentvolumeclaims", ("get", "create"), namespace)]

    def exec(self, ctx: PhaseContext, params: Any, args: RestoreCSISnapshotArgs) -> None:
        make(ctx, PERSISTENT_VOLUME_CLAIMS, _claim_of(args), "claim", "Failed to create PVC")


def _claim_of(args: RestoreCSISnapshotArgs) -> KubeObject:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": args.pvc,
            "namespace": args.namespace,
            "labels": dict(args.labels or {}),
        },
        "spec": {
            "accessModes": list(args.access_modes),
            "volumeMode": args.volume_mode,
            "dataSource": {
                "apiGroup": VOLUME_SNAPSHOTS.group,
                "kind": "VolumeSnapshot",
                "name": args.name,
            },
            "storageClassName": args.storage_class,
            "resources": {"requests": {"storage": args.restore_size}},
        },
    }

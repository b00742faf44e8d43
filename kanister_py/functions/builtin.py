"""Functions that come with kanister_py: where their code is, and the checked record of them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from kanister_py.core.blueprints.lint.signatures import Signature

DISTRIBUTION: Final = "kanister-py"


@cache
def read_record() -> Mapping[str, Any]:
    """Read the checked form of versions.yaml, and of which release it is.

    The file is made of versions.yaml and held to it by the gate.
    """
    return _read_json("versions.json")


def read_versions_file() -> str:
    """Give the text of versions.yaml, which people read; its checked form is what we go by.

    A wheel carries the file inside; an editable install finds it at the top of
    the repository.
    """
    from pathlib import Path

    package = Path(__file__).parent.parent
    inside = package / "versions.yaml"
    found = inside if inside.is_file() else package.parent / "versions.yaml"
    return found.read_text(encoding="utf-8")


def read_signatures() -> Mapping[tuple[str, str], Signature]:
    """Give what is known of the arguments of our own functions without loading them."""
    from kanister_py.core.blueprints.lint.signatures import Signature

    return {
        (name, version): Signature.of(each)
        for name, versions in _read_json("signatures.json").items()
        for version, each in versions.items()
    }


def _read_json(name: str) -> dict[str, Any]:
    with open(os.path.join(os.path.dirname(__file__), name), "rb") as file:
        found: dict[str, Any] = json.load(file)
    return found


# `module:Class`, loaded when it is needed.
BUILTIN_FUNCTIONS: Mapping[str, Mapping[str, str]] = {
    "KubeExec": {
        "v0.0.0": "kanister_py.functions.blueprint.kube_exec.v0_0_0:KubeExec",
        "v0.1.0": "kanister_py.functions.blueprint.kube_exec.v0_1_0:KubeExecV010",
    },
    "KubeExecAll": {
        "v0.0.0": "kanister_py.functions.blueprint.kube_exec_all.v0_0_0:KubeExecAll",
    },
    "KubeOps": {
        "v0.0.0": "kanister_py.functions.blueprint.kube_ops.v0_0_0:KubeOps",
        "v0.1.0": "kanister_py.functions.blueprint.kube_ops.v0_1_0:KubeOpsV010",
    },
    "KubeTask": {
        "v0.0.0": "kanister_py.functions.blueprint.kube_task.v0_0_0:KubeTask",
        "v0.1.0": "kanister_py.functions.blueprint.kube_task.v0_1_0:KubeTaskV010",
    },
    "MultiContainerRun": {
        "v0.0.0": "kanister_py.functions.blueprint.multi_container_run.v0_0_0:MultiContainerRun",
    },
    "PrepareData": {
        "v0.0.0": "kanister_py.functions.blueprint.prepare_data.v0_0_0:PrepareData",
        "v0.1.0": "kanister_py.functions.blueprint.prepare_data.v0_1_0:PrepareDataV010",
    },
    "ScaleWorkload": {
        "v0.0.0": "kanister_py.functions.blueprint.scale_workload.v0_0_0:ScaleWorkload",
        "v0.1.0": "kanister_py.functions.blueprint.scale_workload.v0_1_0:ScaleWorkloadV010",
    },
    "Wait": {
        "v0.0.0": "kanister_py.functions.blueprint.wait.v0_0_0:Wait",
    },
    "WaitV2": {
        "v0.0.0": "kanister_py.functions.blueprint.wait_v2.v0_0_0:WaitV2",
        "v0.1.0": "kanister_py.functions.blueprint.wait_v2.v0_1_0:WaitV2V010",
    },
    "CreateCSISnapshot": {
        "v0.0.0": "kanister_py.functions.blueprint.create_csi_snapshot.v0_0_0:CreateCSISnapshot",
    },
    "CreateCSISnapshotStatic": {
        "v0.0.0": (
            "kanister_py.functions.blueprint.create_csi_snapshot_static.v0_0_0:CreateCSISnapshotStatic"
        ),
    },
    "RestoreCSISnapshot": {
        "v0.0.0": "kanister_py.functions.blueprint.restore_csi_snapshot.v0_0_0:RestoreCSISnapshot",
    },
    "DeleteCSISnapshot": {
        "v0.0.0": "kanister_py.functions.blueprint.delete_csi_snapshot.v0_0_0:DeleteCSISnapshot",
    },
    "DeleteCSISnapshotContent": {
        "v0.0.0": (
            "kanister_py.functions.blueprint.delete_csi_snapshot_content.v0_0_0:DeleteCSISnapshotContent"
        ),
    },
    "BackupData": {
        "v0.0.0": "kanister_py.functions.blueprint.backup_data.v0_0_0:BackupData",
        "v0.1.0": "kanister_py.functions.blueprint.backup_data.v0_1_0:BackupDataV010",
    },
    "BackupDataAll": {
        "v0.0.0": "kanister_py.functions.blueprint.backup_data_all.v0_0_0:BackupDataAll",
        "v0.1.0": "kanister_py.functions.blueprint.backup_data_all.v0_1_0:BackupDataAllV010",
    },
    "RestoreData": {
        "v0.0.0": "kanister_py.functions.blueprint.restore_data.v0_0_0:RestoreData",
        "v0.1.0": "kanister_py.functions.blueprint.restore_data.v0_1_0:RestoreDataV010",
    },
    "RestoreDataAll": {
        "v0.0.0": "kanister_py.functions.blueprint.restore_data_all.v0_0_0:RestoreDataAll",
        "v0.1.0": "kanister_py.functions.blueprint.restore_data_all.v0_1_0:RestoreDataAllV010",
    },
    "CopyVolumeData": {
        "v0.0.0": "kanister_py.functions.blueprint.copy_volume_data.v0_0_0:CopyVolumeData",
        "v0.1.0": "kanister_py.functions.blueprint.copy_volume_data.v0_1_0:CopyVolumeDataV010",
    },
    "DeleteData": {
        "v0.0.0": "kanister_py.functions.blueprint.delete_data.v0_0_0:DeleteData",
        "v0.1.0": "kanister_py.functions.blueprint.delete_data.v0_1_0:DeleteDataV010",
    },
    "DeleteDataAll": {
        "v0.0.0": "kanister_py.functions.blueprint.delete_data_all.v0_0_0:DeleteDataAll",
        "v0.1.0": "kanister_py.functions.blueprint.delete_data_all.v0_1_0:DeleteDataAllV010",
    },
    "BackupDataStats": {
        "v0.0.0": "kanister_py.functions.blueprint.backup_data_stats.v0_0_0:BackupDataStats",
        "v0.1.0": "kanister_py.functions.blueprint.backup_data_stats.v0_1_0:BackupDataStatsV010",
    },
    "CheckRepository": {
        "v0.0.0": "kanister_py.functions.blueprint.check_repository.v0_0_0:CheckRepository",
        "v0.1.0": "kanister_py.functions.blueprint.check_repository.v0_1_0:CheckRepositoryV010",
    },
    "LocationDelete": {
        "v0.0.0": "kanister_py.functions.blueprint.location_delete.v0_0_0:LocationDelete",
        "v0.1.0": "kanister_py.functions.blueprint.location_delete.v0_1_0:LocationDeleteV010",
    },
    "CreateRDSSnapshot": {
        "v0.0.0": "kanister_py.functions.blueprint.create_rds_snapshot.v0_0_0:CreateRDSSnapshot",
        "v0.1.0": (
            "kanister_py.functions.blueprint.create_rds_snapshot.v0_1_0:CreateRDSSnapshotV010"
        ),
    },
    "ExportRDSSnapshotToLocation": {
        "v0.0.0": (
            "kanister_py.functions.blueprint.export_rds_snapshot_to_location.v0_0_0:ExportRDSSnapshotToLocation"
        ),
        "v0.1.0": (
            "kanister_py.functions.blueprint.export_rds_snapshot_to_location.v0_1_0:ExportRDSSnapshotToLocationV010"
        ),
    },
    "RestoreRDSSnapshot": {
        "v0.0.0": "kanister_py.functions.blueprint.restore_rds_snapshot.v0_0_0:RestoreRDSSnapshot",
        "v0.1.0": (
            "kanister_py.functions.blueprint.restore_rds_snapshot.v0_1_0:RestoreRDSSnapshotV010"
        ),
    },
    "DeleteRDSSnapshot": {
        "v0.0.0": "kanister_py.functions.blueprint.delete_rds_snapshot.v0_0_0:DeleteRDSSnapshot",
        "v0.1.0": (
            "kanister_py.functions.blueprint.delete_rds_snapshot.v0_1_0:DeleteRDSSnapshotV010"
        ),
    },
    "HTTPRequest": {
        "v0.1.0": "kanister_py.functions.blueprint.http_request.v0_1_0:HTTPRequest",
        "v0.2.0": "kanister_py.functions.blueprint.http_request.v0_2_0:HTTPRequestV020",
    },
    "function-patch-and-transform": {
        "v0.1.0": "kanister_py.functions.composition.patch_and_transform.v0_1_0:PatchAndTransform",
        "v0.2.0": (
            "kanister_py.functions.composition.patch_and_transform.v0_2_0:PatchAndTransformV020"
        ),
    },
    "function-go-templating": {
        "v0.1.0": "kanister_py.functions.composition.go_templating.v0_1_0:GoTemplating",
        "v0.2.0": "kanister_py.functions.composition.go_templating.v0_2_0:GoTemplatingV020",
    },
    "function-auto-ready": {
        "v0.1.0": "kanister_py.functions.composition.auto_ready.v0_1_0:AutoReady",
        "v0.2.0": "kanister_py.functions.composition.auto_ready.v0_2_0:AutoReadyV020",
    },
    "function-environment-configs": {
        "v0.1.0": "kanister_py.functions.composition.environment_configs.v0_1_0:EnvironmentConfigs",
        "v0.2.0": (
            "kanister_py.functions.composition.environment_configs.v0_2_0:EnvironmentConfigsV020"
        ),
    },
    "function-extra-resources": {
        "v0.1.0": "kanister_py.functions.composition.extra_resources.v0_1_0:ExtraResources",
        "v0.2.0": "kanister_py.functions.composition.extra_resources.v0_2_0:ExtraResourcesV020",
    },
    "function-jinja-templating": {
        "v0.1.0": "kanister_py.functions.composition.jinja_templating.v0_1_0:JinjaTemplating",
        "v0.2.0": "kanister_py.functions.composition.jinja_templating.v0_2_0:JinjaTemplatingV020",
    },
}

"""Built-in functions: their code, and the record of their versions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.metadata import version as version_of_distribution
from pathlib import Path
from typing import Final

from kanister_py.core.versions.catalogue import Catalogue, parse_catalogue
from kanister_py.core.versions.semver import Version, parse_version

DISTRIBUTION: Final = "kanister-py"


@cache
def installed_release() -> Version:
    """Return the installed release of kanister_py."""
    return parse_version(version_of_distribution(DISTRIBUTION))


@cache
def read_catalogue() -> Catalogue:
    """Read versions.yaml as of the installed release."""
    return parse_catalogue(read_versions_file(), "versions.yaml", installed_release())


def read_versions_file() -> str:
    """Read the text of versions.yaml.

    A wheel has the file inside the package; an editable install finds it at the top of
    the repository.
    """
    package = Path(__file__).parent.parent
    inside = package / "versions.yaml"
    file = inside if inside.is_file() else package.parent / "versions.yaml"
    return file.read_text(encoding="utf-8")


def _versions(target: str, first: str, *later_versions: str) -> Mapping[str, str]:
    """Return the code of every version as `module:Class`, to be imported when it is needed.

    The class of the first version has the function's name; the names of the other classes
    end with their versions.
    """
    folder, _, name = target.partition(":")
    targets = {first: name} | {
        version: name + version.replace(".", "").upper() for version in later_versions
    }
    return {
        version: f"kanister_py.functions.{folder}.{version.replace('.', '_')}:{target}"
        for version, target in targets.items()
    }


BUILTIN_FUNCTIONS: Mapping[str, Mapping[str, str]] = {
    "KubeExec": _versions("blueprint.kube_exec:KubeExec", "v0.0.0", "v0.1.0"),
    "KubeExecAll": _versions("blueprint.kube_exec_all:KubeExecAll", "v0.0.0"),
    "KubeOps": _versions("blueprint.kube_ops:KubeOps", "v0.0.0", "v0.1.0"),
    "KubeTask": _versions("blueprint.kube_task:KubeTask", "v0.0.0", "v0.1.0"),
    "MultiContainerRun": _versions("blueprint.multi_container_run:MultiContainerRun", "v0.0.0"),
    "PrepareData": _versions("blueprint.prepare_data:PrepareData", "v0.0.0", "v0.1.0"),
    "ScaleWorkload": _versions("blueprint.scale_workload:ScaleWorkload", "v0.0.0", "v0.1.0"),
    "Wait": _versions("blueprint.wait:Wait", "v0.0.0"),
    "WaitV2": _versions("blueprint.wait_v2:WaitV2", "v0.0.0", "v0.1.0"),
    "CreateCSISnapshot": _versions("blueprint.create_csi_snapshot:CreateCSISnapshot", "v0.0.0"),
    "CreateCSISnapshotStatic": _versions(
        "blueprint.create_csi_snapshot_static:CreateCSISnapshotStatic", "v0.0.0"
    ),
    "RestoreCSISnapshot": _versions("blueprint.restore_csi_snapshot:RestoreCSISnapshot", "v0.0.0"),
    "DeleteCSISnapshot": _versions("blueprint.delete_csi_snapshot:DeleteCSISnapshot", "v0.0.0"),
    "DeleteCSISnapshotContent": _versions(
        "blueprint.delete_csi_snapshot_content:DeleteCSISnapshotContent", "v0.0.0"
    ),
    "BackupData": _versions("blueprint.backup_data:BackupData", "v0.0.0", "v0.1.0"),
    "BackupDataAll": _versions("blueprint.backup_data_all:BackupDataAll", "v0.0.0", "v0.1.0"),
    "RestoreData": _versions("blueprint.restore_data:RestoreData", "v0.0.0", "v0.1.0"),
    "RestoreDataAll": _versions("blueprint.restore_data_all:RestoreDataAll", "v0.0.0", "v0.1.0"),
    "CopyVolumeData": _versions("blueprint.copy_volume_data:CopyVolumeData", "v0.0.0", "v0.1.0"),
    "DeleteData": _versions("blueprint.delete_data:DeleteData", "v0.0.0", "v0.1.0"),
    "DeleteDataAll": _versions("blueprint.delete_data_all:DeleteDataAll", "v0.0.0", "v0.1.0"),
    "BackupDataStats": _versions("blueprint.backup_data_stats:BackupDataStats", "v0.0.0", "v0.1.0"),
    "CheckRepository": _versions("blueprint.check_repository:CheckRepository", "v0.0.0", "v0.1.0"),
    "LocationDelete": _versions("blueprint.location_delete:LocationDelete", "v0.0.0", "v0.1.0"),
    "CreateRDSSnapshot": _versions(
        "blueprint.create_rds_snapshot:CreateRDSSnapshot", "v0.0.0", "v0.1.0"
    ),
    "ExportRDSSnapshotToLocation": _versions(
        "blueprint.export_rds_snapshot_to_location:ExportRDSSnapshotToLocation", "v0.0.0", "v0.1.0"
    ),
    "RestoreRDSSnapshot": _versions(
        "blueprint.restore_rds_snapshot:RestoreRDSSnapshot", "v0.0.0", "v0.1.0"
    ),
    "DeleteRDSSnapshot": _versions(
        "blueprint.delete_rds_snapshot:DeleteRDSSnapshot", "v0.0.0", "v0.1.0"
    ),
    "HTTPRequest": _versions("blueprint.http_request:HTTPRequest", "v0.1.0", "v0.2.0"),
    "function-patch-and-transform": _versions(
        "composition.patch_and_transform:PatchAndTransform", "v0.1.0", "v0.2.0"
    ),
    "function-go-templating": _versions(
        "composition.go_templating:GoTemplating", "v0.1.0", "v0.2.0"
    ),
    "function-auto-ready": _versions("composition.auto_ready:AutoReady", "v0.1.0", "v0.2.0"),
    "function-environment-configs": _versions(
        "composition.environment_configs:EnvironmentConfigs", "v0.1.0", "v0.2.0"
    ),
    "function-extra-resources": _versions(
        "composition.extra_resources:ExtraResources", "v0.1.0", "v0.2.0"
    ),
    "function-jinja-templating": _versions(
        "composition.jinja_templating:JinjaTemplating", "v0.1.0", "v0.2.0"
    ),
}

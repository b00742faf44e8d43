"""Which functions do blueprints of Kanister's users call that are not here yet?"""

from __future__ import annotations

from typing import Final

# They move data through restic or ask AWS for snapshots.
NOT_YET_HERE: Final = (
    "BackupData",
    "BackupDataAll",
    "BackupDataStats",
    "CheckRepository",
    "CopyVolumeData",
    "CreateRDSSnapshot",
    "DeleteData",
    "DeleteDataAll",
    "DeleteRDSSnapshot",
    "ExportRDSSnapshotToLocation",
    "LocationDelete",
    "RestoreData",
    "RestoreDataAll",
    "RestoreRDSSnapshot",
)

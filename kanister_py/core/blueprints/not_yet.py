"""Functions of Kanister that are not here yet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

NOT_YET_HERE: Final[Mapping[str, str]] = {
    "CreateRDSSnapshot": "Takes a snapshot of an RDS instance or an Aurora cluster",
    "DeleteRDSSnapshot": "Deletes a snapshot of an RDS instance or an Aurora cluster",
    "ExportRDSSnapshotToLocation": "Writes a PostgreSQL snapshot of RDS into a Profile's store",
    "RestoreRDSSnapshot": "Restores an RDS instance or an Aurora cluster from a snapshot",
}
"""What each of them does, by its name."""

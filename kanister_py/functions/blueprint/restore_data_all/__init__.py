"""RestoreDataAll: backups, restored into the volumes of all pods of a workload."""

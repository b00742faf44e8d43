"""BackupDataAll: a folder of all pods of a workload, backed up with restic."""

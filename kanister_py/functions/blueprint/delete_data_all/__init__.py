"""DeleteDataAll: the deletion of the backups of all pods of a workload."""

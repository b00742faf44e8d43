"""Deletes the backups of all pods of a workload."""

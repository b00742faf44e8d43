"""Restores backups into the volumes of all pods of a workload."""

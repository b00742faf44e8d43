"""Backs a folder of all pods of a workload up with restic."""

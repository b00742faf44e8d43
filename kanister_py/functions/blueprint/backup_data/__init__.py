"""Backs a folder of a running container up with restic."""

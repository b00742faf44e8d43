"""Deletes backups of restic."""

"""Measures a backup of restic."""

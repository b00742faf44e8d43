"""Schedules: times of runs, creation of ActionSets, and retention of backups."""

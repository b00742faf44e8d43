"""Schedules: when which ActionSet is made, and which of what backups left may go."""

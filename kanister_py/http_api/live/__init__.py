"""Pages of runs and Schedules: lists, a run with its live log, and operations."""

"""Executor: runs of ActionSets and pipelines, and other I/O through the interfaces in `ports`."""

"""A cluster in memory: the behaviour of an API server over dicts, inside this process."""

from kanister_py.embedded.cluster.cluster import STATE_FORMAT, MemoryCluster

__all__ = ["STATE_FORMAT", "MemoryCluster"]

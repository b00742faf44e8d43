"""The embedded cluster: Kubernetes' behaviour over dicts, inside this process."""

from kanister_py.adapters.cluster_memory.cluster import STATE_FORMAT, MemoryCluster

__all__ = ["STATE_FORMAT", "MemoryCluster"]

"""KubeOps: objects of the cluster, created, deleted or patched."""

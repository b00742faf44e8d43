"""DeleteCSISnapshotContent: the deletion of the cluster-scoped object of a CSI snapshot."""

"""DeleteCSISnapshotContent: the deletion of what stands for a CSI snapshot in the whole cluster."""

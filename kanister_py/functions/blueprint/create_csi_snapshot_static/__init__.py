"""CreateCSISnapshotStatic: an existing snapshot, registered in the cluster."""

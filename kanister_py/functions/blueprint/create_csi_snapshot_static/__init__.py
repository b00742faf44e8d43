"""CreateCSISnapshotStatic: a snapshot that the storage already has, made known to the cluster."""

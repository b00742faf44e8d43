"""RestoreRDSSnapshot: an RDS instance or an Aurora cluster, restored from a snapshot."""

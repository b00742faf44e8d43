"""DeleteRDSSnapshot: the deletion of a snapshot of an RDS instance or an Aurora cluster."""

"""CreateRDSSnapshot: a snapshot of an RDS instance or an Aurora cluster."""

"""ExportRDSSnapshotToLocation: a PostgreSQL snapshot of RDS, dumped into the store of a Profile."""

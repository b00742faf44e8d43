"""Restores an RDS instance or an Aurora cluster from a snapshot."""

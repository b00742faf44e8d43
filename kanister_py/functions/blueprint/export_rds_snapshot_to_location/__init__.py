"""Writes a PostgreSQL snapshot of RDS into the store of a Profile."""

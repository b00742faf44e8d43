"""Makes a snapshot known that the storage already has."""

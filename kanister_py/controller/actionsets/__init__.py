"""ActionSets: their runs on a cluster."""

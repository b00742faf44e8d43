"""Extra resources: resources of the cluster, fetched into the context."""

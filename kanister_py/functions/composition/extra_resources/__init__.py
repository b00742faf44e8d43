"""Extra resources: resources of the cluster, fetched and put into the context."""

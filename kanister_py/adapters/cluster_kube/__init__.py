"""A Kubernetes cluster behind a network, through the official client."""

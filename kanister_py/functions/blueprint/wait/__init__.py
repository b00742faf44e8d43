"""Wait: a wait until Kubernetes objects meet conditions."""

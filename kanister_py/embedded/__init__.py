"""Kubernetes on a laptop: a cluster in memory, and pods as processes."""

"""Adapter for a Kubernetes API server, based on the official client."""

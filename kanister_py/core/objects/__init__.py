"""Kubernetes objects as data: documents, paths, selectors, patches, quantities, durations."""

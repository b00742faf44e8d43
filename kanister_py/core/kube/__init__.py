"""Kubernetes objects: accessors, selectors, patches, names, quantities, schemas and CEL."""

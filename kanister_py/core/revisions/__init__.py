"""Revisions of compositions and functions: identity, numbers, activation, policy, collection."""

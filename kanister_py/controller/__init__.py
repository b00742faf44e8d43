"""Reconciles resources on a cluster."""
